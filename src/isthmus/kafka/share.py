"""A member of a share group (KIP-932), on the event loop: it acquires records, and acknowledges each of them.

::

    request(n) ──► ShareFetch ──► on_acquired(records)     each locked for this member
                       ▲                │
                       └── acknowledge(record, how) ◄──    rides on the next fetch, or goes by itself

What it guarantees:

- no more records are acquired than were requested, where the broker has the record-limit mode (Kafka 4.2); a
  large request takes whole batches, which costs the broker less;
- a lock is renewed for as long as the record is not acknowledged (Kafka 4.2);
- an acknowledgement is sent until Kafka has it. One that Kafka refuses, since the lock is lost, is told to
  `ShareListener.on_refused`;
- a record whose lock was lost, with a broker or a connection, and which this member acquires again while its
  first copy is still held, is not handed out a second time: the copy has the lock again. Nor is one whose
  acceptance was on its way: it is accepted again;
- what a fetch brings that was out when the member is closed is nobody's: it goes back to Kafka;
- leaders move, sessions are lost, members fenced, brokers restarted: it goes on, however long that takes.

A member has one session with every broker that leads a partition of its. Requests of a session go one at a
time, so a fetch waits long only while there is nothing that could be acknowledged meanwhile.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

from aiokafka.errors import KafkaError

from isthmus.events.kafka import (
    AcknowledgementsRefused,
    LocksLost,
    QueueAvailable,
    QueueLeftUnannounced,
    QueueSessionFailed,
    QueueUnavailable,
)
from isthmus.kafka.client import ResilientClient
from isthmus.kafka.faults import (
    Fault,
    fault_of_code,
    kind,
    name_of,
    raise_for,
    reason,
)
from isthmus.kafka.records import GAP, AcquiredRecord
from isthmus.kafka.share_requests import ShareGroupHeartbeat, renews_locks
from isthmus.kafka.share_session import LOST, RETRY_S, AcknowledgeType, SharePartition, ShareSession
from isthmus.kafka.share_state import members_of

JOIN_S: Final = 0.02
"""How long lie between two heartbeats of a member that has no assignment yet; it doubles."""

_UNKNOWN_MEMBER: Final = 25
_FENCED_MEMBER: Final = 110


class ShareListener(Protocol):
    """Who takes the records. All is called on the loop."""

    def on_acquired(self, records: list[AcquiredRecord]) -> None:
        """Records are locked for this member: each is to be acknowledged."""
        ...

    def on_idle(self) -> None:
        """Kafka has nothing more at the moment."""
        ...

    def on_lost(self, records: Sequence[AcquiredRecord]) -> None:
        """The locks of these are lost: another member may get them, or this one again."""
        ...

    def on_refused(self, accepted: int) -> None:
        """So many acceptances came too late: Kafka delivers those records again."""
        ...

    def on_failed(self, error: Exception) -> None:
        """Nothing more can come."""
        ...


class ShareMember:
    """One member of a share group, which reads one topic, from `start` to `close`."""

    def __init__(
        self,
        client: ResilientClient,
        group: str,
        topic: str,
        listener: ShareListener,
        *,
        wait_s: float = 0.5,
        busy_wait_s: float = 0.05,
        idle_s: float = 0.1,
        gather_s: float = 0.01,
        close_s: float = 5.0,
    ) -> None:
        """``wait_s`` is how long a fetch waits for records, ``busy_wait_s`` while some are not acknowledged.

        ``idle_s``: a fetch that waits for so long tells that there is nothing. ``gather_s``: how long
        acknowledgements wait for others if no fetch takes them along. ``close_s``: how long `close` may take.
        """
        self.group = group
        self.topic = topic
        self.id = str(uuid.uuid4())
        self.idle = False
        """Whether Kafka had nothing when it was last asked."""
        self.wait_s = wait_s
        self.busy_wait_s = busy_wait_s
        self.idle_s = idle_s
        self.gather_s = gather_s
        self.topic_id = b""
        self.listener = listener
        self.client = client
        self.draining = False
        self.renews = True
        """Whether the brokers renew locks."""
        self._close_s = close_s
        self._loop = asyncio.get_running_loop()
        self.partitions: dict[int, SharePartition] = {}
        self.sessions: dict[int, ShareSession] = {}
        self._wanted = 0
        self._claimed = 0
        """How many of those that are wanted have been asked for."""
        self._arriving: list[AcquiredRecord] = []
        """Records that the listener will have in a moment."""
        self._epoch = 0
        self._assigned: frozenset[int] = frozenset()
        self._undecided = 0
        """How many acknowledgements Kafka has not answered."""
        self._flushed = asyncio.Event()
        self._membership: asyncio.Task[None] | None = None
        self._closing = False
        self._moving = asyncio.Event()
        self._trouble = ""

    def start(self) -> None:
        """Join the group."""
        self._membership = self._loop.create_task(self._stay())

    # What its user calls

    def request(self, count: int, *, drain: bool = False) -> None:
        """Have so many records acquired from now on: it replaces what was said before.

        ``drain`` asks for those that are there: `ShareListener.on_idle` comes at once if there are none.
        """
        if count and not self._wanted:
            self.idle = False  # since then something may have come
        self._wanted = max(0, count - len(self._arriving))
        self.draining = drain
        if self._wanted:
            self._wake_all()

    @property
    def held(self) -> int:
        """How many records are locked for this member and not acknowledged."""
        return sum(len(each.held) for each in self.partitions.values())

    def holds(self, record: AcquiredRecord) -> bool:
        """Whether the record is still locked for this member."""
        return record.lock.until > self._loop.time()

    def acknowledge(self, record: AcquiredRecord, how: AcknowledgeType) -> None:
        """Decide on a record. A second word on it changes nothing."""
        partition = self.partitions[record.partition]
        if partition.held.get(record.offset) is not record:
            return
        del partition.held[record.offset]
        if record.lock is LOST:
            partition.lost -= 1
            if how is AcknowledgeType.ACCEPT:
                partition.too_late[record.offset] = how
                self.listener.on_refused(1)
            return
        partition.due[record.offset] = how
        self._undecided += 1
        session = None if partition.leader is None else self.sessions.get(partition.leader)
        if session is not None:
            session.acknowledgements_due()

    async def flush(self) -> None:
        """Return when Kafka has answered every acknowledgement."""
        while self._undecided:
            self._flushed.clear()
            for session in self.sessions.values():
                session.hurry()
            await self._flushed.wait()

    async def flush_within(self) -> None:
        """Return when Kafka has answered every acknowledgement, or is not likely to."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._close_s):
                await self.flush()

    def refused(self, record: AcquiredRecord) -> bool:
        """Whether Kafka did not take the acceptance of a record."""
        return record.offset in self.partitions[record.partition].too_late

    async def close(self) -> None:
        """Send what is acknowledged, let go of what is not, and leave the group: within a bounded time."""
        self._closing = True
        self._wanted = 0
        if self._membership is None:
            return
        try:
            async with asyncio.timeout(self._close_s):
                await self.flush()
                ending = [session.close() for session in self.sessions.values()]
                await asyncio.gather(*ending, return_exceptions=True)
                if self._epoch > 0:
                    await self._leave()
        except (KafkaError, OSError, TimeoutError) as error:
            # Kafka notices that the connections are closed, and releases what was locked.
            QueueLeftUnannounced(self.topic, reason(error)).emit()
        finally:
            self._membership.cancel()
            for session in self.sessions.values():
                session.abort()
            with suppress(asyncio.CancelledError):
                await self._membership
            self.client.drop(self)

    async def is_alone(self) -> bool:
        """Whether the group has no other member; also if Kafka does not tell."""
        try:
            async with asyncio.timeout(self._close_s):
                return not set(await members_of(self.client, self.group)) - {self.id}
        except (KafkaError, OSError):
            return True

    # Membership

    async def _stay(self) -> None:
        """Join the group, and stay in it: heartbeat after heartbeat."""
        pause_s, retry_s = JOIN_S, RETRY_S
        try:
            while True:
                try:
                    interval_s = await self._heartbeat()
                    await self._place_partitions()
                    retry_s = RETRY_S
                except (KafkaError, OSError, TimeoutError) as error:
                    if kind(error) is Fault.FINAL:
                        raise
                    self.complain(error)
                    self.client.forget_coordinator(self.group)
                    await asyncio.sleep(retry_s)
                    retry_s = min(1.0, 2 * retry_s)
                    continue
                if self._assigned:
                    pause_s = JOIN_S
                    self._moving.clear()
                    with suppress(TimeoutError):
                        async with asyncio.timeout(interval_s):
                            await self._moving.wait()
                else:
                    await asyncio.sleep(pause_s)
                    pause_s = min(interval_s, 2 * pause_s)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # whatever it is, those who wait for records must be told
            self.fail(error)

    async def _heartbeat(self) -> float:
        """Tell the coordinator that we are there. Returns when to do so again."""
        topics = [self.topic] if self._epoch == 0 else None
        request = ShareGroupHeartbeat(self.group, self.id, self._epoch, topics)
        if self._epoch == 0:
            self.renews = renews_locks(await self.client.versions())
        coordinator = await self.client.coordinator(self.group)
        answer = await self.client.send(coordinator, request)
        if answer.error_code in (_UNKNOWN_MEMBER, _FENCED_MEMBER):
            self._epoch = 0  # the locks are the partitions' leaders' affair, and go by the member's id
            return JOIN_S
        raise_for(answer.error_code, answer.error_message)
        self._epoch = answer.member_epoch
        if answer.assignment is not None:
            self._assign(answer.assignment[0])
        if self._trouble:
            self._trouble = ""
            QueueAvailable(self.topic).emit()
        return float(answer.heartbeat_interval_ms) / 1000

    async def _leave(self) -> None:
        coordinator = await self.client.coordinator(self.group)
        await self.client.send(coordinator, ShareGroupHeartbeat(self.group, self.id, -1, None))

    def _assign(self, topics: Sequence[tuple[bytes, list[int], Any]]) -> None:
        assigned: set[int] = set()
        for topic_id, partitions, _ in topics:
            if self.topic_id not in (b"", topic_id):  # the topic was deleted, and made again
                self._forget_topic()
            self.topic_id = topic_id
            assigned.update(partitions)
        self._assigned = frozenset(assigned)
        for number in assigned:
            self.partitions.setdefault(number, SharePartition(number))
        for partition in self.partitions.values():
            partition.assigned = partition.number in assigned

    def _forget_topic(self) -> None:
        for partition in self.partitions.values():
            self.lost(partition.lose(partition.held.values()))
            self._decided(len(partition.due))
            partition.due.clear()
            partition.too_late.clear()
        for session in self.sessions.values():
            session.begin_anew()

    async def _place_partitions(self) -> None:
        """Have every partition read from the broker that leads it."""
        for partition in self.partitions.values():
            leader = await self.client.leader(self.topic, partition.number)
            if leader == partition.leader:
                continue
            if partition.leader is not None:  # the new leader knows of no locks
                self.lost(partition.lose(partition.held.values()))
            partition.leader = leader
        for leader in {each.leader for each in self.partitions.values() if each.leader is not None}:
            if leader not in self.sessions:
                self.sessions[leader] = ShareSession(self, leader)
        self._wake_all()

    # What sessions call

    def partitions_of(self, leader: int) -> list[SharePartition]:
        """The partitions that a broker leads."""
        return [each for each in self.partitions.values() if each.leader == leader]

    def claim(self, session: ShareSession) -> int:
        """How many records a session may acquire now: its part of those that are wanted.

        What has lost its lock is wanted, too, to have the lock again.
        """
        if self._closing or not any(each.assigned for each in self.partitions_of(session.leader)):
            return 0
        lost = sum(each.lost for each in self.partitions.values())
        free = self._wanted + lost - self._claimed
        if free <= 0:
            return 0
        count = -(-free // len(self.sessions))
        self._claimed += count
        return count

    def acquired(self, claimed: int, records: list[AcquiredRecord]) -> None:
        """A fetch has ended."""
        self._claimed -= claimed
        fresh = []
        for record in records:
            partition = self.partitions[record.partition]
            offset = record.offset
            known = partition.held.get(offset)
            if known is not None:
                if known.lock is LOST:
                    partition.lost -= 1
                known.lock = record.lock
            elif offset in partition.too_late:
                partition.due[offset] = partition.too_late.pop(offset)
                self._undecided += 1
            elif offset not in partition.due:
                partition.held[offset] = record
                fresh.append(record)
        self._wanted = max(0, self._wanted - len(fresh))
        if fresh and not self._closing:  # else the end of the session releases them
            self.idle = False
            if not self._arriving:
                self._loop.call_soon(self._hand_on)  # the next request goes first: Kafka works meanwhile
            self._arriving += fresh
        if self._wanted:
            self._wake_all()

    def _hand_on(self) -> None:
        arrived, self._arriving = self._arriving, []
        if self._closing:
            return
        records = [each for each in arrived if each.lock is not LOST]
        for each in arrived:
            self.forget(each)
        try:
            self.listener.on_acquired(records)
        except Exception as error:  # whatever it is, those who wait for records must be told
            QueueSessionFailed(self.topic).emit(trace=error)
            self.fail(error)

    def found_nothing(self) -> None:
        """A fetch has ended without records, or waits for some."""
        if self._arriving:
            return
        if not self.idle and all(each.found_nothing for each in self.sessions.values()):
            self.idle = True
        if self.idle:
            self.listener.on_idle()

    def answered(self, partition: SharePartition, sent: dict[int, int], code: int) -> None:
        """Kafka has answered acknowledgements: with 0, or the lock is lost, or it can be tried again."""
        if code == 0:
            self._decided(len(sent))
        elif fault_of_code(code) is Fault.RETRIABLE:
            partition.due = sent | partition.due
        else:
            accepted = {offset: how for offset, how in sent.items() if how == AcknowledgeType.ACCEPT}
            partition.too_late |= accepted
            self._decided(len(sent))
            if accepted:
                refused = len(accepted), partition.number, min(accepted)
                AcknowledgementsRefused(self.topic, *refused, name_of(code)).emit()
                self.listener.on_refused(len(accepted))

    def gap(self, partition: SharePartition, offsets: list[int]) -> None:
        """Offsets that were acquired have no record."""
        for offset in offsets:
            if offset not in partition.due:
                partition.due[offset] = GAP
                self._undecided += 1

    def lost(self, records: list[AcquiredRecord]) -> None:
        """Locks are lost."""
        if records:
            LocksLost(self.topic, len(records)).emit()
            self.listener.on_lost(records)
            self._wake_all()

    def forget(self, record: AcquiredRecord) -> None:
        """Give up a record whose lock is lost, and which nobody was given."""
        partition = self.partitions[record.partition]
        if record.lock is LOST and partition.held.get(record.offset) is record:
            del partition.held[record.offset]
            partition.lost -= 1

    def moved(self) -> None:
        """A broker does not lead what it was thought to: look again."""
        self.client.forget_topic(self.topic)
        self._moving.set()

    def fail(self, error: Exception) -> None:
        """Tell that nothing more can come."""
        if not self._closing:
            self.listener.on_failed(error)

    def complain(self, error: Exception) -> None:
        """Say that Kafka does not do what it should, once."""
        if not self._trouble:
            self._trouble = reason(error)
            QueueUnavailable(self.topic, self._trouble).emit()

    def _decided(self, count: int) -> None:
        self._undecided -= count
        if not self._undecided:
            self._flushed.set()

    def _wake_all(self) -> None:
        for session in self.sessions.values():
            session.wake()
