"""Reads an edge's outbox and has every message delivered: at least once, in the order of its partition.

In: the records that the router wrote to ``isthmus.<bridge.id>.outbox.<edge>``. Out: `OutboundMessage`s,
batch after batch, to a `Delivery`. What it guarantees:

- a message is settled when it was delivered, or dead-lettered because it never can be;
- what is committed to Kafka is the contiguous prefix of settled messages: after each batch, when partitions
  are taken away, and at the end. After a crash the messages behind it are delivered again, with the same id;
- while the other system is unavailable the messages wait, and the consumer stays in its group;
- while Kafka is unavailable it waits too. Each change of state is one line in the log.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from aiokafka.errors import KafkaError

from isthmus.edges.contract import Delivery, OutboundMessage
from isthmus.edges.reconnect import LONGEST_WAIT_S, Backoff
from isthmus.edges.running import end_if_cancelled
from isthmus.errors import DecodeError, HardFailure, SoftFailure, Unreachable
from isthmus.events.edges import OutboxNotCommitted, OutboxReadable, OutboxUnreadable
from isthmus.journal import layout
from isthmus.journal.layout import Record
from isthmus.kafka.consumer import Consumer
from isthmus.kafka.faults import Fault, kind, reason
from isthmus.kafka.member import Timings
from isthmus.kafka.options import Kafka

DESTINATION: Final = "isthmus.destination"
"""The header of an outbox record that says where it goes."""
BATCH: Final = 500
POLL_S: Final = 1.0
"""How long a poll waits for records: so late may the log tell that Kafka is unavailable."""
LAST_COMMIT_S: Final = 5.0


class DeadLetters(Protocol):
    """Where a message goes that can never be delivered. It is settled once this returns."""

    async def __call__(self, message: OutboundMessage, failure: SoftFailure, /) -> None:
        """Dead-letter the message, with what is wrong with it."""
        ...


@dataclass(slots=True)
class OutboxCounts:
    """What became of messages since the start."""

    delivered: int = 0
    dead_letters: int = 0
    retries: int = 0
    times_s: deque[float] = field(default_factory=lambda: deque(maxlen=1000))
    """How long the last batches took to be delivered."""


def outbound_message(record: Record, position: str) -> OutboundMessage:
    """The message of an outbox record; ``position`` is its id if the record has none.

    Raises `DecodeError` for a record that does not say where it goes.
    """
    own = dict(record.headers)
    headers = [
        (name, value)
        for name, value in record.headers
        if name == layout.TYPES or not layout.is_reserved(name)
    ]
    identity = (own.get(layout.STABLE_ID) or b"").decode(errors="replace") or position
    destination = (own.get(DESTINATION) or b"").decode(errors="replace")
    if not destination:
        raise DecodeError(f"an outbox record without {DESTINATION}")
    return OutboundMessage(identity, destination, Record(record.key, record.value, headers))


class Outbox:
    """One member of the group that reads an outbox, from `run` until that is cancelled."""

    def __init__(
        self,
        kafka: Kafka,
        topic: str,
        delivery: Delivery,
        *,
        dead_letters: DeadLetters,
        group: str | None = None,
        batch: int = BATCH,
        longest_wait_s: float = LONGEST_WAIT_S,
    ) -> None:
        self.counts = OutboxCounts()
        self._topic = topic
        self._group = group or topic
        self._kafka = kafka
        self._delivery = delivery
        self._dead_letters = dead_letters
        self._batch = batch
        self._destination = Backoff(f"{topic}: the destination", longest_wait_s=longest_wait_s)
        self._settled: dict[int, int] = {}
        """The offset to go on from, for partitions whose commit is due."""
        self._lost: set[int] = set()
        """Partitions taken away while messages are in flight: nothing of theirs is ours to settle."""
        self._committing = asyncio.Lock()
        self._commits: set[asyncio.Task[None]] = set()
        self._trouble = ""
        self._delivering = 0
        """How many records were taken, and are not delivered yet."""
        self._unread = 0
        """How many are yet to be taken."""
        self._consumer: Consumer

    @property
    def problem(self) -> str | None:
        """Why nothing is delivered at the moment, if so."""
        if self._trouble:
            return f"cannot be read: {self._trouble}"
        return "its system takes nothing" if self._destination.unavailable else None

    @property
    def lag(self) -> int:
        """How many records of the partitions that are read here are yet to be delivered."""
        return self._delivering + self._unread

    async def run(self) -> None:
        """Deliver until cancelled. Raises `HardFailure` when the topic may not be read."""
        self._consumer = Consumer(
            self._kafka,
            self._topic,
            group=self._group,
            listener=self,
            timings=Timings(missing_s=math.inf),
        )
        self._consumer.start()
        self._consumer.resume()
        try:
            while True:
                end_if_cancelled()
                if records := await self._poll():
                    await self._hand_over(records)
                    self._commit_in_background()
        finally:
            # Whoever cancels may do so again, and the commits must be made.
            await asyncio.shield(asyncio.create_task(self._close()))

    async def _poll(self) -> Sequence[Any]:
        try:
            records = await self._consumer.poll(self._batch, POLL_S)
        except (KafkaError, OSError) as error:
            raise HardFailure(
                f"the outbox {self._topic} cannot be read: {reason(error)}",
                remedy="check that the bridge's user may read the topic and use its consumer group",
            ) from error
        self._tell(self._consumer.trouble)
        self._unread = self._consumer.lag
        return records

    # What the consumer calls

    def on_assigned(self, partitions: Collection[int]) -> None:
        """Nothing is to be done: what was lost stays lost until its batch is over."""

    async def on_revoked(self, partitions: Collection[int]) -> None:
        """Commit what was settled."""
        await self._commit(LAST_COMMIT_S)
        self.on_lost(partitions)

    def on_lost(self, partitions: Collection[int]) -> None:
        """Settle nothing more of these."""
        self._lost |= set(partitions)
        for partition in partitions:
            self._settled.pop(partition, None)

    # Inside

    async def _hand_over(self, records: Sequence[Any]) -> None:
        self._lost.clear()
        self._delivering = len(records)
        read = [(record, *self._outbound(record)) for record in records]
        rest = [(record, message) for record, message, failure in read if failure is None]
        answers: Sequence[SoftFailure | None] = ()
        while rest:
            began = time.monotonic()
            try:
                answers = await self._delivery.deliver([message for _, message in rest])
            except Unreachable as error:
                self.counts.retries += 1
                self._destination.failed(error)
                await self._destination.wait()
                await self._consumer.look_at_ends()
                self._unread = self._consumer.lag
                # Those of partitions that were taken away are for somebody else now.
                rest = [each for each in rest if each[0].partition not in self._lost]
            else:
                self._destination.succeeded()
                self.counts.times_s.append(time.monotonic() - began)
                break
        refused = [(message, failure) for _, message, failure in read]
        refused += [(message, answer) for (_, message), answer in zip(rest, answers, strict=True)]
        self.counts.delivered += answers.count(None)
        for message, failure in refused:
            if failure is not None:
                self.counts.dead_letters += 1
                await self._dead_letters(message, failure)
        for record in records:
            if record.partition not in self._lost:
                self._settled[record.partition] = record.offset + 1
        self._delivering = 0

    def _outbound(self, read: Any) -> tuple[OutboundMessage, SoftFailure | None]:
        record = Record(read.key, read.value, read.headers)
        position = layout.stable_id(self._topic, read.partition, read.offset)
        try:
            return outbound_message(record, position), None
        except DecodeError as error:
            return OutboundMessage(position, "", record), error

    def _commit_in_background(self) -> None:
        if not self._commits:
            task = asyncio.create_task(self._commit(LAST_COMMIT_S))
            self._commits.add(task)
            task.add_done_callback(self._commits.discard)

    async def _commit(self, timeout_s: float) -> None:
        """Commit what is due. What Kafka does not take is due again, or delivered again by the next owner."""
        async with self._committing:
            due = dict(self._settled)
            if not due:
                return
            try:
                await self._consumer.commit(due, timeout_s)
            except (KafkaError, OSError) as error:
                if kind(error) is Fault.FINAL:
                    OutboxNotCommitted(self._topic, reason(error)).emit()
                return
            for partition, offset in due.items():
                if self._settled.get(partition) == offset:
                    del self._settled[partition]

    async def _close(self) -> None:
        await asyncio.gather(*self._commits, return_exceptions=True)
        await self._commit(LAST_COMMIT_S)
        await self._consumer.close()

    def _tell(self, trouble: str) -> None:
        if trouble and not self._trouble:
            OutboxUnreadable(self._topic, trouble).emit()
        elif self._trouble and not trouble:
            OutboxReadable(self._topic).emit()
        self._trouble = trouble
