"""The monitor: ``/metrics`` for Prometheus, ``/healthz`` for whoever restarts things, ``/`` for people.

``/varz`` tells of connectors, intakes and destinations, for those who know it from NATS.
"""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import TracebackType
from typing import Any, Self

from isthmus.errors import HardFailure
from isthmus.telemetry.metrics import RouterMetrics
from isthmus.telemetry.parts import PartMetrics

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
    ) -> None:
        served = {"metrics": metrics, "health": staticmethod(health), "parts": parts}
        handler = type("Handler", (_Handler,), served)
        try:
            self._server = ThreadingHTTPServer((host, port), handler)
        except OSError as error:
            raise HardFailure(
                f"the monitor cannot listen on {host}:{port}: {error.strerror}",
                remedy="set monitor.host and monitor.port; port 0 takes any that is free",
            ) from None
        self._server.daemon_threads = True
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


class _Handler(BaseHTTPRequestHandler):
    metrics: RouterMetrics
    health: Health
    parts: PartMetrics | None

    def do_GET(self) -> None:
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

    def _answer(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
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
