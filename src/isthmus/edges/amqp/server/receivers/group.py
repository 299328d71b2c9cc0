"""Records for a receiver from a Kafka consumer of its own.

The consumer is a member of a consumer group, or reads from given positions. At least once: it commits the
contiguous prefix of what was settled, now and then and when it loses a partition or ends. At most once: it
commits before it hands records over. While nothing is requested it reads nothing, and stays in its group.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NamedTuple

from aiokafka.errors import KafkaError

from isthmus.edges.amqp.server.receivers.prefix import ContiguousPrefix
from isthmus.edges.amqp.server.receivers.record_source import (
    KAFKA_COMMIT,
    KAFKA_SUBSCRIBE,
    Acknowledgement,
    RecordSink,
)
from isthmus.events.amqp import GroupNotCommitted
from isthmus.journal.layout import STABLE_ID, KafkaHeaders
from isthmus.kafka.consumer import EARLIEST, Consumer
from isthmus.kafka.faults import Fault, kind, reason
from isthmus.kafka.options import Kafka
from isthmus.kafka.records import PolledRecord

COMMIT_S: Final = 0.1
"""How long settlements are gathered before they are committed."""
COMMIT_TIMEOUT_S: Final = 5.0
LAST_COMMIT_S: Final = 3.0
"""How long the last commit of a receiver is tried: what it does not get in is delivered again."""
GRACE_S: Final = 0.1
"""How long a request waits for records before it is told that there are none. Kafka may have got some since
it was last heard of."""
IDLE_S: Final = 1.0
"""How long nothing is requested before what was read ahead is forgotten."""
BATCH: Final = 200
"""How many records are handed over in one turn of the loop."""
_FOREVER_S: Final = 3600.0


class SentFrom(NamedTuple):
    """A moment, by where the journal ended then.

    The router publishes what was sent a while after the journal has it: where a topic ends does not tell what
    had been sent to it by then.
    """

    journal: str
    """The journal's topic."""
    positions: Mapping[int, int]

    def is_after(self, headers: KafkaHeaders) -> bool:
        """Whether a record was sent later. One that did not come by this journal counts as such."""
        for name, value in headers:
            if name == STABLE_ID and value is not None:
                topic, _, place = value.decode(errors="replace").rpartition(":")
                topic, _, partition = topic.rpartition(":")
                if topic == self.journal and partition.isdecimal() and place.isdecimal():
                    return int(place) >= self.positions.get(int(partition), 0)
        return True


class Commits(Enum):
    """When offsets are committed."""

    BEFORE = "before records are handed over"
    AFTER = "after they were settled"
    NEVER = "never"


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What to read, and how."""

    topic: str
    group: str = ""
    """In whose name to commit; none: nothing is committed."""
    commits: Commits
    positions: Mapping[int, int] | None = None
    """Where to read from, see `Consumer`; none: what the group assigns."""
    note: str = ""
    """What is committed with the offsets, for whoever asks Kafka."""
    since: SentFrom | None = None
    """What was sent before is left out."""


class GroupSource:
    """Reads for one receiver, from `start` to `close`. To be used on one event loop."""

    def __init__(self, kafka: Kafka, reading: Reading) -> None:
        self._reading = reading
        self._consumer = Consumer(
            kafka,
            reading.topic,
            group=reading.group,
            positions=reading.positions,
            reset=EARLIEST,
            listener=self,
        )
        self._requested = 0
        self._demand = asyncio.Event()
        self._idle_from = 0.0
        """When to tell that there is nothing."""
        self._told_idle = False
        self._again: list[PolledRecord] = []
        self._prefixes: dict[int, ContiguousPrefix] = {}
        self._committing = asyncio.Lock()
        self._commit_due: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        self._sink: RecordSink

    # What the link calls

    def start(self, sink: RecordSink) -> None:
        """Join the group."""
        self._sink = sink
        self._consumer.start()
        self._spawn(self._run())

    def request(self, count: int, *, drain: bool = False) -> None:  # noqa: ARG002
        """Have that many records read."""
        self._requested = count
        self._idle_from = asyncio.get_running_loop().time() + GRACE_S
        self._told_idle = False
        if count:
            self._consumer.resume()
            self._consumer.wake()
            self._demand.set()

    def holds(self, record: PolledRecord) -> bool:  # noqa: ARG002
        """Nobody takes it away."""
        return True

    def settle(self, taken: PolledRecord, acknowledgement: Acknowledgement) -> None:
        """Count a record as done with, or hand it over again."""
        if acknowledgement in (Acknowledgement.ACCEPT, Acknowledgement.REJECT):
            prefix = self._prefixes.get(taken.partition)
            if prefix is not None:
                prefix.settle(taken.offset)
                self._commit_soon()
        elif not self._closed:
            if not self._again:
                asyncio.get_running_loop().call_soon(self._hand_over_again)
            self._again.append(taken.again(failed=acknowledgement is Acknowledgement.FAIL))

    def decline(self, record: PolledRecord, *, failed: bool) -> bool:  # noqa: ARG002
        """A partition has one reader: no other receiver can have it before this one is gone."""
        return False

    async def flush(self) -> None:
        """Return when Kafka has what was settled, or is not likely to have it soon."""
        await self._commit(LAST_COMMIT_S)

    async def close(self) -> None:
        """Commit, and leave the group, within seconds."""
        self._closed = True
        if self._commit_due is not None:
            self._commit_due.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._commit(LAST_COMMIT_S)
        await self._consumer.close()

    # What the consumer calls

    def on_assigned(self, partitions: Collection[int]) -> None:
        """Begin with these partitions."""
        self._prefixes = {partition: ContiguousPrefix() for partition in partitions}

    async def on_revoked(self, partitions: Collection[int]) -> None:
        """Commit what was settled, and let go of the rest."""
        await self._commit(LAST_COMMIT_S)
        self.on_lost(partitions)

    def on_lost(self, partitions: Collection[int]) -> None:
        """Let go of these partitions."""
        self._prefixes = {}
        self._again = [each for each in self._again if each.partition not in partitions]
        self._sink.on_revoked(partitions)

    # Inside

    async def _run(self) -> None:
        try:
            while True:
                if self._requested:
                    await self._read()
                else:
                    await self._rest()
        except (KafkaError, OSError) as error:
            self._sink.on_failed(KAFKA_SUBSCRIBE, reason(error))

    async def _rest(self) -> None:
        """Wait for a request. After a while what was read ahead is left to be read again."""
        self._demand.clear()
        try:
            async with asyncio.timeout(IDLE_S):
                await self._demand.wait()
        except TimeoutError:
            self._consumer.pause()
            await self._demand.wait()

    async def _read(self) -> None:
        clock = asyncio.get_running_loop().time
        wait_s = _FOREVER_S if self._told_idle else max(0.0, self._idle_from - clock())
        records = await self._consumer.poll(min(self._requested, BATCH), wait_s)
        if records:
            await self._hand_over(records)
            await asyncio.sleep(0)  # others want their turn
        elif self._consumer.at_end:
            if not self._told_idle and clock() >= self._idle_from:
                self._told_idle = True
                self._sink.on_idle()
        elif clock() >= self._idle_from:
            self._idle_from = clock() + GRACE_S

    async def _hand_over(self, records: list[Any]) -> None:
        taken = [PolledRecord(each.topic, each.partition, each) for each in records]
        since = self._reading.since
        wanted = []
        for each in taken:
            is_wanted = since is None or since.is_after(each.read.headers)
            prefix = self._prefixes.setdefault(each.partition, ContiguousPrefix())
            prefix.take(each.offset)
            if self._reading.commits is Commits.BEFORE or not is_wanted:
                prefix.settle(each.offset)
            if is_wanted:
                wanted.append(each)
        if self._reading.commits is Commits.BEFORE and not await self._commit(COMMIT_TIMEOUT_S):
            self._go_back(taken)
            return
        self._requested = max(0, self._requested - len(wanted))
        if wanted:
            self._sink.on_records(wanted)

    def _go_back(self, taken: list[PolledRecord]) -> None:
        """Read records again that could not be committed, and so were not handed over."""
        lowest: dict[int, int] = {}
        for each in taken:
            lowest.setdefault(each.partition, each.offset)
        for partition, offset in lowest.items():
            if partition in self._prefixes:
                self._prefixes[partition] = ContiguousPrefix()
                self._consumer.seek(partition, offset)

    def _hand_over_again(self) -> None:
        again, self._again = self._again, []
        again.sort(key=lambda each: (each.partition, each.offset))
        if again and not self._closed:
            self._sink.on_records(again, redelivered=True)

    def _commit_soon(self) -> None:
        if self._commit_due is None and not self._closed and self._reading.commits is Commits.AFTER:
            due = asyncio.get_running_loop().call_later(COMMIT_S, self._commit_in_background)
            self._commit_due = due

    def _commit_in_background(self) -> None:
        self._spawn(self._commit_and_go_on())

    async def _commit_and_go_on(self) -> None:
        await self._commit(COMMIT_TIMEOUT_S)
        self._commit_due = None
        if any(prefix.due is not None for prefix in self._prefixes.values()):
            self._commit_soon()

    async def _commit(self, timeout_s: float) -> bool:
        """Commit what is due. False if Kafka did not take it, which is then due again later."""
        if self._reading.commits is Commits.NEVER:
            return True
        async with self._committing:
            due = {
                partition: (prefix, prefix.due)
                for partition, prefix in self._prefixes.items()
                if prefix.due is not None
            }
            if not due:
                return True
            try:
                await self._consumer.commit(
                    {partition: offset for partition, (_, offset) in due.items()},
                    timeout_s,
                    self._reading.note,
                )
            except (KafkaError, OSError) as error:
                self._not_committed(error)
                return False
            for prefix, offset in due.values():
                prefix.committed(offset)
            return True

    def _not_committed(self, error: Exception) -> None:
        is_member = self._reading.positions is None
        if kind(error) is Fault.RETRIABLE or (is_member and kind(error) is Fault.FENCED):
            return  # it is tried again, or the next owner delivers again
        GroupNotCommitted(self._reading.topic, self._reading.group, reason(error)).emit()
        if not self._closed:
            self._sink.on_failed(KAFKA_COMMIT, reason(error))

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
