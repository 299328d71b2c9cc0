"""What keeps the ledger's time when nothing else happens.

The ledger runs a batch only when its topics have something new: one for nothing costs as much as one
with work. A transaction that is left alone must time out all the same, so the clock has a topic of its own,
into which it ticks. What a tick says does not matter; that it comes is all.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from confluent_kafka import KafkaError

from isthmus.kafka.blocking import create_topics, producer
from isthmus.kafka.options import Kafka

LONGEST_TICK_S, SHORTEST_TICK_S = 15.0, 0.5
TICKS_A_TIMEOUT = 20
"""Where nothing else happens, a transaction is rolled back late by so small a part of its time-out."""

_TOPIC_CONFIG = {"retention.ms": str(60 * 60 * 1000), "segment.ms": str(60 * 60 * 1000)}


def prepare_clock(kafka: Kafka, topic: str) -> None:
    """Make the clock's topic if it is missing. Raises `HardFailure` when Kafka refuses."""
    create_topics(kafka, [topic], 1, _TOPIC_CONFIG)


class Clock:
    """Ticks, if it is called often enough. A tick that Kafka does not take is made up for by the next one."""

    def __init__(
        self, kafka: Kafka, topic: str, timeout_ms: int, now: Callable[[], float] = time.monotonic
    ) -> None:
        """``timeout_ms`` is after how long transactions are rolled back."""
        self._every_s = min(max(timeout_ms / 1000 / TICKS_A_TIMEOUT, SHORTEST_TICK_S), LONGEST_TICK_S)
        self._kafka = kafka
        self._topic = topic
        self._now = now
        self._due = now()
        self._wake_ms = math.inf
        self._missed = True
        """Whether Kafka did not get a tick. Its client may have lost its brokers for good: it is replaced."""

    def wake_at(self, time_ms: int) -> None:
        """Tick once more at a time, in milliseconds of Unix time."""
        self._wake_ms = min(self._wake_ms, time_ms)

    def poll(self) -> None:
        """Tick, if it is time."""
        if self._missed:
            self._missed = False
            options = {"message.timeout.ms": round(LONGEST_TICK_S * 1000)}
            self._producer = producer(self._kafka, options)
        self._producer.poll(0)
        if self._now() >= self._due or time.time() * 1000 >= self._wake_ms:
            self._wake_ms = math.inf  # whoever waits for more says so again
            self._due = self._now() + self._every_s
            self._producer.produce(self._topic, value=b"tick", on_delivery=self._told)

    def _told(self, error: KafkaError | None, _: object) -> None:
        self._missed = error is not None
