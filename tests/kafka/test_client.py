"""Requests reach Kafka's brokers wherever they are, and what they answer is known."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from aiokafka.errors import KafkaConnectionError, UnknownTopicOrPartitionError
from tests.support.polling import PATIENCE_S

from isthmus.embedded.kafka import EmbeddedKafka
from isthmus.embedded.ports import free_port
from isthmus.kafka import requests
from isthmus.kafka.blocking import create_topics
from isthmus.kafka.client import ResilientClient
from isthmus.kafka.options import Kafka


def asking(servers: str, scenario: Callable[[ResilientClient], Awaitable[None]]) -> None:
    async def run() -> None:
        client = ResilientClient(Kafka(servers))
        try:
            await scenario(client)
        finally:
            await client.close()

    asyncio.run(run())


def test_a_topic_has_an_id_partitions_with_leaders_and_what_may_be_done_with_it(kafka_servers: str) -> None:
    name = uuid.uuid4().hex
    create_topics(Kafka(kafka_servers), [name], 3)

    async def scenario(client: ResilientClient) -> None:
        topic = await client.topic(name, operations=True)
        assert topic is not None
        assert topic.partitions == [0, 1, 2]
        assert len(topic.id) == 16
        assert any(topic.id)
        assert topic.operations is not None
        assert {3, 4} <= topic.operations  # READ and WRITE
        assert await client.leader(name, 2) == topic.leaders[2]
        assert name in await client.topics()

    asking(kafka_servers, scenario)


def test_asking_for_a_topic_that_is_not_there_does_not_make_it(kafka_servers: str) -> None:
    name = uuid.uuid4().hex

    async def scenario(client: ResilientClient) -> None:
        assert await client.topic(name) is None
        with pytest.raises(UnknownTopicOrPartitionError):
            await client.leader(name, 0)
        assert name not in await client.topics()

    asking(kafka_servers, scenario)


def test_requests_of_one_connection_do_not_wait_for_those_of_another(kafka_servers: str) -> None:
    async def scenario(client: ResilientClient) -> None:
        node = await client.coordinator("some group")
        answers = await asyncio.gather(
            client.send(node, requests.metadata([])),
            client.send(node, requests.metadata([]), connection="mine"),
        )
        assert all(answer.brokers for answer in answers)
        client.drop("mine")
        assert (await client.send(node, requests.metadata([]), connection="mine")).brokers

    asking(kafka_servers, scenario)


def test_nobody_who_waits_for_kafka_waits_for_ever() -> None:
    async def scenario(client: ResilientClient) -> None:
        with pytest.raises((KafkaConnectionError, OSError)):
            await client.patiently(lambda: client.topic("any"), timeout_s=0.5)

    asking(f"127.0.0.1:{free_port()}", scenario)


def test_who_waits_in_vain_hears_what_failed_before_the_time_was_over() -> None:
    failures = iter([ConnectionRefusedError("nobody is there")])

    async def attempt() -> None:
        for failure in failures:
            raise failure
        await asyncio.Event().wait()

    async def scenario(client: ResilientClient) -> None:
        with pytest.raises(ConnectionRefusedError, match="nobody is there"):
            await client.patiently(attempt, timeout_s=0.5)

    asking(f"127.0.0.1:{free_port()}", scenario)


def test_a_kafka_that_was_moved_is_found_where_the_configuration_says(tmp_path: Path) -> None:
    first, second, controller = free_port(), free_port(), free_port()

    def at(port: int) -> EmbeddedKafka:
        # An embedded Kafka takes the ports of the last time.
        (tmp_path / "server.properties").write_text(f"//127.0.0.1:{port} //127.0.0.1:{controller}")
        return EmbeddedKafka(tmp_path)

    async def scenario(client: ResilientClient) -> None:
        before = await asyncio.to_thread(at(first).__enter__)
        await asyncio.to_thread(create_topics, Kafka(before.bootstrap_servers), ["topic"], 1)
        node = await client.leader("topic", 0)
        assert (await client.send(node, requests.metadata([]))).brokers
        await asyncio.to_thread(before.__exit__, None, None, None)
        with pytest.raises((KafkaConnectionError, OSError)):
            await client.send(node, requests.metadata([]))
        after = await asyncio.to_thread(at(second).__enter__)
        try:
            asked = requests.metadata(["topic"])
            answer = await client.patiently(lambda: client.send(node, asked), PATIENCE_S)
            assert [(host, port) for _, host, port, *_ in answer.brokers] == [("127.0.0.1", second)]
            assert await client.coordinator("group") == node
        finally:
            await asyncio.to_thread(after.__exit__, None, None, None)

    asking(f"127.0.0.1:{first},127.0.0.1:{second}", scenario)
