"""How fast the ledger is, beside Spark's own copy of the same topic, and what many sessions cost it.

``python -m benches.ledger [--records N] [--rounds N] [--sessions N] [--many N]``: loads journals in a Kafka
of its own with transactions of ten messages of 256 bytes and a COMMIT each, their records interleaved over
all sessions. In turn, in one Spark session on ``local[2]``, after a warm-up of each:

- *Spark's copy*: Kafka source to Kafka sink, headers included, all options as Spark has them;
- *ledger*: the same journal, every transaction decided and written back, with a tombstone for every record;
- *ledger, many sessions*: the same with as many sessions as ``--many`` says, to show what a session costs.

A run counts only if every message was committed, exactly once. Times are ``addBatch`` from Spark's progress,
as for the router. A record is one that was read: messages and outcomes. Memory is what the Python processes
and the JVM hold at most, and what the state store says of itself.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Producer
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
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
from isthmus.config.model.settings import PipelineSettings
from isthmus.journal import layout
from isthmus.journal.layout import Entry, Op
from isthmus.journal.partitions import JournalPartitions
from isthmus.kafka.blocking import admin_client, create_topics, read_topic
from isthmus.kafka.options import Kafka
from isthmus.message import Body, BodyKind, Header, HeaderType, Message
from isthmus.pipeline.ledger import LedgerPlan, ledger_writer
from isthmus.pipeline.session import start_session

MESSAGES = 10
"""In a transaction."""
BODY_BYTES = 256
PLACES = JournalPartitions(partitions=5, ledger_partitions=1)

SPARK, LEDGER, MANY = "Spark's copy", "ledger", "ledger, many sessions"


class Run(NamedTuple):
    """One run over a whole journal."""

    seconds: float
    cpu_s: float
    state_bytes: int = 0
    peak_bytes: int = 0


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benches.ledger", description="the ledger's throughput")
    parser.add_argument("--records", type=int, default=330_000, help="how many records the journal has")
    parser.add_argument("--rounds", type=int, default=3, help="how many runs of each, after the warm-up")
    parser.add_argument("--sessions", type=int, default=1_000, help="how many sessions they are of")
    parser.add_argument(
        "--many", type=int, default=100_000, help="how many sessions the third journal is of; 0: none"
    )
    parser.add_argument("--batch", type=int, default=500_000, help="how many records Spark takes at once")
    options = options_of(parser, arguments, records=220, rounds=1, sessions=5, many=20)
    with ending_in_good_order(), tempfile.TemporaryDirectory(prefix="isthmus-bench-") as folder:
        say(f"ledger: transactions of {MESSAGES} messages of {BODY_BYTES} B, {machine()}")
        with embedded_kafka(Path(folder, "kafka")) as kafka:
            bench = LedgerBench(kafka, Path(folder), options)
            results = bench.run()
    report(results, bench)


class LedgerBench:
    """Loaded journals, and the ways to read them."""

    def __init__(self, kafka: Kafka, folder: Path, options: argparse.Namespace) -> None:
        self._kafka, self._folder, self._options = kafka, folder, options
        self._numbers = itertools.count()
        self._name = f"ledger-{uuid.uuid4().hex[:8]}"
        a_transaction = MESSAGES + 1
        self.transactions = {LEDGER: max(options.records // a_transaction, 1)}
        if options.many:
            self.transactions[MANY] = max(options.many, self.transactions[LEDGER])
        self.sessions = {LEDGER: options.sessions, MANY: options.many}
        self.records = {name: count * a_transaction for name, count in self.transactions.items()}
        self.records[SPARK] = self.records[LEDGER]

    def run(self) -> dict[str, list[Run]]:
        spark = start_session(
            "bench", PipelineSettings(master="local[2]"), tasks=2, log_dir=self._folder / "logs"
        )
        try:
            candidates: dict[str, Callable[[], Run]] = {
                SPARK: lambda: self._copy(spark),
                **{name: (lambda name=name: self._decide(spark, name)) for name in self.transactions},  # type: ignore[misc]
            }
            return in_turn(candidates, rounds=self._options.rounds, warm_up=not self._options.small)
        finally:
            spark.stop()

    def _copy(self, spark: SparkSession) -> Run:
        journal, copy = self._load(LEDGER), f"{self._name}.copy.{next(self._numbers)}"
        create_topics(self._kafka, [copy], PLACES.partitions)
        source = spark.readStream.format("kafka").option("subscribe", journal)
        source = source.option("startingOffsets", "earliest").option("includeHeaders", "true")
        rows = source.option("kafka.bootstrap.servers", self._kafka.servers).load()
        writer = rows.select("key", "value", "headers").writeStream.format("kafka").option("topic", copy)
        writer = writer.option("kafka.bootstrap.servers", self._kafka.servers)
        run = self._timed(spark, writer.option("checkpointLocation", self._checkpoint()))
        self._delete(journal, copy)
        return run

    def _decide(self, spark: SparkSession, name: str) -> Run:
        journal = self._load(name)
        plan = LedgerPlan(
            bridge_id=journal,
            journal_topic=journal,
            clock_topic=f"{journal}.clock",
            places=PLACES,
            timeout_ms=300_000,
            max_records_per_batch=self._options.batch,
        )
        create_topics(self._kafka, [plan.clock_topic], 1)
        writer = ledger_writer(spark, self._kafka, plan, self._checkpoint(), time_mode="None")
        run = self._timed(spark, writer)
        self._check(journal, self.transactions[name] * MESSAGES)
        self._delete(journal, plan.markers_topic, plan.clock_topic)
        return run

    def _timed(self, spark: SparkSession, writer: DataStreamWriter) -> Run:
        jvm = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]
        before = family_cpu_s(jvm)
        with PeakMemory(jvm) as memory:
            query = writer.trigger(availableNow=True).start()
            try:
                query.awaitTermination()
            finally:
                query.stop()
        after = family_cpu_s(jvm)
        took_ms = sum(each.durationMs.get("addBatch", 0) for each in query.recentProgress)
        return Run(took_ms / 1000, after - before, _state_bytes(query), memory.peak_bytes)

    def _load(self, name: str) -> str:
        topic = f"{self._name}.journal.{next(self._numbers)}"
        create_topics(self._kafka, [topic], PLACES.partitions, {"cleanup.policy": "compact"})
        load(self._kafka, topic, self.transactions[name], self.sessions[name])
        return topic

    def _check(self, journal: str, messages: int) -> None:
        ids = [
            record.key()
            for record in read_topic(self._kafka, journal)
            if (record.partition() or 0) >= PLACES.session_partitions
        ]
        if len(ids) != messages or len(set(ids)) != messages:
            raise SystemExit(
                f"{len(ids)} messages were committed, {len(set(ids))} different ones, of {messages}"
            )

    def _checkpoint(self) -> str:
        return str(self._folder / "checkpoints" / str(next(self._numbers)))

    def _delete(self, *topics: str) -> None:
        admin = admin_client(self._kafka)  # kept: the answers do not outlive it
        for future in admin.delete_topics(list(topics)).values():
            future.result()


def _state_bytes(query: StreamingQuery) -> int:
    return max(
        (each.stateOperators[0].memoryUsedBytes for each in query.recentProgress if each.stateOperators),
        default=0,
    )


def load(kafka: Kafka, topic: str, transactions: int, sessions: int) -> None:
    """Fill a journal: the sessions' transactions side by side, record by record."""
    producer = Producer({**kafka.python_options(), "acks": "all", "linger.ms": 20, "batch.size": 1_000_000})
    with progress() as bar:
        task = bar.add_task("loading the journal", total=transactions * (MESSAGES + 1))
        for number, entry in enumerate(entries(transactions, sessions)):
            record = layout.encode(entry)
            while True:
                try:
                    producer.produce(
                        topic,
                        key=record.key,
                        value=record.value,
                        headers=list(record.headers),
                        partition=PLACES.of_session(entry.message.session),
                    )
                    break
                except BufferError:
                    producer.poll(0.05)
            if number % 10_000 == 0:
                producer.poll(0)
                bar.update(task, completed=number)
        if producer.flush(60):
            raise SystemExit("the journal was not loaded")


def entries(transactions: int, sessions: int) -> Iterator[Entry]:
    """Transactions as JMS clients have them, as many at a time as there are sessions."""
    for first in range(0, transactions, sessions):
        running = range(first, min(first + sessions, transactions))
        for place in range(MESSAGES + 1):
            op = Op.ADD_TX if place < MESSAGES else Op.COMMIT
            for number in running:
                yield Entry(
                    op, _message(number, place, f"session-{number % sessions}"), f"tx-{number}", place
                )


def _message(transaction: int, place: int, session: str) -> Message:
    identity = f"ID:bench-{transaction:07d}-{place}"
    return Message(
        id=identity,
        address="orders",
        protocol="amqp",
        value=b"x" * BODY_BYTES if place < MESSAGES else b"",
        body=Body(BodyKind.TEXT),
        headers={
            "MessageId": Header(identity),
            "CorrelationId": Header(f"customer-{transaction % 9973}"),
            "Timestamp": Header(str(1_700_000_000_000 + transaction), HeaderType.LONG),
            "Priority": Header("4", HeaderType.INT),
            "region": Header("EU" if transaction % 3 else "US"),
            "contentType": Header("application/json"),
        }
        if place < MESSAGES
        else {},
        session=session,
    )


class PeakMemory:
    """The most that a process and those it started have held, looked at now and then. Linux only."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.peak_bytes = 0

    def _watch(self) -> None:
        while not self._done.wait(0.25):
            # A command that the JVM is about to start has all of the JVM's memory for a moment.
            counted = [self._pid, *(pid for pid in family(self._pid) if _name(pid).startswith("python"))]
            held = sum(map(_resident_bytes, counted))
            self.peak_bytes = max(self.peak_bytes, held)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()


def family(pid: int) -> list[int]:
    """A process and all that it started, directly or not."""
    found = [pid]
    for each in found:
        for task in Path(f"/proc/{each}/task").glob("*/children"):
            try:
                found += [int(child) for child in task.read_text().split()]
            except OSError:  # it has ended
                continue
    return found


def family_cpu_s(pid: int) -> float:
    """The CPU time of a process and of those it started that still run."""
    return sum(cpu_s(each) or 0 for each in family(pid))


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text()
    except OSError:  # it has ended
        return ""


def _resident_bytes(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096
    except OSError:  # it has ended
        return 0


def report(results: dict[str, list[Run]], bench: LedgerBench) -> None:
    table = Table("", "sessions", "records/s", "µs CPU/record", "state MiB", "memory MiB")
    rates: dict[str, float] = {}
    for name, runs in results.items():
        rates[name] = bench.records[name] / middle([run.seconds for run in runs])
        cpu_us = middle([run.cpu_s for run in runs]) / bench.records[name] * 1e6
        table.add_row(
            name,
            f"{bench.sessions.get(name, bench.sessions[LEDGER]):,}",
            f"{rates[name]:,.0f}",
            f"{cpu_us:.1f}",
            f"{max(run.state_bytes for run in runs) / 2**20:.1f}",
            f"{max(run.peak_bytes for run in runs) / 2**20:,.0f}",
        )
    console.print(table)
    many = {"cost_of_many_sessions": round(rates[LEDGER] / rates[MANY], 2)} if MANY in rates else {}
    finish(
        "ledger",
        {
            "ratio": round(rates[LEDGER] / rates[SPARK], 3),
            "records_per_s": round(rates[LEDGER]),
            "state_bytes": max(run.state_bytes for run in results[LEDGER]),
            "peak_bytes": max(run.peak_bytes for run in results[LEDGER]),
            **many,
        },
    )


if __name__ == "__main__":
    main()
