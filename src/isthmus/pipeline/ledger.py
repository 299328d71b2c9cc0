"""The ledger as a running query: from the journal, through its decisions, back into the journal.

::

    journal ──► what concerns the ledger ──► chunks ──► shards with state ──► updates ──► journal
                (native)                     (Packer)   (LedgerProcessor)     (UpdateWriter)

A shard has the transactions of one partition of the journal, so that what one session did stays in order;
and a share of the messages that are annotated, deleted or expire. What is committed lands in the ledger's own
partitions, from which the ledger reads it again: a DELETE in a transaction is a DELETE once it is committed.

After a crash the query goes on from its checkpoint. The batch that was in flight is decided again, in the
same way; what of it had been written is not written again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from isthmus.journal import layout
from isthmus.journal.layout import Op
from isthmus.journal.partitions import JournalPartitions
from isthmus.journal.wake_ledger import LOOK_RECORDS, LOOK_S
from isthmus.kafka.options import Kafka
from isthmus.ledger.events import CLOCK, PLAIN_FORM
from isthmus.ledger.transactions import OUTCOMES, RECORDS, Holding
from isthmus.pipeline.exactly_once import prepare_markers
from isthmus.pipeline.ledger_tasks import CHUNK, SHARD_CHUNK, LedgerProcessor, Packer, UpdateWriter
from isthmus.pipeline.publish import BATCH_SOURCE, SOURCE_DEFAULTS

NAME = "ledger"

CLOCK_EVERY = 1_000
"""One record in so many tells the ledger the time of its partition, even if it is none of its business."""

SESSION_CONFIG = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    # A batch then uploads what it changed, not the whole state.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Timers would have it run batch after batch, idle or not. See `isthmus.pipeline.clock`.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    # Python gets so much at once. Rows are journal records before they are packed, and chunks after.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "4096",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(4 * 1024 * 1024),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerPlan:
    """Everything that the ledger's query depends on."""

    bridge_id: str
    journal_topic: str
    clock_topic: str
    """What makes it look at the time when nothing else happens, or at the journal at once."""
    places: JournalPartitions
    timeout_ms: int
    """After so long without outcome a transaction is rolled back."""
    interval_ms: int = 200
    """How often it looks for something new: each look costs requests to Kafka, idle or not."""
    look_records: int = LOOK_RECORDS
    """So many new records are worth a batch; see `isthmus.journal.wake_ledger`."""
    look_s: float = LOOK_S
    """After so long any number of them is."""
    max_records_per_batch: int = 500_000
    """So that a long backlog does not become one batch, which would have to fit in memory."""

    @property
    def markers_topic(self) -> str:
        """Where the ledger notes which batches are written."""
        return f"isthmus.{self.bridge_id}.ledger.markers"


def ledger_session(spark: SparkSession, plan: LedgerPlan) -> SparkSession:
    """A session of the same application with the options that the ledger needs."""
    session = spark.newSession()
    for name, value in SESSION_CONFIG.items():
        session.conf.set(name, value)
    session.conf.set("spark.sql.shuffle.partitions", plan.places.session_partitions)
    return session


def start_ledger(spark: SparkSession, kafka: Kafka, plan: LedgerPlan, checkpoint: str) -> StreamingQuery:
    """Start the ledger, from where the checkpoint says."""
    writer = ledger_writer(spark, kafka, plan, checkpoint, time_mode="ProcessingTime")
    return writer.trigger(processingTime=f"{plan.interval_ms} milliseconds").start()


def ledger_writer(
    spark: SparkSession,
    kafka: Kafka,
    plan: LedgerPlan,
    checkpoint: str,
    *,
    time_mode: Literal["ProcessingTime", "None"],
) -> DataStreamWriter:
    """The ledger's query, ready for a trigger.

    With the ``time_mode`` None it knows no time and waits for nothing, but can end.
    """
    prepare_markers(kafka, plan.markers_topic, plan.places.session_partitions)
    session = ledger_session(spark, plan)
    patience: dict[str, int | str] = {
        "minOffsetsPerTrigger": plan.look_records,
        "maxTriggerDelay": f"{round(plan.look_s)}s",
    }
    rows = _read_journal(session, kafka, plan, patience if time_mode == "ProcessingTime" else {})
    updates = decide(rows, plan, time_mode)
    writer = UpdateWriter(
        kafka, plan.journal_topic, plan.places, f"isthmus.{plan.bridge_id}.{NAME}", plan.markers_topic
    )
    # Not foreachBatch: for that the JVM calls Python, at a port where anybody on this machine could.
    with _processes_of_their_own(session):
        written = updates.mapInArrow(
            writer, "committed long, removed long, due_ms long, held array<array<long>>"
        )
    # What was committed may concern the ledger again.
    again_ms = F.when(F.col("committed") > 0, F.lit(0))
    written = written.observe(
        NAME, F.min(F.least("due_ms", again_ms)).alias("due_ms"), F.collect_list("held").alias("held")
    )
    return (
        written.writeStream.format("noop")
        .queryName(NAME)
        .outputMode("update")
        .option("checkpointLocation", checkpoint)
    )


@contextmanager
def _processes_of_their_own(spark: SparkSession) -> Iterator[None]:
    """What is planned in the block gets Python processes apart from those of other tasks.

    Spark gives a task any that has nothing to do, of those with its environment. A writer that moves to
    another process has to begin anew there, so the fewer there are, the better.
    """
    environment = spark.sparkContext.environment
    environment["ISTHMUS_TASKS"] = "writers"
    try:
        yield
    finally:
        del environment["ISTHMUS_TASKS"]


class Told:
    """What the batches of a running ledger tell: when it is to run next, and what it holds."""

    def __init__(self) -> None:
        self._last_batch = -1
        self._holding: dict[int, Holding] = {}

    def read(self, progress: Iterable[StreamingQueryProgress]) -> int | None:
        """Take in the batches that were not read yet.

        Returns when the ledger is to run next even if nothing happens, in milliseconds of Unix time.
        """
        due = []
        for each in progress:
            told = each.observedMetrics.get(NAME)
            if told is None or each.batchId <= self._last_batch:
                continue
            self._last_batch = each.batchId
            if told["due_ms"] is not None:
                due.append(int(told["due_ms"]))
            for shard, *figures in (report for task in told["held"] or () for report in task):
                self._holding[shard] = Holding(*figures)
        return min(due, default=None)

    @property
    def holding(self) -> Holding:
        """The transactions without outcome, of all shards together."""
        shards = [each for each in self._holding.copy().values() if each.transactions]
        return Holding(
            sum(each.transactions for each in shards),
            sum(each.prepared for each in shards),
            min((each.since_ms for each in shards), default=0),
        )


def _read_journal(
    spark: SparkSession, kafka: Kafka, plan: LedgerPlan, patience: Mapping[str, int | str]
) -> DataFrame:
    options = SOURCE_DEFAULTS | BATCH_SOURCE | kafka.java_options()
    return (
        spark.readStream.format("kafka")
        .option("subscribe", f"{plan.journal_topic},{plan.clock_topic}")
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .option("failOnDataLoss", "true")
        .option("maxOffsetsPerTrigger", plan.max_records_per_batch)
        .options(**patience)
        .options(**{f"kafka.{name}": value for name, value in options.items()})
        .load()
        .where(F.col("topic") == plan.journal_topic)
    )


def decide(rows: DataFrame, plan: LedgerPlan, time_mode: str) -> DataFrame:
    """The updates that follow from rows of the journal, in chunks."""
    keys = shard_keys(rows.sparkSession, plan.places.session_partitions)
    return (
        concerning(rows)
        .mapInArrow(Packer(plan.places, keys), SHARD_CHUNK)
        .groupBy("shard")
        .transformWithStateInPandas(
            LedgerProcessor(plan.places, keys, plan.timeout_ms),
            outputStructType=CHUNK,
            outputMode="update",
            timeMode=time_mode,
        )
    )


def concerning(rows: DataFrame) -> DataFrame:
    """What the ledger needs to know, of the records that it needs to know of."""

    def index(name: str) -> Column:
        return F.get("headers", F.lit(layout.position(name)))

    def text(name: str) -> Column:
        # Whoever wrote it: text that Python cannot read would end the query.
        return F.make_valid_utf8(index(name)["value"].cast("string"))

    def is_there(name: str) -> Column:
        return index(name)["key"] == name

    in_place = is_there(layout.OP) & is_there(layout.SESSION)
    in_transaction = is_there(layout.TRANSACTION) & is_there(layout.SEQUENCE)
    place = text(layout.SEQUENCE).try_cast("long")
    expiration = F.array_position(F.col("headers")["key"], layout.HEADER_PREFIX + "Expiration")
    expires_ms = F.when(
        (F.col("op") == Op.ADD.value) & (expiration > 0), text_at(expiration).try_cast("long")
    )
    delivery_time = F.array_position(F.col("headers")["key"], layout.DELIVERY_TIME)
    due_ms = F.when(F.col("op") == Op.DELAY.value, text_at(delivery_time).try_cast("long"))
    needed = F.coalesce(
        in_place
        & (
            F.col("op").isin(Op.ANNOTATE.value, Op.DELETE.value, Op.DELAY.value)
            | (F.col("op").isin([each.value for each in RECORDS | OUTCOMES]) & in_transaction & (place >= 0))
            | (expires_ms > 0)
        ),
        F.lit(False),
    )
    held = F.col("op").isin([Op.DELAY.value, *(each.value for each in PLAIN_FORM)])
    return (
        rows.withColumn("op", text(layout.OP))
        .withColumn("needed", needed)
        .where(F.col("needed") | (F.col("offset") % CLOCK_EVERY == 0))
        .select(
            F.when(F.col("needed"), F.col("op")).otherwise(CLOCK).alias("op"),
            "partition",
            "offset",
            F.unix_millis("timestamp").alias("time_ms"),
            F.coalesce("key", F.lit(b"")).alias("key"),
            F.coalesce(text(layout.SESSION), F.lit("")).alias("session"),
            F.coalesce(text(layout.TRANSACTION), F.lit("")).alias("transaction"),
            F.coalesce(F.when(in_transaction, place), F.lit(0)).alias("place"),
            F.coalesce(expires_ms, F.lit(0)).alias("expires_ms"),
            F.coalesce(due_ms, F.lit(0)).alias("due_ms"),
            F.when(held, F.col("value")).alias("value"),
            F.when(held, F.col("headers")).alias("headers"),
        )
    )


def text_at(position: Column) -> Column:
    """The text of the header at a position, from 1."""
    return F.get("headers", position.cast("int") - 1)["value"].cast("string")


def shard_keys(spark: SparkSession, shards: int) -> tuple[int, ...]:
    """A grouping key for each shard, so that every one gets a task of its own, and none gets two."""
    slot = F.pmod(F.hash(F.col("id").cast("int")), F.lit(shards)).alias("slot")
    # Of a hundred keys to a task, every task has some.
    keys = {row["slot"]: row["id"] for row in spark.range(shards * 100).select("id", slot).collect()}
    return tuple(keys[slot] for slot in range(shards))
