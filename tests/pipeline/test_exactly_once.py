"""What is written once: batches that are repeated, attempts that overlap, processes that die."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from confluent_kafka import IsolationLevel, KafkaException, Message, TopicPartition
from confluent_kafka.admin import OffsetSpec
from tests.support.names import unique
from tests.support.polling import eventually

from isthmus.errors import HardFailure
from isthmus.journal.layout import Record
from isthmus.kafka.blocking import admin_client, create_topics, read_topic
from isthmus.kafka.options import Kafka
from isthmus.pipeline import exactly_once
from isthmus.pipeline.exactly_once import Placed, Task, prepare_markers, write_once, write_repeatable


class Once:
    """A task with topics of its own."""

    def __init__(self, servers: str) -> None:
        self.kafka = Kafka(servers)
        self._admin = admin_client(self.kafka)
        self.name = unique("once")
        self.topic, self.markers = f"{self.name}-out", f"{self.name}-markers"
        create_topics(self.kafka, [self.topic], 2)
        prepare_markers(self.kafka, self.markers, 2)
        self.task = Task(self.name, "checkpoint-1", 0, self.markers)

    def placed(self, *bodies: str) -> list[Placed]:
        return [Placed(self.topic, 1, Record(b"k", body.encode(), [("h", b"v")])) for body in bodies]

    def write(self, batch: int, *bodies: str) -> bool:
        return write_once(self.kafka, self.task, batch, self.placed(*bodies))

    def records(self) -> list[Message]:
        """What is committed, once no transaction is open: Kafka answers a commit before readers see it."""
        eventually(
            lambda: self._end(IsolationLevel.READ_COMMITTED) == self._end(IsolationLevel.READ_UNCOMMITTED)
        )
        return list(read_topic(self.kafka, self.topic))

    def bodies(self) -> list[str]:
        return [(record.value() or b"").decode() for record in self.records()]

    def _end(self, isolation: IsolationLevel) -> list[int]:
        partitions = {TopicPartition(self.topic, each): OffsetSpec.latest() for each in range(2)}
        ends = self._admin.list_offsets(partitions, isolation_level=isolation)
        return [future.result().offset for future in ends.values()]


@pytest.fixture
def once(kafka_servers: str) -> Iterator[Once]:
    yield Once(kafka_servers)
    forget()


def forget() -> None:
    """As a new Python process would."""
    exactly_once._writers.clear()


def test_a_batch_is_written_with_keys_headers_and_partitions(once: Once) -> None:
    assert once.write(0, "a", "b")
    records = once.records()
    assert [(record.key(), record.value(), record.headers(), record.partition()) for record in records] == [
        (b"k", b"a", [("h", b"v")], 1),
        (b"k", b"b", [("h", b"v")], 1),
    ]


def test_a_batch_that_was_written_is_skipped(once: Once) -> None:
    assert once.write(0, "a")
    assert once.write(1, "b")
    assert not once.write(1, "b")
    assert once.bodies() == ["a", "b"]


def test_another_process_skips_a_batch_that_was_written(once: Once) -> None:
    once.write(0, "a")
    forget()
    assert not once.write(0, "a")
    assert once.write(1, "b")
    assert once.bodies() == ["a", "b"]


def test_a_batch_that_is_skipped_is_taken_all_the_same(once: Once) -> None:
    once.write(0, "a", "b", "c")
    taken = iter(once.placed("a", "b", "c"))
    assert not write_once(once.kafka, once.task, 0, taken)
    assert next(taken, None) is None


def test_a_batch_that_fails_halfway_leaves_nothing(once: Once) -> None:
    def failing() -> Iterator[Placed]:
        yield from once.placed("a", "b")
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        write_once(once.kafka, once.task, 0, failing())
    assert once.bodies() == []
    assert once.write(0, "a", "b")
    assert once.bodies() == ["a", "b"]


def test_an_attempt_that_was_overtaken_cannot_commit(once: Once) -> None:
    def overtaken() -> Iterator[Placed]:
        yield from once.placed("old")
        forget()
        assert once.write(0, "new")
        yield from once.placed("old")

    with pytest.raises(KafkaException):
        write_once(once.kafka, once.task, 0, overtaken())
    assert once.bodies() == ["new"]


def test_a_process_that_was_overtaken_goes_on_with_the_next_batch(once: Once) -> None:
    once.write(0, "a")
    mine = dict(exactly_once._writers)
    forget()
    once.write(1, "b")
    exactly_once._writers.update(mine)
    assert not once.write(1, "b")
    exactly_once._writers.update(mine)
    assert once.write(2, "c")
    assert once.bodies() == ["a", "b", "c"]


def test_tasks_have_markers_of_their_own(once: Once) -> None:
    once.write(0, "a")
    other = Task(once.name, "checkpoint-1", 1, once.markers)
    assert write_once(once.kafka, other, 0, once.placed("b"))
    assert once.bodies() == ["a", "b"]


def test_a_query_that_starts_anew_counts_anew(once: Once) -> None:
    once.write(5, "a")
    anew = Task(once.name, "checkpoint-2", 0, once.markers)
    assert write_once(once.kafka, anew, 0, once.placed("b"))
    assert once.bodies() == ["a", "b"]


def test_a_marker_is_found_behind_many_attempts_that_failed(
    once: Once, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exactly_once, "_RECENT", 4)

    def failing() -> Iterator[Placed]:
        yield from once.placed("x")
        raise OSError

    once.write(0, "a")
    for _ in range(3):
        with pytest.raises(OSError):  # noqa: PT011
            write_once(once.kafka, once.task, 1, failing())
    assert not once.write(0, "a")


def test_a_batch_without_records_leaves_no_marker(once: Once) -> None:
    assert not once.write(0)
    assert list(read_topic(once.kafka, once.markers)) == []


DYING = """
import os, signal, sys
from isthmus.journal.layout import Record
from isthmus.kafka.options import Kafka
from isthmus.pipeline.exactly_once import Placed, Task, write_once

servers, topic, name, markers = sys.argv[1:]

def records():
    for number in range(2_000):
        yield Placed(topic, 1, Record(b"k", f"{number}".encode(), []))
        if number == 1_500:
            os.kill(os.getpid(), signal.SIGKILL)

write_once(Kafka(servers), Task(name, "checkpoint-1", 0, markers), 0, records())
"""


def test_what_a_killed_process_had_written_is_never_seen(once: Once) -> None:
    dying = subprocess.run(
        [sys.executable, "-c", DYING, once.kafka.servers, once.topic, once.name, once.markers], check=False
    )
    assert dying.returncode == -signal.SIGKILL
    assert once.write(0, "a")
    assert once.bodies() == ["a"]


def test_a_topic_with_too_few_partitions_for_markers_is_refused(once: Once) -> None:
    with pytest.raises(HardFailure, match="has 2 partitions, and needs 3"):
        prepare_markers(once.kafka, once.markers, 3)


def test_repeatable_records_are_written_each_time(once: Once) -> None:
    assert write_repeatable(once.kafka, once.placed("a", "b")) == 2
    assert write_repeatable(once.kafka, once.placed("a")) == 1
    assert once.bodies() == ["a", "b", "a"]


def test_repeatable_records_that_kafka_refuses_are_an_error(once: Once) -> None:
    with pytest.raises(KafkaException):
        write_repeatable(once.kafka, [Placed(once.topic, 99, Record(b"k", b"v", []))])
