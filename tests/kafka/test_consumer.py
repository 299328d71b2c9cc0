"""A topic is read on the event loop, in a group or alone, through restarts and rebalances."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiokafka.errors import KafkaError, UnknownTopicOrPartitionError
from aiokafka.protocol.group import LeaveGroupRequest
from confluent_kafka import Producer
from confluent_kafka.admin import NewPartitions
from tests.support.asynchronous import eventually
from tests.support.kafka.topics import new_topic, produce
from tests.support.polling import PATIENCE_S

from isthmus.embedded.kafka import EmbeddedKafka
from isthmus.embedded.ports import free_port
from isthmus.journal.layout import Record
from isthmus.kafka.admin import Committed, KafkaAdmin
from isthmus.kafka.blocking import admin_client, create_topics
from isthmus.kafka.client import ResilientClient
from isthmus.kafka.consumer import COMMITTED, EARLIEST, LATEST, Consumer
from isthmus.kafka.member import Timings
from isthmus.kafka.options import Kafka


def publish(
    servers: str, topic: str, values: Collection[object], partition: int = 0, **options: str | int
) -> None:
    texts = [str(value).encode() for value in values]
    records = (Record(None, text, [("h", text)]) for text in texts)
    produce(servers, topic, *records, partition=partition, **options)


class Told:
    """What a listener hears."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, set[int]]] = []

    def on_assigned(self, partitions: Collection[int]) -> None:
        self.heard.append(("assigned", set(partitions)))

    async def on_revoked(self, partitions: Collection[int]) -> None:
        self.heard.append(("revoked", set(partitions)))

    def on_lost(self, partitions: Collection[int]) -> None:
        self.heard.append(("lost", set(partitions)))


@asynccontextmanager
async def reading(servers: str, topic: str, **options: Any) -> AsyncIterator[Consumer]:
    consumer = Consumer(Kafka(servers), topic, **options)
    consumer.start()
    consumer.resume()
    try:
        yield consumer
    finally:
        await consumer.close()


async def take(consumer: Consumer, count: int, max_records: int = 500) -> list[Any]:
    found: list[Any] = []
    async with asyncio.timeout(PATIENCE_S):
        while len(found) < count:
            found += await consumer.poll(max_records, 1)
    return found


def values(records: list[Any]) -> list[int]:
    return [int(record.value) for record in records]


def share(consumer: Consumer) -> int:
    """How many partitions it has; -1 while that is not known."""
    return -1 if consumer.assigned is None else len(consumer.assigned)


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(scenario())  # type: ignore[arg-type]


def test_records_come_in_order_with_key_value_and_headers(kafka_servers: str) -> None:
    topic = new_topic(kafka_servers)
    publish(kafka_servers, topic, range(1000))

    async def scenario() -> None:
        async with reading(kafka_servers, topic, positions={0: EARLIEST}) as consumer:
            found = await take(consumer, 1000, max_records=7)
            assert values(found) == list(range(1000))
            first = found[0]
            assert (first.topic, first.partition, first.offset) == (topic, 0, 0)
            assert (first.key, list(first.headers)) == (None, [("h", b"0")])
            await eventually(lambda: consumer.at_end or consumer.poll(1, 0).close())

    run(scenario)


@pytest.mark.parametrize(("position", "expected"), [(EARLIEST, [0, 1, 2, 3]), (2, [2, 3]), (LATEST, [3])])
def test_reading_begins_where_it_is_told(kafka_servers: str, position: int, expected: list[int]) -> None:
    topic = new_topic(kafka_servers)
    publish(kafka_servers, topic, range(3))

    async def scenario() -> None:
        async with reading(kafka_servers, topic, positions={0: position}) as consumer:
            if position == LATEST:
                while not consumer.at_end:
                    assert await consumer.poll(1, 1) == []
            await asyncio.to_thread(publish, kafka_servers, topic, [3])
            assert values(await take(consumer, len(expected))) == expected

    run(scenario)


def test_an_offset_that_is_no_longer_there_is_reset(kafka_servers: str) -> None:
    topic = new_topic(kafka_servers)
    publish(kafka_servers, topic, range(3))

    async def scenario() -> None:
        async with reading(kafka_servers, topic, positions={0: 1_000_000}) as consumer:
            assert values(await take(consumer, 3)) == [0, 1, 2]

    run(scenario)


def test_what_was_rolled_back_is_not_read_and_the_end_is_found_behind_it(kafka_servers: str) -> None:
    topic = new_topic(kafka_servers)
    producer = Producer({"bootstrap.servers": kafka_servers, "transactional.id": topic})
    producer.init_transactions(PATIENCE_S)
    for number, commits in enumerate((True, False, True, False)):
        producer.begin_transaction()
        producer.produce(topic, str(number))
        producer.flush(PATIENCE_S)
        end = producer.commit_transaction if commits else producer.abort_transaction
        end(PATIENCE_S)

    async def scenario() -> None:
        async with reading(kafka_servers, topic, positions={0: EARLIEST}) as consumer:
            assert values(await take(consumer, 2)) == [0, 2]
            while not consumer.at_end:
                assert await consumer.poll(1, 1) == []

    run(scenario)


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_large_and_compressed_records_come_whole(kafka_servers: str, codec: str) -> None:
    topic = new_topic(kafka_servers, 2)
    producer = Producer({"bootstrap.servers": kafka_servers, "compression.type": codec})
    large = bytes(900_000)
    for partition in (0, 1):
        for _ in range(5):
            producer.produce(topic, large, partition=partition)
    assert producer.flush(PATIENCE_S) == 0

    async def scenario() -> None:
        async with reading(kafka_servers, topic, positions={0: EARLIEST, 1: EARLIEST}) as consumer:
            found = await take(consumer, 10)
            assert all(record.value == large for record in found)
            assert [each.offset for each in found if each.partition == 1] == [0, 1, 2, 3, 4]

    run(scenario)


def test_a_group_goes_on_where_it_has_committed(kafka_servers: str) -> None:
    topic = new_topic(kafka_servers)
    publish(kafka_servers, topic, range(10))

    async def scenario() -> None:
        async with reading(kafka_servers, topic, group=topic) as consumer:
            assert values(await take(consumer, 10)) == list(range(10))
            await consumer.commit({0: 4})
        async with reading(kafka_servers, topic, group=topic) as consumer:
            assert values(await take(consumer, 6)) == [4, 5, 6, 7, 8, 9]
        async with reading(kafka_servers, topic, group=topic, positions={0: COMMITTED}) as consumer:
            assert values(await take(consumer, 6)) == [4, 5, 6, 7, 8, 9]
            await consumer.commit({0: 10})
        async with reading(kafka_servers, topic, group=topic) as consumer:
            while not consumer.at_end:
                assert await consumer.poll(10, 1) == []

    run(scenario)


def test_members_share_partitions_and_take_over_from_one_that_leaves(kafka_servers: str) -> None:
    topic = new_topic(kafka_servers, 2)

    async def scenario() -> None:
        told = Told()
        async with reading(kafka_servers, topic, group=topic, listener=told) as first:
            await eventually(lambda: set(first.assigned or ()) == {0, 1})
            async with reading(kafka_servers, topic, group=topic) as second:
                await eventually(lambda: share(first) == share(second) == 1)
                assert {*(first.assigned or ()), *(second.assigned or ())} == {0, 1}
                async with reading(kafka_servers, topic, group=topic) as third:
                    members = (first, second, third)
                    await eventually(lambda: sorted(map(share, members)) == [0, 1, 1])
                    idle = next(each for each in members if not each.assigned)
                    assert idle.at_end
            await eventually(lambda: set(first.assigned or ()) == {0, 1})
        assert told.heard[:2] == [("assigned", {0, 1}), ("revoked", {0, 1})]

    run(scenario)


def test_a_member_that_was_expelled_hears_that_its_partitions_are_lost(kafka_servers: str) -> None:
    topic = new_topic(kafka_servers)

    async def scenario() -> None:
        told = Told()
        async with reading(kafka_servers, topic, group=topic, listener=told) as consumer:
            await eventually(lambda: consumer.assigned)
            assert consumer._member is not None
            member_id = consumer._member._member_id
            client = ResilientClient(Kafka(kafka_servers))
            await client.send(await client.coordinator(topic), LeaveGroupRequest(topic, member_id))
            await client.close()
            await eventually(lambda: ("lost", {0}) in told.heard)
            await eventually(lambda: told.heard.count(("assigned", {0})) == 2)
            assert consumer._member._member_id != member_id

    run(scenario)


def test_partitions_that_are_added_are_read(kafka_servers: str) -> None:
    topic = new_topic(kafka_servers)

    async def scenario() -> None:
        timings = Timings(look_s=0.1, heartbeat_s=0.1)
        async with reading(kafka_servers, topic, group=topic, timings=timings) as consumer:
            await eventually(lambda: consumer.assigned)
            admin = admin_client(Kafka(kafka_servers))
            admin.create_partitions([NewPartitions(topic, 2)])[topic].result(PATIENCE_S)
            await eventually(lambda: set(consumer.assigned or ()) == {0, 1})
            await asyncio.to_thread(publish, kafka_servers, topic, [7], 1)
            assert values(await take(consumer, 1)) == [7]

    run(scenario)


def test_what_was_read_ahead_of_a_pause_is_read_again(kafka_servers: str) -> None:
    topic = new_topic(kafka_servers)
    publish(kafka_servers, topic, range(10))

    async def scenario() -> None:
        async with reading(kafka_servers, topic, positions={0: EARLIEST}) as consumer:
            assert values(await take(consumer, 3, max_records=3)) == [0, 1, 2]
            consumer.pause()
            assert await consumer.poll(10, 0.05) == []
            consumer.resume()
            assert values(await take(consumer, 7)) == [3, 4, 5, 6, 7, 8, 9]
            consumer.seek(0, 8)
            assert values(await take(consumer, 2)) == [8, 9]

    run(scenario)


def test_a_topic_that_was_deleted_is_told_after_a_while(kafka_servers: str) -> None:
    topic = new_topic(kafka_servers)

    async def scenario() -> None:
        timings = Timings(missing_s=0.5)
        async with reading(
            kafka_servers, topic, positions={0: EARLIEST}, timings=timings, wait_ms=100
        ) as consumer:
            while not consumer.at_end:
                await consumer.poll(1, 1)
            admin = admin_client(Kafka(kafka_servers))
            admin.delete_topics([topic])[topic].result(PATIENCE_S)
            with pytest.raises(UnknownTopicOrPartitionError):
                await take(consumer, 1)

    run(scenario)


def test_nobody_waits_for_a_kafka_that_is_not_there_when_it_closes() -> None:
    async def scenario() -> None:
        async with reading(f"127.0.0.1:{free_port()}", "topic", group="group") as consumer:
            assert await consumer.poll(1, 0.5) == []
            await eventually(lambda: consumer.trouble)
            with pytest.raises((KafkaError, OSError)):
                await consumer.commit({0: 1}, 0.2)

    run(scenario)


@pytest.mark.parametrize("moves", [False, True])
def test_a_kafka_that_restarts_is_read_on_wherever_it_is(tmp_path: Path, moves: bool) -> None:
    ports = [free_port(), free_port()]
    controller = free_port()

    def start(port: int) -> EmbeddedKafka:
        # An embedded Kafka takes the ports of the last time.
        (tmp_path / "server.properties").write_text(f"//127.0.0.1:{port} //127.0.0.1:{controller}")
        kafka = EmbeddedKafka(tmp_path)
        kafka.start()
        return kafka

    async def scenario() -> None:
        kafka = await asyncio.to_thread(start, ports[0])
        servers = f"127.0.0.1:{ports[0]},127.0.0.1:{ports[1]}"
        try:
            await asyncio.to_thread(create_topics, Kafka(kafka.bootstrap_servers), ["topic"], 2)
            await asyncio.to_thread(publish, kafka.bootstrap_servers, "topic", range(5))
            async with (
                reading(servers, "topic", group="group") as member,
                reading(servers, "topic", positions={0: EARLIEST}) as alone,
            ):
                for consumer in (member, alone):
                    assert values(await take(consumer, 5)) == list(range(5))
                await member.commit({0: 5})
                await asyncio.to_thread(kafka.stop)
                await eventually(lambda: member.trouble and alone.trouble)
                kafka = await asyncio.to_thread(start, ports[moves])
                await asyncio.to_thread(publish, kafka.bootstrap_servers, "topic", range(5, 10))
                for consumer in (member, alone):
                    assert values(await take(consumer, 5)) == list(range(5, 10))
                await member.commit({0: 10}, PATIENCE_S)
                await eventually(lambda: not member.trouble and not alone.trouble)
            admin = KafkaAdmin(Kafka(servers))
            assert await admin.committed("group") == {("topic", 0): Committed(10, "")}
            await admin.close()
        finally:
            await asyncio.to_thread(kafka.stop)

    run(scenario)
