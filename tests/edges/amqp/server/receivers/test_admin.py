"""What receivers and senders have Kafka do before the first message: topics, and groups' settings."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests.support.names import unique

from isthmus.edges.addresses import KafkaAddresses
from isthmus.edges.amqp.server.receivers import admin as receiver_admin
from isthmus.edges.amqp.server.receivers.admin import ReceiverAdmin
from isthmus.errors import Refused
from isthmus.kafka.admin import KafkaAdmin
from isthmus.kafka.options import Kafka


@pytest.fixture
def name() -> str:
    return unique("asked")


def asking(servers: str, scenario: Callable[[KafkaAdmin], Awaitable[None]]) -> None:
    async def run() -> None:
        admin = KafkaAdmin(Kafka(servers))
        try:
            await scenario(admin)
        finally:
            await admin.close()

    asyncio.run(run())


@pytest.mark.parametrize(("jms", "partitions"), [(True, [0]), (False, [0, 1, 2, 3])])
def test_a_jms_destination_is_made_with_one_partition_and_any_other_address_with_more(
    kafka_servers: str, name: str, jms: bool, partitions: list[int]
) -> None:
    async def scenario(admin: KafkaAdmin) -> None:
        receivers = ReceiverAdmin(admin, auto_create=True, partitions=4)
        assert await receivers.partitions(f"{name}-received", jms=jms) == partitions
        addresses = KafkaAddresses(admin, [], direct=True, auto_create=True)
        assert await addresses.find(f"{name}-sent", jms=jms) is None
        assert await receivers.partitions(f"{name}-sent") == partitions

    asking(kafka_servers, scenario)


def test_a_topic_is_not_made_unless_that_is_allowed(kafka_servers: str, name: str) -> None:
    async def scenario(admin: KafkaAdmin) -> None:
        with pytest.raises(Refused, match="there is no topic"):
            await ReceiverAdmin(admin, auto_create=False, partitions=4).partitions(name)
        problem = await KafkaAddresses(admin, [], direct=True, auto_create=False).find(name)
        assert problem == f"'{name}': there is no topic {name}, and no route takes it"
        assert await admin.topic(name) is None

    asking(kafka_servers, scenario)


def test_a_subscription_begins_at_the_end_and_stays_where_it_is(kafka_servers: str, name: str) -> None:
    async def scenario(admin: KafkaAdmin) -> None:
        receivers = ReceiverAdmin(admin, auto_create=True, partitions=2)
        partitions = await receivers.partitions(name)
        assert await receivers.begun(name) is None
        await admin.begin(name, name, {0: 0})
        await receivers.begin(name, partitions, name)
        assert await admin.committed(name) == {(name, 0): (0, ""), (name, 1): (0, "")}
        assert await receivers.begun(name) == (name, "")
        await receivers.delete(name)
        assert await receivers.begun(name) is None

    asking(kafka_servers, scenario)


def test_a_queue_is_granted_what_it_needs(
    kafka_servers: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(admin: KafkaAdmin) -> None:
        receivers = ReceiverAdmin(admin, auto_create=True, partitions=4)
        granted = await receivers.begin_queue(name)
        assert granted.delivery_count_limit == 10
        assert granted.lock_duration_s > 0
        assert granted.renews
        assert await receivers.begin_queue(name) is granted

    asking(kafka_servers, scenario)
    assert caplog.messages == []


def test_what_kafka_does_not_take_is_left_out_and_told_once(
    kafka_servers: str, name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    unknown = "share.of.the.future"
    monkeypatch.setattr(receiver_admin, "_QUEUE_CONFIG", {**receiver_admin._QUEUE_CONFIG, unknown: "1"})
    monkeypatch.setattr(receiver_admin, "_LOST", {unknown: "nothing is lost"})

    async def scenario(admin: KafkaAdmin) -> None:
        receivers = ReceiverAdmin(admin, auto_create=True, partitions=4)
        for number in range(2):
            granted = await receivers.begin_queue(f"{name}-{number}")
            assert granted.delivery_count_limit == 10

    asking(kafka_servers, scenario)
    assert len(caplog.messages) == 1
    assert unknown in caplog.messages[0]
    assert "nothing is lost" in caplog.messages[0]
