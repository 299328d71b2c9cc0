"""How fast the router is, beside Spark's own copy of the same topic and beside Kafka Streams.

``python -m benches.router [--records N] [--rounds N]``: loads a journal in a Kafka of its own with records of
256 bytes and six headers, then routes it again and again over ten routes to three topics, keyed by a header.
In turn, in one Spark session, after a warm-up of each:

- *Spark's copy*: Kafka source to Kafka sink, headers included, all options as Spark has them;
- *router*: what every user gets;
- *copy, router's options*: Spark's copy with the router's options for source and sink, which shows what
  those give and what the plan costs;
- *Kafka Streams*: the same job as the router, at least once, in one warm JVM.

Each run reads the whole journal and has topics of its own to write to; the copy's has as many partitions as
the router's together. It counts only if every record arrived. Spark's time is ``addBatch`` from its progress:
planning, reading, writing and the flush, without the query's start and end. The time of Kafka Streams is
from its first record to its last, without start and flush.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter
from rich.table import Table

from benches.harness import (
    console,
    cpu_s,
    embedded_kafka,
    ending_in_good_order,
    finish,
    in_turn,
    machine,
    middle,
    options_of,
    progress,
    say,
)
from benches.streams import StreamsRouter
from isthmus.config.model.settings import PipelineSettings, Settings
from isthmus.journal import layout
from isthmus.kafka.blocking import admin_client, create_topics
from isthmus.kafka.options import Kafka
from isthmus.message import Body, BodyKind, Header, HeaderType, Message
from isthmus.pipeline.prepare import EMBEDDED_PARTITIONS, prepare
from isthmus.pipeline.publish import kafka_sink, read_topics
from isthmus.pipeline.router import route
from isthmus.pipeline.session import start_session
from isthmus.routing.predicate import parse
from isthmus.routing.route import Route

ADDRESSES = [f"queue/orders.{number}" for number in range(10)]
TOPICS = ("orders", "invoices", "shipments")
KEY_HEADER = "CorrelationId"
BODY_BYTES = 256

SPARK, ROUTER, SPARK_TUNED, STREAMS = "Spark's copy", "router", "copy, router's options", "Kafka Streams"


class Run(NamedTuple):
    """One run over the whole journal. The CPU time is that of its JVM, without the broker's."""

    seconds: float
    cpu_s: float | None


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benches.router", description="the router's throughput")
    parser.add_argument("--records", type=int, default=1_000_000, help="how many records the journal has")
    parser.add_argument("--rounds", type=int, default=3, help="how many runs of each, after the warm-up")
    parser.add_argument(
        "--without-streams", action="store_true", help="leave Kafka Streams out: it needs javac"
    )
    options = options_of(parser, arguments, records=200, rounds=1)
    with ending_in_good_order(), tempfile.TemporaryDirectory(prefix="isthmus-bench-") as folder:
        say(f"router: {options.records:,} records of {BODY_BYTES} B, {machine()}")
        with embedded_kafka(Path(folder, "kafka")) as kafka:
            bench = RouterBench(kafka, options.records, Path(folder))
            results = bench.run(
                options.rounds, with_streams=not options.without_streams, warm_up=not options.small
            )
    report(results, options.records)


class RouterBench:
    """A loaded journal, and the ways to route it."""

    def __init__(
        self, kafka: Kafka, records: int, folder: Path, journal: Iterator[layout.Record] | None = None
    ) -> None:
        self._kafka = kafka
        self._records = records
        self._folder = folder
        self._numbers = itertools.count()
        self._bridge_id = f"bench-{uuid.uuid4().hex[:8]}"
        settings = self._settings(TOPICS)
        prepare(settings, kafka)  # makes the journal as the bridge does
        self._journal = settings.journal.topic
        load(kafka, self._journal, settings.journal.partitions, journal or journal_records(), records)

    def run(self, rounds: int, *, with_streams: bool, warm_up: bool) -> dict[str, list[Run]]:
        """The runs of every candidate."""
        pipeline = PipelineSettings(master="local[2]")
        spark = start_session("bench", pipeline, tasks=2, log_dir=self._folder / "logs")
        try:
            candidates = {
                SPARK: lambda: self.copy(spark),
                ROUTER: lambda: self.route(spark),
                SPARK_TUNED: lambda: self._copy_with_the_routers_options(spark),
            }
            if not with_streams:
                return in_turn(candidates, rounds=rounds, warm_up=warm_up)
            with StreamsRouter(
                self._kafka.servers,
                self._journal,
                self._records,
                bridge_id=self._bridge_id,
                key_header=layout.HEADER_PREFIX + KEY_HEADER,
                folder=self._folder / "streams",
            ) as streams:
                candidates[STREAMS] = lambda: self._route_in_streams(streams)
                return in_turn(candidates, rounds=rounds, warm_up=warm_up)
        finally:
            spark.stop()

    def _settings(self, topics: tuple[str, ...], convert: str = "jms") -> Settings:
        routes = tuple(
            Route(
                f"route-{place}",
                parse(f"msg.address=='{address}'"),
                topics[place % len(topics)],
                KEY_HEADER,
                convert,
            )
            for place, address in enumerate(ADDRESSES)
        )
        return Settings(bridge_id=self._bridge_id, routes=routes, state_dir=str(self._folder))

    def copy(self, spark: SparkSession) -> Run:
        """Spark's own copy."""
        (topic,) = self._new_topics("copy", partitions=len(TOPICS) * EMBEDDED_PARTITIONS)
        source = spark.readStream.format("kafka").option("subscribe", self._journal)
        source = source.option("startingOffsets", "earliest").option("includeHeaders", "true")
        rows = source.option("kafka.bootstrap.servers", self._kafka.servers).load()
        writer = rows.select("key", "value", "headers").writeStream.format("kafka").option("topic", topic)
        writer = writer.option("kafka.bootstrap.servers", self._kafka.servers)
        return self._in_spark(spark, writer.option("checkpointLocation", self._checkpoint()), (topic,))

    def _copy_with_the_routers_options(self, spark: SparkSession) -> Run:
        (topic,) = self._new_topics("copy", partitions=len(TOPICS) * EMBEDDED_PARTITIONS)
        plan, _ = prepare(self._settings((topic,)), self._kafka)
        rows = read_topics(spark, self._kafka, (self._journal,))
        copied = rows.select(F.lit(topic).alias("topic"), "key", "value", "headers")
        return self._in_spark(spark, kafka_sink(copied, self._kafka, plan, self._checkpoint()), (topic,))

    def route(self, spark: SparkSession, convert: str = "jms") -> Run:
        """The router."""
        topics = self._new_topics(*TOPICS, partitions=EMBEDDED_PARTITIONS)
        plan, _ = prepare(self._settings(topics, convert), self._kafka)
        routed = route(read_topics(spark, self._kafka, (self._journal,)), plan)
        return self._in_spark(spark, kafka_sink(routed, self._kafka, plan, self._checkpoint()), topics)

    def _in_spark(self, spark: SparkSession, writer: DataStreamWriter, topics: tuple[str, ...]) -> Run:
        jvm = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]
        before = cpu_s(jvm)
        query = writer.trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        finally:
            query.stop()
        after = cpu_s(jvm)
        self._check_and_delete(topics)
        took_ms = sum(progress.durationMs.get("addBatch", 0) for progress in query.recentProgress)
        return Run(took_ms / 1000, after - before if before is not None and after is not None else None)

    def _route_in_streams(self, streams: StreamsRouter) -> Run:
        topics = self._new_topics(*TOPICS, partitions=EMBEDDED_PARTITIONS)
        routes = [(address, topics[place % len(topics)]) for place, address in enumerate(ADDRESSES)]
        run = streams.run(f"{self._bridge_id}-{next(self._numbers)}", routes)
        self._check_and_delete(topics)
        return Run(*run)

    def _checkpoint(self) -> str:
        return str(self._folder / "checkpoints" / str(next(self._numbers)))

    def _new_topics(self, *names: str, partitions: int) -> tuple[str, ...]:
        number = next(self._numbers)
        topics = tuple(f"{self._bridge_id}.{name}.{number}" for name in names)
        create_topics(self._kafka, topics, partitions)
        return topics

    def _check_and_delete(self, topics: tuple[str, ...]) -> None:
        arrived = count(self._kafka, topics)
        if arrived != self._records:
            raise SystemExit(f"{arrived} of {self._records} records arrived in {', '.join(topics)}")
        admin = admin_client(self._kafka)  # kept: the answers do not outlive it
        for future in admin.delete_topics(list(topics)).values():
            future.result()


def load(kafka: Kafka, topic: str, partitions: int, journal: Iterator[layout.Record], records: int) -> None:
    """Fill the journal: sessions in turn over its partitions, addresses in turn over the routes."""
    producer = Producer({**kafka.python_options(), "acks": "all", "linger.ms": 20, "batch.size": 1_000_000})
    failed: list[str] = []

    def delivered(error: object, _: object) -> None:
        if error is not None:
            failed.append(str(error))

    with progress() as bar:
        task = bar.add_task("loading the journal", total=records)
        for number, record in enumerate(itertools.islice(journal, records)):
            while True:
                try:
                    producer.produce(
                        topic,
                        key=record.key,
                        value=record.value,
                        headers=list(record.headers),
                        partition=number // len(ADDRESSES) % partitions,
                        on_delivery=delivered,
                    )
                    break
                except BufferError:
                    producer.poll(0.05)
            if number % 10_000 == 0:
                producer.poll(0)
                bar.update(task, completed=number)
        producer.flush()
    if failed:
        raise SystemExit(f"{len(failed)} records were not loaded: {failed[0]}")


def journal_records() -> Iterator[layout.Record]:
    """Messages as a JMS client sends them, without end."""
    body = Body(BodyKind.TEXT)
    for number in itertools.count():
        message = Message(
            id=f"ID:bench-{number:09d}",
            address=ADDRESSES[number % len(ADDRESSES)],
            protocol="amqp",
            value=f"{number:09d} ".encode().ljust(BODY_BYTES, b"x"),
            body=body,
            headers={
                "MessageId": Header(f"ID:bench-{number:09d}"),
                "CorrelationId": Header(f"customer-{number % 9973}"),
                "Timestamp": Header(str(1_700_000_000_000 + number), HeaderType.LONG),
                "Priority": Header("4", HeaderType.INT),
                "region": Header("EU" if number % 3 else "US"),
                "contentType": Header("application/json"),
            },
            session=f"session-{number % 4}",
        )
        yield layout.encode(layout.Entry(layout.Op.ADD, message))


def count(kafka: Kafka, topics: tuple[str, ...]) -> int:
    """How many records the topics hold."""
    consumer = Consumer({**kafka.python_options(), "group.id": "bench"})
    try:
        partitions = [
            TopicPartition(topic, partition)
            for topic in topics
            for partition in consumer.list_topics(topic, timeout=10).topics[topic].partitions
        ]
        offsets = [consumer.get_watermark_offsets(each, timeout=10) for each in partitions]
    finally:
        consumer.close()
    return sum(high - low for low, high in offsets)


def report(results: dict[str, list[Run]], records: int) -> None:
    """A table for people, and the last line."""
    per_s = {name: records / middle([run.seconds for run in runs]) for name, runs in results.items()}
    table = Table("", "records/s", "of the router's", "CPU µs/record", "runs, s")
    for name, runs in results.items():
        cpu = [run.cpu_s for run in runs if run.cpu_s is not None]
        table.add_row(
            name,
            f"{per_s[name]:,.0f}",
            f"{per_s[name] / per_s[ROUTER]:.2f}",
            f"{middle(cpu) / records * 1e6:.1f}" if cpu else "",
            "  ".join(f"{run.seconds:.2f}" for run in runs),
        )
    console.print(table)

    def ratio(other: str) -> float | None:
        return round(per_s[ROUTER] / per_s[other], 3) if other in per_s else None

    finish(
        "router",
        {
            "ratio": ratio(SPARK),
            "tuned_ratio": ratio(SPARK_TUNED),
            "streams_ratio": ratio(STREAMS),
            "router_per_s": round(per_s[ROUTER]),
            "passthrough_per_s": round(per_s[SPARK]),
            "streams_per_s": round(per_s[STREAMS]) if STREAMS in per_s else None,
            "records": records,
        },
    )


if __name__ == "__main__":
    main()
