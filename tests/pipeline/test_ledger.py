"""The ledger in Spark, on a real Kafka: what is in the journal after it has run."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from tests.pipeline.bridge import text_message
from tests.pipeline.ledger_bridge import PLACES, LedgerBridge, PythonMemory, bodies, transaction
from tests.polling import eventually

from isthmus.cli.show import record_of
from isthmus.embedded.kafka import EmbeddedKafka
from isthmus.journal import layout
from isthmus.journal.layout import Entry, Op


@pytest.fixture
def ledger(kafka_servers: str, tmp_path: Path, spark: SparkSession) -> LedgerBridge:
    return LedgerBridge(kafka_servers, tmp_path, spark)


def test_committed_messages_are_added_in_order_and_others_are_not(ledger: LedgerBridge) -> None:
    ledger.write(
        *transaction("t1", ["a", "b", "c"]),
        *transaction("t2", ["x"], Op.ROLLBACK),
        *transaction("t3", ["y"], None),
        *transaction("t4", ["d"]),
    )
    ledger.run()
    assert bodies(ledger.added()) == ["a", "b", "c", "d"]


def test_a_committed_message_is_a_plain_record_with_all_that_it_came_with(ledger: LedgerBridge) -> None:
    held, commit = transaction("t", ["body"], region="EU", amount=3)
    ledger.write(held, commit)
    ledger.run()
    (record,) = ledger.added()
    assert record_of(record) == layout.encode(Entry(Op.ADD, held.message))


def test_a_transaction_goes_on_after_a_restart(ledger: LedgerBridge) -> None:
    *held, commit = transaction("t", ["a", "b"])
    ledger.write(*held, *transaction("p", ["c"], Op.PREPARE, session="p"))
    ledger.run()
    assert ledger.added() == []
    ledger.write(commit, transaction("p", ["c"], Op.COMMIT, session="p")[-1])
    ledger.run()
    assert sorted(bodies(ledger.added())) == ["a", "b", "c"]


def test_a_batch_that_is_repeated_writes_nothing_twice(ledger: LedgerBridge) -> None:
    ledger.write(*transaction("t1", ["a", "b"]))
    ledger.run()
    before = [(record.offset(), record.value()) for record in ledger.added()]
    (ledger.checkpoint / "commits" / "0").unlink()
    (ledger.checkpoint / "commits" / ".0.crc").unlink()
    ledger.write(*transaction("t2", ["c"]))
    ledger.run()
    after = [(record.offset(), record.value()) for record in ledger.added()]
    assert after[: len(before)] == before
    assert [value for _, value in after] == [b"a", b"b", b"c"]


def test_a_delete_of_another_session_removes_a_message_and_its_annotations(ledger: LedgerBridge) -> None:
    plain, (held, committed) = text_message("q", "plain"), transaction("t", ["held"])
    note = replace(text_message("q", "note", session="n", delivered=True), id=plain.id)
    ledger.write(Entry(Op.ADD, plain), held, committed, Entry(Op.ANNOTATE, note))
    ledger.run()
    assert sorted(bodies(ledger.live())) == ["held", "note", "plain"]
    deletes = [replace(each, session="other", value=b"delete") for each in (plain, held.message)]
    ledger.write(
        Entry(Op.DELETE_TX, deletes[0], "d", 0), Entry(Op.COMMIT, text_message("", "", "other"), "d", 1)
    )
    ledger.write(Entry(Op.DELETE, deletes[1]))
    ledger.run()
    ledger.run()  # the committed DELETE came through the journal
    assert bodies(ledger.live()) == []


def test_an_expired_message_is_deleted(ledger: LedgerBridge) -> None:
    ledger.write(
        Entry(Op.ADD, text_message("q", "old", Expiration=1_000)),
        Entry(Op.ADD, text_message("q", "young", Expiration=int(time.time() * 1000) + 3_600_000)),
        Entry(Op.ADD, text_message("q", "eternal", Expiration=0)),
        *transaction("t", ["held"], Expiration=1_000),
    )
    with ledger.running(timeout_ms=300_000):
        eventually(lambda: sorted(bodies(ledger.live())) == ["eternal", "young"], timeout_s=120)


def test_a_transaction_without_outcome_is_rolled_back_when_nothing_else_happens(ledger: LedgerBridge) -> None:
    held = transaction("t", ["a"], None)
    with ledger.running(timeout_ms=2_000):
        ledger.write(*held)
        eventually(lambda: len(ledger.tombstones()) == 2, timeout_s=120)
        ledger.write(Entry(Op.COMMIT, text_message("", "", "s"), "t", 1))
        eventually(lambda: len(ledger.tombstones()) == 3, timeout_s=120)
    assert bodies(ledger.live()) == []


def test_records_that_are_no_journal_records_are_left_alone(ledger: LedgerBridge) -> None:
    producer = Producer(ledger.kafka.python_options())
    binary = [(name, b"\xff") for name, _ in layout.encode(transaction("t", ["x"])[0]).headers]
    strange = [("isthmus.op", b"ADD_TX"), *binary[1:6], ("isthmus.seq", b"0")]
    for headers in (
        [],
        [("isthmus.op", b"ADD_TX")],
        [("isthmus.op", b"COMMIT"), ("x", None)],
        binary,
        strange,
    ):
        producer.produce(ledger.plan.journal_topic, value=b"v", headers=headers, partition=0)
    producer.flush(30)
    ledger.write(*transaction("t", ["a"]))
    ledger.run()
    assert bodies(ledger.added()) == ["a"]


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
    producer = Producer(ledger.kafka.python_options())
    for partition in range(PLACES.partitions):
        producer.produce(ledger.plan.journal_topic, key=b"filler", value=b"", partition=partition)
    producer.flush(30)
