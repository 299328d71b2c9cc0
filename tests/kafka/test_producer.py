"""A journal is written through whatever happens to Kafka: the real client, and a Kafka as told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.support.asynchronous import eventually
from tests.support.kafka.scripted import (
    CLUSTER_AUTHORIZATION_FAILED,
    INIT_PRODUCER_ID,
    METADATA,
    NO_LEADER,
    NOT_ENOUGH_REPLICAS,
    NOT_LEADER,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
    PRODUCE,
    TOPIC_AUTHORIZATION_FAILED,
    ScriptedKafka,
)

from isthmus.config.model.settings import JournalSettings
from isthmus.embedded.ports import free_port
from isthmus.errors import HardFailure, IsthmusError, Outage
from isthmus.journal import batches
from isthmus.journal.batches import BatchWriter
from isthmus.journal.layout import Record
from isthmus.journal.partitions import JournalPartitions
from isthmus.journal.topic import JournalTopic
from isthmus.kafka import producer
from isthmus.kafka.options import Kafka

PLACES = JournalPartitions(3, ledger_partitions=1)
SESSIONS = [next(name for name in "abcdefgh" if PLACES.of_session(name) == place) for place in (0, 1)]
"""One for each partition."""
RECORD = Record(b"key", b"value", [])
COMPLAINED = ["Kafka does not take a batch: not within 0.2 s", "Kafka takes batches again"]

Told = list[IsthmusError | None]
Scenario = Callable[[], Coroutine[Any, Any, None]]


@pytest.fixture(autouse=True)
def in_haste(monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes minutes takes tenths of a second."""
    monkeypatch.setattr(batches, "find_journal", lambda *_: JournalTopic(PLACES, None))
    for name, seconds in {"ANSWER_S": 0.4, "WATCH_S": 0.2, "RETRY_S": 0.05, "PATIENCE_S": 0.7}.items():
        monkeypatch.setattr(producer, name, seconds)
    monkeypatch.setattr(batches, "CLOSE_S", 1.0)


@asynccontextmanager
async def writing(*kafkas: ScriptedKafka) -> AsyncIterator[BatchWriter]:
    servers = ",".join(f"127.0.0.1:{kafka.port}" for kafka in kafkas)
    writer = await BatchWriter.open(Kafka(servers), JournalSettings(topic="journal"))
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
    return [line.partition("journal journal: ")[2] for line in caplog.messages]


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
            await asyncio.sleep(3 * producer.PATIENCE_S)
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
            await asyncio.sleep(3 * producer.PATIENCE_S)
            assert told == []
            await kafka.start()
            await eventually(lambda: told == [None])

    run(scenario)


def test_patience_begins_when_kafka_is_back() -> None:
    async def scenario(kafka: ScriptedKafka) -> None:
        async with writing(kafka) as writer:
            await take(writer)
            await kafka.stop()
            told = add(writer)
            await asyncio.sleep(2 * producer.PATIENCE_S)
            kafka.leader = NO_LEADER
            await kafka.start()
            await asyncio.sleep(producer.PATIENCE_S / 2)
            assert told == []
            kafka.leader = 1
            await eventually(lambda: told == [None])

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
            await asyncio.sleep(2 * producer.PATIENCE_S)
            assert told == []
            kafka.produce_error = 0
            await eventually(lambda: told == [None])
            assert {each.producer for each in kafka.written} == {1}

    run(scenario)
    assert complaints(caplog) == COMPLAINED


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
            await asyncio.sleep(2 * producer.WATCH_S)
            await there.start()
            await eventually(lambda: told == ([None], [None]))
            assert {each.partition for each in there.written} == {0, 1}
        await there.stop()

    asyncio.run(work())


def test_a_lane_that_waits_for_a_topic_goes_on_when_its_producer_is_replaced() -> None:
    async def scenario(kafka: ScriptedKafka) -> None:
        async with writing(kafka) as writer:
            await take(writer, 0)
            kafka.leader, kafka.produce_error = NO_LEADER, NOT_LEADER
            first = add(writer, 0)  # which is given up by its producer after a while
            await asyncio.sleep(producer.ANSWER_S / 4)
            kafka.has_topic = False
            await asyncio.sleep(producer.ANSWER_S / 4)
            second = add(writer, 1)
            await eventually(lambda: kafka.requests[INIT_PRODUCER_ID] == 2)
            await asyncio.sleep(producer.ANSWER_S / 4)
            kafka.has_topic, kafka.leader, kafka.produce_error = True, 1, 0
            await eventually(lambda: first == second == [None], timeout_s=10)

    run(scenario)


def test_a_refusal_replaces_the_producer_but_not_without_end() -> None:
    async def scenario(kafka: ScriptedKafka) -> None:
        async with writing(kafka) as writer:
            kafka.produce_error = TOPIC_AUTHORIZATION_FAILED
            refused = 0
            give_up_at = asyncio.get_running_loop().time() + 1
            while asyncio.get_running_loop().time() < give_up_at:
                told = add(writer)
                await eventually(lambda told=told: told)  # type: ignore[misc]
                assert isinstance(told[0], HardFailure)
                refused += 1
            assert refused > 1
            assert kafka.requests[INIT_PRODUCER_ID] <= 1 / producer.RETRY_S + 2
            kafka.produce_error = 0
            await take(writer)

    run(scenario)


def test_a_kafka_that_takes_no_producer_any_more_is_asked_with_patience(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario(kafka: ScriptedKafka) -> None:
        async with writing(kafka) as writer:
            kafka.produce_error = OUT_OF_ORDER_SEQUENCE_NUMBER
            kafka.producer_error = CLUSTER_AUTHORIZATION_FAILED
            told = add(writer)
            await eventually(lambda: told, timeout_s=5 * producer.PATIENCE_S)
            assert isinstance(told[0], HardFailure)
            assert "ClusterAuthorizationFailed" in str(told[0])
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
            writer.add_together([RECORD] * 5, SESSIONS[0], told.append)
            await eventually(lambda: len(kafka.written) > 1)
            kafka.produce_error = 0
            await eventually(lambda: told == [None])
            assert {each.records for each in kafka.written} == {5}

    run(scenario)


def test_what_is_under_way_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer, "UNDER_WAY_BYTES", 1)

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
