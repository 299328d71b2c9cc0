"""The router as a running query: Spark's Kafka source before it, Spark's Kafka sink behind it.

The sink alone would publish again, after a crash or a stop, what it has published since its checkpoint. So a
start first catches up without that; see `isthmus.pipeline.once`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from isthmus.config.model.settings import PipelineSettings
from isthmus.kafka.options import Kafka
from isthmus.pipeline.cluster import first_attempts, is_local
from isthmus.pipeline.once import (
    Published,
    await_tasks,
    close_producers,
    find_published,
    leave_out,
    not_over,
)
from isthmus.pipeline.router import route
from isthmus.routing.plan import RoutingPlan
from isthmus.routing.size import LARGEST_BYTES

_log = logging.getLogger(__name__)

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


DELIVERY_TIMEOUT_MS = 120_000
"""Kafka's own default: after so long a producer gives a record up."""

CATCH_UP_RECORDS = 2_000_000
"""How many records a batch has that catches up: a long backlog is not all begun anew after another crash."""


def read_topics(
    spark: SparkSession,
    kafka: Kafka,
    topics: tuple[str, ...],
    *,
    real_time: bool = False,
    most_per_batch: int | None = None,
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
    if most_per_batch is not None:
        reader = reader.option("maxOffsetsPerTrigger", str(most_per_batch))
    rows = reader.options(**_prefixed(defaults | kafka.java_options())).load()
    return rows if is_local(spark.sparkContext.master) else first_attempts(rows)


def start_router(
    spark: SparkSession, kafka: Kafka, plan: RoutingPlan, settings: PipelineSettings, checkpoint: str
) -> StreamingQuery:
    """Start routing, from where the checkpoint says."""
    real_time = settings.mode == "real-time" and not any(route.has_own_converter for route in plan.routes)
    records = route(read_topics(spark, kafka, _sources(plan), real_time=real_time), plan)
    writer = kafka_sink(records, kafka, plan, checkpoint, real_time=real_time)
    if real_time:
        # PySpark takes this argument; its annotations do not know it yet.
        writer = writer.trigger(realTime=f"{settings.batch_duration_s * 1000:.0f} milliseconds")  # type: ignore[call-overload]
    else:
        writer = writer.trigger(processingTime="0 seconds")
    return writer.start()


def start_catching_up(
    spark: SparkSession, kafka: Kafka, plan: RoutingPlan, checkpoint: str, published: Published
) -> StreamingQuery:
    """Route what is there by now, from where the checkpoint says, without what is published. Then it ends.

    What goes to a topic that is gone by now is a soft failure.
    """
    plan = replace(plan, missing_topics=published.missing_topics)
    rows = read_topics(spark, kafka, _sources(plan), most_per_batch=CATCH_UP_RECORDS)
    writer = kafka_sink(leave_out(route(rows, plan), published), kafka, plan, checkpoint)
    return writer.trigger(availableNow=True).start()


def _sources(plan: RoutingPlan) -> tuple[str, ...]:
    return (plan.journal_topic, *plan.source_topics)


class RouterStarts:
    """Starts the router, however often: each message is published once over all of them, and in order.

    No other run of the bridge may be on the same checkpoint.
    """

    def __init__(
        self, spark: SparkSession, kafka: Kafka, settings: PipelineSettings, checkpoint: str
    ) -> None:
        self._spark = spark
        self._kafka = kafka
        self._settings = settings
        self._checkpoint = checkpoint
        self._last: StreamingQuery | None = None
        self._catching_up = False
        self._failed_at: float | None = None
        """Since when the last query is known to have failed."""

    def start(self, plan: RoutingPlan) -> StreamingQuery:
        """Start routing from where the checkpoint says, or first a query that catches up, and then ends.

        Call it again when the query has ended. Raises `Outage` while what ran before is not over.
        """
        self._settle()
        if self._last is not None and self._catching_up and self._last.exception() is None:
            records = sum(progress.numInputRows for progress in self._last.recentProgress)
            _log.warning("the router has caught up: %d records were behind", records)
        published = find_published(self._spark, self._kafka, plan, self._checkpoint)
        if published is None:
            self._last = start_router(self._spark, self._kafka, plan, self._settings, self._checkpoint)
        else:
            self._last = start_catching_up(self._spark, self._kafka, plan, self._checkpoint, published)
        self._catching_up, self._failed_at = published is not None, None
        return self._last

    def _settle(self) -> None:
        """Return when what ran before can no longer write. Raises `Outage` when that takes long."""
        if self._last is not None:
            await_tasks(self._spark, self._last)
        if is_local(self._spark.sparkContext.master):
            close_producers(self._spark)
        elif self._last is not None and self._last.exception() is not None:
            # Producers of executors are out of reach: they send what they have for as long as it may take.
            self._failed_at = self._failed_at or time.monotonic()
            timeout_s = int(self._kafka.options.get("delivery.timeout.ms", DELIVERY_TIMEOUT_MS)) / 1000
            if time.monotonic() < self._failed_at + timeout_s:
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
