"""The monitor: ``/metrics`` for Prometheus, ``/healthz`` for whoever restarts things, ``/`` for people.

``/varz`` tells of connectors, intakes and destinations, for those who know it from NATS.

With a token, all of it asks for that: as a bearer token, or as the password that a browser asks people for.
Without one it answers to its own name alone, so that no page of the web can read it by way of a browser on
this machine. A client has some seconds for a request and its answer; where too many are connected, the one
that has taken longest is cut off.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import html
import json
import logging
import socket
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import TracebackType
from typing import Any, Final, Self

from isthmus.errors import HardFailure
from isthmus.telemetry.metrics import RouterMetrics
from isthmus.telemetry.parts import PartMetrics

log = logging.getLogger(__name__)

PATIENCE_S: Final = 10.0
"""How long a client may take to ask, and to read the answer."""
MAX_CONNECTIONS: Final = 32
_OWN_NAMES: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
_SECURITY_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
}

Health = Callable[[], Mapping[str, str]]
"""What is wrong, by part of the bridge: empty when all of it works."""


class Monitor:
    """Serves a bridge's metrics and health until it is closed."""

    def __init__(
        self,
        host: str,
        port: int,
        metrics: RouterMetrics,
        health: Health,
        parts: PartMetrics | None = None,
        *,
        token: str | None = None,
        patience_s: float = PATIENCE_S,
        max_connections: int = MAX_CONNECTIONS,
    ) -> None:
        served = {
            "metrics": metrics,
            "health": staticmethod(health),
            "parts": parts,
            "token": token,
            "names": _OWN_NAMES | {host.lower()},
            "timeout": patience_s,
        }
        handler = type("Handler", (_Handler,), served)
        try:
            self._server = _Server((host, port), handler, patience_s, max_connections)
        except OSError as error:
            raise HardFailure(
                f"the monitor cannot listen on {host}:{port}: {error.strerror}",
                remedy="set monitor.host and monitor.port; port 0 takes any that is free",
            ) from None
        # Closing waits for the interval, and between two there is nothing to do: requests wake it up.
        Thread(target=self._server.serve_forever, args=(0.5,), name="monitor", daemon=True).start()

    @property
    def url(self) -> str:
        """Where it is."""
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}"

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Server(ThreadingHTTPServer):
    """A thread for each connection, of which there are only so many, each for only so long."""

    daemon_threads = True

    def __init__(
        self,
        address: tuple[str, int],
        handler: type[BaseHTTPRequestHandler],
        patience_s: float,
        max_connections: int,
    ) -> None:
        self._patience_s = patience_s
        self._max_connections = max_connections
        self._since: dict[socket.socket, float] = {}
        """The connections, in the order that they came in, and since when."""
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Begin with a connection; the one that has taken longest makes room for it."""
        if len(self._since) >= self._max_connections:
            _cut_off(next(iter(self._since.copy()), request))
        self._since[request] = time.monotonic()
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """A connection is over."""
        self._since.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Cut those off who take too long: called several times a second."""
        overdue = time.monotonic() - self._patience_s
        for request, since in self._since.copy().items():
            if since < overdue:
                _cut_off(request)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        """Say nothing of a client that is gone."""
        if not isinstance(sys.exception(), OSError):
            log.exception("the monitor could not answer")


def _cut_off(request: socket.socket) -> None:
    with suppress(OSError):  # it is over by itself
        request.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    metrics: RouterMetrics
    health: Health
    parts: PartMetrics | None
    token: str | None
    names: frozenset[str]
    server_version = "isthmus"
    sys_version = ""

    def do_GET(self) -> None:
        if self.token is not None:
            if not self._knows(self.token):
                self._answer(HTTPStatus.UNAUTHORIZED, "text/plain", b"the token is missing or wrong\n")
                return
        elif self._host() not in self.names:
            self._answer(
                HTTPStatus.MISDIRECTED_REQUEST, "text/plain", b"that is not the name of this server\n"
            )
            return
        match self.path.partition("?")[0]:
            case "/metrics":
                text = self.metrics.exposition(*([self.parts] if self.parts else []))
                self._answer(HTTPStatus.OK, "text/plain; version=0.0.4; charset=utf-8", text)
            case "/varz" if self.parts is not None:
                self._answer(HTTPStatus.OK, "application/json", json.dumps(self.parts.varz()).encode())
            case "/healthz":
                wrong = dict(self.health())
                status = HTTPStatus.SERVICE_UNAVAILABLE if wrong else HTTPStatus.OK
                body = json.dumps({"status": "down" if wrong else "up", "problems": wrong})
                self._answer(status, "application/json", body.encode())
            case "/":
                self._answer(
                    HTTPStatus.OK, "text/html; charset=utf-8", _page(self.metrics, self.health()).encode()
                )
            case _:
                self._answer(
                    HTTPStatus.NOT_FOUND, "text/plain", b"there are /metrics, /varz, /healthz and /\n"
                )

    def _host(self) -> str | None:
        """The name that the client knows this server by, without the port."""
        given = self.headers.get_all("Host", [])
        if len(given) != 1:
            return None
        name, colon, port = given[0].rpartition(":")
        return (name if colon and port.isdecimal() else given[0]).lower()

    def _knows(self, token: str) -> bool:
        kind, _, given = self.headers.get("Authorization", "").partition(" ")
        shown = given.strip().encode(errors="replace")
        if kind.lower() == "basic":
            try:
                shown = base64.b64decode(shown, validate=True).partition(b":")[2]
            except binascii.Error:
                return False
        elif kind.lower() != "bearer":
            return False
        return hmac.compare_digest(shown, token.encode())

    def _answer(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in _SECURITY_HEADERS.items():
            self.send_header(name, value)
        if status is HTTPStatus.UNAUTHORIZED:
            self.send_header("WWW-Authenticate", 'Basic realm="isthmus"')
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Normal operation logs nothing."""


def _page(metrics: RouterMetrics, wrong: Mapping[str, str]) -> str:
    def row(*cells: object) -> str:
        return "<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in cells) + "</tr>"

    def average(ms: float | None, digits: int) -> str:
        return "" if ms is None else f"{ms:.{digits}f} ms"

    routes = "".join(
        row(
            name,
            counts.success,
            counts.failure,
            average(counts.routing_avg_ms, 3),
            average(counts.age_avg_ms, 1),
        )
        for name, counts in metrics.routes.items()
    )
    outcomes = "".join(row(outcome.value, count) for outcome, count in metrics.outcomes.items() if count)
    problems = "".join(row(part, problem) for part, problem in wrong.items())
    state = "down" if wrong else "up"
    return f"""<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="2">
<title>Isthmus: {state}</title>
<style>body{{font:16px system-ui;margin:3em auto;max-width:48em;color:#1d2733}}
table{{border-collapse:collapse;width:100%;margin:1em 0}}
td,th{{text-align:left;padding:.4em .8em;border-bottom:1px solid #dde3ea}}
.up{{color:#17803d}}.down{{color:#b42318}}</style>
<h1>Isthmus is <span class="{state}">{state}</span></h1>{f"<table>{problems}</table>" if problems else ""}
<table><tr><th>route<th>published<th>failed<th>routing, average<th>age, average</tr>{routes}</table>
<p>Lag: {metrics.lag} records.</p>
<table><tr><th>outcome<th>records</tr>{outcomes}</table>
<p><a href="metrics">metrics</a> · <a href="healthz">health</a></p></html>"""
