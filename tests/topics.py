"""A topic, read as it grows: a test that looks again and again reads every record once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, TopicPartition

from isthmus.kafka.options import Kafka

LOOK_S = 0.3


class Topic:
    """All that was found in a topic."""

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
