"""The ledger in Spark, on a real Kafka: what is in the journal after it has run."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Message as KafkaMessage
from pyspark.sql import SparkSession
from tests.support.kafka.topics import produce
from tests.support.pipeline.bridge import text_message
from tests.support.pipeline.ledger_bridge import PLACES, LedgerBridge, PythonMemory, bodies, transaction
from tests.support.polling import eventually

from isthmus.cli.show import record_of
from isthmus.embedded.kafka import EmbeddedKafka
from isthmus.journal import layout
from isthmus.journal.layout import Entry, Op, Record
from isthmus.journal.wake_ledger import LOOK_RECORDS, LedgerWaker
from isthmus.kafka.producer import ResilientProducer
from isthmus.message import Header, HeaderType


@pytest.fixture
def ledger(kafka_servers: str, tmp_path: Path, spark: SparkSession) -> LedgerBridge:
    return LedgerBridge(kafka_servers, tmp_path, spark)


def added_of(records: list[KafkaMessage], session: str) -> list[KafkaMessage]:
    return [each for each in records if dict(each.headers() or ())["isthmus.session"] == session.encode()]


def test_what_becomes_of_a_journal_over_three_runs(ledger: LedgerBridge) -> None:
    """What a batch decides, what it keeps for the next one, and what a batch that is repeated writes."""
    left_alone(ledger)
    held, commit = transaction("whole", ["body"], session="whole", region="EU", amount=3)
    *open_yet, end = transaction("open", ["d", "e"], session="open")
    *prepared, end_of_prepared = transaction("two", ["f"], session="two")
    plain, (deleted, committed) = text_message("q", "plain"), transaction("gone", ["gone"], session="gone")
    note = replace(text_message("q", "note", session="n", delivered=True), id=plain.id)
    ledger.write(
        *transaction("t1", ["a", "b", "c"]),
        *transaction("t2", ["x"], Op.ROLLBACK),
        *transaction("t3", ["y"], None),
        *transaction("t4", ["d"]),
        held,
        commit,
        *open_yet,
        *prepared,
        end_of_prepared._replace(op=Op.PREPARE),
        Entry(Op.ADD, plain),
        deleted,
        committed,
        Entry(Op.ANNOTATE, note),
    )
    ledger.run()
    first = ledger.added()
    assert bodies(added_of(first, "s")) == ["a", "b", "c", "d"]
    (whole,) = added_of(first, "whole")
    assert record_of(whole) == layout.encode(Entry(Op.ADD, held.message))
    assert sorted(bodies(first)) == ["a", "b", "body", "c", "d", "gone"]
    assert {"gone", "note", "plain"} < set(bodies(ledger.live()))

    deletes = [replace(each, session="other", value=b"delete") for each in (plain, deleted.message)]
    ledger.write(
        end,
        end_of_prepared,
        Entry(Op.DELETE_TX, deletes[0], "d", 0),
        Entry(Op.COMMIT, text_message("", "", "other"), "d", 1),
        Entry(Op.DELETE, deletes[1]),
    )
    ledger.run()
    second = ledger.added()
    assert bodies(added_of(second, "open")) == ["d", "e"]
    assert bodies(added_of(second, "two")) == ["f"]

    last = max((ledger.checkpoint / "commits").glob("[0-9]*"), key=lambda each: int(each.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink()
    ledger.write(*transaction("t5", ["g"]))
    ledger.run()  # the last batch again, and one more: the committed DELETE came through the journal
    third = ledger.added()
    assert [place(each) for each in third[: len(second)]] == [place(each) for each in second]
    assert bodies(added_of(third, "s")) == ["a", "b", "c", "d", "g"]
    assert not {"gone", "note", "plain"} & set(bodies(ledger.live()))


def place(record: KafkaMessage) -> tuple[int | None, bytes | str | None]:
    return record.offset(), record.value()


def left_alone(ledger: LedgerBridge) -> None:
    """Writes records that are no journal records."""
    binary = [(name, b"\xff") for name, _ in layout.encode(transaction("t", ["x"])[0]).headers]
    strange = [("isthmus.op", b"ADD_TX"), *binary[1:6], ("isthmus.seq", b"0")]
    for headers in (
        [],
        [("isthmus.op", b"ADD_TX")],
        [("isthmus.op", b"COMMIT"), ("x", None)],
        binary,
        strange,
    ):
        produce(ledger.kafka.servers, ledger.plan.journal_topic, Record(None, b"v", headers), partition=0)


def test_time_alone_deletes_what_expires_and_rolls_back_what_has_no_outcome(ledger: LedgerBridge) -> None:
    open_since, expires_at = transaction("open", ["a"], None, session="open"), 1_000
    with ledger.running(timeout_ms=2_000):
        ledger.write(*open_since)
        eventually(lambda: len(ledger.tombstones()) == 2, timeout_s=400)
        ledger.write(
            Entry(Op.COMMIT, text_message("", "", "open"), "open", 1),  # too late
            Entry(Op.ADD, text_message("q", "old", Expiration=expires_at)),
            Entry(Op.ADD, text_message("q", "young", Expiration=int(time.time() * 1000) + 3_600_000)),
            Entry(Op.ADD, text_message("q", "eternal", Expiration=0)),
            *transaction("t", ["held"], Expiration=expires_at),
        )
        eventually(lambda: sorted(bodies(ledger.live())) == ["eternal", "young"], timeout_s=400)


def test_a_transaction_of_100_000_messages_commits_in_bounded_memory(ledger: LedgerBridge) -> None:
    count, text = 100_000, "x" * 1_024
    ledger.plan = replace(ledger.plan, max_records_per_batch=20_000)
    ledger.write_many(transaction("t", (f"{number:06d}{text}" for number in range(count))))
    with PythonMemory(ledger.jvm) as memory:
        ledger.run()
    added = [int((record.value() or b"")[:6]) for record in ledger.added()]
    assert added == list(range(count))
    assert 0 < memory.peak_bytes < 400 * 2**20, "a Python process held far more than a few chunks"


def test_compaction_leaves_the_live_records_and_nothing_else(tmp_path: Path, spark: SparkSession) -> None:
    eager = {"segment.ms": "100", "min.cleanable.dirty.ratio": "0.001", "delete.retention.ms": "0"}
    with EmbeddedKafka(tmp_path / "kafka", overrides={"log.cleaner.backoff.ms": "100"}) as broker:
        ledger = LedgerBridge(broker.bootstrap_servers, tmp_path, spark, eager)
        deleted = text_message("q", "deleted")
        ledger.write(
            Entry(Op.ADD, text_message("q", "plain")),
            Entry(Op.ADD, deleted),
            Entry(Op.DELETE, replace(deleted, session="other", value=b"delete")),
            *transaction("t1", ["a", "b"]),
            *transaction("t2", ["x", "y"], Op.ROLLBACK),
            *transaction("t3", ["open"], None),
        )
        ledger.run()
        expected = ["a", "b", "open", "plain"]
        assert sorted(bodies(ledger.live())) == expected
        assert len(ledger.records()) > len(expected)

        def only_live_records_are_left() -> bool:
            fill(ledger)  # what is in the segment that is written to is not compacted
            kept = [record for record in ledger.records() if record.key() != b"filler"]
            return sorted(bodies(kept)) == expected

        eventually(only_live_records_are_left, timeout_s=120)


def fill(ledger: LedgerBridge) -> None:
    for partition in range(PLACES.partitions):
        filler = Record(b"filler", b"", [])
        produce(ledger.kafka.servers, ledger.plan.journal_topic, filler, partition=partition)


def test_a_delayed_message_is_written_when_it_is_due(ledger: LedgerBridge) -> None:
    due_ms = round(time.time() * 1000) + 3_000
    later = text_message("q", "later")
    delayed = replace(later, headers={**later.headers, "DeliveryTime": Header(str(due_ms), HeaderType.LONG)})
    ledger.write(Entry(Op.DELAY, delayed))
    with ledger.running(timeout_ms=300_000):
        eventually(lambda: len(ledger.added()) == 1)
        eventually(lambda: bodies(ledger.live()) == ["later"])
    (added,) = ledger.added()
    assert record_of(added) == layout.encode(Entry(Op.ADD, delayed))
    assert added.timestamp()[1] >= due_ms


def test_plain_messages_gather_until_the_ledger_is_woken(ledger: LedgerBridge) -> None:
    ledger.plan = replace(ledger.plan, look_records=LOOK_RECORDS, look_s=3_600.0)

    async def wake() -> None:
        producer = ResilientProducer(ledger.kafka)
        await producer.open()
        waker = LedgerWaker(producer, ledger.plan.clock_topic)
        waker.wake()
        await asyncio.to_thread(eventually, lambda: bodies(ledger.added()) == ["a", "b"])
        waker.close()
        await producer.close()

    ledger.write(*transaction("t", ["a"]))
    with ledger.running(timeout_ms=3_600_000):
        eventually(lambda: bodies(ledger.added()) == ["a"])  # the clock's first tick
        eventually(ledger.rests)
        before = ledger.batches
        ledger.write(*(Entry(Op.ADD, text_message("q", str(number))) for number in range(5)))
        ledger.write(*transaction("u", ["b"]))
        asyncio.run(wake())
        eventually(lambda: ledger.batches > before)
    assert before < ledger.batches <= before + 2  # what was committed is looked at once more


def test_a_ledger_that_starts_anew_tells_of_transactions_without_outcome(
    ledger: LedgerBridge,
) -> None:
    *prepared, end = transaction("two", ["f"], session="two")
    ledger.write(*prepared, end._replace(op=Op.PREPARE), *transaction("left", ["y"], None, session="left"))

    def told(transactions: int, prepared: int) -> None:
        def is_told() -> bool:
            holding = ledger.told.holding
            return (holding.transactions, holding.prepared) == (transactions, prepared)

        eventually(is_told, what=lambda: str(ledger.told.holding))

    with ledger.running(timeout_ms=600_000):
        told(2, 1)
    with ledger.running(timeout_ms=600_000):
        told(2, 1)
        since = [each.timestamp()[1] for each in ledger.records() if each.value() is not None]
        assert ledger.told.holding.since_ms == min(since)
        ledger.write(end)
        told(1, 0)
