"""What edges ask of Kafka, and have it do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from confluent_kafka import Producer
from tests.support.names import unique
from tests.support.polling import PATIENCE_S

from isthmus.embedded.ports import free_port
from isthmus.errors import HardFailure, Outage
from isthmus.kafka.admin import Committed, KafkaAdmin
from isthmus.kafka.options import Kafka
from isthmus.kafka.requests import GROUP_RESOURCE


def asking(
    servers: str, scenario: Callable[[KafkaAdmin], Awaitable[None]], timeout_s: float = PATIENCE_S
) -> None:
    async def run() -> None:
        admin = KafkaAdmin(Kafka(servers), timeout_s=timeout_s)
        try:
            await scenario(admin)
        finally:
            await admin.close()

    asyncio.run(run())


@pytest.fixture
def name() -> str:
    return unique("admin")


def test_a_topic_can_be_used_once_it_is_made_and_is_made_once(kafka_servers: str, name: str) -> None:
    async def scenario(admin: KafkaAdmin) -> None:
        assert await admin.topic(name) is None
        assert (await admin.create_topic(name, 3)).partitions == [0, 1, 2]
        assert (await admin.create_topic(name, 1)).partitions == [0, 1, 2]
        assert await admin.ends(name, [0, 1, 2]) == {0: 0, 1: 0, 2: 0}

    asking(kafka_servers, scenario)


def test_a_topic_is_described_with_its_limit(kafka_servers: str, name: str) -> None:
    async def scenario(admin: KafkaAdmin) -> None:
        assert await admin.describe(name) is None
        await admin.create_topic(name, 2)
        facts = await admin.describe(name)
        assert facts is not None
        assert (facts.partitions, facts.writable, facts.readable) == (2, True, True)
        assert facts.max_message_bytes is not None
        assert facts.max_message_bytes > 1_000_000

    asking(kafka_servers, scenario)


def test_a_name_that_no_topic_can_have_is_refused(kafka_servers: str) -> None:
    async def scenario(admin: KafkaAdmin) -> None:
        with pytest.raises(HardFailure, match=r"cannot be made: INVALID_TOPIC_EXCEPTION"):
            await admin.create_topic("not a topic", 1)

    asking(kafka_servers, scenario)


def test_the_ends_are_behind_what_was_written(kafka_servers: str, name: str) -> None:
    async def scenario(admin: KafkaAdmin) -> None:
        await admin.create_topic(name, 2)
        producer = Producer({"bootstrap.servers": kafka_servers})
        for _ in range(3):
            producer.produce(name, b"x", partition=1)
        await asyncio.to_thread(producer.flush, PATIENCE_S)
        assert await admin.ends(name, [0, 1]) == {0: 0, 1: 3}

    asking(kafka_servers, scenario)


def test_a_group_begins_where_it_is_told_and_can_be_forgotten(kafka_servers: str, name: str) -> None:
    async def scenario(admin: KafkaAdmin) -> None:
        await admin.create_topic(name, 2)
        assert await admin.committed(name) == {}
        await admin.begin(name, name, {0: 7, 1: 9})
        assert await admin.committed(name) == {(name, 0): Committed(7, ""), (name, 1): Committed(9, "")}
        await admin.delete_group(name)
        assert await admin.committed(name) == {}
        await admin.delete_group(name)

    asking(kafka_servers, scenario)


def test_settings_that_kafka_does_not_take_keep_nobody_from_the_others(kafka_servers: str, name: str) -> None:
    async def scenario(admin: KafkaAdmin) -> None:
        values = {
            "share.auto.offset.reset": "earliest",
            "share.no.such.setting": "1",
            "share.delivery.count.limit": "100000",
        }
        refused = await admin.set_configs(GROUP_RESOURCE, name, values)
        assert set(refused) == {"share.no.such.setting", "share.delivery.count.limit"}
        assert all(refused.values())
        configs = await admin.configs(GROUP_RESOURCE, name)
        assert configs["share.auto.offset.reset"] == "earliest"

    asking(kafka_servers, scenario)


def test_a_kafka_that_does_not_answer_is_an_outage() -> None:
    async def scenario(admin: KafkaAdmin) -> None:
        with pytest.raises(Outage, match="does not answer"):
            await admin.topic("any")
        with pytest.raises(Outage, match="does not answer"):
            await admin.describe("any")

    asking(f"127.0.0.1:{free_port()}", scenario, timeout_s=0.3)
