"""Writes records to the journal from an event loop, in batches. A record is in it when its writer is told so.

Every partition has a lane. A record that comes to an idle lane leaves at the end of the loop's turn, with all
that came in it; those that come while a batch of the lane is under way gather, and leave together when that
is decided. So a lonely message waits for nobody, and under load a few large requests cost Kafka, and us, a
fraction of what many small ones do. Records leave a lane, and are decided, in the order in which they came.

Batches go out on ``acks=all`` with an idempotent producer, so that no retry doubles or reorders them. An
absence of Kafka delays them for as long as it takes: what holds senders back then is that nothing is decided.
The producer, aiokafka's, works on the loop itself and is given whole batches: there is no thread, and neither
a future nor a report for each record.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self

from aiokafka import AIOKafkaProducer
from aiokafka.errors import (
    ClusterAuthorizationFailedError,
    InvalidTopicError,
    KafkaError,
    MessageSizeTooLargeError,
    RecordListTooLargeError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)

from isthmus.config.settings import JournalSettings
from isthmus.errors import HardFailure, IsthmusError, Outage, OversizeFailure
from isthmus.journal.layout import Record
from isthmus.journal.topic import find_journal
from isthmus.kafka import BATCH_BYTES, Kafka, largest_batch_bytes

log = logging.getLogger(__name__)
logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
# It logs each failed attempt to connect, among others. What matters comes as an exception.

Decided = Callable[[IsthmusError | None], None]
"""Told on the loop when a record is in the journal, or why it never will be: `HardFailure` if Kafka refuses,
`OversizeFailure` for one that is too large for it."""

GATHER_S = 0.005
"""How long a record waits at most for those that are to follow it."""
ANSWER_S = 15.0
"""How long Kafka may take to answer. Then the batch is sent again: its answer may be lost with a broker."""
RETRY_S = 0.5
"""How long a client that cannot reach Kafka waits before it tries again."""
PATIENCE_S = 300.0
"""How long a Kafka that answers, but cannot take a batch at the moment, is asked again."""
CLOSE_S = 30.0
"""How long a close waits for what is under way."""
STOP_S = 1.0
"""How long it waits for its clients, which then have nothing to do, or wait for a Kafka that is away."""

_FINAL = (
    ClusterAuthorizationFailedError,
    InvalidTopicError,
    MessageSizeTooLargeError,
    RecordListTooLargeError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
"""What Kafka will say again however often it is asked."""


class BatchWriter:
    """Puts records into the journal. To be opened, used and closed on one event loop."""

    def __init__(self, kafka: Kafka, journal: JournalSettings) -> None:
        self.topic = journal.topic
        places, max_message_bytes = find_journal(kafka, journal)
        self._max_batch_bytes = largest_batch_bytes(max_message_bytes)
        self._places = places
        self._options = {
            **kafka.async_options(),
            "enable_idempotence": True,  # includes acks=all
            "max_batch_size": min(BATCH_BYTES, self._max_batch_bytes),
            "request_timeout_ms": int(ANSWER_S * 1000),
        }
        self._lanes = [_Lane(self, number) for number in range(places.session_partitions)]
        self._producer: AIOKafkaProducer
        self._renewing: asyncio.Task[None] | None = None
        self._troubled = False
        """Whether the last that was heard of Kafka is that it does not take a batch."""
        self._stopping: set[asyncio.Task[None]] = set()
        """Producers that were replaced."""

    @classmethod
    async def open(cls, kafka: Kafka, journal: JournalSettings) -> Self:
        """Connect. Raises `HardFailure` when the journal is not there, or may not be written."""
        writer = await asyncio.to_thread(cls, kafka, journal)
        try:
            writer._producer = await writer._connect()
        except KafkaError as error:
            raise Outage(
                f"Kafka at {kafka.servers!r} takes no producer: {error}",
                remedy="check that the brokers are up, and that the bridge's user may write idempotently",
            ) from error
        return writer

    def add(self, record: Record, session: str, decided: Decided, *, more: bool = False) -> None:
        """Write a record; those of one session are in the journal in the order in which they were added.

        One after which ``more`` is about to come waits for that, for a short time.
        """
        self._lanes[self._places.of_session(session)].add(record, decided, more)

    async def close(self) -> None:
        """Wait until all that was added is decided, and let go of Kafka. `HardFailure` if that takes long."""
        deadline = time.monotonic() + CLOSE_S
        while (undecided := sum(lane.undecided for lane in self._lanes)) and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        for lane in self._lanes:
            lane.stop()
        if self._renewing is not None:
            self._renewing.cancel()
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(self._producer.stop(), *self._stopping), STOP_S)
        if undecided:
            raise HardFailure(
                f"{undecided} messages are not in the journal after {CLOSE_S:g} s",
                remedy="check that Kafka is up, then send them again",
            )

    def new_batch(self, first: Record, timestamp_ms: int) -> _Batch | None:
        """A batch that begins with a record; None if that is too large for any."""
        batch = _Batch(self._producer.create_batch())
        batch.append(first, timestamp_ms)
        return batch if batch.builder.size() <= self._max_batch_bytes else None

    async def send(self, batch: _Batch, partition: int) -> IsthmusError | None:
        """Write a batch, and wait until Kafka has it. Returns why it does not take it, if so.

        The producer itself waits for a Kafka that does not answer. One that answers, but has no leader for
        the partition or has forgotten the producer, is asked again by another producer, for some minutes.
        Should Kafka have the batch from before all the same, it then has it twice, as after a crash.
        """
        give_up_at = time.monotonic() + PATIENCE_S
        while True:
            while self._renewing is not None:
                await asyncio.wait([self._renewing])
            producer = self._producer
            try:
                await (await producer.send_batch(batch.builder, self.topic, partition=partition))
            except Exception as error:  # whatever it is, those who wait for the batch must be told
                if not self._troubled:
                    self._troubled = True
                    log.warning("journal %s: Kafka does not take a batch: %s", self.topic, error)
                if producer is self._producer and self._renewing is None:
                    # Kafka expects the batch that it refused before any other of this producer's.
                    self._renewing = asyncio.create_task(self._renew())
                if isinstance(error, _FINAL) or time.monotonic() > give_up_at:
                    return _refused(self.topic, error)
            else:
                if self._troubled:
                    self._troubled = False
                    log.warning("journal %s: Kafka takes batches again", self.topic)
                return None
            await asyncio.sleep(RETRY_S)
            batch.begin_again(self._producer.create_batch())

    async def _connect(self) -> AIOKafkaProducer:
        producer = AIOKafkaProducer(**self._options)
        try:
            await producer.start()
        except BaseException:
            await producer.stop()
            raise
        return producer

    async def _renew(self) -> None:
        """Go on with another producer, as soon as there can be one."""
        while True:
            try:
                replaced, self._producer = self._producer, await self._connect()
                break
            except Exception:  # whatever it is, there is nothing else to do; `send` has told of it
                await asyncio.sleep(RETRY_S)
        self._renewing = None
        stopping = asyncio.create_task(replaced.stop())  # which waits for what others have under way there
        self._stopping.add(stopping)
        stopping.add_done_callback(self._stopping.discard)


class _Batch:
    """Records that leave together, and those who wait for them."""

    __slots__ = ("builder", "records", "told")

    def __init__(self, builder: Any) -> None:
        self.builder = builder
        self.told: list[Decided] = []
        self.records: list[tuple[Record, int]] = []

    def append(self, record: Record, timestamp_ms: int) -> bool:
        """Take a record, if there is room for it."""
        key, value, headers = record
        if self.builder.append(timestamp=timestamp_ms, key=key, value=value, headers=headers) is None:
            return False
        self.records.append((record, timestamp_ms))
        return True

    def begin_again(self, builder: Any) -> None:
        """Put the same records into another batch of aiokafka's: one that was sent cannot be sent again."""
        records, self.records, self.builder = self.records, [], builder
        for record, timestamp_ms in records:
            self.append(record, timestamp_ms)


class _Lane:
    """The records of one partition: those that gather, and the batch that is under way."""

    def __init__(self, writer: BatchWriter, partition: int) -> None:
        self.undecided = 0
        self._writer = writer
        self._partition = partition
        self._full: deque[_Batch] = deque()
        self._open: _Batch | None = None
        self._running: asyncio.Task[None] | None = None
        self._leaving: asyncio.TimerHandle | None = None

    def add(self, record: Record, decided: Decided, more: bool) -> None:
        """Let a record leave with others."""
        now_ms = int(time.time() * 1000)
        batch = self._open
        if batch is None or not batch.append(record, now_ms):
            fresh = self._writer.new_batch(record, now_ms)
            if fresh is None:
                failure = OversizeFailure(f"the message is too large for the journal {self._writer.topic}")
                asyncio.get_running_loop().call_soon(decided, failure)
                return
            if batch is not None:
                self._full.append(batch)
            self._open = batch = fresh
        batch.told.append(decided)
        self.undecided += 1
        if self._running is None:
            self._leave(more)

    def stop(self) -> None:
        """Give up what is under way."""
        if self._running is not None:
            self._running.cancel()

    def _leave(self, more: bool) -> None:
        """Let what has gathered leave: at the end of this turn, or soon if more is to come."""
        if more:
            if self._leaving is None:
                self._leaving = asyncio.get_running_loop().call_later(GATHER_S, self._leave, False)
            return
        if self._leaving is not None:
            self._leaving.cancel()
            self._leaving = None
        self._running = asyncio.create_task(self._run())

    async def _run(self) -> None:
        """Write batch after batch until nothing waits."""
        while (batch := self._next()) is not None:
            failure = await self._writer.send(batch, self._partition)
            self.undecided -= len(batch.told)
            for decided in batch.told:
                try:
                    decided(failure)
                except Exception:  # the others wait, too
                    log.exception("journal %s: one that waited for a message has failed", self._writer.topic)
        self._running = None

    def _next(self) -> _Batch | None:
        if self._full:
            return self._full.popleft()
        batch, self._open = self._open, None
        return batch


def _refused(topic: str, error: Exception) -> IsthmusError:
    said = f"Kafka did not take a message for the journal {topic}: {error or type(error).__name__}"
    if isinstance(error, MessageSizeTooLargeError | RecordListTooLargeError):
        return OversizeFailure(said)
    return HardFailure(said, remedy="check that the topic exists, and may be written")
