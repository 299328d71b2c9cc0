"""Publishing once: a start looks at what the run before it has published, and leaves that out.

Spark's Kafka sink writes at least once: what it wrote after its last checkpoint it writes again. But every
record that is published carries this bridge's `layout.ORIGIN` and the journal position it came from
(`layout.STABLE_ID`). So a start

1. begins when the run before it can no longer write (`hold`, `await_tasks`, `close_producers`),
2. reads from the checkpoint how far that run had got, and when (`isthmus.pipeline.checkpoint`),
3. reads the ids of what was published since, from the destinations themselves (`find_published`),
4. runs the same plan up to the present, without those (`leave_out`), and only then goes on as usual.

While it runs nothing is paid for it. It relies on the destinations: they must still have what was published
after the checkpoint, and the clocks of brokers, driver and file system must agree within `MARGIN_MS`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa
from confluent_kafka import Message
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from isthmus.errors import HardFailure, Outage
from isthmus.journal import layout
from isthmus.kafka.blocking import end_offsets, read_since
from isthmus.kafka.options import Kafka
from isthmus.pipeline.checkpoint import read_checkpoint
from isthmus.routing.plan import RoutingPlan

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
    """What a start has to leave out: with each topic, the id of one record that is in it."""

    topics: list[str]
    ids: list[str]


def find_published(
    spark: SparkSession, kafka: Kafka, plan: RoutingPlan, checkpoint: str, *, margin_ms: int = MARGIN_MS
) -> Published | None:
    """What was published of the records after the checkpoint; None if nothing was.

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
    found = _search(kafka, plan, last.time_ms - margin_ms, after)
    _log.warning(
        "%d records are after the router's checkpoint, of which %d are published (searched for %.1f s)",
        *(behind, len(found.ids), time.monotonic() - began),
    )
    return found if found.ids else None


def _search(
    kafka: Kafka, plan: RoutingPlan, since_ms: int, after: Mapping[tuple[str, int], int]
) -> Published:
    found = Published([], [])
    origin = plan.bridge_id.encode()
    due = time.monotonic() + PROGRESS_S
    for seen, record in enumerate(read_since(kafka, destinations(plan), since_ms), 1):
        identity = published_id(record, origin)
        if identity is not None and _is_after(identity, after):
            found.topics.append(record.topic() or "")
            found.ids.append(identity)
        if time.monotonic() > due:
            due = time.monotonic() + PROGRESS_S
            _log.warning(
                "looking for what is published already: %d records seen, %d to leave out",
                *(seen, len(found.ids)),
            )
    return found


def _is_after(identity: str, offsets: Mapping[tuple[str, int], int]) -> bool:
    """Whether it is the id of a record of the sources that is not before these offsets."""
    match identity.rsplit(":", 2):
        case topic, partition, offset if partition.isdecimal() and offset.isdecimal():
            first = offsets.get((topic, int(partition)))
            return first is not None and int(offset) >= first
    return False  # such as the id that an edge's dead letter has


def destinations(plan: RoutingPlan) -> set[str]:
    """Every topic that the plan can publish to."""
    own = {each for each in (plan.dead_letter_topic, plan.events_topic) if each}
    return {*plan.partitions, *(route.topic for route in plan.routes if route.topic)} | own


def published_id(record: Message, origin: bytes) -> str | None:
    """The id under which a bridge published the record; None if somebody else did."""
    headers = record.headers() or []
    if (layout.ORIGIN, origin) not in headers:
        return None
    # The bridge's own come last: a dead letter has all headers of the record that it was before them.
    identity = next((value for name, value in reversed(headers) if name == layout.STABLE_ID), None)
    return identity.decode(errors="replace") if isinstance(identity, bytes) else identity


def leave_out(records: DataFrame, published: Published) -> DataFrame:
    """The records for the sink without those that are published; what one partition held keeps its order."""
    known = records.sparkSession.createDataFrame(
        pa.table(
            {"topic": pa.array(published.topics, pa.string()), "id": pa.array(published.ids, pa.string())}
        )
    )
    marks = F.filter("headers", lambda header: header["key"] == layout.STABLE_ID)
    identity = F.element_at(marks, -1)["value"].cast("string")
    # Broadcast, so that the records stay in the task that read them, and so in order.
    return (
        records.withColumn("id", identity).join(F.broadcast(known), ["topic", "id"], "left_anti").drop("id")
    )


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
