"""Batches are written through whatever happens to Kafka: a Kafka that does as it is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from tests.support.asynchronous import eventually
from tests.support.kafka.scripted import (
    CLUSTER_AUTHORIZATION_FAILED,
    INIT_PRODUCER_ID,
    METADATA,
    NO_LEADER,
    NOT_LEADER,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
    PRODUCE,
    TOPIC_AUTHORIZATION_FAILED,
    ScriptedKafka,
)

from isthmus.embedded.ports import free_port
from isthmus.errors import HardFailure, IsthmusError, Outage, OversizeFailure
from isthmus.journal.batches import BatchWriter
from isthmus.journal.layout import Record
from isthmus.journal.partitions import JournalPartitions
from isthmus.journal.topic import JournalTopic
from isthmus.kafka import producer
from isthmus.kafka.faults import (
    MESSAGE_TOO_LARGE,
    NOT_ENOUGH_REPLICAS,
    NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    RECORD_LIST_TOO_LARGE,
    REQUEST_TIMED_OUT,
)
from isthmus.kafka.options import Kafka
from isthmus.kafka.producer import Patience, ResilientProducer, record_bytes

PARTITIONS = JournalPartitions(3, ledger_partitions=1)
SESSIONS = [next(name for name in "abcdefgh" if PARTITIONS.of_session(name) == number) for number in (0, 1)]
"""One for each partition."""
RECORD = Record(b"key", b"value", [])
PATIENCE = Patience(answer_s=0.6, retry_s=0.05, longest_retry_s=0.1, tell_s=0.2, refusal_s=0.7, missing_s=0.7)
"""What takes minutes takes tenths of a second."""

Told = list[IsthmusError | None]
Scenario = Callable[[], Coroutine[Any, Any, None]]


@asynccontextmanager
async def writing(
    *kafkas: ScriptedKafka, patience: Patience = PATIENCE, max_message_bytes: int | None = None
) -> AsyncIterator[BatchWriter]:
    servers = ",".join(f"127.0.0.1:{kafka.port}" for kafka in kafkas)
    by = ResilientProducer(Kafka(servers), patience=patience)
    await by.open()
    writer = BatchWriter(by, "journal", JournalTopic(PARTITIONS, max_message_bytes))
    try:
        yield writer
    finally:
        await writer.close()


def add(writer: BatchWriter, partition: int = 0) -> Told:
    told: Told = []
    writer.add(RECORD, SESSIONS[partition], told.append)
    return told


async def take(writer: BatchWriter, partition: int = 0) -> None:
    """Have Kafka take a record."""
    told = add(writer, partition)
    await eventually(lambda: told == [None])


def complaints(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the log tells, without its reasons."""
    return [line.removeprefix("journal: ").partition(":")[0] for line in caplog.messages]


COMPLAINED = ["Kafka does not take a batch", "Kafka takes batches again"]


def run(scenario: Callable[[ScriptedKafka], Coroutine[Any, Any, None]]) -> None:
    async def work() -> None:
        async with ScriptedKafka(free_port()) as kafka:
            await scenario(kafka)

    asyncio.run(work())


def test_an_absence_of_kafka_is_waited_for_however_long(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(kafka: ScriptedKafka) -> None:
        async with writing(kafka) as writer:
            await take(writer)
            await kafka.stop()
            told = add(writer)
            await asyncio.sleep(3 * PATIENCE.refusal_s)
            assert told == []
            await kafka.start()
            await eventually(lambda: told == [None])
            assert {each.producer for each in kafka.written} == {1}

    run(scenario)
    assert complaints(caplog) == COMPLAINED


def test_an_absence_before_the_first_message_is_waited_for_too() -> None:
    async def scenario(kafka: ScriptedKafka) -> None:
        async with writing(kafka) as writer:
            await kafka.stop()
            told = add(writer)
            await asyncio.sleep(3 * PATIENCE.refusal_s)
            assert told == []
            await kafka.start()
            await eventually(lambda: told == [None])

    run(scenario)


def test_patience_begins_when_kafka_is_back() -> None:
    patience = replace(PATIENCE, refusal_s=3.0)

    async def scenario(kafka: ScriptedKafka) -> None:
        async with writing(kafka, patience=patience) as writer:
            await take(writer)
            await kafka.stop()
            told = add(writer)
            await asyncio.sleep(1.2 * patience.refusal_s)
            kafka.leader, kafka.produce_error = NO_LEADER, NOT_LEADER
            kafka.requests.clear()
            await kafka.start()
            await eventually(lambda: kafka.requests[METADATA] > 1)
            assert told == []
            kafka.leader, kafka.produce_error = 1, 0
            await eventually(lambda: told)
            assert told == [None]

    run(scenario)


def test_a_partition_without_a_leader_is_waited_for_with_patience_and_without_haste() -> None:
    async def scenario(kafka: ScriptedKafka) -> None:
        async with writing(kafka) as writer:
            kafka.leader = NO_LEADER
            kafka.requests.clear()
            told = add(writer)
            await eventually(lambda: told)
            assert isinstance(told[0], HardFailure)
            assert kafka.requests[METADATA] < 100
            kafka.leader = 1
            await take(writer)

    run(scenario)


def test_too_few_replicas_are_waited_for_and_complained_of(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(kafka: ScriptedKafka) -> None:
        async with writing(kafka) as writer:
            kafka.produce_error = NOT_ENOUGH_REPLICAS
            told = add(writer)
            await asyncio.sleep(2 * PATIENCE.refusal_s)
            assert told == []
            kafka.produce_error = 0
            await eventually(lambda: told == [None])
            assert {each.producer for each in kafka.written} == {1}

    run(scenario)
    assert complaints(caplog) == COMPLAINED


def test_a_writer_tells_why_kafka_takes_nothing_while_it_does_not() -> None:
    async def scenario(kafka: ScriptedKafka) -> None:
        async with writing(kafka) as writer:
            await take(writer)
            assert writer.problem is None
            kafka.produce_error = NOT_ENOUGH_REPLICAS
            told = add(writer)
            await eventually(lambda: writer.problem is not None)
            why = "Kafka does not take what is written to journal: "
            assert (writer.problem or "").startswith(why)
            kafka.produce_error = 0
            await eventually(lambda: told == [None])
            assert writer.problem is None

    run(scenario)


def test_a_forgotten_producer_is_replaced_and_its_batch_written() -> None:
    async def scenario(kafka: ScriptedKafka) -> None:
        async with writing(kafka) as writer:
            await take(writer)
            kafka.produce_error = OUT_OF_ORDER_SEQUENCE_NUMBER
            told = add(writer)
            await eventually(lambda: kafka.requests[PRODUCE] == 2)
            kafka.produce_error = 0
            await eventually(lambda: told == [None])
            assert [(each.producer, each.sequence) for each in kafka.written] == [(1, 0), (1, 1), (2, 0)]

    run(scenario)


def test_a_kafka_that_is_elsewhere_is_found_by_the_configured_servers() -> None:
    async def work() -> None:
        here, there = ScriptedKafka(free_port()), ScriptedKafka(free_port())
        await here.start()
        async with writing(here, there) as writer:
            await take(writer, 0)
            await take(writer, 1)
            await here.stop()
            told = add(writer, 0), add(writer, 1)
            await asyncio.sleep(2 * PATIENCE.tell_s)
            await there.start()
            await eventually(lambda: told == ([None], [None]))
            assert {each.partition for each in there.written} == {0, 1}
        await there.stop()

    asyncio.run(work())


def test_a_topic_that_a_broker_does_not_know_yet_is_waited_for_a_while() -> None:
    async def scenario(kafka: ScriptedKafka) -> None:
        async with writing(kafka) as writer:
            await take(writer, 0)
            kafka.produce_error, kafka.has_topic = NOT_LEADER, False
            first, second = add(writer, 0), add(writer, 1)
            await eventually(lambda: kafka.requests[METADATA] > 5)
            kafka.produce_error, kafka.has_topic = 0, True
            await eventually(lambda: first == second == [None])

    run(scenario)


def test_a_topic_that_is_not_there_is_a_refusal() -> None:
    async def scenario(kafka: ScriptedKafka) -> None:
        async with writing(kafka) as writer:
            kafka.has_topic = False
            told = add(writer)
            await eventually(lambda: told)
            assert isinstance(told[0], HardFailure)
            assert "UNKNOWN_TOPIC_OR_PARTITION" in str(told[0])

    run(scenario)


def test_a_batch_whose_answer_was_lost_is_sent_again_as_it_was() -> None:
    async def scenario(kafka: ScriptedKafka) -> None:
        async with writing(kafka) as writer:
            await take(writer)
            kafka.answers_to_lose = 3
            await take(writer)
            await take(writer)
            sent = [(each.producer, each.sequence) for each in kafka.written]
            assert sent == [(1, 0), (1, 1), (1, 1), (1, 1), (1, 1), (1, 2)]

    run(scenario)


@pytest.mark.parametrize("lost", [0, 1])
def test_a_refusal_leaves_in_doubt_only_what_was_sent_before_without_an_answer(lost: int) -> None:
    async def scenario(kafka: ScriptedKafka) -> None:
        async with writing(kafka) as writer:
            await take(writer)
            kafka.answers_to_lose, kafka.produce_error = lost, TOPIC_AUTHORIZATION_FAILED
            told = add(writer)
            await eventually(lambda: told)
            assert isinstance(told[0], HardFailure)
            assert told[0].in_doubt == bool(lost)

    run(scenario)


def test_what_follows_a_batch_of_which_nobody_knows_is_not_taken_for_its_copy() -> None:
    async def scenario(kafka: ScriptedKafka) -> None:
        async with writing(kafka) as writer:
            kafka.produce_error = REQUEST_TIMED_OUT
            told = add(writer)
            await eventually(lambda: kafka.written)
            kafka.produce_error = TOPIC_AUTHORIZATION_FAILED
            await eventually(lambda: told)
            assert isinstance(told[0], HardFailure)
            kafka.produce_error = 0
            await take(writer)
            assert (kafka.written[0].producer, kafka.written[-1].producer) == (1, 2)

    run(scenario)


def test_a_writer_that_goes_away_leaves_no_sequence_behind() -> None:
    async def scenario(kafka: ScriptedKafka) -> None:
        by = ResilientProducer(Kafka(f"127.0.0.1:{kafka.port}"), patience=PATIENCE)
        await by.open()
        batch = by.new_batch()
        batch.append(RECORD, 0)
        kafka.produce_error = NOT_ENOUGH_REPLICAS_AFTER_APPEND
        leaving = asyncio.create_task(by.write(batch, "journal", 0))
        await eventually(lambda: kafka.written)
        leaving.cancel()
        await asyncio.wait([leaving])
        kafka.produce_error = 0
        another = by.new_batch()
        another.append(RECORD, 0)
        assert await by.write(another, "journal", 0) is None
        assert kafka.written[-1].producer == 2
        await by.close()

    run(scenario)


def test_a_refusal_needs_no_other_producer() -> None:
    async def scenario(kafka: ScriptedKafka) -> None:
        async with writing(kafka) as writer:
            await take(writer)
            kafka.produce_error = TOPIC_AUTHORIZATION_FAILED
            for _ in range(3):
                told = add(writer)
                await eventually(lambda told=told: told)  # type: ignore[misc]
                assert isinstance(told[0], HardFailure)
            kafka.produce_error = 0
            await take(writer)
            assert kafka.requests[INIT_PRODUCER_ID] == 1
            assert [each.sequence for each in kafka.written] == [0, 1, 1, 1, 1]

    run(scenario)


@pytest.mark.parametrize("code", [MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE])
def test_what_is_too_large_is_the_messages_own_fault(code: int) -> None:
    async def scenario(kafka: ScriptedKafka) -> None:
        async with writing(kafka) as writer:
            kafka.produce_error = code
            told = add(writer)
            await eventually(lambda: told)
            assert isinstance(told[0], OversizeFailure)

    run(scenario)


def test_a_kafka_that_takes_no_producer_any_more_is_asked_with_patience() -> None:
    async def scenario(kafka: ScriptedKafka) -> None:
        async with writing(kafka) as writer:
            kafka.produce_error = OUT_OF_ORDER_SEQUENCE_NUMBER
            kafka.producer_error = CLUSTER_AUTHORIZATION_FAILED
            told = add(writer)
            await eventually(lambda: told, timeout_s=5 * PATIENCE.refusal_s)
            assert isinstance(told[0], HardFailure)
            assert "CLUSTER_AUTHORIZATION_FAILED" in str(told[0])
            kafka.produce_error = kafka.producer_error = 0
            await take(writer)

    run(scenario)


def test_a_broker_whose_address_nobody_reaches_fails_the_start() -> None:
    async def scenario(kafka: ScriptedKafka) -> None:
        kafka.advertised_port = free_port()
        with pytest.raises(Outage, match="takes no producer"):
            async with writing(kafka):
                raise AssertionError("it has connected")

    run(scenario)


@pytest.mark.parametrize("error", [OUT_OF_ORDER_SEQUENCE_NUMBER, NOT_LEADER, NOT_ENOUGH_REPLICAS])
def test_what_is_written_together_is_one_batch_however_often_it_is_sent(error: int) -> None:
    async def scenario(kafka: ScriptedKafka) -> None:
        async with writing(kafka) as writer:
            await take(writer)
            kafka.written.clear()
            kafka.produce_error = error
            told: Told = []
            writer.add_together([RECORD] * 5, 5 * record_bytes(RECORD), SESSIONS[0], told.append)
            await eventually(lambda: len(kafka.written) > 1)
            kafka.produce_error = 0
            await eventually(lambda: told == [None])
            assert {each.records for each in kafka.written} == {5}

    run(scenario)


def test_what_is_in_flight_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer, "IN_FLIGHT_BYTES", 1)

    async def scenario(kafka: ScriptedKafka) -> None:
        async with writing(kafka) as writer:
            await take(writer, 0)
            await take(writer, 1)
            kafka.requests.clear()
            told = add(writer, 0), add(writer, 1)
            await eventually(lambda: told == ([None], [None]))
            assert kafka.requests[PRODUCE] == 2  # and not both in one, as they else are

    run(scenario)


def test_nothing_is_taken_after_the_close() -> None:
    async def scenario(kafka: ScriptedKafka) -> None:
        async with writing(kafka) as writer:
            await take(writer)
        told = add(writer)
        await eventually(lambda: told)
        assert isinstance(told[0], HardFailure)
        assert "is closed" in str(told[0])

    run(scenario)
