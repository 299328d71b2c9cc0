"""A producer that lasts: it writes batches through whatever happens to Kafka and its brokers.

Every batch is written once, on ``acks=all``: Kafka knows the producer and the sequence of its batches, so
that one whose answer was lost is sent again as it was, and Kafka takes it only if it does not have it. A
partition has one batch in flight, so that retries reorder nothing; the batches of all partitions that one
broker leads go out in one request.

- An absence of Kafka, and too few replicas in sync, are waited for however long they last.
- A Kafka that answers, but has no leader for a partition, say, is asked again for some minutes.
- A Kafka that has forgotten the producer gets another: only then may a batch be there twice, if its answer
  was lost before.
- What Kafka will refuse however often it is asked is not asked again.
- A batch that is not written for a while, or not at all, is told in the log, once.

aiokafka's own producer does not look for brokers that were moved, asks for a leader without a pause, and is
of no use after a batch that was refused. Connections, requests and the encoding of batches are aiokafka's.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass
from itertools import chain
from typing import Final, NamedTuple

from aiokafka.errors import (
    BrokerResponseError,
    KafkaConnectionError,
    KafkaError,
    UnknownTopicOrPartitionError,
)
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.protocol.transaction import InitProducerIdRequest
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from isthmus.errors import HardFailure, IsthmusError, Outage, OversizeFailure
from isthmus.events.kafka import BatchesTaken, BatchRefused
from isthmus.journal.layout import Record
from isthmus.kafka.client import ResilientClient
from isthmus.kafka.faults import (
    DUPLICATE_SEQUENCE_NUMBER,
    MESSAGE_TOO_LARGE,
    NOT_ENOUGH_REPLICAS,
    NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    RECORD_LIST_TOO_LARGE,
    REQUEST_TIMED_OUT,
    UNKNOWN_PRODUCER_ID,
    UNKNOWN_SERVER_ERROR,
    Fault,
    KafkaRefusal,
    kind,
    raise_for,
    reason,
)
from isthmus.kafka.options import BATCH_BYTES, Kafka

IN_FLIGHT_BYTES: Final = 64 * 2**20
"""How much may be in flight. One request has the batches of all partitions of a broker, and a broker takes no
more than 100 MiB (``socket.request.max.bytes``)."""
_MAGIC: Final = 2
_NO_COMPRESSION: Final = 0
_ALL: Final = -1
_WRITES: Final = "writes"
"""The name of the connections on which batches wait for replicas."""
_WAITED_FOR: Final = (REQUEST_TIMED_OUT, NOT_ENOUGH_REPLICAS, NOT_ENOUGH_REPLICAS_AFTER_APPEND)
"""Like an absence of Kafka."""
_MAYBE_WRITTEN: Final = (UNKNOWN_SERVER_ERROR, REQUEST_TIMED_OUT, NOT_ENOUGH_REPLICAS_AFTER_APPEND)
"""Answers after which Kafka may have the batch."""
_SEQUENCES: Final = 2**31


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long a producer waits for what."""

    answer_s: float = 15.0
    """For an answer. Then the batch is sent again: its answer may be lost with a broker."""
    retry_s: float = 0.1
    longest_retry_s: float = 1.0
    tell_s: float = 60.0
    """After which the log tells that a batch is not written."""
    refusal_s: float = 300.0
    """For a Kafka that answers, but cannot take a batch at the moment."""
    missing_s: float = 15.0
    """For a topic that is not there: a broker that has just started may not know of it yet."""


def record_bytes(record: Record) -> int:
    """An upper bound of what a record takes in a batch: no batch is larger than the sum for its records."""
    key, value, headers = record
    return int(DefaultRecordBatchBuilder.estimate_size_in_bytes(key, value, headers))


class Batch:
    """Records that are written together: Kafka appends all of them to the partition, or none.

    However often it is sent, it stays one batch.
    """

    __slots__ = ("_builder", "count", "full")

    def __init__(self, max_bytes: int) -> None:
        self._builder = DefaultRecordBatchBuilder(
            _MAGIC,
            _NO_COMPRESSION,
            is_transactional=0,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=0,
            batch_size=max_bytes,
        )
        self.count = 0
        self.full = False
        """Whether there was no room for a record: then it takes no smaller one either."""

    @property
    def size(self) -> int:
        """How many bytes it has."""
        size: int = self._builder.size()
        return size

    def append(self, record: Record, timestamp_ms: int) -> bool:
        """Take a record, if there is room for it. The first one is taken however large it is."""
        key, value, headers = record
        if self._builder.append(self.count, timestamp_ms, key, value, headers) is None:
            self.full = True
            return False
        self.count += 1
        return True

    def encode(self, identity: _Identity, sequence: int) -> bytearray:
        """As that producer's batch of that sequence."""
        self._builder.set_producer_state(identity.producer_id, identity.epoch, sequence)
        encoded: bytearray = self._builder.build()
        return encoded


class _Identity(NamedTuple):
    """What Kafka knows a producer by."""

    producer_id: int
    epoch: int


class _Partition:
    """A partition that is written: one batch at a time."""

    def __init__(self, topic: str, number: int) -> None:
        self.topic = topic
        self.number = number
        self.turn = asyncio.Lock()
        self.in_doubt: _Identity | None = None
        """A producer of which it is not known what Kafka has, and expects next. Kafka would take a batch with
        the sequence of one that it has for a copy of that."""
        self._identity: _Identity | None = None
        self._sequence = 0

    def sequence(self, identity: _Identity) -> int:
        """What Kafka expects of a producer next. Raises `KafkaRefusal` if that is not known."""
        if identity is self.in_doubt:
            raise KafkaRefusal(UNKNOWN_PRODUCER_ID, "it is not known what was written")
        if identity is not self._identity:
            self._identity, self._sequence = identity, 0
        return self._sequence

    def written(self, count: int) -> None:
        """Kafka has the batch."""
        self._sequence = (self._sequence + count) % _SEQUENCES


class _Attempts:
    """What has become of the attempts to write one batch."""

    def __init__(self, patience: Patience) -> None:
        self.in_doubt = False
        """Whether Kafka may have the batch."""
        self.was_in_doubt = False
        """Whether it might before this attempt."""
        self._patience = patience
        self._clock = asyncio.get_running_loop().time
        self._begun_at = self._tried_at = self._clock()
        self._refused_s = self._missing_s = 0.0
        self._pause_s = patience.retry_s

    @property
    def tells(self) -> bool:
        """Whether they have lasted so long that the log is to tell."""
        return self._clock() - self._begun_at > self._patience.tell_s

    def over(self, error: Exception) -> bool:
        """Whether there is to be no further one. Time in which Kafka was absent does not count."""
        took_s = self._clock() - self._tried_at
        if isinstance(error, UnknownTopicOrPartitionError):
            self._missing_s += took_s
        if isinstance(error, BrokerResponseError) and error.errno not in _WAITED_FOR:
            self._refused_s += took_s
        return (
            kind(error) is Fault.FINAL
            or self._missing_s > self._patience.missing_s
            or self._refused_s > self._patience.refusal_s
        )

    async def pause(self) -> None:
        """Leave Kafka alone for a while."""
        self._tried_at = self._clock()
        await asyncio.sleep(self._pause_s)
        self._pause_s = min(2 * self._pause_s, self._patience.longest_retry_s)


class _Waiting(NamedTuple):
    """A batch that waits for its request."""

    partition: _Partition
    data: bytearray
    answer: asyncio.Future[int]


class ResilientProducer:
    """Writes batches. To be opened, used and closed on one event loop."""

    def __init__(
        self, kafka: Kafka, *, max_batch_bytes: int = BATCH_BYTES, patience: Patience | None = None
    ) -> None:
        """``max_batch_bytes`` is what the topics take at once, at most."""
        self._patience = patience or Patience()
        self._servers = kafka.servers
        self._max_batch_bytes = max_batch_bytes
        self._client = ResilientClient(
            kafka, request_timeout_s=self._patience.answer_s, retry_s=self._patience.retry_s
        )
        self._identity: _Identity
        self._renewing: asyncio.Task[None] | None = None
        self._partitions: dict[tuple[str, int], _Partition] = {}
        self._waiting: defaultdict[int, list[_Waiting]] = defaultdict(list)
        self._sending: dict[int, asyncio.Task[None]] = {}
        self._troubled: set[str] = set()
        """Topics of which the log has told that they are not written."""
        self._failing: dict[_Partition, str] = {}
        """Partitions whose last batch, or the last attempt at it, Kafka did not take, and why."""
        self._in_flight_bytes = 0
        self._left = asyncio.Event()
        self._closed = False

    @property
    def problem(self) -> str | None:
        """What Kafka does not take at the moment, and why; None while it takes everything."""
        for where, why in self._failing.copy().items():  # other threads ask
            return f"Kafka does not take what is written to {where.topic}: {why}"
        return None

    async def open(self) -> None:
        """Connect. Raises `Outage` if Kafka takes no producer."""
        try:
            await self._client.patiently(self._identify, self._patience.answer_s)
        except (KafkaError, OSError) as error:
            await self._client.close()
            raise Outage(
                f"Kafka at {self._servers!r} takes no producer: {reason(error)}",
                remedy="check that the brokers are up, and that the bridge's user may write idempotently",
            ) from error

    async def close(self) -> None:
        """Let go of Kafka. What is in flight is given up: Kafka may have it, or not."""
        self._closed = True
        tasks = [*self._sending.values(), *([] if self._renewing is None else [self._renewing])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for each in chain.from_iterable(self._waiting.values()):
            if not each.answer.done():
                each.answer.set_exception(KafkaConnectionError("the producer is closed"))
        await self._client.close()

    def new_batch(self) -> Batch:
        """An empty batch."""
        return Batch(self._max_batch_bytes)

    async def partitions(self, topic: str) -> int:
        """How many partitions a topic has. Raises what `isthmus.kafka.faults.kind` judges."""
        return len(await self._client.leaders(topic))

    async def write(self, batch: Batch, topic: str, partition: int) -> IsthmusError | None:
        """Write a batch, and wait until Kafka has it. Returns why Kafka does not take it, if so.

        Batches of one partition are written in the order of their calls.
        """
        size = batch.size
        while self._in_flight_bytes and self._in_flight_bytes + size > IN_FLIGHT_BYTES:
            self._left.clear()
            await self._left.wait()
        self._in_flight_bytes += size
        try:
            where = self._partitions.get((topic, partition))
            if where is None:
                where = self._partitions[topic, partition] = _Partition(topic, partition)
            async with where.turn:
                return await self._write(batch, where)
        finally:
            self._in_flight_bytes -= size
            self._left.set()

    async def _write(self, batch: Batch, where: _Partition) -> IsthmusError | None:
        """Write a batch, however often that is to be tried. Returns why it was given up, if so."""
        attempts, identity = _Attempts(self._patience), self._identity
        try:
            while True:
                error = await self._try(batch, where, identity, attempts)
                if error is None:
                    self._failing.pop(where, None)
                    self._tell_written(where.topic)
                    return None
                if not _is_oversize(error):
                    self._failing[where] = reason(error)
                if kind(error) is Fault.FENCED:
                    error = await self._renew(identity) or error
                    identity = self._identity
                over = self._closed or attempts.over(error)
                if attempts.tells or (over and not _is_oversize(error)):
                    self._tell_troubled(where.topic, error)
                if over:
                    return _refused(where.topic, error, in_doubt=attempts.in_doubt)
                self._client.forget_topic(where.topic)
                await attempts.pause()
        finally:
            if attempts.in_doubt:
                where.in_doubt = identity

    async def _try(
        self, batch: Batch, where: _Partition, identity: _Identity, attempts: _Attempts
    ) -> Exception | None:
        """Write a batch. Returns what has come in between, if so."""
        try:
            data = batch.encode(identity, where.sequence(identity))
            leader = await self._client.leader(where.topic, where.number)
            attempts.in_doubt = True
            code = await self._send(leader, where, data)
            attempts.in_doubt = attempts.was_in_doubt or code in _MAYBE_WRITTEN
            if code != DUPLICATE_SEQUENCE_NUMBER:
                raise_for(code)
        except Exception as error:  # whatever it is, those who wait for the batch must be told
            attempts.was_in_doubt = attempts.in_doubt
            return error
        attempts.in_doubt = False
        where.written(batch.count)
        return None

    async def _send(self, leader: int, where: _Partition, data: bytearray) -> int:
        """Have a batch written with others. Returns the code of Kafka's answer."""
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting[leader].append(_Waiting(where, data, answer))
        if leader not in self._sending:
            self._sending[leader] = asyncio.create_task(self._send_to(leader))
        return await answer

    async def _send_to(self, leader: int) -> None:
        """Send request after request to a broker while something waits for it."""
        try:
            while waiting := self._waiting.pop(leader, None):
                try:
                    codes = await self._produce(leader, waiting)
                except BaseException as error:  # whatever it is, those who wait must be told
                    cancelled = isinstance(error, asyncio.CancelledError)
                    for each in waiting:
                        if not each.answer.done():
                            told = KafkaConnectionError("the producer is closed") if cancelled else error
                            each.answer.set_exception(told)
                    if cancelled:
                        raise
                else:
                    for each, code in zip(waiting, codes, strict=True):
                        if not each.answer.done():
                            each.answer.set_result(code)
        finally:
            del self._sending[leader]

    async def _produce(self, leader: int, waiting: list[_Waiting]) -> list[int]:
        topics: defaultdict[str, list[tuple[int, bytearray]]] = defaultdict(list)
        for where, data, _ in waiting:
            topics[where.topic].append((where.number, data))
        timeout_ms = int(self._patience.answer_s * 1000 * 2 / 3)  # its answer is to come in time
        request = ProduceRequest(None, _ALL, timeout_ms, list(topics.items()))
        answer = await self._client.send(leader, request, connection=_WRITES)
        codes = {
            (topic, number): code for topic, partitions in answer.topics for number, code, *_ in partitions
        }
        return [codes[where.topic, where.number] for where, *_ in waiting]

    # Who writes

    async def _identify(self) -> None:
        answer = await self._client.ask_any(InitProducerIdRequest(None, 0))
        raise_for(answer.error_code)
        self._identity = _Identity(answer.producer_id, answer.producer_epoch)

    async def _renew(self, forgotten: _Identity) -> Exception | None:
        """Be another producer for Kafka, since it has forgotten this one. Returns what keeps it from that."""
        if self._identity is forgotten:
            if self._renewing is None:
                self._renewing = asyncio.create_task(self._identify())
                self._renewing.add_done_callback(self._renewed)
            try:
                await asyncio.shield(self._renewing)
            except (KafkaError, OSError) as error:
                return error
        return None

    def _renewed(self, task: asyncio.Task[None]) -> None:
        self._renewing = None
        if not task.cancelled():
            task.exception()  # those who wait for it are told

    # What the log tells

    def _tell_troubled(self, topic: str, error: Exception) -> None:
        if topic not in self._troubled:
            self._troubled.add(topic)
            BatchRefused(topic, reason(error)).emit()

    def _tell_written(self, topic: str) -> None:
        if topic in self._troubled:
            self._troubled.discard(topic)
            BatchesTaken(topic).emit()


def _is_oversize(error: Exception) -> bool:
    """Whether Kafka does not take a batch for what is in it."""
    return isinstance(error, KafkaRefusal) and error.errno in (MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE)


def _refused(topic: str, error: Exception, *, in_doubt: bool) -> IsthmusError:
    said = f"Kafka did not take a message for {topic}: {reason(error)}"
    if _is_oversize(error):
        return OversizeFailure(said)
    return HardFailure(said, remedy="check that the topic exists, and may be written", in_doubt=in_doubt)
