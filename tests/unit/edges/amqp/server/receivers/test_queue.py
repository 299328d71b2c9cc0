"""Share consumers of one receiver, with Kafka left out: a test says what each reads."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import AcknowledgeType
from tests.support.amqp.receiver import Receiver

from isthmus.edges.amqp.server.receivers import queue as share
from isthmus.edges.amqp.server.receivers.queue import BATCH, QueueSource
from isthmus.edges.amqp.server.receivers.record_source import Acknowledgement
from isthmus.kafka.options import Kafka


class Consumer:
    """Stands in for Kafka's."""

    def __init__(self, options: dict[str, Any], **_: object) -> None:
        self.batch = options["max.poll.records"]
        self.records: queue.SimpleQueue[list[Any]] = queue.SimpleQueue()
        self.accepted: list[int] = []

    def poll(self, timeout: float) -> list[Any]:
        try:
            return self.records.get(timeout=timeout)
        except queue.Empty:
            return []

    def acknowledge_offset(self, topic: str, partition: int, offset: int, how: AcknowledgeType) -> None:
        if how is AcknowledgeType.ACCEPT:
            self.accepted.append(offset)

    def ignore(self, *_: object) -> None: ...

    set_acknowledgement_commit_callback = subscribe = commit_async = commit_sync = close = ignore


@pytest.fixture
def consumers(monkeypatch: pytest.MonkeyPatch) -> list[Consumer]:
    made: list[Consumer] = []

    def make(*given: Any, **options: Any) -> Consumer:
        made.append(Consumer(*given, **options))
        return made[-1]

    monkeypatch.setattr(share, "ShareConsumer", make)
    return made


def records(*offsets: int) -> list[Any]:
    return [
        SimpleNamespace(
            error=lambda: None,
            partition=lambda: 0,
            offset=lambda offset=offset: offset,
            delivery_count=lambda: 1,
        )
        for offset in offsets
    ]


async def until(met: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not met():
            await asyncio.sleep(0.001)


def test_a_reader_that_joins_later_takes_as_many_at_a_time(consumers: list[Consumer]) -> None:
    async def joins() -> None:
        receiver, supply = Receiver(), QueueSource(Kafka("nowhere:1"), "t", "g")
        supply.start(receiver)
        supply.request(BATCH + 10)
        await until(lambda: len(consumers) == 2)
        consumers[0].records.put(records(*range(BATCH)))
        await until(lambda: len(consumers) == 3)  # while ten are wanted
        await supply.close()

    asyncio.run(joins())

    assert [each.batch for each in consumers] == [BATCH] * 3


def test_no_reader_takes_more_than_was_ever_wanted(consumers: list[Consumer]) -> None:
    async def wants() -> None:
        supply = QueueSource(Kafka("nowhere:1"), "t", "g")
        supply.start(Receiver())
        supply.request(1)
        await until(lambda: len(consumers) == 2)
        await supply.close()

    asyncio.run(wants())

    assert [each.batch for each in consumers] == [1, 1]


def test_a_record_that_two_readers_got_frees_both(consumers: list[Consumer]) -> None:
    """Kafka gives it to the second when the first has had it for too long."""

    async def settles() -> None:
        receiver, supply = Receiver(), QueueSource(Kafka("nowhere:1"), "t", "g")
        supply.start(receiver)
        supply.request(BATCH)
        await until(lambda: len(consumers) == 2)
        first, second = consumers
        for each in (first, second):
            each.records.put(records(7))
        await until(lambda: len(receiver.taken) == 2)
        for taken in receiver.taken:
            supply.settle(taken, Acknowledgement.ACCEPT)
        for each in (first, second):
            each.records.put(records(8))
        await until(lambda: len(receiver.taken) == 4)  # both read on
        await supply.close()
        assert first.accepted == second.accepted == [7]

    asyncio.run(settles())
