"""Shared subscriptions: who shares one in this process takes its messages in turn, as in a queue.

::

    Kafka ──► GroupSource ──► SharedReader ──► Queue ──► QueueSource ──► link
                                                 ▲           │
                                                 └── settle ─┘

A process has one member in the subscription's consumer group, however many receive here. What one of them
gives back, or leaves undecided, is handed out again from memory, to it or to another. Kafka hears of a record
when all before it in its partition are done with, too.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Collection, Sequence
from functools import partial
from math import inf
from typing import Final

from isthmus.edges.amqp.server.receivers.group import GroupSource, Reading
from isthmus.edges.amqp.server.receivers.queue import Convert, Queue, QueueSource, Undeliverable
from isthmus.edges.amqp.server.receivers.record_source import Acknowledgement
from isthmus.errors import Refused
from isthmus.kafka.options import Kafka
from isthmus.kafka.records import AcquiredRecord, Lock, PolledRecord
from isthmus.kafka.share import ShareListener
from isthmus.kafka.share_session import AcknowledgeType

_FOREVER: Final = Lock(inf)
_UNLIMITED: Final = sys.maxsize
"""How often a message of a subscription is delivered in vain: as often as it takes."""


class SharedReader:
    """A member of a consumer group, as a `Queue` takes one: its records are locked until they are settled."""

    def __init__(self, kafka: Kafka, reading: Reading, listener: ShareListener) -> None:
        self.idle = False
        """Whether Kafka had nothing when it was last asked."""
        self._listener = listener
        self._source = GroupSource(kafka, reading)
        self._held: dict[tuple[int, int], AcquiredRecord] = {}

    # What the queue calls

    def start(self) -> None:
        """Join the group."""
        self._source.start(self)

    @property
    def held(self) -> int:
        """How many records are not settled."""
        return len(self._held)

    def request(self, count: int, *, drain: bool = False) -> None:
        """Have so many records read."""
        self.idle = False  # since it was last asked something may have come
        self._source.request(count, drain=drain)

    def holds(self, record: AcquiredRecord) -> bool:
        """Whether nobody else can have the record meanwhile."""
        return self._held.get(_place(record)) is record

    def acknowledge(self, record: AcquiredRecord, how: AcknowledgeType) -> None:
        """Be done with a record. One that is released is read again by whoever has its partition next."""
        if self.holds(record):
            del self._held[_place(record)]
            if how is not AcknowledgeType.RELEASE:
                self._source.settle(record, Acknowledgement.ACCEPT)

    def refused(self, record: AcquiredRecord) -> bool:  # noqa: ARG002
        """Whether an acceptance did not hold: one of a record that is not held any more is none."""
        return False

    def forget(self, record: AcquiredRecord) -> None:
        """It is forgotten already: its partition is another's."""

    async def is_alone(self) -> bool:
        """Whether there is nobody to leave records to: another has its own partitions."""
        return True

    async def flush(self) -> None:
        """Have what was settled committed."""
        await self._source.flush()

    async def flush_within(self) -> None:
        """The same, which does not take long in any case."""
        await self._source.flush()

    async def close(self) -> None:
        """Commit, and leave the group, within seconds."""
        await self._source.close()

    # What the source calls

    def on_records(self, records: Sequence[PolledRecord], *, redelivered: bool = False) -> None:  # noqa: ARG002
        """Hand records on."""
        acquired = [AcquiredRecord(each.topic, each.partition, each.read, 1, _FOREVER) for each in records]
        self._held |= {_place(each): each for each in acquired}
        self._listener.on_acquired(acquired)

    def on_idle(self) -> None:
        """There is nothing more at the moment."""
        self.idle = True
        self._listener.on_idle()

    def on_revoked(self, partitions: Collection[int]) -> None:
        """Let go of what another reads now."""
        lost = [each for each in self._held.values() if each.partition in partitions]
        for record in lost:
            del self._held[_place(record)]
        self._listener.on_lost(lost)

    def on_failed(self, condition: str, description: str) -> None:
        """Nothing more can come."""
        self._listener.on_failed(Refused(condition, description))


class SharedReaders:
    """The shared subscriptions that receivers of this process read. To be used on one event loop."""

    def __init__(self, kafka: Kafka, *, undeliverable: Undeliverable) -> None:
        self._kafka = kafka
        self._undeliverable = undeliverable
        self._queues: dict[str, Queue] = {}

    def source(self, reading: Reading, *, convert: Convert) -> QueueSource:
        """Records for one more receiver, who is to be started at once."""
        queue = self._queues.get(reading.group)
        if queue is None or not queue.in_use:
            queue = self._queues[reading.group] = Queue(
                reading.topic,
                partial(SharedReader, self._kafka, reading),
                convert=convert,
                undeliverable=self._undeliverable,
                max_deliveries=_UNLIMITED,
                delivery_limit=_UNLIMITED,
                stays=True,
            )
        return QueueSource(queue, at_most_once=False)

    async def leave(self, group: str) -> None:
        """Leave a subscription's group if nobody receives from it here any more, within seconds."""
        queue = self._queues.get(group)
        if queue is not None and not queue.receivers:
            del self._queues[group]
            await queue.close()

    async def close(self) -> None:
        """Leave all groups, within seconds."""
        await asyncio.gather(*(queue.close() for queue in self._queues.values()))


def _place(record: PolledRecord) -> tuple[int, int]:
    return record.partition, record.offset
