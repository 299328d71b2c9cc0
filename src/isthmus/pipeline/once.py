"""Publishing once: a start looks at what the run before it has published, and leaves that out.

Spark's Kafka sink writes at least once: what it wrote after its last checkpoint it writes again. But every
record that is published carries this bridge's `layout.ORIGIN` and the journal position it came from
(`layout.STABLE_ID`). So a start

1. begins when the run before it can no longer write (`hold`, `await_tasks`, `close_producers`),
2. reads from the checkpoint how far that run had got, and when (`isthmus.pipeline.checkpoint`),
3. reads the ids of what was published since, from the destinations themselves (`find_published`),
4. runs the same plan up to the present, without those (`leave_out`), and only then goes on as usual.

It also finds the topics that an edge knew when it accepted a message, and that are gone by now: a producer
would wait for such a one in vain, and the query would end.

While it runs nothing is paid for it. It relies on the destinations: they must still have what was published
after the checkpoint, and the clocks of brokers, driver and file system must agree within `MARGIN_MS`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Thread
from typing import Any, cast

import pyarrow as pa
from confluent_kafka import Message
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from isthmus.errors import HardFailure, Outage
from isthmus.journal import layout
from isthmus.kafka.blocking import describe, end_offsets, read_after, read_since
from isthmus.kafka.options import Kafka
from isthmus.pipeline.checkpoint import read_checkpoint
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

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Published:
    """What a start has to heed: what is published already, and which topics are gone."""

    topics: list[str] = field(default_factory=list)
    """For each record that is published, the topics that it is in, or might be by another plan."""
    ids: list[str] = field(default_factory=list)
    """The id of each."""
    routes: list[str] = field(default_factory=list)
    """The route that each dead letter failed on; empty for other records. Two may have failed on one."""
    missing_topics: frozenset[str] = frozenset()
    """Topics that messages are to go to by the direct route, and that cannot be written any more."""

    def add(self, identity: str, topic: str, route: str) -> None:
        """Note a record that is not to be published again."""
        self.topics.append(topic)
        self.ids.append(identity)
        self.routes.append(route)


def find_published(
    spark: SparkSession, kafka: Kafka, plan: RoutingPlan, checkpoint: str, *, margin_ms: int = MARGIN_MS
) -> Published | None:
    """What was published of the records after the checkpoint; None if nothing was, and no topic is gone.

    Call it when nobody writes any more. Raises `Outage` when Kafka does not answer.
    """
    began = time.monotonic()
    last = read_checkpoint(spark, checkpoint)
    if last is None:
        return None
    ends = end_offsets(kafka, (plan.journal_topic, *plan.source_topics))
    behind = sum(max(0, end - last.offsets.get(partition, 0)) for partition, end in ends.items())
    if not behind:
        return None
    # The margin also finds what was published before the checkpoint.
    after = {partition: last.offsets.get(partition, 0) for partition in ends}
    direct, missing = _direct_topics(kafka, plan, after)
    found = _search(kafka, plan, destinations(plan) | direct, last.time_ms - margin_ms, after)
    _log.warning(
        "%d records are after the router's checkpoint, of which %d are published (searched for %.1f s)",
        *(behind, len(set(found.ids)), time.monotonic() - began),
    )
    return replace(found, missing_topics=missing) if found.ids or missing else None


def _direct_topics(
    kafka: Kafka, plan: RoutingPlan, after: Mapping[tuple[str, int], int]
) -> tuple[set[str], frozenset[str]]:
    """The topics that the direct route may have published records to which are after these offsets; and those
    of them that an edge has found, and that are gone."""
    if not any(route.is_direct for route in plan.routes):
        return set(), frozenset()
    progress = _Progress("looking for the topics that messages go to: %d records seen, %d found")
    found: set[str] = set()
    named: set[str] = set()
    journal = {each: offset for each, offset in after.items() if each[0] == plan.journal_topic}
    for record in read_after(kafka, journal):
        headers = _headers(record)
        if (topic := layout.find_topic(headers)) is not None:
            found.add(topic.name)
        else:
            named.add(topic_of_address(_last(headers, layout.ADDRESS) or ""))
        progress.seen(len(found))
    facts = describe(kafka, found)
    missing = {topic for topic in found if topic not in facts or not facts[topic].writable}
    # Whoever wrote a record without looking for its topic can only mean one that the plan has.
    return found | (named & plan.partitions.keys()), frozenset(missing)


def _search(
    kafka: Kafka,
    plan: RoutingPlan,
    topics: Collection[str],
    since_ms: int,
    after: Mapping[tuple[str, int], int],
) -> Published:
    found = Published()
    origin = plan.bridge_id.encode()
    progress = _Progress("looking for what is published already: %d records seen, %d to leave out")
    for record in read_since(kafka, topics, since_ms):
        marks = published_marks(record, origin)
        if marks is not None and _is_after(marks[0], after):
            identity, route = marks
            topic = record.topic() or ""
            for place in ((topic, route), *_other_outcomes(plan, topic, route)):
                found.add(identity, *place)
        progress.seen(len(found.ids))
    return found


def _other_outcomes(plan: RoutingPlan, topic: str, route: str) -> Iterator[tuple[str, str]]:
    """Where what was published might go by the plan as it is now, which need not be that of the last run.

    A dead letter might be taken by the topic of its route, and the other way round.
    """
    for each in plan.routes:
        if route and each.name == route and each.topic:
            yield each.topic, ""
        elif not route and each.topic == topic and plan.dead_letter_topic:
            yield plan.dead_letter_topic, each.name


class _Progress:
    """Says how far a search is, if it takes long."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._seen = 0
        self._due = time.monotonic() + PROGRESS_S

    def seen(self, found: int) -> None:
        """Count a record."""
        self._seen += 1
        if time.monotonic() > self._due:
            self._due = time.monotonic() + PROGRESS_S
            _log.warning(self._text, self._seen, found)


def _is_after(identity: str, offsets: Mapping[tuple[str, int], int]) -> bool:
    """Whether it is the id of a record of the sources that is not before these offsets."""
    match identity.rsplit(":", 2):
        case topic, partition, offset if partition.isdecimal() and offset.isdecimal():
            first = offsets.get((topic, int(partition)))
            return first is not None and int(offset) >= first
    return False  # such as the id that an edge's dead letter has


def destinations(plan: RoutingPlan) -> set[str]:
    """Every topic that the plan can publish to by itself; the direct route's are for messages to name."""
    own = {each for each in (plan.dead_letter_topic, plan.events_topic) if each}
    return {route.topic for route in plan.routes if route.topic} | own


def published_marks(record: Message, origin: bytes) -> tuple[str, str] | None:
    """The id under which a bridge published the record, and the route that it failed on if it is a dead
    letter; None if somebody else published it."""
    headers = _headers(record)
    if (layout.ORIGIN, origin) not in headers:
        return None
    identity = _last(headers, layout.STABLE_ID)
    return None if identity is None else (identity, _last(headers, layout.ERROR_ROUTE) or "")


def _headers(record: Message) -> layout.KafkaHeaders:
    return cast(layout.KafkaHeaders, record.headers() or [])  # what it is annotated with is for producers


def _last(headers: layout.KafkaHeaders, wanted: str) -> str | None:
    """The bridge's own come last: a dead letter has all headers of the record that it was before them."""
    value = next((value for name, value in reversed(headers) if name == wanted), None)
    return None if value is None else value.decode(errors="replace")


def leave_out(records: DataFrame, published: Published) -> DataFrame:
    """The records for the sink without those that are published; what one partition held keeps its order."""
    columns = {"topic": published.topics, "id": published.ids, "route": published.routes}
    known = records.sparkSession.createDataFrame(
        pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})
    )

    def mark(wanted: str) -> Column:
        marks = F.filter("headers", lambda header: header["key"] == wanted)
        return F.try_element_at(marks, F.lit(-1))["value"].cast("string")

    marked = records.withColumns(
        {"id": mark(layout.STABLE_ID), "route": F.coalesce(mark(layout.ERROR_ROUTE), F.lit(""))}
    )
    # Broadcast, so that the records stay in the task that read them, and so in order.
    return marked.join(F.broadcast(known), list(columns), "left_anti").drop("id", "route")


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
            _log.warning("waiting for the Spark driver of the last run to end")
            told = True
        time.sleep(0.05)
    _held[str(file)] = lock


_held: dict[str, Any] = {}
"""The driver's locks. Java lets go of one when nobody refers to it any more."""
