"""Our own engine as a client on a blocking socket: for what no library lets a test do."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable
from typing import Self, TypeVar

from isthmus.codecs.amqp import AmqpMessage, AmqpValue, MessageProperties
from isthmus.edges.amqp.protocol import (
    Connection,
    Delivery,
    Disposed,
    Event,
    Limits,
    Open,
    Opened,
    SaslClient,
    Sender,
)
from isthmus.edges.amqp.protocol.composite import Composite
from isthmus.edges.amqp.protocol.terms import Coordinator, Declare, Declared, Discharge, Source, Target

E = TypeVar("E")


class Wire:
    """A connection."""

    def __init__(
        self,
        port: int,
        sasl: SaslClient | None = None,
        *,
        tls: ssl.SSLContext | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.socket: socket.socket = socket.create_connection(("127.0.0.1", port), timeout=10)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname="localhost")
        self.engine = Connection.client(limits or Limits(idle_timeout_s=None), sasl or SaslClient())
        self.events: list[Event] = []
        self.lost = False

    def open(self) -> Self:
        self.engine.open(Open("wire"))
        self.until(Opened)
        return self

    def pump(self, wait_s: float = 0.05) -> None:
        """Send what there is, and read what comes within a moment."""
        self.events += self.engine.tick(time.monotonic())
        self.socket.sendall(self.engine.data_to_send(time.monotonic()))
        self.socket.settimeout(wait_s)
        try:
            data = self.socket.recv(1 << 16)
        except TimeoutError:
            return
        except OSError:
            data = b""
        self.lost = not data
        self.events += self.engine.receive_data(data, time.monotonic())

    def wait(self, condition: Callable[[], object], timeout_s: float = 10) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < deadline, f"not in time; there was {self.events}"
            assert not self.lost or condition(), f"the connection is lost; there was {self.events}"
            self.pump()

    def until(self, kind: type[E]) -> E:
        """The next event of a kind."""
        found: list[E] = []

        def there() -> bool:
            found.extend(event for event in self.events if isinstance(event, kind))
            return bool(found)

        self.wait(there)
        self.events.remove(found[0])  # type: ignore[arg-type]
        return found[0]

    def sender(self, address: str | None, name: str = "out", *, dynamic: bool = False) -> Sender:
        link = self.engine.begin().sender(name)
        link.attach(source=Source(), target=Target(address, dynamic=dynamic))
        self.wait(lambda: link.credit)
        return link

    def coordinator(self, name: str = "tx") -> Sender:
        session = next(iter(self.engine.sessions.values()), None) or self.engine.begin()
        link = session.sender(name)
        link.attach(source=Source(), target=Coordinator())
        self.wait(lambda: link.credit)
        return link

    def say(self, coordinator: Sender, word: Composite) -> object:
        """The outcome of a word to the coordinator."""
        data = AmqpMessage(body=AmqpValue(word.described())).encode()
        return self.outcome(coordinator.send(b"word", data))

    def declare(self, coordinator: Sender) -> bytes:
        state = self.say(coordinator, Declare())
        assert isinstance(state, Declared)
        return state.txn_id

    def discharge(self, coordinator: Sender, id: bytes, *, fail: bool = False) -> object:
        return self.say(coordinator, Discharge(id, fail))

    def outcome(self, delivery: Delivery) -> object:
        while not delivery.settled:
            self.until(Disposed)
        return delivery.state

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()


def message(text: str, to: str | None = None) -> bytes:
    return AmqpMessage(properties=MessageProperties(to=to), body=AmqpValue(text)).encode()
