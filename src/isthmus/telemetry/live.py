"""Follows a running router from outside: its events, and how its topics grow.

In: the topic of events, and the end offsets of the router's sources and destinations, once a second. Out:
`RouterMetrics` that are hardly older than that, and one line of the log for each soft failure, or for many at
once when there are many. It needs Kafka alone; while Kafka does not answer, the figures stay as they are.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from threading import Event as Flag
from threading import Thread

from confluent_kafka import OFFSET_END, Consumer, KafkaException, TopicPartition

from isthmus.config.model.settings import Settings
from isthmus.events.pipeline import MessageFailed, MoreFailed
from isthmus.kafka import blocking
from isthmus.kafka.options import Kafka
from isthmus.telemetry.events import Event, read_event
from isthmus.telemetry.metrics import RouterMetrics
from isthmus.telemetry.traces import Traces, routed

EVERY_S = 1.0
LINES_A_SECOND, LINES_AT_ONCE = 1.0, 20.0
"""How many failures are told one by one: so many at first, then so many a second."""


class FailureLog:
    """One line for each failure; when they come too fast, one for those that were left out."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._allowed = LINES_AT_ONCE
        self._at = clock()
        self._left_out = 0

    def tell(self, event: Event) -> None:
        """Count it, and log it if it is not one too many."""
        failure = MessageFailed(str(event), event.position, event.outcome, event.route, event.code)
        self._refill()
        if self._allowed >= 1:
            self.tell_rest()
            self._allowed -= 1
            failure.emit()
        else:
            failure.emit(quietly=True)
            self._left_out += 1

    def tell_rest(self) -> None:
        """Say how many were left out, if it is time again."""
        self._refill()
        if self._left_out and self._allowed >= 1:
            self._allowed -= 1
            MoreFailed(self._left_out).emit()
            self._left_out = 0

    def _refill(self) -> None:
        now = self._clock()
        self._allowed = min(LINES_AT_ONCE, self._allowed + (now - self._at) * LINES_A_SECOND)
        self._at = now


class LiveTelemetry:
    """Runs in a thread of its own from `start` until `stop`."""

    def __init__(
        self,
        kafka: Kafka,
        events: str,
        metrics: RouterMetrics,
        *,
        sources: frozenset[str],
        is_destination: Callable[[str], bool],
        on_news: Callable[[], None] = lambda: None,
        traces: Traces | None = None,
    ) -> None:
        """``on_news`` is called when the metrics are up to date, at most once in `EVERY_S`."""
        self._kafka = kafka
        self._topic = events
        self._metrics = metrics
        self._sources = sources
        self._is_destination = is_destination
        self._on_news = on_news
        self._traces = traces
        self._failures = FailureLog()
        self._over = Flag()
        self._consumer: Consumer | None = None
        self._positions: dict[int, int] = {}
        """Where to go on with the events, by partition."""
        self._offsets: blocking.EndOffsets | None = None
        self._thread = Thread(target=self._run, name="telemetry", daemon=True)

    def start(self) -> None:
        """Count from here: call it before the router starts."""
        self._look()
        self._thread.start()

    def stop(self) -> None:
        """Return when it has ended."""
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._close()

    def _run(self) -> None:
        due = time.monotonic()
        while not self._over.is_set():
            self._take_events(max(0.0, min(EVERY_S, due - time.monotonic())))
            if time.monotonic() >= due:
                due = time.monotonic() + EVERY_S
                self._look()
                self._failures.tell_rest()
                self._on_news()

    def _follow(self) -> None:
        """Read events from now on, or from where the last one was read."""
        options = {
            "group.id": "isthmus-events",  # Kafka wants one; nothing is ever committed under it
            # So long the broker may wait for the next event: the fewer requests, the less there is to do.
            "fetch.wait.max.ms": 5_000,
            "auto.offset.reset": "latest",
        }
        consumer = blocking.consumer(self._kafka, options)
        partitions = consumer.list_topics(self._topic, timeout=10).topics[self._topic].partitions
        consumer.assign(
            [TopicPartition(self._topic, each, self._positions.get(each, OFFSET_END)) for each in partitions]
        )
        self._consumer = consumer

    def _take_events(self, timeout_s: float) -> None:
        if self._consumer is None:
            self._over.wait(timeout_s)
            return
        for record in self._consumer.consume(1_000, timeout=timeout_s):
            if record.error() is not None:
                continue
            self._positions[record.partition() or 0] = (record.offset() or 0) + 1
            event = read_event(record.value(), record.timestamp()[1])
            if event is not None:
                self._metrics.told(event)
                if self._traces is not None and (hop := routed(event)) is not None:
                    self._traces.add(hop)
                if event.code is not None:
                    self._failures.tell(event)

    def _look(self) -> None:
        """See how far the topics are. Clients that have lost Kafka are replaced: some never find it again."""
        try:
            if self._offsets is None:
                self._offsets = blocking.EndOffsets(self._kafka)
            ends = self._offsets.of(lambda topic: topic in self._sources or self._is_destination(topic))
            if self._consumer is None:
                self._follow()
        except KafkaException:
            self._close()
            return
        self._metrics.see_sources({each: end for each, end in ends.items() if each[0] in self._sources})
        self._metrics.see_topics(_by_topic(ends, self._is_destination))

    def _close(self) -> None:
        consumer, self._consumer, self._offsets = self._consumer, None, None
        if consumer is not None:
            consumer.close()


def is_destination(settings: Settings, topic: str) -> bool:
    """Whether the router publishes to the topic, or may."""
    routes = settings.all_routes
    by_address = any(route.is_direct for route in routes)
    return any(route.topic == topic for route in routes) or (
        by_address and topic not in settings.reserved_topics
    )


def _by_topic(ends: Mapping[tuple[str, int], int], wanted: Callable[[str], bool]) -> dict[str, int]:
    added: dict[str, int] = {}
    for (topic, _), end in ends.items():
        if wanted(topic):
            added[topic] = added.get(topic, 0) + end
    return added
