"""Spans, on their way to an OpenTelemetry collector."""

from __future__ import annotations

from isthmus.events import Event


class CollectorUnavailable(
    Event, level="warning", text="the OpenTelemetry collector at %(endpoint)s takes no spans: %(error)s"
):
    """Spans are dropped from now on. Told once, until it takes some; messages do not wait for it."""

    endpoint: str
    error: str


class CollectorAvailable(
    Event, level="info", text="the OpenTelemetry collector at %(endpoint)s takes spans again"
):
    """The end of `traces.collector_unavailable`."""

    endpoint: str


class SpansDropped(Event, level="warning", text="%(spans)d spans were dropped", limited=True):
    """The collector did not take them, or more came than are kept for it."""

    spans: int
