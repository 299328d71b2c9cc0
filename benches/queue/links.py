"""Links that end before the server has answered their attach: what no JMS client lets an application do."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from urllib.parse import urlsplit

from isthmus.edges.amqp.protocol import Connection, Limits, Open, Opened, SaslClient
from isthmus.edges.amqp.protocol.terms import Source, Target

ANSWER_S = 20.0
PER_CONNECTION = 20


def attach_and_detach(url: str, queue: str, count: int) -> str:
    """Attach receivers of which each is detached at once, every other after a flow without credit.

    Each link's frames go out in one write. Returns what went wrong; empty if every link was answered.
    """
    server = urlsplit(url)
    address = (server.hostname, server.port)
    for first in range(0, count, PER_CONNECTION):
        with socket.create_connection(address, timeout=ANSWER_S) as peer:
            try:
                _on_one_connection(peer, queue, range(first, min(first + PER_CONNECTION, count)))
            except (OSError, RuntimeError) as error:
                return f"links that are detached at once: {error!r}"
    return ""


def _on_one_connection(peer: socket.socket, queue: str, numbers: range) -> None:
    engine = Connection.client(Limits(idle_timeout_s=None), SaslClient())
    events: list[object] = []

    def until(condition: Callable[[], bool], what: str) -> None:
        while not condition():
            now = time.monotonic()
            peer.sendall(engine.data_to_send(now))
            if not (data := peer.recv(1 << 16)):
                raise RuntimeError(f"{what}: the server has closed the connection")
            events.extend(engine.receive_data(data, now))

    engine.open(Open("queue-links"))
    until(lambda: any(isinstance(event, Opened) for event in events), "open")
    session = engine.begin()
    for number in numbers:
        link = session.receiver(f"{queue}-{number}")
        link.attach(source=Source(queue, capabilities=("queue",)), target=Target())
        if number % 2:
            session.flow_due(link)
        link.detach()
        until(lambda: link.detached, f"link {number}")  # noqa: B023 - called before the next one
    engine.close()
    peer.sendall(engine.data_to_send(time.monotonic()))
