"""Kafka's side of a receiver's test: records to be received, and what a group has committed."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from confluent_kafka import Consumer, Producer, TopicPartition
from tests.edges.amqp.conftest import KafkaDoor

from isthmus.converters import MessageConverter, converter
from isthmus.edges.amqp.server.receivers import KafkaOutgoingLinks
from isthmus.edges.amqp.server.receivers.outgoing_link import Undeliverable, skip
from isthmus.kafka.blocking import QUIET, create_topics
from isthmus.kafka.options import Kafka


def new_topic(servers: str, partitions: int = 1) -> str:
    name = f"records-{uuid.uuid4().hex[:8]}"
    create_topics(Kafka(servers), [name], partitions)
    return name


def publish(
    servers: str,
    topic: str,
    values: Iterable[str | bytes | None],
    partition: int = 0,
    headers: Mapping[str, str] | None = None,
) -> None:
    producer = Producer({"bootstrap.servers": servers}, logger=QUIET)
    for value in values:
        producer.produce(topic, value, partition=partition, headers=dict(headers or {}))
    assert producer.flush(20) == 0


def committed(servers: str, topic: str, group: str, partition: int = 0) -> int:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group}, logger=QUIET)
    try:
        return consumer.committed([TopicPartition(topic, partition)], timeout=10)[0].offset
    finally:
        consumer.close()


@contextmanager
def receiving_door(
    servers: str,
    convert: str | MessageConverter = "default",
    *,
    undeliverable: Undeliverable = skip,
    auto_create: bool = True,
    queue_views: bool = False,
) -> Iterator[KafkaDoor]:
    made = converter(convert) if isinstance(convert, str) else convert
    temporary_topic = new_topic(servers, 2)
    outgoing_links = KafkaOutgoingLinks(
        Kafka(servers),
        lambda _: made,
        temporary_topic=temporary_topic,
        undeliverable=undeliverable,
        auto_create=auto_create,
        queue_views=queue_views,
        partitions=1,
    )
    with KafkaDoor(servers, outgoing_links=outgoing_links) as door:
        door.temporary_topic = temporary_topic
        yield door


def answer(servers: str, temporary_topic: str, address: str, text: str) -> None:
    """What the router publishes when a Kafka client answers to a temporary queue."""
    producer = Producer({"bootstrap.servers": servers}, logger=QUIET)
    producer.produce(temporary_topic, text, key=address, headers={"jms.Destination": address})
    assert producer.flush(20) == 0
