"""Waits for the router, so that who looks at a queue sees what was accepted before he came.

A message is accepted once the journal has it, and is in its topic some milliseconds later. The end of the
journal says which messages may still be on their way to a topic; the end of the topic, which have arrived.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import aclosing, suppress
from typing import Final

from aiokafka.errors import KafkaError
from aiokafka.structs import ConsumerRecord

from isthmus.journal.layout import OP, STABLE_ID, Op, find_topic, stable_id
from isthmus.kafka.admin import KafkaAdmin
from isthmus.kafka.consumer import Consumer
from isthmus.kafka.options import Kafka

WINDOW_S: Final = 2.0
"""What is older is not looked for: it is published, or the router is far behind."""
MOST: Final = 1000
"""How many of the last records of each of the journal's partitions are looked at."""
PATIENCE_S: Final = 1.0
"""How long is waited. A message may never come: the router may find that it cannot be published."""
_BATCH: Final = 500
_ADD: Final = (OP, Op.ADD.encode())


class Unpublished:
    """What a journal has and topics have not. To be used on one event loop."""

    def __init__(self, kafka: Kafka, admin: KafkaAdmin, journal_topic: str) -> None:
        self._kafka = kafka
        self._admin = admin
        self._journal = journal_topic

    async def wait(self, topic: str, partitions: Collection[int]) -> None:
        """Return when a topic has what the journal has for it now, or is not likely to have it soon.

        Raises `HardFailure` when Kafka does not answer.
        """
        since_ms = int((time.time() - WINDOW_S) * 1000)
        with suppress(TimeoutError, KafkaError, OSError):
            async with asyncio.timeout(PATIENCE_S):
                sent = await self._sent(topic, since_ms)
                if sent:
                    await self._arrived(sent, topic, partitions, since_ms)

    async def _sent(self, topic: str, since_ms: int) -> set[bytes | None]:
        """The ids of what was sent to a topic lately."""
        found = await self._admin.topic(self._journal)
        partitions = [] if found is None else found.partitions
        sent: set[bytes | None] = set()
        first = await self._admin.since(self._journal, partitions, since_ms)
        ends = await self._admin.ends(self._journal, first)
        left = {number for number, offset in first.items() if offset < ends[number]}
        if not left:
            return sent
        positions = {number: max(first[number], ends[number] - MOST) for number in left}
        async with aclosing(self._read(self._journal, positions)) as batches:
            async for records in batches:
                for record in records:
                    if record.offset + 1 >= ends[record.partition]:
                        left.discard(record.partition)
                    if next(iter(record.headers), None) == _ADD and _is_for(topic, record):
                        sent.add(stable_id(self._journal, record.partition, record.offset).encode())
                if not (left and records):  # behind the last record there may be the end of a transaction
                    break
        return sent

    async def _arrived(
        self, sent: set[bytes | None], topic: str, partitions: Collection[int], since_ms: int
    ) -> None:
        """Return when all of it is published."""
        positions = await self._admin.ends(topic, partitions)
        positions |= await self._admin.since(topic, partitions, since_ms)
        async with aclosing(self._read(topic, positions)) as batches:
            async for records in batches:
                sent.difference_update(dict(record.headers).get(STABLE_ID) for record in records)
                if not sent:
                    break

    async def _read(
        self, topic: str, positions: Mapping[int, int]
    ) -> AsyncGenerator[list[ConsumerRecord], None]:
        """What there is from these positions on, and what comes; nothing whenever that was all for now."""
        consumer = Consumer(self._kafka, topic, positions=positions)
        try:
            consumer.start()
            consumer.resume()
            while True:
                records = await consumer.poll(_BATCH, PATIENCE_S)
                if records or consumer.at_end:
                    yield records
        finally:
            await consumer.close()


def _is_for(topic: str, record: ConsumerRecord) -> bool:
    """Whether a record of the journal will be in a topic, as that of its address."""
    found = find_topic(record.headers)
    return found is not None and found.is_destination and found.name == topic
