"""JMS queues: every record of a topic goes to one receiver, as brokers do it, from a Kafka share group.

::

    Kafka ──► ShareMember ──► Queue ──► QueueSource ──► link     one member for all receivers of this process
                                 ▲           │
                                 └── settle ─┘

Records go to the receivers that have credit, in turn and in order. What a receiver gives back, or rolls back,
is handed out again from memory, in its old place: first to that receiver, if it has credit, else to another.
Kafka hears of a record when it is accepted, or when nobody here wants it any more. So Kafka's count of
deliveries, which ends a record's life, grows with the processes that had it and not with rollbacks.

The last delivery that Kafka allows is not handed out: the record goes to the dead letters, and is accepted.
So does one that applications had, in vain, ``amqp.max-deliveries`` times. What they had is counted here, for
as long as this process remembers; a record that another process had counts as delivered: it may have been.

A queue that nobody wants anything from is left after a second: in Kafka a member that rests keeps its
partitions from the others. To join again takes some milliseconds.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import insort
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, Protocol

from isthmus.converters import ReceivedRecord
from isthmus.edges.amqp.server.receivers.record_source import (
    KAFKA_SUBSCRIBE,
    Acknowledgement,
    RecordSink,
)
from isthmus.errors import HardFailure, RedeliveryFailure, SoftFailure
from isthmus.kafka.client import ResilientClient
from isthmus.kafka.faults import reason
from isthmus.kafka.records import AcquiredRecord, PolledRecord
from isthmus.kafka.share import ShareListener, ShareMember
from isthmus.kafka.share_session import AcknowledgeType

log = logging.getLogger(__name__)

REST_S: Final = 1.0
"""How long nothing is wanted before records that wait are released, and the group is left."""
REMEMBERED: Final = 65_536
"""How many records that were released are remembered, for what applications had of them."""
KEPT: Final = 1000
"""How many queues that nobody receives from are remembered."""
RETRY_S: Final = 1.0
"""How long lie between two attempts to write a dead letter."""

Undeliverable = Callable[[ReceivedRecord, SoftFailure], Awaitable[None]]
"""Keeps a record that no receiver takes, as the policy says. Raises `HardFailure` if it cannot."""


class Member(Protocol):
    """A member of the queue's share group: `ShareMember` promises what this is for."""

    @property
    def idle(self) -> bool: ...  # noqa: D102
    @property
    def held(self) -> int: ...  # noqa: D102
    def start(self) -> None: ...  # noqa: D102
    def request(self, count: int, *, drain: bool = False) -> None: ...  # noqa: D102
    def holds(self, record: AcquiredRecord) -> bool: ...  # noqa: D102
    def acknowledge(self, record: AcquiredRecord, how: AcknowledgeType) -> None: ...  # noqa: D102
    def refused(self, record: AcquiredRecord) -> bool: ...  # noqa: D102
    def forget(self, record: AcquiredRecord) -> None: ...  # noqa: D102
    async def flush(self) -> None: ...  # noqa: D102
    async def flush_within(self) -> None: ...  # noqa: D102
    async def close(self) -> None: ...  # noqa: D102


class QueueSource:
    """A queue's records for one receiver."""

    def __init__(self, queue: Queue, *, at_most_once: bool) -> None:
        self.wanted = 0
        self.draining = False
        self._queue = queue
        self._at_most_once = at_most_once
        self._handing_over: asyncio.Task[None] | None = None
        self._sink: RecordSink

    def start(self, sink: RecordSink) -> None:
        """Remember who takes the records."""
        self._sink = sink
        self._queue.add(self)

    def request(self, count: int, *, drain: bool = False) -> None:
        """Have that many records handed over."""
        self.wanted = count
        self.draining = drain
        self._queue.on_request(self)

    def holds(self, record: PolledRecord) -> bool:
        """Whether an acceptance of the record would hold."""
        assert isinstance(record, AcquiredRecord)
        return self._queue.holds(record)

    def settle(self, record: PolledRecord, acknowledgement: Acknowledgement) -> None:
        """Accept a record, or have it handed out again."""
        assert isinstance(record, AcquiredRecord)
        if self._at_most_once and acknowledgement is Acknowledgement.ACCEPT:
            return  # it was accepted before it was handed over
        self._queue.settle(record, acknowledgement, self)

    async def close(self) -> None:
        """Leave the queue, once Kafka has what was accepted."""
        self.wanted = 0
        if self._handing_over is not None:
            await self._handing_over
        await self._queue.remove(self)

    # What the queue calls

    def hand_over(self, records: list[AcquiredRecord]) -> None:
        """Give records to the receiver."""
        self.wanted -= len(records)
        if self._at_most_once:
            self._handing_over = asyncio.create_task(self._accept_first(records, self._handing_over))
        else:
            self._sink.on_records(records)

    def on_idle(self) -> None:
        """See `RecordSink.on_idle`."""
        if self._handing_over is None or self._handing_over.done():
            self._sink.on_idle()

    def on_failed(self, description: str) -> None:
        """See `RecordSink.on_failed`."""
        self._sink.on_failed(KAFKA_SUBSCRIBE, description)

    async def _accept_first(self, records: list[AcquiredRecord], before: asyncio.Task[None] | None) -> None:
        accepted = await self._queue.accepted(records)
        if before is not None:
            await before
        self._sink.on_records(accepted)


class Queue:
    """The receivers of one queue in this process, and what waits for them."""

    def __init__(
        self,
        topic: str,
        join: Callable[[ShareListener], Member],
        *,
        undeliverable: Undeliverable,
        on_refused: Callable[[int], None] = lambda _: None,
        max_deliveries: int = 10,
        delivery_limit: int = 10,
        rest_s: float = REST_S,
        retry_s: float = RETRY_S,
    ) -> None:
        """``delivery_limit`` is Kafka's, ``max_deliveries`` that of applications.

        ``on_refused`` is told how many acceptances Kafka did not take.
        """
        self._topic = topic
        self._join_group = join
        self._on_refused = on_refused
        self._undeliverable = undeliverable
        self._max_deliveries = max_deliveries
        self._delivery_limit = delivery_limit
        self._rest_s = rest_s
        self._retry_s = retry_s
        self._loop = asyncio.get_running_loop()
        self._receivers: list[QueueSource] = []
        self._next = 0
        self._ready: deque[AcquiredRecord] = deque()
        """What nobody was given yet."""
        self._returned: list[tuple[int, int, AcquiredRecord, QueueSource]] = []
        """What was given back, by whom: by partition and offset."""
        self._remembered: dict[tuple[int, int], int] = {}
        """How often applications had records that were released to Kafka, in vain."""
        self._member: Member | None = None
        self._leaving: asyncio.Task[None] | None = None
        self._resting: asyncio.TimerHandle | None = None
        self._dispatching = False
        self._dead_lettering: set[asyncio.Task[None]] = set()

    # What sources call

    def add(self, source: QueueSource) -> None:
        """Take a receiver in."""
        self._receivers.append(source)

    @property
    def in_use(self) -> bool:
        """Whether anybody receives from it, or it is still a member of its group."""
        return bool(self._receivers) or self._member is not None or self._leaving is not None

    async def remove(self, source: QueueSource) -> None:
        """Let a receiver go: what it gave back is for the others."""
        if source in self._receivers:
            self._receivers.remove(source)
            own = [record for _, _, record, giver in self._returned if giver is source]
            if own:
                self._returned = [each for each in self._returned if each[3] is not source]
                self._ready.extendleft(reversed(own))
                self._dispatch_soon()
            self._update_demand()
        if self._member is not None:
            await self._member.flush_within()

    def on_request(self, source: QueueSource) -> None:
        """A receiver's credit has changed."""
        if self._ready or self._returned:
            self._dispatch_soon()
        self._update_demand()
        if source.wanted and self._member is not None and self._member.idle:
            self._loop.call_soon(source.on_idle)

    def settle(self, record: AcquiredRecord, acknowledgement: Acknowledgement, source: QueueSource) -> None:
        """Do as a receiver says with a record."""
        if acknowledgement is Acknowledgement.ACCEPT or acknowledgement is Acknowledgement.REJECT:
            if self._member is not None:
                self._member.acknowledge(record, AcknowledgeType.ACCEPT)
            return
        if acknowledgement is Acknowledgement.FAIL:
            record.deliveries += 1
        if record.deliveries >= self._max_deliveries:
            said = f"delivered {record.deliveries} times, and never accepted"
            self._dead_letter(record, RedeliveryFailure(said))
        elif not self.holds(record) and self._member is not None:
            self._member.forget(record)
        else:
            if source in self._receivers:
                insort(self._returned, (record.partition, record.offset, record, source), key=_position)
            else:
                self._ready.appendleft(record)
            self._dispatch_soon()

    def holds(self, record: AcquiredRecord) -> bool:
        """Whether a record is still locked for this process."""
        return self._member is not None and self._member.holds(record)

    async def accepted(self, records: list[AcquiredRecord]) -> list[AcquiredRecord]:
        """Those of the records of which Kafka takes the acceptance."""
        member = self._member
        assert member is not None
        for record in records:
            member.acknowledge(record, AcknowledgeType.ACCEPT)
        await member.flush()
        return [record for record in records if not member.refused(record)]

    async def close(self) -> None:
        """Leave the group, within a bounded time."""
        if self._resting is not None:
            self._resting.cancel()
        for task in list(self._dead_lettering):
            task.cancel()
        self._leave()
        if self._leaving is not None:
            await self._leaving

    # What the member calls

    def on_acquired(self, records: list[AcquiredRecord]) -> None:
        """Take records, in order."""
        for record in records:
            if record.delivery_count > 1:
                key = record.partition, record.offset
                record.deliveries = self._remembered.pop(key, record.deliveries)
                if record.delivery_count >= self._delivery_limit:
                    said = f"Kafka has handed it out {record.delivery_count} times, the most that it does"
                    self._dead_letter(record, RedeliveryFailure(said))
                    continue
            self._ready.append(record)
        self._dispatch()

    def on_idle(self) -> None:
        """Tell those who drain their link that there is nothing."""
        if not self._ready:
            for source in list(self._receivers):
                if source.wanted:
                    source.on_idle()

    def on_lost(self, records: Sequence[AcquiredRecord]) -> None:
        """Forget what waits here and may be somebody else's. What was sent may get its lock back."""
        lost = {(record.partition, record.offset) for record in records}
        waiting = [*self._ready, *(each[2] for each in self._returned)]
        for record in waiting:
            if (record.partition, record.offset) in lost and self._member is not None:
                self._remember(record)
                self._member.forget(record)
        self._ready = deque(each for each in self._ready if (each.partition, each.offset) not in lost)
        self._returned = [each for each in self._returned if each[:2] not in lost]

    def on_refused(self, accepted: int) -> None:
        """Count acceptances that came too late."""
        self._on_refused(accepted)

    def on_failed(self, error: Exception) -> None:
        """Tell all receivers that nothing more comes."""
        self._leave()
        for source in list(self._receivers):
            source.on_failed(reason(error))

    # Inside

    def _dispatch_soon(self) -> None:
        """Not at once: whoever asks is in the middle of it."""
        if not self._dispatching:
            self._dispatching = True
            self._loop.call_soon(self._dispatch)

    def _dispatch(self) -> None:
        """Hand out what there is credit for, one to each in turn."""
        self._dispatching = False
        handed: dict[QueueSource, list[AcquiredRecord]] = {}
        hungry = [each for each in self._receivers if each.wanted > 0]
        while hungry and self._returned:
            source = self._returned[0][3]
            if source not in hungry:
                source = hungry[self._next % len(hungry)]
                self._next += 1
            handed.setdefault(source, []).append(self._returned.pop(0)[2])
            if len(handed[source]) == source.wanted:
                hungry.remove(source)
        ready = self._ready
        if len(hungry) == 1 and ready:
            mine = handed.setdefault(hungry[0], [])
            for _ in range(min(len(ready), hungry[0].wanted - len(mine))):
                mine.append(ready.popleft())
        else:
            while hungry and ready:
                self._next += 1
                source = hungry[self._next % len(hungry)]
                mine = handed.setdefault(source, [])
                mine.append(ready.popleft())
                if len(mine) == source.wanted:
                    hungry.remove(source)
        for source, records in handed.items():
            source.hand_over(records)
        self._update_demand()

    def _update_demand(self) -> None:
        """Tell the member what is wanted, and join if there is none. If nothing is, rest."""
        wanted = sum(each.wanted for each in self._receivers) - len(self._ready) - len(self._returned)
        if wanted > 0:
            if self._resting is not None:
                self._resting.cancel()
                self._resting = None
            if self._member is None:
                self._join()
        elif self._resting is None and self._member is not None:
            self._resting = self._loop.call_later(self._rest_s, self._rest)
        if self._member is not None:
            draining = any(each.draining for each in self._receivers if each.wanted)
            self._member.request(max(0, wanted), drain=draining)

    def _join(self) -> None:
        if self._leaving is not None:
            return  # it joins again once it has left
        self._member = self._join_group(self)
        self._member.start()

    def _rest(self) -> None:
        """Release what nobody wants. If nobody holds anything, leave."""
        self._resting = None
        if any(each.wanted for each in self._receivers) or self._member is None:
            return
        if self._member.held == len(self._ready) and not self._dead_lettering:
            self._leave()
            return
        while self._ready:
            record = self._ready.popleft()
            self._remember(record)
            self._member.acknowledge(record, AcknowledgeType.RELEASE)
        self._resting = self._loop.call_later(self._rest_s, self._rest)

    def _leave(self) -> None:
        member, self._member = self._member, None
        if member is None:
            return
        for record in self._ready:  # ending the session releases them
            self._remember(record)
        self._ready.clear()
        self._returned.clear()
        self._leaving = self._loop.create_task(member.close())
        self._leaving.add_done_callback(self._left)

    def _left(self, _: asyncio.Task[None]) -> None:
        self._leaving = None
        self._update_demand()

    def _remember(self, record: AcquiredRecord) -> None:
        self._remembered[record.partition, record.offset] = record.deliveries
        if len(self._remembered) > REMEMBERED:
            del self._remembered[next(iter(self._remembered))]

    def _dead_letter(self, record: AcquiredRecord, failure: SoftFailure) -> None:
        task = self._loop.create_task(self._write_dead_letter(record, failure))
        self._dead_lettering.add(task)
        task.add_done_callback(self._dead_lettering.discard)

    async def _write_dead_letter(self, record: AcquiredRecord, failure: SoftFailure) -> None:
        """Keep a record elsewhere, however long it takes: it is not handed out any more."""
        troubled = False
        while True:
            try:
                await self._undeliverable(record.record, failure)
                break
            except HardFailure as problem:
                if not troubled:
                    log.error("queue %s: a dead letter is held back: %s", self._topic, problem)
                troubled = True
                await asyncio.sleep(self._retry_s)
        if self._member is not None:
            self._member.acknowledge(record, AcknowledgeType.ACCEPT)


def _position(returned: tuple[int, int, AcquiredRecord, QueueSource]) -> tuple[int, int]:
    return returned[:2]


class Queues:
    """The queues that receivers of this process read. To be used on one event loop."""

    def __init__(
        self, client: ResilientClient, *, undeliverable: Undeliverable, max_deliveries: int = 10
    ) -> None:
        self.not_acknowledged = 0
        """How many acceptances Kafka did not take: those records are delivered again."""
        self._client = client
        self._undeliverable = undeliverable
        self._max_deliveries = max_deliveries
        self._queues: dict[str, Queue] = {}

    def source(self, topic: str, group: str, *, delivery_limit: int, at_most_once: bool) -> QueueSource:
        """Records for one more receiver of a queue."""
        if group not in self._queues:
            if len(self._queues) >= KEPT:
                self._queues = {name: queue for name, queue in self._queues.items() if queue.in_use}
            self._queues[group] = Queue(
                topic,
                partial(ShareMember, self._client, group, topic),
                undeliverable=self._undeliverable,
                on_refused=self._count_refused,
                max_deliveries=self._max_deliveries,
                delivery_limit=delivery_limit,
            )
        return QueueSource(self._queues[group], at_most_once=at_most_once)

    async def close(self) -> None:
        """Leave all groups, within a bounded time."""
        await asyncio.gather(*(queue.close() for queue in self._queues.values()))

    def _count_refused(self, count: int) -> None:
        self.not_acknowledged += count
