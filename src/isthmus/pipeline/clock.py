"""What keeps the ledger's time when nothing else happens.

The ledger runs a batch only when its topics have something new: one for nothing costs as much as one
with work. A transaction that is left alone must time out all the same, and a delayed message is due at its
time. So each batch tells when the next one is needed, and the clock ticks then: in a topic of its own, with
as many records as wake the ledger. What they say does not matter. The first tick has a ledger that has just
started tell what it waits for.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from confluent_kafka import KafkaError, Producer

from isthmus.journal.wake_ledger import LOOK_RECORDS
from isthmus.kafka.blocking import producer
from isthmus.kafka.options import Kafka

LONGEST_SLEEP_S = 3_600.0
"""What a ledger that died in the wrong moment did not tell is found out after so long."""

_GIVE_UP_S = 15.0


def wake_ledger(
    producer: Producer, topic: str, on_delivery: Callable[[KafkaError | None, object], None] | None = None
) -> None:
    """Wake the ledger whose clock has that topic; ``on_delivery`` hears what became of the last record."""
    for _ in range(LOOK_RECORDS - 1):
        producer.produce(topic)
    producer.produce(topic, on_delivery=on_delivery)


class Clock:
    """Ticks, if it is called often enough. A tick that Kafka does not take is made up for at once."""

    def __init__(self, kafka: Kafka, topic: str, now: Callable[[], float] = time.time) -> None:
        """``now`` tells Unix time."""
        self._kafka = kafka
        self._topic = topic
        self._now = now
        self._due = now()
        self._missed = True
        """Whether Kafka did not get a tick. Its client may have lost its brokers for good: it is replaced."""

    def wake_at(self, time_ms: int) -> None:
        """Tick at a time, in milliseconds of Unix time, or before that."""
        self._due = min(self._due, time_ms / 1000)

    @property
    def due_in_s(self) -> float:
        """How long there is nothing to do; 0 if it is time to tick."""
        return 0.0 if self._missed else max(0.0, self._due - self._now())

    def poll(self) -> None:
        """Tick, if it is time."""
        if self._missed:
            self._missed, self._due = False, self._now()
            options = {"message.timeout.ms": round(_GIVE_UP_S * 1000)}
            self._producer = producer(self._kafka, options)
        self._producer.poll(0)
        if self._now() >= self._due and not len(self._producer):
            self._due = self._now() + LONGEST_SLEEP_S  # the batch that follows tells what is waited for
            wake_ledger(self._producer, self._topic, self._told)

    def _told(self, error: KafkaError | None, _: object) -> None:
        self._missed = error is not None
