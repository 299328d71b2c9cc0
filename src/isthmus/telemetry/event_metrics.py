"""How often each event of `isthmus.events` happened, in Prometheus' form."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from isthmus.events import counts, declared


class EventMetrics(Collector):
    """The events of this process, and of those that told it of theirs."""

    def __init__(self, bridge_id: str) -> None:
        self._bridge_id = bridge_id

    def collect(self) -> Iterator[Metric]:
        """One counter for each event, also of those that did not happen: alerts need a zero."""
        family = CounterMetricFamily(
            "isthmus_events",
            "events, by name: docs/reference/events.md says what each means",
            labels=["bridge", "event", "level"],
        )
        counted = counts()
        for event in declared():
            family.add_metric([self._bridge_id, event.name, event.level], counted[event.name])
        yield family
