"""The queues that receivers of a process read: each with one member of its share group."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

from isthmus.edges.amqp.server.receivers.queue import Convert, Queue, QueueSource, Undeliverable
from isthmus.edges.amqp.server.receivers.selector import Selector
from isthmus.edges.amqp.server.receivers.turns import Turns
from isthmus.kafka.client import ResilientClient
from isthmus.kafka.share import ShareMember

KEPT: Final = 1000
"""How many queues that nobody receives from are remembered."""


class Queues:
    """The queues that receivers of this process read. To be used on one event loop."""

    def __init__(
        self,
        client: ResilientClient,
        *,
        undeliverable: Undeliverable,
        max_deliveries: int = 10,
        turns: Turns | None = None,
    ) -> None:
        self.not_acknowledged = 0
        """How many acceptances Kafka did not take: those records are delivered again."""
        self._client = client
        self._undeliverable = undeliverable
        self._max_deliveries = max_deliveries
        self._turns = turns
        self._queues: dict[str, Queue] = {}

    def source(
        self,
        topic: str,
        group: str,
        *,
        convert: Convert,
        delivery_limit: int,
        at_most_once: bool,
        selector: Selector | None = None,
    ) -> QueueSource:
        """Records for one more receiver of a queue."""
        if group not in self._queues:
            if len(self._queues) >= KEPT:
                self._queues = self.in_use()
            self._queues[group] = Queue(
                topic,
                partial(ShareMember, self._client, group, topic),
                convert=convert,
                undeliverable=self._undeliverable,
                on_refused=self._count_refused,
                max_deliveries=self._max_deliveries,
                delivery_limit=delivery_limit,
                turns=self._turns,
            )
        return QueueSource(self._queues[group], at_most_once=at_most_once, selector=selector)

    def in_use(self) -> dict[str, Queue]:
        """Those that somebody receives from, by their groups."""
        return {group: queue for group, queue in self._queues.items() if queue.in_use}

    async def flush(self, group: str) -> None:
        """Have Kafka know what receivers of this process are done with, in a bounded time."""
        if group in self._queues:
            await self._queues[group].flush()

    async def close(self) -> None:
        """Leave all groups, within a bounded time."""
        await asyncio.gather(*(queue.close() for queue in self._queues.values()))

    def _count_refused(self, count: int) -> None:
        self.not_acknowledged += count
