"""JMS queues: every record of a topic goes to one receiver, as brokers do it, from a Kafka share group.

::

    Kafka ──► ShareMember ──► Queue ──► QueueSource ──► link     one member for all receivers of this process
                                 ▲           │
                                 └── settle ─┘

Records go to the receivers that have credit, in turn and in order; to those with a selector what it is true
for. What a receiver gives back, or rolls back, is handed out again from memory, in its old place: first to
that receiver, if it has credit, else to another. Kafka hears of a record when it is accepted, or when nobody
here wants it any more. So Kafka's count of deliveries, which ends a record's life, grows with the processes
that had it and not with rollbacks.

What no receiver's selector is true for stays locked, and waits for one that wants it, while the queue reads
on: as far as Kafka's ``share.partition.max.record.locks`` goes, and `LOOK_AHEAD_BYTES`.

The last delivery that Kafka allows is not handed out: the record goes to the dead letters, and is accepted.
So does one that applications had, in vain, ``amqp.max-deliveries`` times. What they had is counted here, for
as long as this process remembers; a record that another process had counts as delivered: it may have been.

A queue that nobody wants anything from is left after a second: in Kafka a member that rests keeps its
partitions from the others. To join again takes some milliseconds. What waits is kept, while this is the only
member, for ten minutes: to leave would count as a delivery. If there are others, what nobody here wants is
released, for them: after a second, and after twice as long each further time, until Kafka would allow only
one more delivery.

Messages of one group (``JMSXGroupID``) go to one receiver of the process, for as long as it is there.

What a receiver declines (``modified`` with undeliverable-here) is for the others, those that come later
included. It goes to the dead letters once all that want it have declined it, and no other has come for
`DECLINED_S`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

from isthmus.codecs.amqp import AmqpMessage
from isthmus.converters import ReceivedRecord
from isthmus.edges.amqp.server.receivers.record_source import (
    KAFKA_SUBSCRIBE,
    Acknowledgement,
    RecordSink,
)
from isthmus.edges.amqp.server.receivers.selected import has_expired
from isthmus.edges.amqp.server.receivers.selector import Selector
from isthmus.edges.amqp.server.receivers.turns import Turns
from isthmus.edges.amqp.server.receivers.waiting import View, Waiting, by_priority, group_of
from isthmus.errors import HardFailure, RedeliveryFailure, RefusedFailure, SoftFailure
from isthmus.events.amqp import DeadLetterHeldBack, QueueBlocked
from isthmus.kafka.faults import reason
from isthmus.kafka.records import AcquiredRecord, PolledRecord
from isthmus.kafka.share import ShareListener
from isthmus.kafka.share_session import AcknowledgeType

REST_S: Final = 1.0
"""How long nothing is wanted before records that wait are released, and the group is left."""
HOLD_S: Final = 600.0
"""How long what waits is kept when the last receiver is gone and no other process is there."""
YIELD_S: Final = 0.1
"""How long nothing is asked for after something was released, so that others get it."""
REMEMBERED: Final = 65_536
"""How many records that were released are remembered, for what applications had of them."""
TAKEN: Final = 200
"""How many records more than there are a view may have, that others have taken."""
LOOK_AHEAD: Final = 500
"""How many records more than there is credit for are read at once, if many were in vain."""
LOOK_AHEAD_BYTES: Final = 64 * 2**20
"""How much of what nobody wants is held in memory."""
MAX_GROUPS: Final = 16_384
"""How many message groups have a receiver; the oldest is free for any then."""
DECLINED_S: Final = 30.0
"""How long a record that all receivers have declined waits for another."""
RETRY_S: Final = 1.0
"""How long lie between two attempts to write a dead letter."""

Undeliverable = Callable[[ReceivedRecord, SoftFailure], Awaitable[None]]
"""Keeps a record that no receiver takes, as the policy says. Raises `HardFailure` if it cannot."""
Convert = Callable[[AcquiredRecord], AmqpMessage]
"""The message of a record, for selectors. Raises `SoftFailure`."""


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
    async def is_alone(self) -> bool: ...  # noqa: D102
    async def flush(self) -> None: ...  # noqa: D102
    async def flush_within(self) -> None: ...  # noqa: D102
    async def close(self) -> None: ...  # noqa: D102


class QueueSource:
    """A queue's records for one receiver."""

    def __init__(self, queue: Queue, *, at_most_once: bool, selector: Selector | None = None) -> None:
        self.wanted = 0
        self.draining = False
        self.selector = selector
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

    def decline(self, record: PolledRecord, *, failed: bool) -> bool:
        """Leave a record to other receivers."""
        assert isinstance(record, AcquiredRecord)
        self._queue.decline(record, self)
        self.settle(record, Acknowledgement.FAIL if failed else Acknowledgement.RELEASE)
        return True

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
        convert: Convert,
        undeliverable: Undeliverable,
        on_refused: Callable[[int], None] = lambda _: None,
        max_deliveries: int = 10,
        delivery_limit: int = 10,
        stays: bool = False,
        rest_s: float = REST_S,
        hold_s: float = HOLD_S,
        declined_s: float = DECLINED_S,
        retry_s: float = RETRY_S,
        turns: Turns | None = None,
    ) -> None:
        """``delivery_limit`` is Kafka's, ``max_deliveries`` that of applications.

        With ``stays`` the group is not left while there are receivers, whether they want anything or not.
        ``on_refused`` is told how many acceptances Kafka did not take.
        """
        self.topic = topic
        self._join_group = join
        self._convert = convert
        self._on_refused = on_refused
        self._undeliverable = undeliverable
        self._max_deliveries = max_deliveries
        self._delivery_limit = delivery_limit
        self._stays = stays
        self._rest_s = rest_s
        self._hold_s = hold_s
        self._declined_s = declined_s
        self._turns = turns or Turns()
        self._abandoned_at = 0.0
        """When the last receiver left."""
        self._yields = False
        self._sharing: asyncio.Task[None] | None = None
        self._retry_s = retry_s
        self._loop = asyncio.get_running_loop()
        self._receivers: dict[QueueSource, View] = {}
        self._views: dict[str | None, View] = {}
        """By the text of their selector."""
        self._waiting: dict[tuple[int, int], Waiting] = {}
        """What nobody has, by partition and offset: what no selector is true for is in no view."""
        self._waiting_bytes = 0
        self._is_full = False
        self._remembered: dict[tuple[int, int], int] = {}
        """How often applications had records that were released to Kafka, in vain."""
        self._declined: dict[tuple[int, int], set[QueueSource]] = {}
        """Who must not have a record again, for as long as they are there."""
        self._owners: dict[bytes, QueueSource] = {}
        """Who has a message group."""
        self._member: Member | None = None
        self._leaving: asyncio.Task[None] | None = None
        self._resting: asyncio.TimerHandle | None = None
        self._dispatching = False
        self._dead_lettering: set[asyncio.Task[None]] = set()

    # What sources call

    def add(self, source: QueueSource) -> None:
        """Take a receiver in."""
        text = None if source.selector is None else source.selector.text
        view = self._views.get(text)
        if view is None:
            served = max((each.served for each in self._views.values()), default=0)
            view = self._views[text] = View(source.selector, served, self._owners)
            for waiting in sorted(self._waiting.values(), key=lambda each: each.order):
                view.offer(waiting)
        view.receivers.append(source)
        self._receivers[source] = view

    @property
    def receivers(self) -> int:
        """How many there are."""
        return len(self._receivers)

    @property
    def in_use(self) -> bool:
        """Whether anybody receives from it, or it is still a member of its group."""
        return bool(self._receivers) or self._member is not None or self._leaving is not None

    async def remove(self, source: QueueSource) -> None:
        """Let a receiver go: what it gave back is for the others."""
        view = self._receivers.pop(source, None)
        self._abandoned_at = self._loop.time()
        if view is not None:
            view.receivers.remove(source)
            self._disown(source)
            if self._declined:
                for declined in self._declined.values():
                    declined.discard(source)
                self._declined = {key: declined for key, declined in self._declined.items() if declined}
            if not view.receivers:
                text = None if view.selector is None else view.selector.text
                self._views.pop(text, None)
            self._update_demand()
        await self.flush()

    async def flush(self) -> None:
        """Return when Kafka has what was accepted, or is not likely to have it soon."""
        if self._member is not None:
            await self._member.flush_within()

    def on_request(self, source: QueueSource) -> None:
        """A receiver's credit has changed."""
        if self._waiting:
            self._dispatch_soon()
        self._update_demand()
        view = self._receivers.get(source)
        is_seen = view is not None and not view.unseen
        if source.wanted and is_seen and self._member is not None and self._member.idle:
            self._loop.call_soon(source.on_idle)

    def settle(self, record: AcquiredRecord, acknowledgement: Acknowledgement, source: QueueSource) -> None:
        """Do as a receiver says with a record."""
        if acknowledgement is Acknowledgement.ACCEPT or acknowledgement is Acknowledgement.REJECT:
            self._accept(record)
            return
        if acknowledgement is Acknowledgement.FAIL:
            record.deliveries += 1
        if record.deliveries >= self._max_deliveries:
            said = f"delivered {record.deliveries} times, and never accepted"
            self._dead_letter(record, RedeliveryFailure(said))
        elif not self.holds(record) and self._member is not None:
            self._member.forget(record)
        else:
            self._put(record, source)
            self._dispatch_soon()

    def decline(self, record: AcquiredRecord, source: QueueSource) -> None:
        """Have a record go to a receiver no more."""
        if source in self._receivers:
            self._declined.setdefault((record.partition, record.offset), set()).add(source)
            if len(self._declined) > REMEMBERED:
                del self._declined[next(iter(self._declined))]

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
        if self._sharing is not None:
            self._sharing.cancel()
        for task in list(self._dead_lettering):
            task.cancel()
        self._leave()
        if self._leaving is not None:
            await self._leaving

    # What the member calls

    def on_acquired(self, records: list[AcquiredRecord]) -> None:
        """Take records, in order."""
        fresh = []
        for record in records:
            if record.delivery_count > 1:
                key = record.partition, record.offset
                record.deliveries = self._remembered.pop(key, record.deliveries)
                if record.delivery_count >= self._delivery_limit:
                    said = f"Kafka has handed it out {record.delivery_count} times, the most that it does"
                    self._dead_letter(record, RedeliveryFailure(said))
                    continue
            fresh.append(record)
        source = self._only_receiver(len(fresh))
        if source is not None:
            for record in fresh:
                self._own(group_of(record.read), source)
            source.hand_over(sorted(fresh, key=by_priority))
        else:
            for record in fresh:
                self._put(record)
        self._dispatch()

    def on_idle(self) -> None:
        """Tell those who drain their link that there is nothing."""
        for source, view in list(self._receivers.items()):
            if source.wanted and not view.unseen:
                source.on_idle()

    def on_lost(self, records: Sequence[AcquiredRecord]) -> None:
        """Forget what waits here and may be somebody else's. What was sent may get its lock back."""
        for record in records:
            waiting = self._waiting.get((record.partition, record.offset))
            if waiting is not None and self._member is not None:
                self._take(waiting)
                self._remember(record)
                self._member.forget(record)
        self._discard()

    def on_refused(self, accepted: int) -> None:
        """Count acceptances that came too late."""
        self._on_refused(accepted)

    def on_failed(self, error: Exception) -> None:
        """Tell all receivers that nothing more comes."""
        self._leave()
        for source in list(self._receivers):
            source.on_failed(reason(error))

    # Inside

    def _only_receiver(self, count: int) -> QueueSource | None:
        """Who gets records without their waiting: one with credit for all, and nobody else to think of."""
        if self._waiting or self._declined or len(self._receivers) != 1:
            return None
        ((source, view),) = self._receivers.items()
        return source if view.selector is None and source.wanted >= count else None

    def _own(self, group: bytes | None, source: QueueSource) -> None:
        """Have a message group go to a receiver, from now on."""
        if group is not None and self._owners.get(group) is not source:
            before = self._owners.pop(group, None)
            self._owners[group] = source
            if len(self._owners) > MAX_GROUPS:
                before = self._owners.pop(next(iter(self._owners)))
            if before is not None and self._waiting:
                self._dispatch_soon()  # there may be what waited for that one alone

    def _disown(self, source: QueueSource) -> None:
        """Have others get what was for a receiver that is gone."""
        groups = [group for group, owner in self._owners.items() if owner is source]
        for group in groups:
            del self._owners[group]
        if groups and self._waiting:
            self._dispatch_soon()

    def _dispatch_soon(self) -> None:
        """Not at once: whoever asks is in the middle of it."""
        if not self._dispatching:
            self._dispatching = True
            self._loop.call_soon(self._dispatch)

    def _put(self, record: AcquiredRecord, giver: QueueSource | None = None) -> None:
        """Have a record wait, for all whose selector is true for it."""
        key = record.partition, record.offset
        declined = self._declined.get(key) if self._declined else None
        waiting = Waiting(record, giver, self._loop.time(), declined)
        self._waiting[key] = waiting
        self._waiting_bytes += waiting.size
        for view in self._views.values():
            view.offer(waiting)

    def _take(self, waiting: Waiting) -> AcquiredRecord:
        waiting.taken = True
        record = waiting.record
        del self._waiting[record.partition, record.offset]
        self._waiting_bytes -= waiting.size
        return record

    def _discard(self) -> None:
        for view in self._views.values():
            view.discard()

    def _compare(self) -> None:
        """Compare what no selector was compared with, as far as there is time."""
        for view in self._views.values():
            while view.unseen:
                if not self._turns.has_time():
                    self._turns.later(self._dispatch)
                    return
                waiting = view.unseen.popleft()
                if not waiting.taken:
                    self._compare_with(view, waiting)

    def _compare_with(self, view: View, waiting: Waiting) -> None:
        try:
            message = self._convert(waiting.record)
        except SoftFailure:
            view.keep(waiting)  # the link finds out, too, and puts it where it belongs
            return
        if has_expired(message):
            self._accept(self._take(waiting))
        elif view.selector is None or view.selector.wants(message):
            view.keep(waiting)

    def _dispatch(self) -> None:
        """Hand out what there is credit for, one to each in turn."""
        self._dispatching = False
        self._compare()
        handed: dict[QueueSource, list[AcquiredRecord]] = {}
        views = list(self._views.values())
        for view in views:
            view.begin()
        while True:
            views = [each for each in views if each.hungry and each.find_next()]
            if not views:
                break
            view = views[0] if len(views) == 1 else min(views, key=_next_up)
            waiting = view.next
            if waiting.giver is not None:  # it goes to that one first
                other = self._receivers.get(waiting.giver)
                if other in views and waiting.giver in other.hungry and other.next is waiting:
                    view = other
            source = view.choose()
            self._own(waiting.group, source)
            mine = handed.setdefault(source, [])
            mine.append(self._take(waiting))
            view.served += 1
            if len(mine) == source.wanted:
                view.hungry.remove(source)
        for source, records in handed.items():
            source.hand_over(records)
        for view in self._views.values():
            if len(view.fitting) > 2 * len(self._waiting) + TAKEN:  # others have taken most of it
                view.discard()
        self._update_demand()

    def _wanted(self) -> int:
        """How many records to ask Kafka for: what there is credit for, and more if many are in vain."""
        wanted = sum(view.wanted for view in self._views.values())
        full = self._waiting_bytes > LOOK_AHEAD_BYTES
        if full and wanted and not self._is_full:
            QueueBlocked(self.topic, len(self._waiting)).emit()
        self._is_full = full
        return 0 if full or self._yields or not wanted else wanted + min(len(self._waiting), LOOK_AHEAD)

    def _update_demand(self) -> None:
        """Tell the member what is wanted, and join if there is none. If nothing is, rest."""
        wanted = self._wanted()
        if wanted > 0 and self._member is None:
            self._join()
        if self._waiting or not self._is_wanted:
            self._rest_soon()
        if self._member is not None:
            draining = any(each.draining for each in self._receivers if each.wanted)
            self._member.request(wanted, drain=draining)

    def _join(self) -> None:
        if self._leaving is not None:
            return  # it joins again once it has left
        self._member = self._join_group(self)
        self._member.start()

    def _rest_soon(self) -> None:
        if self._member is not None and self._resting is None and self._sharing is None:
            self._resting = self._loop.call_later(self._rest_s, self._rest)

    def _rest(self) -> None:
        """See what is to become of what waits. If nothing does, and nobody wants or holds anything, leave."""
        self._resting = None
        if self._member is None:
            return
        if self._waiting:
            self._sharing = self._loop.create_task(self._share(self._member))
            self._sharing.add_done_callback(self._shared)
        elif not (self._is_wanted or (self._stays and self._receivers)):
            if self._member.held or self._dead_lettering:
                self._rest_soon()
            else:
                self._leave()

    async def _share(self, member: Member) -> None:
        """Keep what waits, or let other processes have it."""
        is_alone = await member.is_alone()
        if member is not self._member:
            return
        if self._declined:
            self._give_up_declined()
        is_abandoned = not self._receivers and self._loop.time() >= self._abandoned_at + self._hold_s
        is_free = member.held == len(self._waiting) and not self._dead_lettering
        if is_free and (is_abandoned or not (is_alone or self._is_wanted)):
            self._leave()
            return
        released = [] if is_alone and not is_abandoned else [*filter(self._may_go, self._waiting.values())]
        if not released:
            return
        for waiting in released:
            self._release(waiting)
        self._discard()
        self._yields = True
        try:
            self._update_demand()
            await member.flush_within()
            await asyncio.sleep(YIELD_S)
        finally:
            self._yields = False

    def _shared(self, _: asyncio.Task[None]) -> None:
        self._sharing = None
        self._update_demand()

    def _may_go(self, waiting: Waiting) -> bool:
        """Whether others may have it now: each time it counts as delivered, and waits longer for the next."""
        times = waiting.record.delivery_count
        patience_s = self._rest_s * 2 ** (times - 1)
        if waiting.group is not None and waiting.group in self._owners:
            return False  # it is for a receiver here
        return times < self._delivery_limit - 1 and self._loop.time() >= waiting.since + patience_s

    def _give_up_declined(self) -> None:
        """Dead-letter what nobody who wants it may have, and has waited for another long enough."""
        until = self._loop.time() - self._declined_s
        for waiting in [each for each in self._waiting.values() if each.declined and each.since <= until]:
            others = [view for source, view in self._receivers.items() if waiting.may_go_to(source)]
            if not any(waiting in view.fitting or waiting in view.unseen for view in others):
                said = "undeliverable at every receiver there is"
                self._dead_letter(self._take(waiting), RefusedFailure(said))
        self._discard()

    @property
    def _is_wanted(self) -> bool:
        return any(each.wanted for each in self._receivers)

    def _release(self, waiting: Waiting) -> None:
        record = self._take(waiting)
        self._remember(record)
        if self._member is not None:
            self._member.acknowledge(record, AcknowledgeType.RELEASE)

    def _leave(self) -> None:
        member, self._member = self._member, None
        if member is None:
            return
        for waiting in list(self._waiting.values()):  # ending the session releases them
            self._remember(self._take(waiting))
        self._discard()
        self._leaving = self._loop.create_task(member.close())
        self._leaving.add_done_callback(self._left)

    def _left(self, _: asyncio.Task[None]) -> None:
        self._leaving = None
        self._update_demand()

    def _accept(self, record: AcquiredRecord) -> None:
        if self._declined:
            self._declined.pop((record.partition, record.offset), None)
        if self._member is not None:
            self._member.acknowledge(record, AcknowledgeType.ACCEPT)

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
                    DeadLetterHeldBack(self.topic, problem).emit()
                troubled = True
                await asyncio.sleep(self._retry_s)
        self._accept(record)


def _next_up(view: View) -> tuple[tuple[int, int, int], int]:
    return view.next.order, view.served
