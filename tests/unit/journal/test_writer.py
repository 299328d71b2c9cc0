"""The journal's writer, up to Kafka's client: where a session's messages go, and refusals."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from hypothesis import given, settings
from hypothesis import strategies as st

from isthmus.config import TopicFacts
from isthmus.config.model.settings import JournalSettings
from isthmus.errors import HardFailure, OversizeFailure
from isthmus.journal import writer as journal_writer
from isthmus.journal.layout import Entry, Op
from isthmus.journal.partitions import JournalPartitions
from isthmus.journal.writer import JournalWriter, Position
from isthmus.kafka.options import Kafka
from isthmus.message import Body, BodyKind, Message

ENTRY = Entry(
    Op.ADD,
    Message(id="1", address="a", protocol="amqp", value=b"x", body=Body(BodyKind.TEXT), session="s1"),
)


@settings(max_examples=50)
@given(st.text(max_size=10), st.integers(1, 50))
def test_a_session_has_one_partition(session: str, partitions: int) -> None:
    places = JournalPartitions(partitions + 1, ledger_partitions=1)
    assert places.of_session(session) in range(partitions)
    assert places.of_session(session) == places.of_session(session)


def test_sessions_spread_over_all_partitions() -> None:
    places = JournalPartitions(9, ledger_partitions=1)
    assert {places.of_session(f"session-{number}") for number in range(200)} == set(range(8))


def test_the_partition_of_a_session_is_the_same_in_every_release() -> None:
    check_value_of_crc_32 = 0xCBF43926
    places = JournalPartitions(1001, ledger_partitions=1)
    assert places.of_session("123456789") == check_value_of_crc_32 % 1000
    assert places.of_session("") == 0


def test_a_place_reads_as_the_stable_id_of_what_is_published_from_it() -> None:
    assert str(Position("journal", 2, 7)) == "journal:2:7"


JOURNAL = TopicFacts(exists=True, writable=True, readable=True, max_message_bytes=None, partitions=4)


class Client:
    """Stands for Kafka's producer: each call of ``produce`` takes the next answer."""

    def __init__(self, *answers: Exception | None) -> None:
        self.answers = list(answers)
        self.produced: list[dict[str, Any]] = []

    def produce(self, topic: str, *, on_delivery: Callable[..., None], **record: Any) -> None:
        answer = self.answers.pop(0)
        if isinstance(answer, BufferError | KafkaException):
            raise answer
        self.produced.append(record)
        delivered = SimpleNamespace(partition=lambda: record["partition"], offset=lambda: 41)
        on_delivery(answer, delivered)

    def poll(self, timeout: float) -> int:
        time.sleep(timeout / 100)  # as Kafka's client waits for answers, so that it keeps no core busy
        return 0

    def __len__(self) -> int:
        return 0


@pytest.fixture
def writing(monkeypatch: pytest.MonkeyPatch) -> Callable[[Client], JournalWriter]:
    def through(client: Client) -> JournalWriter:
        monkeypatch.setattr(journal_writer, "producer", lambda *_: client)
        monkeypatch.setattr(journal_writer, "describe", lambda *_: {"journal": JOURNAL})
        return JournalWriter(Kafka("h:1"), JournalSettings(topic="journal"))

    return through


def test_a_written_entry_has_its_place_in_the_partition_of_its_session(
    writing: Callable[[Client], JournalWriter],
) -> None:
    client = Client(None)
    with writing(client) as writer:
        place = writer.write(ENTRY).result(timeout=60)
    assert place == Position("journal", JournalPartitions(4, 1).of_session("s1"), 41)
    assert (client.produced[0]["key"], client.produced[0]["value"]) == (b"1", b"x")


def test_a_full_queue_waits_for_kafka(writing: Callable[[Client], JournalWriter]) -> None:
    with writing(Client(BufferError("full"), BufferError("full"), None)) as writer:
        assert writer.write(ENTRY).result(timeout=60).offset == 41


@pytest.mark.parametrize(
    ("answer", "failure"),
    [
        (KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)), OversizeFailure),  # before it was sent
        (KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), OversizeFailure),  # by the broker
        (KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), HardFailure),
    ],
)
def test_a_message_that_kafka_refuses_is_a_failure_of_that_message(
    writing: Callable[[Client], JournalWriter], answer: Any, failure: type[Exception]
) -> None:
    with writing(Client(answer, None)) as writer:
        refused, taken = writer.write(ENTRY), writer.write(ENTRY)
        with pytest.raises(failure, match="did not take a message for the journal journal"):
            refused.result(timeout=60)
        assert taken.result(timeout=60).offset == 41
