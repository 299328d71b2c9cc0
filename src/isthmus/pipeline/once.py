"""Publishing once: a start looks at what the run before it has published, and leaves that out.

Spark's Kafka sink writes at least once: what it wrote after its last checkpoint it writes again. But every
record that is published carries this bridge's `layout.ORIGIN` and the journal position it came from
(`layout.STABLE_ID`). So a start

1. begins when the run before it can no longer write (`hold`, `await_tasks`, `close_producers`),
2. reads from the checkpoint how far that run had got, and when (`isthmus.pipeline.checkpoint`),
3. reads the ids of what was published since, from the destinations themselves (`Search`),
4. runs the same plan up to the present, without those (`isthmus.pipeline.published`), and then goes on.

It also finds the topics that an edge knew when it accepted a message, and that are gone by now: a producer
would wait for such a one in vain, and the query would end.

While it runs nothing is paid for it, or after such a start two comparisons for a record. It relies on the
destinations: they must still have what was published after the checkpoint. The clocks of brokers, driver and
file system must agree within `MARGIN_MS`.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple, cast

from confluent_kafka import Message
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from isthmus.errors import HardFailure, Outage
from isthmus.events.pipeline import Behind, DriverAwaited, Searching
from isthmus.journal import layout
from isthmus.kafka.blocking import describe, end_offsets, offsets_at, read_between
from isthmus.kafka.options import Kafka
from isthmus.pipeline.checkpoint import Checkpoint
from isthmus.pipeline.published import Partition, Place, Position, Published
from isthmus.routing.plan import RoutingPlan
from isthmus.routing.route import topic_of_address

MARGIN_MS = 30_000
"""How much earlier than the checkpoint the search begins: by so much clocks may differ."""
PROGRESS_S = 5.0
"""How often a search that takes long says how far it is."""
PATIENCE_S = 30.0
"""How long the end of tasks and of producers is waited for before the router is told to wait on."""
DRIVER_PATIENCE_S = 90.0
"""How long the end of another driver is waited for. On a busy machine a JVM takes its time to exit."""


class Seen(NamedTuple):
    """Where a search stands."""

    behind: int
    """How many records are after the checkpoint."""
    after: Mapping[Partition, int]
    """The checkpoint's offsets, for each partition of the sources."""
    missing: frozenset[str]
    """Topics that an edge knew when it accepted a message, and that are gone."""


class Search:
    """What was published of the records after a query's checkpoint, by the destinations themselves.

    What was read is not read again: so most of it can be looked at while the query still runs, or while Spark
    starts.
    """

    def __init__(self, kafka: Kafka, *, margin_ms: int = MARGIN_MS) -> None:
        self._kafka = kafka
        self._margin_ms = margin_ms
        self._since_ms: int | None = None
        """When the checkpoint was written that was looked at first."""
        self._read_to: dict[Partition, int] = {}
        """By partition of a destination, and of the journal: up to where it was read."""
        self._found: dict[Position, frozenset[Place]] = {}
        self._named: set[str] = set()
        """The topics that the direct route may have published to."""
        self._vouched: set[str] = set()
        """Those of them that an edge had found when it accepted the message."""

    def find(self, plan: RoutingPlan, last: Checkpoint | None) -> Published | None:
        """What the plan must not publish again, and what it cannot; None if there is no such thing.

        ``last`` is the checkpoint. It is the whole truth when nobody writes any more. Raises `Outage` when
        Kafka does not answer.
        """
        began = time.monotonic()
        seen = self.look(plan, last)
        if seen is None:
            return None
        # The margin also finds what was published before the checkpoint.
        found = {each: places for each, places in self._found.items() if each[2] >= seen.after[each[:2]]}
        Behind(seen.behind, len(found), time.monotonic() - began).emit()
        if not found and not seen.missing:
            return None
        return Published(plan, seen.after, found, seen.missing)

    def look(self, plan: RoutingPlan, last: Checkpoint | None) -> Seen | None:
        """Read what there is by now; None if nothing is after the checkpoint. Raises `Outage` likewise."""
        if last is None:
            return None
        ends = end_offsets(self._kafka, (plan.journal_topic, *plan.source_topics))
        after = {partition: last.offsets.get(partition, 0) for partition in ends}
        behind = sum(max(0, end - after[partition]) for partition, end in ends.items())
        if not behind:
            return None
        if self._since_ms is None or last.time_ms < self._since_ms:
            self._since_ms = last.time_ms
            self._read_to.clear()  # behind an older checkpoint is more
        if any(route.is_direct for route in plan.routes):
            self._look_for_topics(plan, after, ends)
        facts = describe(self._kafka, self._vouched)
        missing = {topic for topic in self._vouched if topic not in facts or not facts[topic].writable}
        # Whoever wrote a record without looking for its topic can only mean one that the plan has.
        named = self._vouched | (self._named & plan.partitions.keys())
        self._look_into(destinations(plan) | named, plan.bridge_id, after)
        return Seen(behind, after, frozenset(missing))

    def _look_for_topics(
        self, plan: RoutingPlan, after: Mapping[Partition, int], ends: Mapping[Partition, int]
    ) -> None:
        progress = _Progress("looking for the topics that messages go to", "found")
        journal = {each: end for each, end in ends.items() if each[0] == plan.journal_topic}
        for record in self._news({each: after[each] for each in journal}, journal):
            headers = _headers(record)
            if (topic := layout.find_topic(headers)) is not None:
                self._vouched.add(topic.name)
            else:
                address = dict(headers).get(layout.ADDRESS) or b""
                self._named.add(topic_of_address(address.decode(errors="replace")))
            progress.seen(len(self._vouched))

    def _look_into(self, topics: Collection[str], bridge_id: str, after: Mapping[Partition, int]) -> None:
        ends = end_offsets(self._kafka, topics)
        unread = {each: end for each, end in ends.items() if each not in self._read_to}
        starts = offsets_at(self._kafka, unread, (self._since_ms or 0) - self._margin_ms)
        sources = {f"{topic}:{partition}": (topic, partition) for topic, partition in after}
        grown: dict[tuple[frozenset[Place] | None, Place], frozenset[Place]] = {}
        origin = bridge_id.encode()
        progress = _Progress("looking for what is published already", "to leave out")
        for record in self._news(starts, ends):
            progress.seen(len(self._found))
            marks = published_marks(record, origin)
            if marks is None:
                continue
            source, _, offset = marks[0].rpartition(":")
            if source not in sources or not offset.isdecimal():
                continue  # another kind of id, such as an edge gives
            position = (*sources[source], int(offset))
            before, place = self._found.get(position), (record.topic() or "", marks[1])
            if (before, place) not in grown:
                grown[before, place] = (before or frozenset()) | {place}
            self._found[position] = grown[before, place]

    def _news(self, starts: Mapping[Partition, int], ends: Mapping[Partition, int]) -> Iterator[Message]:
        """The records from there to the ends, without those that were read."""
        read = {each: self._read_to[each] for each in ends.keys() & self._read_to.keys()}
        yield from read_between(self._kafka, {**starts, **read}, ends)
        self._read_to |= ends


class _Progress:
    """Says how far a search is, if it takes long."""

    def __init__(self, what: str, found_are: str) -> None:
        self._what, self._found_are = what, found_are
        self._seen = 0
        self._due = time.monotonic() + PROGRESS_S

    def seen(self, found: int) -> None:
        """Count a record."""
        self._seen += 1
        if time.monotonic() > self._due:
            self._due = time.monotonic() + PROGRESS_S
            Searching(self._what, self._seen, found, self._found_are).emit()


def destinations(plan: RoutingPlan) -> set[str]:
    """Every topic that the plan can publish to by itself; the direct route's are for messages to name."""
    own = {each for each in (plan.dead_letter_topic, plan.events_topic) if each}
    return {route.topic for route in plan.routes if route.topic} | own


def published_marks(record: Message, origin: bytes) -> tuple[str, str] | None:
    """The id under which a bridge published the record, and the route that it failed on if it is a dead
    letter; None if somebody else published it."""
    # The bridge's own come last: a dead letter has all headers of the record that it was before them.
    headers = dict(_headers(record))
    identity = headers.get(layout.STABLE_ID)
    if identity is None or headers.get(layout.ORIGIN) != origin:
        return None
    return identity.decode(errors="replace"), (headers.get(layout.ERROR_ROUTE) or b"").decode(
        errors="replace"
    )


def _headers(record: Message) -> layout.KafkaHeaders:
    return cast(layout.KafkaHeaders, record.headers() or [])  # what it is annotated with is for producers


def await_tasks(spark: SparkSession, query: StreamingQuery, *, patience_s: float = PATIENCE_S) -> None:
    """Return when no task of a query that has ended runs any more: some outlive it for a moment.

    Raises `Outage` when that takes too long.
    """
    deadline = time.monotonic() + patience_s
    while _active_tasks(spark, query):
        if time.monotonic() > deadline:
            raise not_over("its tasks")
        time.sleep(0.05)


def close_producers(spark: SparkSession, *, patience_s: float = PATIENCE_S) -> None:
    """Close the producers that Spark keeps in this process for its next query.

    Such a one still sends what a task that was killed had handed to it. Closing waits for that, until
    ``delivery.timeout.ms`` at most. Raises `Outage` when it takes too long; it then goes on all the same.
    """
    jvm: Any = spark.sparkContext._jvm
    # A Scala object, which Java and py4j know by these names. It has no part in Spark's public interface.
    pool = getattr(jvm.org.apache.spark.sql.kafka010.producer, "InternalKafkaProducerPool$")
    reset = getattr(pool, "MODULE$").reset
    failures: list[Exception] = []

    def close() -> None:
        try:
            reset()
        except Exception as failure:
            failures.append(failure)

    closing = Thread(target=close, name="close-producers", daemon=True)
    closing.start()
    closing.join(patience_s)
    if closing.is_alive():
        raise not_over("its producers")
    for failure in failures:
        raise failure


def not_over(what: str) -> Outage:
    """What a start raises while the run before it may still write."""
    return Outage(
        f"the router's last run is not over: {what} still have records for Kafka",
        remedy="check that Kafka takes records; the router starts again when they are done",
    )


def _active_tasks(spark: SparkSession, query: StreamingQuery) -> int:
    """How many tasks of the query still run. On a cluster, executors that are lost are not counted."""
    tracker = spark.sparkContext.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(str(query.runId))]
    stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
    return sum(stage.numActiveTasks for stage in stages if stage is not None)


def hold(spark: SparkSession, file: Path, *, patience_s: float = DRIVER_PATIENCE_S) -> None:
    """Lock a file for Spark's driver, which holds it until its process is gone.

    Tasks may outlive the Python process that started their driver. The next run begins when the lock is free,
    and with it the last producer. Raises `HardFailure` if that does not happen. With executors on other
    machines it says nothing of them: they end when they miss their driver.
    """
    if str(file) in _held:
        return
    jvm: Any = spark.sparkContext._jvm
    channel = jvm.java.io.RandomAccessFile(str(file), "rw").getChannel()
    deadline, told = time.monotonic() + patience_s, False
    while (lock := channel.tryLock()) is None:
        if time.monotonic() > deadline:
            channel.close()
            raise HardFailure(
                f"another Spark driver of this bridge is running: it holds {file}",
                remedy="stop it, or give this bridge a state.dir of its own",
            )
        if not told:
            DriverAwaited().emit()
            told = True
        time.sleep(0.05)
    _held[str(file)] = lock


_held: dict[str, Any] = {}
"""The driver's locks. Java lets go of one when nobody refers to it any more."""
