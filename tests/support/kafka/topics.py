"""Topics of a real Kafka: new ones, records in them, and what a group has committed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from aiokafka.client import AIOKafkaClient
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.structs import TopicPartition as AsyncTopicPartition
from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, Producer, TopicPartition
from tests.support.names import unique
from tests.support.polling import eventually

from isthmus.journal.layout import Record
from isthmus.kafka.blocking import QUIET, admin_client, create_topics, topic_names
from isthmus.kafka.options import Kafka

LOOK_S = 0.3


def new_topic(servers: str, partitions: int = 1) -> str:
    name = unique("records")
    create_topics(Kafka(servers), [name], partitions)
    return name


def produce(
    servers: str | Kafka, topic: str, *records: Record, partition: int | None = None, **options: str | int
) -> None:
    """Write records: to one partition, or each to that of its key."""
    where = {} if partition is None else {"partition": partition}
    kafka = Kafka(servers) if isinstance(servers, str) else servers
    producer = Producer({**kafka.python_options(), **options}, logger=QUIET)
    for key, value, headers in records:
        producer.produce(topic, value, key, headers=list(headers), **where)
        producer.poll(0)
    assert producer.flush(60) == 0


def publish(
    servers: str | Kafka,
    topic: str,
    values: Iterable[str | bytes | None],
    partition: int = 0,
    headers: Mapping[str, str] | None = None,
) -> None:
    """Write values without keys to one partition."""
    texts = (value.encode() if isinstance(value, str) else value for value in values)
    common = [(name, text.encode()) for name, text in (headers or {}).items()]
    produce(servers, topic, *(Record(None, text, common) for text in texts), partition=partition)


def committed(servers: str, topic: str, group: str, partition: int = 0) -> int:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group}, logger=QUIET)
    try:
        return consumer.committed([TopicPartition(topic, partition)], timeout=60)[0].offset
    finally:
        consumer.close()


def batches(servers: str, topic: str, partitions: int) -> list[list[bytes | None]]:
    """The values in the batches that Kafka has: what it appended at once."""

    async def read() -> list[list[bytes | None]]:
        found: list[list[bytes | None]] = []
        client = AIOKafkaClient(bootstrap_servers=servers)
        try:
            await client.bootstrap()
            await client.add_topic(topic)
            for number in range(partitions):
                leader = client.cluster.leader_for_partition(AsyncTopicPartition(topic, number))
                request = FetchRequest(0, 0, 1 << 24, 0, [(topic, [(number, 0, 1 << 24)])])
                [(_, [(*_, data)])] = (await client.send(leader, request)).topics
                records = MemoryRecords(data)
                while records.has_next():
                    found.append([each.value for each in records.next_batch()])
        finally:
            await client.close()
        return found

    return asyncio.run(read())


class Topic:
    """A topic, read as it grows: who looks again and again reads every record once."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._found: list[Message] = []

    def records(self) -> list[Message]:
        """What is there by now: each partition in its order, committed records only.

        Where more comes all the time, it does not wait for an end.
        """
        deadline = time.monotonic() + LOOK_S
        while fresh := self._consumer.consume(1000, timeout=0.1):
            self._found += [record for record in fresh if record.error() is None]
            if time.monotonic() > deadline:
                break
        return self._found


@contextmanager
def followed(kafka: Kafka, topic: str) -> Iterator[Topic]:
    consumer = Consumer(
        {
            **kafka.python_options(),
            "group.id": "test",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    try:
        partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
        yield Topic(consumer)
    finally:
        consumer.close()


def delete_topic(servers: str, topic: str) -> None:
    """Delete a topic, and wait until it is gone."""
    admin = admin_client(Kafka(servers))
    admin.delete_topics([topic])[topic].result()
    eventually(lambda: topic not in topic_names(Kafka(servers)))
