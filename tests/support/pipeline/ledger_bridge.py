"""A journal with a partition for the ledger, and the ledger over it."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Self

from confluent_kafka import Message as KafkaMessage
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from tests.support.pipeline.bridge import text_message

from isthmus.config.model.settings import JournalSettings
from isthmus.errors import Outage
from isthmus.journal.layout import Entry, Op
from isthmus.journal.partitions import JournalPartitions
from isthmus.journal.writer import JournalWriter
from isthmus.kafka.blocking import create_topics, end_offsets, read_topic
from isthmus.kafka.options import Kafka
from isthmus.ledger.live import live
from isthmus.message import HeaderValue
from isthmus.pipeline.clock import Clock
from isthmus.pipeline.failure import may_pass
from isthmus.pipeline.ledger import LedgerPlan, Told, ledger_writer, start_ledger
from isthmus.pipeline.supervised import Supervised

PLACES = JournalPartitions(partitions=3, ledger_partitions=1)


class LedgerBridge:
    """A journal of its own."""

    def __init__(
        self, servers: str, folder: Path, spark: SparkSession, config: Mapping[str, str] | None = None
    ) -> None:
        self.kafka, self.spark = Kafka(servers), spark
        self.checkpoint = folder / "checkpoint"
        self.batches = 0
        """How many have run."""
        self.told_due: list[int] = []
        """When delayed messages are due, as batches have told."""
        self._read: dict[tuple[str, int], int] | None = None
        """Up to where it has read; None while the clock ticks."""
        name = f"l{uuid.uuid4().hex[:8]}"
        self.plan = LedgerPlan(
            bridge_id=name,
            journal_topic=f"{name}-journal",
            clock_topic=f"{name}-clock",
            places=PLACES,
            timeout_ms=300_000,
            interval_ms=100,
            look_records=1,
        )
        create_topics(self.kafka, [self.plan.clock_topic], 1)
        config = {"cleanup.policy": "compact", **(config or {})}
        create_topics(self.kafka, [self.plan.journal_topic], PLACES.partitions, config)

    def _writer(self) -> JournalWriter:
        return JournalWriter(self.kafka, JournalSettings(topic=self.plan.journal_topic))

    def write(self, *entries: Entry) -> None:
        with self._writer() as writer:
            for future in [writer.write(entry) for entry in entries]:
                future.result()

    def write_many(self, entries: Iterable[Entry]) -> None:
        """The same without a future for each."""
        with self._writer() as writer:
            for entry in entries:
                writer.write(entry)

    @property
    def jvm(self) -> int:
        """The process of Spark's driver."""
        return int(self.spark.sparkContext._gateway.proc.pid)

    def run(self) -> None:
        """Decide everything that is there. What may pass ends the query, which starts again."""
        writer = ledger_writer(self.spark, self.kafka, self.plan, str(self.checkpoint), time_mode="None")
        for _ in range(10):
            try:
                writer.trigger(availableNow=True).start().awaitTermination()
            except StreamingQueryException as failure:
                if not may_pass(str(failure)):
                    raise
            else:
                return
        raise AssertionError("the ledger did not come to its end in ten attempts")

    @contextmanager
    def running(self, *, timeout_ms: int) -> Iterator[None]:
        """The ledger as users have it, timers and all. What may pass ends its query, which starts again."""
        plan = replace(self.plan, timeout_ms=timeout_ms)
        ledger = Supervised(
            "ledger",
            lambda: start_ledger(self.spark, self.kafka, plan, str(self.checkpoint)),
            lambda error: Outage(error, remedy="none: it starts again"),
        )
        ledger.start()
        clock, done = Clock(self.kafka, plan.clock_topic), threading.Event()

        told = self.told = Told()

        def tick() -> None:
            while not done.wait(0.1):
                ledger.poll()
                progress = ledger.query.recentProgress if ledger.query else []
                ran = [each for each in progress if "addBatch" in each.durationMs]  # others had nothing to do
                self.batches = 1 + max((each.batchId for each in ran), default=-1)
                due_ms = told.read(progress)
                if due_ms is not None:
                    self.told_due.append(due_ms)
                    clock.wake_at(due_ms)
                clock.poll()
                ticks = bool(len(clock._producer))
                self._read = None if ticks or not ran else _offsets(ran[-1].sources[0].endOffset)

        ticking = threading.Thread(target=tick)
        ticking.start()
        try:
            yield
        finally:
            done.set()
            ticking.join()
            ledger.stop()

    def rests(self) -> bool:
        """Whether it runs no batch any more unless something comes."""
        read = self._read
        if read is None:
            return False
        ends = end_offsets(self.kafka, [self.plan.journal_topic, self.plan.clock_topic])
        return sum(ends.values()) - sum(read.values()) < self.plan.look_records

    def records(self) -> list[KafkaMessage]:
        return list(read_topic(self.kafka, self.plan.journal_topic))

    def live(self) -> list[KafkaMessage]:
        return list(live(lambda: read_topic(self.kafka, self.plan.journal_topic)))

    def added(self) -> list[KafkaMessage]:
        """What the ledger has committed, in order."""
        return [
            record
            for record in self.records()
            if (record.partition() or 0) >= PLACES.session_partitions and record.value() is not None
        ]

    def tombstones(self) -> list[tuple[int | None, bytes]]:
        return [
            (each.partition(), bytes(each.key() or b"")) for each in self.records() if each.value() is None
        ]


def _offsets(told: str) -> dict[tuple[str, int], int]:
    """Offsets by topic and partition, as Spark tells them."""
    found: dict[str, dict[str, int]] = json.loads(told)
    return {(topic, int(number)): at for topic, each in found.items() for number, at in each.items()}


class PythonMemory:
    """The most that any of the Python processes of a JVM has held since it began."""

    def __init__(self, jvm: int) -> None:
        self._jvm = jvm
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.peak_bytes = 0

    def _watch(self) -> None:
        while not self._done.wait(0.2):
            self.peak_bytes = max([self.peak_bytes, *map(_resident_bytes, _descendants(self._jvm))])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()


def _descendants(pid: int) -> list[int]:
    found = [pid]
    for each in found:
        for children in Path(f"/proc/{each}/task").glob("*/children"):
            try:
                found += [int(child) for child in children.read_text().split()]
            except OSError:  # it has ended
                continue
    return found[1:]


def _resident_bytes(pid: int) -> int:
    try:
        # A command that the JVM is about to start has all of the JVM's memory for a moment.
        is_python = Path(f"/proc/{pid}/comm").read_text().startswith("python")
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 if is_python else 0
    except OSError:  # it has ended
        return 0


def transaction(
    name: str,
    bodies: Iterable[str],
    outcome: Op | None = Op.COMMIT,
    session: str = "s",
    **headers: HeaderValue,
) -> list[Entry]:
    """ADD_TX for each body, and the outcome if there is one."""
    sent = [text_message("orders", body, session, **headers) for body in bodies]
    entries = [Entry(Op.ADD_TX, message, name, place) for place, message in enumerate(sent)]
    return entries + ([Entry(outcome, text_message("", "", session), name, len(sent))] if outcome else [])


def bodies(records: Iterable[KafkaMessage]) -> list[str]:
    return [bytes(record.value() or b"").decode() for record in records]
