"""An OpenTelemetry collector of the tests' own: takes spans by OTLP over HTTP, as protobuf."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Collector:
    """What was exported to it."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.services: set[str] = set()
        self.headers: list[dict[str, str]] = []
        self.paths: set[str] = set()
        self.status = 200
        self.answers = Event()
        """Whether it answers at all."""
        self.answers.set()
        self.url = ""

    def take(self, request: ExportTraceServiceRequest) -> None:
        for resource in request.resource_spans:
            named = {each.key: each.value.string_value for each in resource.resource.attributes}
            self.services.add(named["service.name"])
            for scope in resource.scope_spans:
                self.spans += scope.spans

    def names(self) -> list[str]:
        return sorted(span.name for span in self.spans)


@contextmanager
def running_collector(port: int = 0) -> Iterator[Collector]:
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            collector.answers.wait(30)
            collector.paths.add(self.path)
            collector.headers.append({name.lower(): value for name, value in self.headers.items()})
            if collector.status == 200:
                collector.take(ExportTraceServiceRequest.FromString(body))
            self.send_response(collector.status)
            self.send_header("Content-Type", "application/x-protobuf")
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    collector.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        collector.answers.set()
        server.shutdown()
        server.server_close()
        thread.join()
