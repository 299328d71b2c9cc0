"""A bridge for a monitor to show, without the bridge."""

from __future__ import annotations

import socketserver
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Thread

from isthmus.monitor.app import Watched
from isthmus.routing.predicate import parse
from isthmus.routing.route import Route
from isthmus.telemetry.held import Held
from isthmus.telemetry.metrics import RouterMetrics
from isthmus.telemetry.overview import Overview
from isthmus.telemetry.parts import PartMetrics, PartReport


def watched(
    metrics: RouterMetrics | None = None,
    health: Callable[[], Mapping[str, str]] = dict,
    *,
    parts: Callable[[], list[PartReport]] = list,
    facts: Mapping[str, str] | None = None,
    held: Held = lambda: None,
) -> Watched:
    """One whose routes take every message."""
    metrics = metrics or RouterMetrics("b", {})
    written = "exists(msg.address)"
    routes = [Route(name, parse(written), topic, written=written) for name, topic in metrics.topics.items()]
    overview = Overview(
        metrics,
        PartMetrics("b", parts),
        "isthmus.b.journal",
        lambda: routes,
        facts or {},
        queries=["router"],
        held=held,
    )
    return Watched(overview, health)


@contextmanager
def answering(octets: bytes) -> Iterator[str]:
    """The URL of a server that answers with these bytes, whatever it is asked."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65_536)
            self.request.sendall(octets)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


NO_MONITOR = {
    "an AMQP server": b"AMQP\x00\x01\x00\x00",
    "one that breaks off": b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{",
    "one that breaks off with an error": b"HTTP/1.1 503 No\r\nContent-Length: 1000\r\n\r\n{",
    "no document": b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n[1]",
    "another monitor": b'HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n{"routes": 0}',
}
"""What somebody takes for a bridge's monitor by mistake."""
