"""A share session: one member's requests to one broker, one at a time, each with the next epoch.

A request acquires records, acknowledges others, or renews their locks. A session that is lost, with its
connection or its broker, is opened again: what was on its way is sent once more, and what is held is seen to
be locked still, or not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

from aiokafka.errors import KafkaError
from aiokafka.protocol.api import Request

from isthmus.events.kafka import QueueSessionFailed
from isthmus.kafka.faults import (
    INVALID_RECORD_STATE,
    INVALID_SHARE_SESSION_EPOCH,
    SHARE_SESSION_NOT_FOUND,
    Fault,
    KafkaRefusal,
    fault_of_code,
    kind,
    raise_for,
)
from isthmus.kafka.records import AcquiredRecord, Lock, acknowledgement_batches, acquired_records
from isthmus.kafka.share_requests import PartitionAcknowledgements, ShareAcknowledge, ShareFetch

if TYPE_CHECKING:
    from isthmus.kafka.share import ShareMember


RETRY_S: Final = 0.1
"""How long a broker that could not do something is left alone; it doubles, up to a second."""
EXACT_BELOW: Final = 256
"""How many records are acquired one by one; above, whole batches come."""
MAX_BYTES: Final = 4 * 2**20
"""How much one fetch brings, a larger record excepted: what is read at once keeps the loop busy."""
LOST: Final = Lock(0.0)
"""The lock of a record that somebody else may have."""

_SESSION_GONE: Final = (SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH)


class AcknowledgeType(IntEnum):
    """Kafka's types of acknowledgement."""

    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class SharePartition:
    """What this member has of a partition."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.leader: int | None = None
        self.assigned = False
        self.held: dict[int, AcquiredRecord] = {}
        """Records that are not acknowledged, by offset."""
        self.due: dict[int, int] = {}
        """Acknowledgements to be sent, by offset."""
        self.too_late: dict[int, int] = {}
        """Acceptances that Kafka refused: should the record be acquired again, it is accepted then."""
        self.lost = 0
        """How many of those that are held have lost their lock."""

    def lose(self, records: Iterable[AcquiredRecord]) -> list[AcquiredRecord]:
        """Note that locks are lost. Returns the records that had one."""
        lost = [each for each in records if each.lock is not LOST]
        for each in lost:
            each.lock = LOST
        self.lost += len(lost)
        return lost


class ShareSession:
    """A share session with one broker. Its requests go one at a time, each with the next epoch."""

    def __init__(self, member: ShareMember, leader: int) -> None:
        self.leader = leader
        self.found_nothing = False
        self._member = member
        self._loop = asyncio.get_running_loop()
        self._epoch = 0
        self._known: set[int] = set()
        """The partitions that the broker has in the session."""
        self._unsure = False
        """Whether the connection was lost since records were acquired."""
        self._lock_s = 30.0
        self._renewed_at = self._loop.time()
        self._gathering: asyncio.TimerHandle | None = None
        self._hurrying = False
        self._waiting: asyncio.TimerHandle | None = None
        self._ready = asyncio.Event()
        self._ready.set()
        self._closing = False
        self._task = self._loop.create_task(self._run())

    # What the member calls

    def wake(self) -> None:
        """Look whether there is something to do."""
        self._ready.set()

    def acknowledgements_due(self) -> None:
        """Send acknowledgements, soon: a fetch may take them along."""
        if self._gathering is None and not self._ready.is_set():
            self._gathering = self._loop.call_later(self._member.gather_s, self.hurry)

    def hurry(self) -> None:
        """Send acknowledgements now."""
        self._gathering = None
        self._hurrying = True
        self._ready.set()

    def begin_anew(self) -> None:
        """Open another session with the next request."""
        self._epoch = 0
        self._known.clear()

    async def close(self) -> None:
        """Wait for the request that is out, and end the session: what is locked is released."""
        self._closing = True
        self._ready.set()
        await asyncio.wait([self._task])
        if self._epoch > 0:
            await self._send(ShareAcknowledge(*self._session(-1), []))

    def abort(self) -> None:
        """End it without a word."""
        self._task.cancel()

    # Inside

    async def _run(self) -> None:
        retry_s = RETRY_S
        while not self._closing:
            try:
                await self._turn()
                retry_s = RETRY_S
            except (KafkaError, OSError, TimeoutError) as error:
                if kind(error) is Fault.FINAL:
                    self._member.fail(error)
                    return
                self._member.complain(error)
                await asyncio.sleep(retry_s)
                retry_s = min(1.0, 2 * retry_s)
                self._member.moved()
            except Exception as error:  # whatever it is, those who wait for records must be told
                QueueSessionFailed(self._member.topic).emit(trace=error)
                self._member.fail(error)
                return

    async def _turn(self) -> None:
        """One request, once there is a need for one."""
        member = self._member
        partitions = member.partitions_of(self.leader)
        if self._unsure and self._epoch > 0:
            await self._renew(partitions, verify=True)
            self._unsure = False
        elif self._loop.time() > self._renewed_at + self._lock_s / 3:
            await self._renew(partitions)
        claimed = member.claim(self)
        due = any(each.due for each in partitions)
        if claimed:
            await self._fetch(partitions, claimed)
        elif due and (self._hurrying or self._closing):
            self._hurrying = False
            await self._acknowledge(partitions)
        else:
            self._hurrying = False
            self._ready.clear()
            if due:
                self.acknowledgements_due()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._lock_s / 6):
                    await self._ready.wait()

    async def _fetch(self, partitions: list[SharePartition], claimed: int) -> None:
        member = self._member
        records: list[AcquiredRecord] = []
        sent = self._take_due(partitions) if self._epoch else {}
        assigned = {each.number for each in partitions if each.assigned}
        added = assigned - self._known
        forgotten = self._known - assigned
        request = ShareFetch(
            *self._session(self._epoch),
            _partitions(sent, added),
            forgotten=sorted(forgotten),
            max_wait_ms=int(self._wait_s(partitions) * 1000),
            max_bytes=MAX_BYTES,
            max_records=claimed,
            exact=claimed < EXACT_BELOW,
        )
        sent_at = self._loop.time()
        waiting = self._loop.call_later(member.idle_s, self._waits)
        self._hurrying = False
        try:
            answer = await self._send(request, sent)
            self._known = assigned
            self._lock_s = answer.lock_timeout_ms / 1000 or self._lock_s
            lock = Lock(sent_at + self._lock_s)
            unanswered = dict(sent)
            for _, answers, _ in answer.topics:
                for number, code, said, acknowledged, _, _, data, ranges, _ in answers:
                    partition = member.partitions[number]
                    if number in unanswered:
                        await self._answered(partition, unanswered.pop(number), acknowledged or code)
                    if code:
                        self._on_partition_error(number, code, said)
                    elif ranges:
                        found, gaps = acquired_records(member.topic, number, data, ranges, lock)
                        records += found
                        member.gap(partition, gaps)
            for number, acknowledgements in unanswered.items():
                member.answered(member.partitions[number], acknowledgements, 0)
        finally:
            waiting.cancel()
            if records:
                self.found_nothing = False
            member.acquired(claimed, records)
        if not records:
            self._waits()

    async def _acknowledge(self, partitions: list[SharePartition]) -> None:
        if self._epoch == 0:
            await self._open()
        await self._tell(self._take_due(partitions))

    async def _tell(self, due: dict[int, dict[int, int]]) -> None:
        answer = await self._send(ShareAcknowledge(*self._session(self._epoch), _partitions(due)), due)
        codes = _codes(answer)
        for number, sent in due.items():
            await self._answered(self._member.partitions[number], sent, codes.get(number, 0))

    async def _answered(self, partition: SharePartition, sent: dict[int, int], code: int) -> None:
        """Kafka takes a partition's acknowledgements together or not at all: find those that it takes."""
        if code == INVALID_RECORD_STATE and len(sent) > 1 and not self._unsure:
            offsets = sorted(sent)
            for half in (offsets[: len(offsets) // 2], offsets[len(offsets) // 2 :]):
                await self._tell({partition.number: {offset: sent[offset] for offset in half}})
            return
        if code and fault_of_code(code) is Fault.RETRIABLE:
            self._on_partition_error(partition.number, code, None)
        self._member.answered(partition, sent, code)

    async def _renew(self, partitions: list[SharePartition], *, verify: bool = False) -> None:
        """Have locks last, or see after a lost connection whether they still do."""
        self._renewed_at = self._loop.time()
        for partition in partitions:
            locked = {offset: each for offset, each in partition.held.items() if each.lock is not LOST}
            if not locked:
                continue
            if self._epoch == 0:
                await self._open()
            if self._member.renews:
                await self._renew_some(partition, locked, verify=verify)
            elif verify:
                self._member.lost(partition.lose(locked.values()))
            else:
                now = self._loop.time()
                self._member.lost(partition.lose(each for each in locked.values() if each.lock.until < now))

    async def _renew_some(
        self, partition: SharePartition, locked: dict[int, AcquiredRecord], *, verify: bool
    ) -> None:
        renewals = {partition.number: dict.fromkeys(locked, int(AcknowledgeType.RENEW))}
        sent_at = self._loop.time()
        request = ShareAcknowledge(*self._session(self._epoch), _partitions(renewals), renews=True)
        answer = await self._send(request)
        code = _codes(answer).get(partition.number, 0)
        if code == 0:
            lock = Lock(sent_at + self._lock_s)
            for record in locked.values():
                record.lock = lock
        elif fault_of_code(code) is Fault.RETRIABLE:
            self._on_partition_error(partition.number, code, None)
        elif len(locked) == 1 or verify:
            self._member.lost(partition.lose(locked.values()))
        else:
            offsets = sorted(locked)
            for half in (offsets[: len(offsets) // 2], offsets[len(offsets) // 2 :]):
                some = {offset: locked[offset] for offset in half}
                await self._renew_some(partition, some, verify=False)

    async def _open(self) -> None:
        """Open a session without acquiring anything: acknowledgements need one."""
        await self._send(
            ShareFetch(
                *self._session(0), [], forgotten=[], max_wait_ms=0, max_bytes=1, max_records=1, exact=True
            )
        )

    async def _send(self, request: Request[Any], sent: dict[int, dict[int, int]] | None = None) -> Any:
        """Send a request of the session. If it fails, the acknowledgements in it are due again."""
        try:
            answer = await self._member.client.send(self.leader, request, connection=self._member)
            raise_for(answer.error_code, answer.error_message)
        except BaseException as error:
            for number, acknowledgements in (sent or {}).items():
                partition = self._member.partitions[number]
                partition.due = acknowledgements | partition.due
            if not isinstance(error, KafkaRefusal) or error.errno in _SESSION_GONE:
                self.begin_anew()
                self._unsure = True
            raise
        self._epoch = 1 if self._epoch == 2**31 - 1 else self._epoch + 1
        return answer

    def _session(self, epoch: int) -> tuple[str, str, int, bytes]:
        member = self._member
        return member.group, member.id, epoch, member.topic_id

    def _take_due(self, partitions: list[SharePartition]) -> dict[int, dict[int, int]]:
        """The acknowledgements that are to be sent, which are not due any more."""
        taken = {}
        for partition in partitions:
            if partition.due:
                taken[partition.number] = partition.due
                partition.due = {}
        return taken

    def _wait_s(self, partitions: list[SharePartition]) -> float:
        member = self._member
        if member.draining and self._epoch:
            return 0.01
        if any(each.held for each in partitions) or len(member.sessions) > 1:
            return member.busy_wait_s
        return member.wait_s

    def _waits(self) -> None:
        self.found_nothing = True
        self._member.found_nothing()

    def _on_partition_error(self, number: int, code: int, said: str | None) -> None:
        self._known.discard(number)
        self._member.complain(KafkaRefusal(code, said))
        if fault_of_code(code) is Fault.FINAL:
            raise KafkaRefusal(code, said)
        self._member.moved()


def _partitions(
    acknowledgements: dict[int, dict[int, int]], others: Iterable[int] = ()
) -> PartitionAcknowledgements:
    found: PartitionAcknowledgements = [
        (number, acknowledgement_batches(due), {}) for number, due in acknowledgements.items()
    ]
    found += [(number, [], {}) for number in others if number not in acknowledgements]
    return found


def _codes(answer: Any) -> dict[int, int]:
    """The error of every partition in the answer to acknowledgements."""
    return {number: code for _, partitions, _ in answer.topics for number, code, *_ in partitions}
