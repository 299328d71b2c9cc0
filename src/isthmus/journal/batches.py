"""Writes records to the journal from an event loop, in batches. A record is in it when its writer is told so.

Every partition has a lane. A record that comes to an idle lane leaves at the end of the loop's turn, with all
that came in it; those that come while a batch of the lane is in flight gather, and leave together when that
is done. So a lonely message waits for nobody, and under load a few large requests cost Kafka, and us, a
fraction of what many small ones do. Records leave a lane, and are done, in the order in which they came.

Kafka appends a batch to a partition as a whole or not at all. Records that must be in the journal together,
as those of a transaction, are never parted into two batches; others may share theirs.

There is neither a thread nor a future for each record. While Kafka is unavailable records wait for as long
as it takes: what holds senders back then is that nothing is done.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from typing import Self

from isthmus.config.model.settings import JournalSettings
from isthmus.errors import HardFailure, OversizeFailure
from isthmus.events.kafka import JournalCallbackFailed
from isthmus.journal import OnDone
from isthmus.journal.layout import Record
from isthmus.journal.topic import JournalTopic, journal_topic
from isthmus.kafka.admin import KafkaAdmin
from isthmus.kafka.options import BATCH_BYTES, Kafka, largest_batch_bytes
from isthmus.kafka.producer import Batch, Patience, ResilientProducer

CLOSE_S = 30.0
"""How long a close waits for what is in flight."""


class BatchWriter:
    """Puts records into the journal. To be opened, used and closed on one event loop."""

    def __init__(self, producer: ResilientProducer, name: str, topic: JournalTopic) -> None:
        """For a journal of that name, by a producer that is open, and is closed with this."""
        self.max_message_bytes = topic.max_message_bytes
        """How large a batch the journal takes, if that is known."""
        self._topic = name
        self._partitions = topic.partitions
        self.producer = producer
        max_bytes = largest_batch_bytes(topic.max_message_bytes)
        self.batch_bytes = min(BATCH_BYTES, max_bytes)
        """How large a batch of several records may become."""
        partitions = range(self._partitions.session_partitions)
        self._lanes = [_Lane(producer, name, number, max_bytes, self.batch_bytes) for number in partitions]
        self._closed = False

    @classmethod
    async def open(cls, kafka: Kafka, journal: JournalSettings, *, patience: Patience | None = None) -> Self:
        """Connect. Raises `HardFailure` when the journal is not there, or may not be written."""
        admin = KafkaAdmin(kafka)
        try:
            topic = journal_topic(journal, await admin.describe(journal.topic))
        finally:
            await admin.close()
        max_bytes = min(BATCH_BYTES, largest_batch_bytes(topic.max_message_bytes))
        producer = ResilientProducer(kafka, max_batch_bytes=max_bytes, patience=patience)
        await producer.open()
        return cls(producer, journal.topic, topic)

    def add(self, record: Record, session: str, on_done: OnDone) -> None:
        """Write a record; those of one session are in the journal in the order in which they were added.

        ``on_done`` is called on the loop, later: with `HardFailure` if Kafka refuses the record, with
        `OversizeFailure` for one that is too large for it.
        """
        if self._closed:
            self._refuse(on_done)
        else:
            self._lanes[self._partitions.of_session(session)].add(record, on_done)

    def add_together(self, records: Sequence[Record], size: int, session: str, on_done: OnDone) -> None:
        """Write records, likewise, in one batch: all of them are in the journal then, or none.

        ``size`` is the sum of their `record_bytes`. ``on_done`` is called once for all, with an
        `OversizeFailure` if that is more than ``batch_bytes``.
        """
        if self._closed:
            self._refuse(on_done)
        else:
            self._lanes[self._partitions.of_session(session)].add_together(records, size, on_done)

    @property
    def problem(self) -> str | None:
        """Why Kafka does not take what is written at the moment, if so."""
        return self.producer.problem

    async def close(self) -> None:
        """Wait until all that was added is done, and disconnect. Raises `HardFailure` if that takes long."""
        deadline = time.monotonic() + CLOSE_S
        while (unfinished := sum(lane.unfinished for lane in self._lanes)) and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        self._closed = True
        for lane in self._lanes:
            lane.stop()
        await self.producer.close()
        if unfinished:
            raise HardFailure(
                f"{unfinished} messages are not in the journal after {CLOSE_S:g} s",
                remedy="check that Kafka is up, then send them again",
            )

    def _refuse(self, on_done: OnDone) -> None:
        failure = HardFailure(f"the journal {self._topic} is closed", remedy="start the bridge again")
        asyncio.get_running_loop().call_soon(on_done, failure)


class _Lane:
    """The records of one partition: those that gather, and the batch that is in flight."""

    def __init__(
        self, producer: ResilientProducer, topic: str, partition: int, max_bytes: int, batch_bytes: int
    ) -> None:
        """``max_bytes`` is how large a record may be, ``batch_bytes`` how large a batch of several."""
        self.unfinished = 0
        self._producer = producer
        self._topic = topic
        self._partition = partition
        self._max_bytes = max_bytes
        self._batch_bytes = batch_bytes
        self._full: deque[tuple[Batch, list[OnDone]]] = deque()
        self._batch: Batch | None = None
        self._waiting: list[OnDone] = []
        """Who waits for the records of the batch."""
        self._running: asyncio.Task[None] | None = None

    def add(self, record: Record, on_done: OnDone) -> None:
        """Let a record leave with others."""
        now_ms = int(time.time() * 1000)
        batch = self._batch
        if batch is None or not batch.append(record, now_ms):
            fresh = self._producer.new_batch()
            fresh.append(record, now_ms)
            if fresh.size > self._max_bytes:
                self._refuse("the message is", fresh.size, self._max_bytes, on_done)
                return
            self._go_on_with(fresh)
        self._wait(on_done)

    def add_together(self, records: Sequence[Record], size: int, on_done: OnDone) -> None:
        """Let records leave with others, in one batch.

        Their size is to be known beforehand: a batch that has begun to take them does not give them back.
        """
        if size > self._batch_bytes:
            self._refuse("the transaction is", size, self._batch_bytes, on_done)
            return
        now_ms = int(time.time() * 1000)
        batch = self._batch
        if batch is None or batch.full or batch.size + size > self._batch_bytes:
            batch = self._producer.new_batch()
            self._go_on_with(batch)
        taken = [batch.append(record, now_ms) for record in records]
        assert all(taken), "a transaction would be parted"
        self._wait(on_done)

    def stop(self) -> None:
        """Give up what is in flight."""
        if self._running is not None:
            self._running.cancel()

    def _refuse(self, what: str, size: int, limit: int, on_done: OnDone) -> None:
        failure = OversizeFailure(f"{what} too large for the journal {self._topic}", size=size, limit=limit)
        asyncio.get_running_loop().call_soon(on_done, failure)

    def _go_on_with(self, batch: Batch) -> None:
        """Have what follows gather in another batch."""
        if self._batch is not None:
            self._full.append((self._batch, self._waiting))
            self._waiting = []
        self._batch = batch

    def _wait(self, on_done: OnDone) -> None:
        self._waiting.append(on_done)
        self.unfinished += 1
        if self._running is None:
            self._running = asyncio.create_task(self._run())

    async def _run(self) -> None:
        """Write batch after batch until nothing waits."""
        while True:
            if self._full:
                batch, waiting = self._full.popleft()
            elif self._batch is not None:
                batch, waiting = self._batch, self._waiting
                self._batch, self._waiting = None, []
            else:
                break
            failure = await self._producer.write(batch, self._topic, self._partition)
            self.unfinished -= len(waiting)
            for on_done in waiting:
                try:
                    on_done(failure)
                except Exception as error:  # the others wait, too
                    JournalCallbackFailed(self._topic).emit(trace=error)
        self._running = None
