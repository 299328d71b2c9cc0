"""The router's metrics, since the bridge started, in Prometheus' form.

The three metrics of a JMS bridge, for the bridge and for each route::

    routing-latency-avg    isthmus_routing_latency_avg_seconds      isthmus_route_latency_avg_seconds
    routing-success-rate   isthmus_routing_success_rate_total       isthmus_route_success_rate_total
    routing-failure-rate   isthmus_routing_failure_rate_total       isthmus_route_failure_rate_total

The rates are numbers since the start, as they have always been under these names; Prometheus' ``rate()``
makes rates of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from operator import add
from threading import Lock

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from isthmus.routing.counts import FAILURES, BatchCounts, RouteCounts
from isthmus.routing.plan import Outcome


class RouterMetrics(Collector):
    """Adds up what the router's batches counted. Safe to read and to add to from several threads."""

    def __init__(self, bridge_id: str, route_names: Sequence[str]) -> None:
        self._bridge_id = bridge_id
        self._names = tuple(route_names)
        self._routes = [RouteCounts()] * len(route_names)
        self._outcomes = dict.fromkeys(Outcome, 0)
        self._batches = 0
        self._lock = Lock()

    def add(self, batch: BatchCounts) -> None:
        """Count a batch in."""
        with self._lock:
            self._routes = [have + more for have, more in zip(self._routes, batch.routes, strict=True)]
            for outcome, count in batch.outcomes.items():
                self._outcomes[outcome] += count
            self._batches += 1

    @property
    def routes(self) -> dict[str, RouteCounts]:
        """What happened on each route, by name."""
        with self._lock:
            return dict(zip(self._names, self._routes, strict=True))

    @property
    def outcomes(self) -> dict[Outcome, int]:
        """How many records had each outcome."""
        with self._lock:
            return dict(self._outcomes)

    @property
    def batches(self) -> int:
        """How many batches were counted."""
        return self._batches

    @property
    def total(self) -> RouteCounts:
        """All routes together, with the failures of records that have no route."""
        outcomes = self.outcomes
        total = reduce(add, self.routes.values(), RouteCounts())
        failures = sum(outcomes[outcome] for outcome in FAILURES)
        return RouteCounts(total.success, failures, total.latency_ms, total.sampled)

    def collect(self) -> Iterator[Metric]:
        """All metrics, as Prometheus' client asks for them."""
        yield from self._families("isthmus_routing", "of the bridge", [], [([], self.total)])
        yield from self._families(
            "isthmus_route",
            "of a route",
            ["route"],
            [([name], counts) for name, counts in self.routes.items()],
        )
        outcomes = CounterMetricFamily(
            "isthmus_records",
            "records read by the router, by what became of them",
            labels=["bridge", "outcome"],
        )
        for outcome, count in self.outcomes.items():
            if outcome is not Outcome.IGNORED:
                outcomes.add_metric([self._bridge_id, outcome.value], count)
        yield outcomes

    def exposition(self, *others: Collector) -> bytes:
        """The text that Prometheus scrapes; with that of others behind it."""
        registry = CollectorRegistry()
        for collector in (self, *others):
            registry.register(collector)
        return generate_latest(registry)

    def _families(
        self, prefix: str, whose: str, label: list[str], counts: Sequence[tuple[list[str], RouteCounts]]
    ) -> Iterator[Metric]:
        names = ["bridge", *label]
        latency = GaugeMetricFamily(
            f"{prefix}_latency_avg_seconds",
            f"routing-latency-avg {whose}: average time from the journal until routed and converted",
            labels=names,
        )
        success = CounterMetricFamily(
            f"{prefix}_success_rate",
            f"routing-success-rate {whose}: successful routings since the start",
            labels=names,
        )
        failure = CounterMetricFamily(
            f"{prefix}_failure_rate",
            f"routing-failure-rate {whose}: failed routings since the start",
            labels=names,
        )
        for route, count in counts:
            values = [self._bridge_id, *route]
            latency.add_metric(values, (count.latency_avg_ms or 0.0) / 1000)
            success.add_metric(values, count.success)
            failure.add_metric(values, count.failure)
        yield from (latency, success, failure)
