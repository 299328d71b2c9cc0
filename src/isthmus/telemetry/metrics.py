"""The router's metrics, since the bridge started, in Prometheus' form.

The three metrics of a JMS bridge, for the bridge and for each route::

    routing-latency-avg    isthmus_routing_latency_avg_seconds      isthmus_route_latency_avg_seconds
    routing-success-rate   isthmus_routing_success_rate_total       isthmus_route_success_rate_total
    routing-failure-rate   isthmus_routing_failure_rate_total       isthmus_route_failure_rate_total

The rates are numbers since the start, as they have always been under these names; Prometheus' ``rate()``
makes rates of them.

They come from three places. The router's events (`told`) are live: failures, and latencies of a sample. The
end offsets of the destinations (`see_topics`) are live, too: by how much they grow is how much was published,
as far as nobody else writes there. What Spark counts (`add`) is exact, and known when a batch ends; it then
takes the place of what was only seen. No count ever falls.

Latency and bytes come of the sample, one record in a hundred of each partition: the histogram counts those,
and the bytes of a route are what it published times the size of what was last measured of it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from operator import add
from threading import Lock

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from isthmus.config.model.settings import LEDGER, ROUTER
from isthmus.routing.counts import FAILURES, BatchCounts, RouteCounts
from isthmus.routing.plan import Outcome
from isthmus.telemetry.event_metrics import EventMetrics
from isthmus.telemetry.events import SAMPLE, Event
from isthmus.telemetry.histogram import Histogram
from isthmus.telemetry.volume import Volume

Partition = tuple[str, int]

STALLED_S = 30.0
"""After so long without a record routed, while some wait, messages do not flow."""


class RouterMetrics(Collector):
    """Adds up what is known of the router. Safe to read and to add to from several threads."""

    def __init__(
        self, bridge_id: str, routes: Mapping[str, str], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """``routes`` has the topic of each route, in their order; an empty one if its messages name it."""
        self._bridge_id = bridge_id
        self._topics = dict(routes)
        self._lock = Lock()
        self._counted = [RouteCounts()] * len(routes)
        self._outcomes = dict.fromkeys(Outcome, 0)
        self._batches = 0
        self._told: Counter[tuple[str | None, str]] = Counter()
        """Failures that events told of, by route and outcome."""
        self._measured = {name: RouteCounts() for name in routes}
        self._latency = {name: Histogram() for name in routes}
        self._volume = {name: Volume() for name in routes}
        self._restarts: Counter[str] = Counter()
        self._ends: Mapping[str, int] = {}
        self._ends_at_batch: dict[str, int] | None = None
        """What the ends of the topics were when Spark last counted; None until they are seen again."""
        self._shown = dict.fromkeys(routes, 0)
        self._routed: dict[Partition, int] = {}
        self._written: Mapping[Partition, int] = {}
        self._clock = clock
        self._moved_at = clock()
        """When something was last routed, or nothing was left to route."""
        self.on_event: Callable[[Event], None] = lambda _: None
        """Is called with every event, for those who keep more of them than sums."""

    def change_routes(self, routes: Mapping[str, str]) -> None:
        """Have other routes from now on; those that stay keep what was counted of them."""
        with self._lock:
            counted = dict(zip(self._topics, self._counted, strict=True))
            self._topics = dict(routes)
            self._counted = [counted.get(name, RouteCounts()) for name in routes]
            self._measured = {name: self._measured.get(name, RouteCounts()) for name in routes}
            self._latency = {name: self._latency.get(name) or Histogram() for name in routes}
            self._volume = {name: self._volume.get(name) or Volume() for name in routes}
            self._shown = {name: self._shown.get(name, 0) for name in routes}

    def add(self, batch: BatchCounts) -> None:
        """Count in what Spark counted in a batch."""
        with self._lock:
            self._counted = [have + more for have, more in zip(self._counted, batch.routes, strict=True)]
            for outcome, count in batch.outcomes.items():
                self._outcomes[outcome] += count
            self._batches += 1
            self._ends_at_batch = None
            self._count_published()

    def told(self, event: Event) -> None:
        """Count an event of the router's in."""
        self.on_event(event)
        with self._lock:
            if event.code is not None:
                self._told[event.route, event.outcome] += 1
            if event.age_ms is not None and event.routing_ns is not None and event.route in self._measured:
                self._measured[event.route] += RouteCounts(0, 0, event.routing_ns, event.age_ms, 1)
                if event.latency_s is not None:
                    self._latency[event.route].observe(event.latency_s)
                    self._volume[event.route].measure(event.bytes or 0, self._shown[event.route])
        if event.place is not None:
            topic, partition, offset = event.place
            self.routed({(topic, partition): offset + 1})

    def restarted(self, query: str) -> None:
        """Count a query that was started again, for whatever reason."""
        with self._lock:
            self._restarts[query] += 1

    @property
    def restarts(self) -> dict[str, int]:
        """How often each query was, of those that were."""
        with self._lock:
            return dict(self._restarts)

    def see_topics(self, ends: Mapping[str, int]) -> None:
        """What the end offsets of the destinations are now, for each topic added up."""
        with self._lock:
            if self._ends_at_batch is None:
                self._ends_at_batch = dict(ends)
            for topic, end in ends.items():
                self._ends_at_batch.setdefault(topic, end)
            self._ends = ends
            self._count_published()

    def see_sources(self, ends: Mapping[Partition, int]) -> None:
        """What the end offsets of the journal and of other sources are now."""
        self._written = ends
        if not self.lag:
            self._moved_at = self._clock()

    def routed(self, until: Mapping[Partition, int]) -> None:
        """The router has done everything before these offsets."""
        with self._lock:
            for partition, offset in until.items():
                if offset > self._routed.get(partition, 0):
                    self._routed[partition] = offset
                    self._moved_at = self._clock()

    def _count_published(self) -> None:
        since = self._ends_at_batch or {}
        grown = {topic: max(0, end - since.get(topic, end)) for topic, end in self._ends.items()}
        fixed = {topic for topic in self._topics.values() if topic}
        for place, (name, topic) in enumerate(self._topics.items()):
            if topic:
                more = round(grown.get(topic, 0) * self._share(place, topic))
            else:
                more = sum(count for other, count in grown.items() if other not in fixed)
            self._shown[name] = max(self._shown[name], self._counted[place].success + more)

    def _share(self, place: int, topic: str) -> float:
        """How much of a topic is this route's: as Spark has counted so far."""
        success = [
            counts.success
            for counts, other in zip(self._counted, self._topics.values(), strict=True)
            if other == topic
        ]
        return self._counted[place].success / sum(success) if sum(success) else 1 / len(success)

    @property
    def topics(self) -> dict[str, str]:
        """The topic of each route, by name."""
        return self._topics

    @property
    def routes(self) -> dict[str, RouteCounts]:
        """What happened on each route, by name."""
        with self._lock:
            told: Counter[str | None] = Counter()
            for (route, _), count in self._told.items():
                told[route] += count
            return {
                name: RouteCounts(self._shown[name], max(counted.failure, told[name])) + self._measured[name]
                for name, counted in zip(self._topics, self._counted, strict=True)
            }

    @property
    def outcomes(self) -> dict[Outcome, int]:
        """How many records had each outcome."""
        with self._lock:
            outcomes = dict(self._outcomes)
            told: Counter[str] = Counter()
            for (_, outcome), count in self._told.items():
                told[outcome] += count
            for failure in FAILURES:
                outcomes[failure] = max(outcomes[failure], told[failure.value])
            outcomes[Outcome.PUBLISHED] = sum(self._shown.values())
            return outcomes

    def written(self, topic: str) -> int | None:
        """How many records a source or destination has got in its time; None if that is not known."""
        with self._lock:
            ends = [end for (name, _), end in self._written.items() if name == topic]
            return sum(ends) if ends else self._ends.get(topic)

    @property
    def batches(self) -> int:
        """How many batches Spark has counted."""
        return self._batches

    @property
    def lag(self) -> int:
        """How many records of its sources the router has yet to route, as far as that is known.

        A partition counts from two samples on that are missing: the last ones may still come, and a sample
        may fall on what is no record, such as the end of a transaction.
        """
        with self._lock:
            behind = (end - self._routed.get(each, 0) for each, end in self._written.items())
            return sum(records for records in behind if records >= 2 * SAMPLE)

    @property
    def stalled_s(self) -> float:
        """For how long nothing was routed though records wait; 0 if none do."""
        return self._clock() - self._moved_at if self.lag else 0.0

    @property
    def stalled(self) -> str | None:
        """That messages do not flow, in words; None while they do."""
        stalled_s = self.stalled_s
        if stalled_s <= STALLED_S:
            return None
        return f"{self.lag} records wait, and none was routed for {stalled_s:.0f} s"

    @property
    def total(self) -> RouteCounts:
        """All routes together, with the failures of records that have no route."""
        outcomes = self.outcomes
        total = reduce(add, self.routes.values(), RouteCounts())
        failures = sum(outcomes[outcome] for outcome in FAILURES)
        return RouteCounts(total.success, failures, total.routing_ns, total.age_ms, total.sampled)

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
        lag = GaugeMetricFamily(
            "isthmus_routing_lag_records",
            "records of the journal and of source topics that are yet to be routed",
            labels=["bridge"],
        )
        lag.add_metric([self._bridge_id], self.lag)
        yield lag
        yield from self._sampled()
        restarts = CounterMetricFamily(
            "isthmus_query_restarts",
            "starts of a query after a failure, a change of topics or a reload",
            labels=["bridge", "query"],
        )
        for query in (ROUTER, LEDGER):
            restarts.add_metric([self._bridge_id, query], self._restarts[query])
        yield restarts

    def _sampled(self) -> Iterator[Metric]:
        """What one record in `SAMPLE` tells."""
        latency = HistogramMetricFamily(
            "isthmus_end_to_end_latency_seconds",
            f"from a message's append to the journal to that of what was published; 1 message in {SAMPLE}",
            labels=["bridge", "route"],
        )
        volume = CounterMetricFamily(
            "isthmus_route_bytes",
            f"bytes of the values that were published, estimated by the size of 1 message in {SAMPLE}",
            labels=["bridge", "route"],
        )
        with self._lock:
            for route, histogram in self._latency.items():
                latency.add_metric([self._bridge_id, route], histogram.buckets, histogram.sum_s)
                volume.add_metric([self._bridge_id, route], self._volume[route].until(self._shown[route]))
        yield from (latency, volume)

    def exposition(self, *others: Collector) -> bytes:
        """The text that Prometheus scrapes; with that of others behind it, and the events of all."""
        registry = CollectorRegistry()
        for collector in (self, *others, EventMetrics(self._bridge_id)):
            registry.register(collector)
        return generate_latest(registry)

    def _families(
        self, prefix: str, whose: str, label: list[str], counts: Sequence[tuple[list[str], RouteCounts]]
    ) -> Iterator[Metric]:
        names = ["bridge", *label]
        latency = GaugeMetricFamily(
            f"{prefix}_latency_avg_seconds",
            f"routing-latency-avg {whose}: average time to route and convert a message",
            labels=names,
        )
        age = GaugeMetricFamily(
            f"{prefix}_age_avg_seconds",
            f"average age of a message {whose} when it was routed, since the journal had it",
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
            latency.add_metric(values, (count.routing_avg_ms or 0.0) / 1000)
            age.add_metric(values, (count.age_avg_ms or 0.0) / 1000)
            success.add_metric(values, count.success)
            failure.add_metric(values, count.failure)
        yield from (latency, age, success, failure)
