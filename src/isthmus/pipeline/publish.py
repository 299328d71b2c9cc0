"""The router as a running query: Spark's Kafka source before it, Spark's Kafka sink behind it.

The sink alone would publish again, after a crash or a stop, what it has published since its checkpoint. So a
start first catches up without that; see `isthmus.pipeline.once`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from operator import itemgetter

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from isthmus.config.model.settings import PipelineSettings
from isthmus.errors import Outage
from isthmus.kafka.blocking import end_offsets
from isthmus.kafka.options import Kafka
from isthmus.pipeline.checkpoint import Checkpoint, read_checkpoint
from isthmus.pipeline.cluster import first_attempts, is_local
from isthmus.pipeline.once import Search, await_tasks, close_producers, not_over
from isthmus.pipeline.published import Partition, Published
from isthmus.pipeline.router import get_ready, route
from isthmus.routing.plan import RoutingPlan
from isthmus.routing.size import LARGEST_BYTES

SOURCE_DEFAULTS = {
    # A message of a transaction that was rolled back was never sent.
    "isolation.level": "read_committed",
}
REAL_TIME_SOURCE = {
    # A broker answers when it has something, or else after so long: the fewer answers say nothing, the less
    # there is to do for nothing.
    "fetch.max.wait.ms": "5000",
}
BATCH_SOURCE = {
    # A batch ends where its topics ended when it began. Where that is behind the mark of a transaction, which
    # is no record, the reader asks for one that is not there yet, and would wait half a second for it.
    "fetch.max.wait.ms": "10",
}

SINK_DEFAULTS = {
    # Larger batches than Kafka's 16 KiB, and a moment to fill them: fewer requests for the same records.
    "batch.size": "262144",
    "linger.ms": "10",
    "buffer.memory": "67108864",
}
REAL_TIME_SINK = {"linger.ms": "1"}
"""In real time no message waits for others."""


REHEARSED = 100
"""How many records are routed for practice."""
REHEARSAL_POLL_MS = 2_000

DELIVERY_TIMEOUT_MS = 120_000
"""Kafka's own default: after so long a producer gives a record up."""


def read_topics(
    spark: SparkSession,
    kafka: Kafka,
    topics: tuple[str, ...],
    *,
    real_time: bool = False,
) -> DataFrame:
    """What is and comes in the topics, from their beginning."""
    defaults = SOURCE_DEFAULTS | (REAL_TIME_SOURCE if real_time else BATCH_SOURCE)
    reader = (
        spark.readStream.format("kafka")
        .option("subscribe", ",".join(topics))
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        # Records that are gone before they were read must be known of, not passed over.
        .option("failOnDataLoss", "true")
    )
    rows = reader.options(**_prefixed(defaults | kafka.java_options())).load()
    return rows if is_local(spark.sparkContext.master) else first_attempts(rows)


def routed(
    spark: SparkSession,
    kafka: Kafka,
    plan: RoutingPlan,
    settings: PipelineSettings,
    published: Published | None = None,
) -> DataFrame:
    """What `start_router` publishes, analysed: Spark has said of the plan whether it can run."""
    topics = (plan.journal_topic, *plan.source_topics)
    rows = read_topics(spark, kafka, topics, real_time=_is_real_time(plan, settings))
    return route(rows, plan, published)


def start_router(
    spark: SparkSession,
    kafka: Kafka,
    plan: RoutingPlan,
    settings: PipelineSettings,
    checkpoint: str,
    records: DataFrame | None = None,
) -> StreamingQuery:
    """Start routing, from where the checkpoint says. ``records`` are those of `routed`, if it was called."""
    real_time = _is_real_time(plan, settings)
    records = records or routed(spark, kafka, plan, settings)
    writer = kafka_sink(records, kafka, plan, checkpoint, real_time=real_time)
    if real_time:
        # PySpark takes this argument; its annotations do not know it yet.
        writer = writer.trigger(realTime=f"{settings.batch_duration_s * 1000:.0f} milliseconds")  # type: ignore[call-overload]
    else:
        writer = writer.trigger(processingTime="0 seconds")
    return writer.start()


def _is_real_time(plan: RoutingPlan, settings: PipelineSettings) -> bool:
    return settings.mode == "real-time" and not any(route.has_own_converter for route in plan.routes)


def start_catching_up(
    spark: SparkSession, kafka: Kafka, plan: RoutingPlan, checkpoint: str, published: Published
) -> StreamingQuery:
    """Route what is there by now, from where the checkpoint says, without what is published. Then it ends.

    All of it is one batch, after the one that another query may have begun: a checkpoint in the midst of what
    is published would be younger than some of that, and the next start would not search so far back. A topic
    that is gone by now is a soft failure.
    """
    plan = replace(plan, missing_topics=published.missing_topics)
    rows = read_topics(spark, kafka, (plan.journal_topic, *plan.source_topics))
    writer = kafka_sink(route(rows, plan, published), kafka, plan, checkpoint)
    return writer.trigger(availableNow=True).start()


def rehearse(spark: SparkSession, kafka: Kafka, plan: RoutingPlan) -> None:
    """Route some records, and publish nothing: Spark has then loaded and compiled what a start needs.

    In a JVM that has just started, this takes several times as long as a start of the router afterwards.
    """
    ends = end_offsets(kafka, (plan.journal_topic, *plan.source_topics))
    (topic, partition), end = max(ends.items(), key=itemgetter(1))  # one partition is one task
    range_ = {"starting": max(0, end - REHEARSED), "ending": end}
    reader = (
        spark.read.format("kafka")
        .option("assign", json.dumps({topic: [partition]}))
        .options(**{f"{side}Offsets": json.dumps({topic: {partition: at}}) for side, at in range_.items()})
        .option("includeHeaders", "true")
        .option("failOnDataLoss", "false")
        # Behind a transaction that is open nothing is read, and Spark would wait for two minutes.
        .option("kafkaConsumer.pollTimeoutMs", REHEARSAL_POLL_MS)
    )
    rows = reader.options(**_prefixed(SOURCE_DEFAULTS | BATCH_SOURCE | kafka.java_options())).load()
    route(rows, plan, Published.nothing(plan, ends)).write.format("noop").mode("overwrite").save()


class RouterStarts:
    """Starts the router, however often: each message is published once over all of them, and in order.

    No other run of the bridge may be on the same checkpoint.
    """

    def __init__(
        self,
        spark: SparkSession,
        kafka: Kafka,
        settings: PipelineSettings,
        checkpoint: str,
        search: Search | None = None,
    ) -> None:
        """``search`` may have looked already at what is published."""
        self._spark = spark
        self._kafka = kafka
        self._settings = settings
        self._checkpoint = checkpoint
        self._last: StreamingQuery | None = None
        self._catching_up: Published | None = None
        """What the last query leaves out, if that query is to catch up and then to end."""
        self._search = search
        """What was looked at ahead of the next start."""
        self._tried: tuple[RoutingPlan, DataFrame] | None = None
        """The plan that was tried out last, and its `routed` records."""
        self._ended_at: float | None = None
        """Since when the last query is known to have failed, or to have been stopped."""

    def start(self, plan: RoutingPlan) -> StreamingQuery:
        """Start routing from where the checkpoint says, or first a query that catches up, and then ends.

        Call it again when the query has ended. Raises `Outage` while what ran before is not over.
        """
        query = self.catch_up(plan)
        if query is None or self._catching_up is None:
            return self.go_on(plan)
        # What comes next is ready when this has ended, and runs the code that is compiled for this.
        self._analyse(plan, self._catching_up.ends)
        return query

    def look_ahead(self, plan: RoutingPlan) -> None:
        """Do while the router still runs what the next start by its plan would have to do: most of the search
        for what is published, the columns, and what Spark compiles."""
        self._search = self._search or Search(self._kafka)
        self._search.look(plan, self._last_checkpoint())
        get_ready(plan)
        self._rehearse(plan)

    def catch_up(self, plan: RoutingPlan) -> StreamingQuery | None:
        """Route by the plan what is there by now, without what is published, if any of that is.

        None once nothing is published of what is behind the checkpoint: then any plan may `go_on` from there.
        Raises `Outage` while what ran before is not over.
        """
        self._settle()
        if self._caught_up():
            return None
        search, self._search = self._search or Search(self._kafka), None
        published = search.find(plan, self._last_checkpoint())
        if published is None:
            return None
        query = start_catching_up(self._spark, self._kafka, plan, self._checkpoint, published)
        return self._started(query, published)

    def go_on(self, plan: RoutingPlan) -> StreamingQuery:
        """Start routing from where the checkpoint says. Call it when there is nothing to catch up with."""
        tried, self._tried = self._tried, None
        records = tried[1] if tried is not None and tried[0] == plan else None
        query = start_router(self._spark, self._kafka, plan, self._settings, self._checkpoint, records)
        return self._started(query)

    @property
    def catching_up(self) -> bool:
        """Whether the last query is to end when it has caught up."""
        return self._catching_up is not None

    def _caught_up(self) -> bool:
        """Whether the last query was to catch up, and has: nothing is published behind its checkpoint.

        What it was to do may be two batches: one that another query had begun, and the rest.
        """
        if self._catching_up is None or self._last is None or self._last.exception() is not None:
            return False
        last = self._last_checkpoint()
        if last is None or last.batch_begun:
            return False
        return all(last.offsets.get(each, 0) >= end for each, end in self._catching_up.ends.items())

    def _last_checkpoint(self) -> Checkpoint | None:
        return read_checkpoint(self._spark, self._checkpoint)

    def try_out(self, plan: RoutingPlan) -> None:
        """Have Spark analyse and compile a plan. Raises what it says of one that cannot run."""
        self._analyse(plan, end_offsets(self._kafka, (plan.journal_topic, *plan.source_topics)))
        self._rehearse(plan)

    def _analyse(self, plan: RoutingPlan, partitions: Iterable[Partition]) -> None:
        nothing = Published.nothing(plan, partitions)
        self._tried = plan, routed(self._spark, self._kafka, plan, self._settings, nothing)

    def _rehearse(self, plan: RoutingPlan) -> None:
        if is_local(self._spark.sparkContext.master):  # where a slot is free for it
            # The start itself meets the same. PySpark passes on what it has no class for as py4j's.
            with suppress(PySparkException, Py4JJavaError, Outage):
                rehearse(self._spark, self._kafka, plan)

    def _started(self, query: StreamingQuery, catching_up: Published | None = None) -> StreamingQuery:
        self._last, self._ended_at, self._catching_up = query, None, catching_up
        return query

    def _settle(self) -> None:
        """Return when what ran before can no longer write. Raises `Outage` when that takes long."""
        if self._last is not None:
            await_tasks(self._spark, self._last)
        if is_local(self._spark.sparkContext.master):
            close_producers(self._spark)
        elif self._last is not None and not self._caught_up():  # then it did not end by itself
            # Producers of executors are out of reach: they send what they have for as long as it may take.
            self._ended_at = self._ended_at or time.monotonic()
            timeout_s = int(self._kafka.options.get("delivery.timeout.ms", DELIVERY_TIMEOUT_MS)) / 1000
            if time.monotonic() < self._ended_at + timeout_s:
                raise not_over("the producers of its executors may")


def kafka_sink(
    records: DataFrame, kafka: Kafka, plan: RoutingPlan, checkpoint: str, *, real_time: bool = False
) -> DataStreamWriter:
    """Spark's Kafka sink, ready for a trigger."""
    # The plan has checked every record against its own topic's limit. The producer's one is for all topics,
    # also those that it does not know yet.
    largest = max(plan.max_message_bytes.values(), default=1_048_576)
    if any(route.is_direct for route in plan.routes):
        largest = max(largest, LARGEST_BYTES)
    defaults = SINK_DEFAULTS | (REAL_TIME_SINK if real_time else {})
    options = defaults | {"max.request.size": str(largest)} | kafka.java_options()
    return (
        records.writeStream.format("kafka")
        .queryName("router")
        .outputMode("update")
        .option("checkpointLocation", checkpoint)
        .options(**_prefixed(options))
    )


def _prefixed(options: Mapping[str, str]) -> dict[str, str]:
    return {f"kafka.{name}": str(value) for name, value in options.items()}
