"""A bridge at a glance, as one document: what ``/varz`` serves, and the page, the panel and ``isthmus top``
draw.

::

    {"bridge": …, "uptime_s": …, "facts": {…}, "versions": {…}, "queries": […], "problems": {…},
     "restarts": {"router": …}, "refused": {"logins": …},
     "router": {"journal": …, "records": …, "lag": …, "outcomes": {…}, "routes": [{"name": …, …}]},
     "connectors": […], "intakes": […], "routes": […],
     "ledger": {"transactions": …, "prepared": …, "oldest_transaction_s": …}}
"""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, Final

from isthmus.config.syntax.hidden import shown
from isthmus.events import Event, counts
from isthmus.events.amqp import (
    ConnectionEvicted,
    ConnectionTurnedAway,
    LoginRefused,
    MessageRejected,
    OversizeRejected,
    WorkerEnded,
)
from isthmus.events.bridge import ReloadRefused
from isthmus.events.kafka import BatchRefused
from isthmus.routing.route import Route
from isthmus.telemetry.held import Held, HeldMetrics
from isthmus.telemetry.metrics import RouterMetrics
from isthmus.telemetry.parts import PartMetrics

REFUSALS: Final[Mapping[type[Event], str]] = {
    LoginRefused: "logins",
    ConnectionTurnedAway: "connections",
    ConnectionEvicted: "connections",
    MessageRejected: "messages",
    OversizeRejected: "messages",
    BatchRefused: "batches (by Kafka)",
    ReloadRefused: "reloads",
}
"""What the bridge has refused, or was refused, by event."""


@dataclass(frozen=True, slots=True)
class Overview:
    """Makes the document, as things are when somebody asks."""

    metrics: RouterMetrics
    parts: PartMetrics
    journal: str
    """The journal's topic."""
    routes: Callable[[], Iterable[Route]]
    """Those that people have configured: the bridge has some of its own."""
    facts: Mapping[str, str]
    """What else people want to know of it."""
    problems: Callable[[], Mapping[str, str]] = dict
    """What is wrong, by part, as far as the parts know without asking anybody."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Of what runs it, by name."""
    queries: Sequence[str] = ()
    """Of the pipeline, where that is looked at."""

    held: Held = lambda: None
    """What the ledger holds, where that is looked at."""

    def exposition(self) -> bytes:
        """The text that Prometheus scrapes."""
        held = HeldMetrics(self.parts.bridge_id, self.held)
        return self.metrics.exposition(self.parts, held)

    def document(self) -> dict[str, Any]:
        """All of it, for JSON."""
        metrics, held = self.metrics, self.held()
        outcomes = {outcome.value: count for outcome, count in metrics.outcomes.items() if count}
        return {
            **self.parts.varz(),
            "facts": dict(self.facts),
            "versions": dict(self.versions),
            "queries": [*self.queries],
            "problems": dict(self.problems()),
            "restarts": self._restarts(),
            "refused": {what: count for what, count in _refused().items() if count},
            "router": {
                "journal": self.journal,
                "records": metrics.written(self.journal),  # not known where the router runs elsewhere
                "lag": metrics.lag,
                "outcomes": outcomes,
                "routes": [*self._routes()],
            },
            **({} if held is None else {"ledger": held.document()}),
        }

    def _restarts(self) -> dict[str, int]:
        workers = counts()[WorkerEnded.name]
        return {**self.metrics.restarts, **({"AMQP workers": workers} if workers else {})}

    def _routes(self) -> Iterable[dict[str, Any]]:
        counted = self.metrics.routes
        for route in self.routes():
            counts = counted.get(route.name)
            if counts is not None:  # else the router runs elsewhere
                yield {
                    "name": route.name,
                    "predicate": shown(route.written),
                    "topic": route.topic,
                    "destination": route.destination,
                    "key": route.key,
                    "convert": route.convert,
                    "in_topic": self.metrics.written(route.topic),
                    "published": counts.success,
                    "failed": counts.failure,
                    "routing_ms": counts.routing_avg_ms,
                    "age_ms": counts.age_avg_ms,
                }


def _refused() -> Counter[str]:
    counted, refused = counts(), Counter[str]()
    for event, what in REFUSALS.items():
        refused[what] += counted[event.name]
    return refused


def versions(*, spark: bool) -> dict[str, str]:
    """Of what runs a bridge; of Spark only where that runs."""
    found = {"isthmus": version("isthmus"), "python": platform.python_version()}
    return {**found, "spark": version("pyspark")} if spark else found
