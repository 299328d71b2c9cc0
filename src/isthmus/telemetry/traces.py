"""Spans of messages that somebody samples, exported to an OpenTelemetry collector by OTLP over HTTP.

In: a `Hop` for each thing that was done with a sampled message, from any thread; to hand one over takes a
microsecond, and never blocks. Out: one span for each, a child of the span that the message's ``traceparent``
names, sent in batches by a thread of its own. While the collector is unavailable spans are dropped, and
messages know nothing of it.
"""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Iterable, Mapping
from threading import Event as Flag
from threading import Thread
from typing import Final, Literal, NamedTuple

from isthmus.config.model.otel import OtelSettings
from isthmus.events.traces import CollectorAvailable, CollectorUnavailable, SpansDropped
from isthmus.journal.layout import KafkaHeaders
from isthmus.message import SAMPLED_TRACE, TRACE_CONTEXT
from isthmus.telemetry.events import Event

BATCH: Final = 512
"""How many spans a request has at most."""
KEPT: Final = 8_192
"""How many wait at most: what comes beyond that is dropped."""
EVERY_S: Final = 1.0
TIMEOUT_S: Final = 5.0
"""How long a request may take, with what is tried again of it."""
_PARENT, _STATE = TRACE_CONTEXT
_SAMPLED: Final = frozenset(b"13579bdf")
"""The last digit of a ``traceparent`` whose flag *sampled* is set."""
_FORM: Final = re.compile(SAMPLED_TRACE)

logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # what matters is an event of ours


class Hop(NamedTuple):
    """Something that was done with a sampled message."""

    kind: Literal["intake", "route", "deliver"]
    subject: str
    """The address, route or destination: what the span is called behind its kind."""
    traceparent: str
    tracestate: str
    began_ns: int
    """Both in nanoseconds of Unix time."""
    ended_ns: int
    attributes: Mapping[str, str] = {}
    error: str | None = None


def sampled(headers: KafkaHeaders) -> tuple[str, str] | None:
    """The trace of a record that somebody samples: ``traceparent`` and ``tracestate``."""
    for name, value in headers:
        if name == _PARENT:
            if value is None or len(value) != 55 or value[-1] not in _SAMPLED:
                return None
            state = next((value for name, value in headers if name == _STATE), None) or b""
            return value.decode(errors="replace"), state.decode(errors="replace")
    return None


class Traces:
    """Exports spans, from its making until it is closed."""

    def __init__(
        self, settings: OtelSettings, bridge_id: str, *, every_s: float = EVERY_S, kept: int = KEPT
    ) -> None:
        """Raises `ImportError` without the extra ``otel``."""
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
        from opentelemetry.sdk.trace.sampling import ALWAYS_ON

        assert settings.endpoint is not None
        self._endpoint = settings.endpoint
        self._every_s = every_s
        self._kept = kept
        self._hops: deque[Hop] = deque()
        self._dropped = 0
        self._over = Flag()
        self._unavailable = False
        name = settings.service_name or bridge_id
        resource = Resource.create({"service.name": name, "isthmus.bridge.id": bridge_id})
        # Who samples is said by the messages, not by this process' environment.
        provider = TracerProvider(resource=resource, sampler=ALWAYS_ON, shutdown_on_exit=False)
        self._spans = InMemorySpanExporter()
        provider.add_span_processor(SimpleSpanProcessor(self._spans))
        self._tracer = provider.get_tracer("isthmus")
        self._exporter: SpanExporter = OTLPSpanExporter(
            settings.endpoint, headers=dict(settings.headers), timeout=TIMEOUT_S
        )
        self._thread = Thread(target=self._run, name="traces", daemon=True)
        self._thread.start()

    def add(self, hop: Hop) -> None:
        """Have a span exported, or dropped if too many wait. Any thread may call it."""
        if len(self._hops) < self._kept:
            self._hops.append(hop)
        else:
            self._dropped += 1

    def close(self) -> None:
        """Export what is left, and end: within seconds, whatever the collector does."""
        self._over.set()
        self._thread.join(TIMEOUT_S + 1)
        self._exporter.shutdown()

    def _run(self) -> None:
        while not self._over.wait(self._every_s):
            self._export_all()
        self._export_all()

    def _export_all(self) -> None:
        """One request for each `BATCH`; none behind one that failed."""
        while self._hops:
            hops = [self._hops.popleft() for _ in range(min(BATCH, len(self._hops)))]
            if not self._export(hops):
                self._dropped += len(self._hops)
                self._hops.clear()
        if self._dropped:
            dropped, self._dropped = self._dropped, 0
            SpansDropped(dropped).emit()

    def _export(self, hops: Iterable[Hop]) -> bool:
        from opentelemetry.sdk.trace.export import SpanExportResult

        for hop in hops:
            self._make_span(hop)
        spans = self._spans.get_finished_spans()
        self._spans.clear()
        taken = not spans or self._exporter.export(spans) is SpanExportResult.SUCCESS
        if taken and self._unavailable:
            CollectorAvailable(self._endpoint).emit()
        elif not taken:
            self._dropped += len(spans)
            if not self._unavailable:
                CollectorUnavailable(self._endpoint, "it does not answer, or refuses").emit()
        self._unavailable = not taken
        return taken

    def _make_span(self, hop: Hop) -> None:
        from opentelemetry.trace import (
            NonRecordingSpan,
            SpanContext,
            SpanKind,
            Status,
            StatusCode,
            TraceFlags,
            TraceState,
            set_span_in_context,
        )

        found = _FORM.fullmatch(hop.traceparent)
        if found is None:
            return
        parent = SpanContext(
            int(found[1], 16),
            int(found[2], 16),
            is_remote=True,
            trace_flags=TraceFlags(TraceFlags.SAMPLED),
            trace_state=TraceState.from_header([hop.tracestate]),
        )
        if not parent.is_valid:  # all zeros
            return
        kinds = {"intake": SpanKind.CONSUMER, "route": SpanKind.INTERNAL, "deliver": SpanKind.PRODUCER}
        span = self._tracer.start_span(
            f"{hop.kind} {hop.subject}",
            context=set_span_in_context(NonRecordingSpan(parent)),
            kind=kinds[hop.kind],
            attributes=hop.attributes,
            start_time=hop.began_ns,
        )
        if hop.error is not None:
            span.set_status(Status(StatusCode.ERROR, hop.error))
        span.end(end_time=max(hop.ended_ns, hop.began_ns))


def routed(event: Event) -> Hop | None:
    """What the router tells of a sampled message; None if it tells of another."""
    if event.traceparent is None or event.taken_ms is None or event.published_ms is None:
        return None
    about = {"isthmus.position": event.position, "isthmus.outcome": event.outcome}
    if event.route is not None:
        about["isthmus.route"] = event.route
    began_ns, ended_ns = event.taken_ms * 1_000_000, event.published_ms * 1_000_000
    return Hop(
        "route", event.route or "nowhere", event.traceparent, "", began_ns, ended_ns, about, event.reason
    )


def traces_of(settings: OtelSettings, bridge_id: str) -> Traces | None:
    """What exports spans, if the settings ask for it. Raises `ImportError` without the extra ``otel``."""
    return None if settings.endpoint is None else Traces(settings, bridge_id)
