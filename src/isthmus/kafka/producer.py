"""A producer that lasts: it writes batches to the journal through whatever happens to Kafka and its brokers.

Batches go out on ``acks=all`` with an idempotent producer of aiokafka's, which works on the event loop. That
sends a batch again until Kafka has it, and no retry doubles or reorders anything. What it does not do by
itself is done here:

- After a batch that Kafka refuses, Kafka expects that very batch of the producer before any other: another
  producer goes on. Refused batches are written by that, unless Kafka would refuse them again.
- A producer asks only the brokers that it knows. If none of them answers, the servers of the configuration
  are asked where Kafka is now.
- A batch that is not written for a while is complained of in the log, once.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from typing import Any, Final

from aiokafka import AIOKafkaProducer
from aiokafka.errors import (
    ClusterAuthorizationFailedError,
    InvalidTopicError,
    KafkaConnectionError,
    KafkaError,
    MessageSizeTooLargeError,
    RecordListTooLargeError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from isthmus.errors import HardFailure, IsthmusError, Outage, OversizeFailure
from isthmus.journal.layout import Record
from isthmus.kafka.options import Kafka

log = logging.getLogger(__name__)
logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
# It logs each failed attempt to connect, among others. What matters comes as an exception.

ANSWER_S = 15.0
"""How long Kafka may take to answer. Then the batch is sent again: its answer may be lost with a broker."""
WATCH_S = 60.0
"""How long a batch may be under way before somebody looks after it."""
RETRY_S = 0.5
"""How long a Kafka that could not be reached, or refused something, is left alone."""
PATIENCE_S = 300.0
"""How long a Kafka that answers, but cannot take a batch at the moment, is asked again."""
STOP_S = 1.0
"""How long a producer may take to end that has nothing to do, or waits for a Kafka that is away."""
UNDER_WAY_BYTES = 64 * 2**20
"""How much may be under way. One request has the batches of all partitions of a broker, and a broker takes
no more than 100 MiB (``socket.request.max.bytes``)."""
LOOK_S = 0.1
"""How long lies between two looks for the leader of a partition."""

_FINAL: Final = (
    ClusterAuthorizationFailedError,
    InvalidTopicError,
    MessageSizeTooLargeError,
    RecordListTooLargeError,
    TopicAuthorizationFailedError,
)
"""What Kafka will say again however often it is asked."""


def record_bytes(record: Record) -> int:
    """An upper bound of what a record takes in a batch: no batch is larger than the sum for its records."""
    key, value, headers = record
    return int(DefaultRecordBatchBuilder.estimate_size_in_bytes(key, value, headers))


class Batch:
    """Records that are written together: Kafka appends all of them to the partition, or none.

    However often it is sent, and by whichever producer, it stays one batch.
    """

    __slots__ = ("builder", "full", "records")

    def __init__(self, builder: Any) -> None:
        self.builder = builder
        self.full = False
        """Whether there was no room for a record: then it takes no smaller one either."""
        self.records: list[tuple[Record, int]] = []

    def append(self, record: Record, timestamp_ms: int) -> bool:
        """Take a record, if there is room for it. The first one is taken however large it is."""
        key, value, headers = record
        if self.builder.append(timestamp=timestamp_ms, key=key, value=value, headers=headers) is None:
            self.full = True
            return False
        self.records.append((record, timestamp_ms))
        return True

    def begin_again(self, builder: Any) -> None:
        """Put the same records into another batch of aiokafka's: one that was sent cannot be sent again.

        All batches have the same limit, so that there is room for what there was room for.
        """
        records, self.records, self.builder = self.records, [], builder
        for record, timestamp_ms in records:
            self.append(record, timestamp_ms)


class _Client:
    """A producer of aiokafka's, which may be one that was replaced."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.producer = AIOKafkaProducer(**options)
        self.is_cut_off = False
        """Whether nothing will come of what it has under way."""
        self._looked_at = 0.0
        self._look = self.producer.client._metadata_update
        # As long as a partition has no leader, aiokafka asks for it without a pause.
        self.producer.client._metadata_update = self._look_calmly

    async def start(self) -> None:
        try:
            async with asyncio.timeout(2 * ANSWER_S):
                await self.producer.start()
        except BaseException:
            await self.producer.stop()
            raise

    async def reaches_kafka(self) -> bool:
        """Whether any broker that it knows answers."""
        with suppress(TimeoutError, KafkaError):
            async with asyncio.timeout(ANSWER_S):
                return bool(await self.producer.client.force_metadata_update())
        return False

    def cut_off(self) -> None:
        """Have it write nothing any more, so that another may write what it has under way."""
        self.is_cut_off = True
        self.producer._sender.sender_task.cancel()

    async def stop(self) -> None:
        """Let go of Kafka once everything is written, or it is cut off."""
        await self.producer.stop()

    async def _look_calmly(self, *what: Any) -> Any:
        await asyncio.sleep(self._looked_at + LOOK_S - time.monotonic())
        self._looked_at = time.monotonic()
        return await self._look(*what)


class ResilientProducer:
    """Writes batches to the journal. To be opened, used and closed on one event loop."""

    def __init__(self, kafka: Kafka, topic: str, max_batch_bytes: int) -> None:
        self._servers = kafka.servers
        self._topic = topic
        self._options = {
            **kafka.async_options(),
            "enable_idempotence": True,  # includes acks=all
            "max_batch_size": max_batch_bytes,
            "request_timeout_ms": int(ANSWER_S * 1000),
        }
        self._client: _Client
        self._renewing: asyncio.Task[None] | None = None
        self._renewed_at = 0.0
        self._refusal: Exception | None = None
        """Why Kafka, which answers, takes no producer."""
        self._stopping: set[asyncio.Task[None]] = set()
        """Those that were replaced."""
        self._troubled = False
        """Whether the last that was heard of Kafka is that it does not take a batch."""
        self._under_way_bytes = 0
        self._left = asyncio.Event()

    async def open(self) -> None:
        """Connect. Raises `Outage` if Kafka takes no producer."""
        try:
            self._client = await self._connect()
        except (KafkaError, TimeoutError) as error:
            raise Outage(
                f"Kafka at {self._servers!r} takes no producer: {_said(error)}",
                remedy="check that the brokers are up, and that the bridge's user may write idempotently",
            ) from error

    async def close(self) -> None:
        """Let go of Kafka."""
        if self._renewing is not None:
            self._renewing.cancel()
        ends = [asyncio.create_task(self._client.stop()), *self._stopping]
        await asyncio.wait(ends, timeout=STOP_S)

    def new_batch(self) -> Batch:
        """An empty batch."""
        return Batch(self._client.producer.create_batch())

    async def write(self, batch: Batch, partition: int) -> IsthmusError | None:
        """Write a batch, and wait until Kafka has it. Returns why Kafka does not take it, if so.

        An absence of Kafka is waited for. A Kafka that answers, but has no leader for the partition, say, or
        has forgotten the producer, is asked again for some minutes. Should it have the batch all the same,
        its answer lost, it then has it twice, as after a crash.
        """
        size = batch.builder.size()
        while self._under_way_bytes and self._under_way_bytes + size > UNDER_WAY_BYTES:
            self._left.clear()
            await self._left.wait()
        self._under_way_bytes += size
        try:
            return await self._write(batch, partition)
        finally:
            self._under_way_bytes -= size
            self._left.set()

    async def _write(self, batch: Batch, partition: int) -> IsthmusError | None:
        patience_s = PATIENCE_S
        while True:
            while self._renewing is not None:
                await asyncio.wait([self._renewing], timeout=RETRY_S)
                if self._refusal is not None:
                    patience_s -= RETRY_S
                    if patience_s < 0:
                        return _refused(self._topic, self._refusal)
            client, begun_at = self._client, time.monotonic()
            error = await self._try(client, batch, partition)
            if error is None:
                return None
            answers = isinstance(error, _FINAL) or await client.reaches_kafka()
            self._replace(client)
            if answers:  # the time in which Kafka was away does not count
                patience_s -= min(time.monotonic() - begun_at, ANSWER_S) + RETRY_S
                missing = isinstance(error, UnknownTopicOrPartitionError)
                if missing or isinstance(error, _FINAL) or patience_s < 0:
                    return _refused(self._topic, error)
            await asyncio.sleep(RETRY_S)
            batch.begin_again(self._client.producer.create_batch())

    async def _try(self, client: _Client, batch: Batch, partition: int) -> Exception | None:
        """Write a batch with a client. Returns why that failed, if it did."""
        try:
            async with asyncio.timeout(2 * ANSWER_S):  # one that is replaced meanwhile may never go on
                written = await client.producer.send_batch(batch.builder, self._topic, partition=partition)
            while not (await asyncio.wait([written], timeout=WATCH_S))[0]:
                await self._look_after(client)
            written.result()
        except Exception as error:  # whatever it is, those who wait for the batch must be told
            self._complain(error)
            return error
        if self._troubled:
            self._troubled = False
            log.warning("journal %s: Kafka takes batches again", self._topic)
        return None

    async def _look_after(self, client: _Client) -> None:
        """See what becomes of a batch that is under way for long. Raises `KafkaError` if that is nothing."""
        self._complain(TimeoutError(f"not within {WATCH_S:g} s"))
        if not client.is_cut_off and not await client.reaches_kafka() and await self._finds_kafka(client):
            client.cut_off()
        if client.is_cut_off:
            raise KafkaConnectionError("Kafka is elsewhere")

    async def _finds_kafka(self, lost: _Client) -> bool:
        """Whether Kafka is where a client does not look for it. If so, there is another client now."""
        if lost is not self._client:
            return await self._client.reaches_kafka()
        try:
            another = await self._connect()
        except (KafkaError, TimeoutError):
            return False
        if await lost.reaches_kafka():  # Kafka has come back meanwhile: nothing need be written twice
            await another.stop()
            return False
        if lost is self._client:
            self._take_over(another)
        else:  # another lane was faster
            await another.stop()
        return True

    async def _connect(self) -> _Client:
        client = _Client(self._options)
        await client.start()
        return client

    def _replace(self, client: _Client) -> None:
        if client is self._client and self._renewing is None:
            self._renewing = asyncio.create_task(self._renew())

    async def _renew(self) -> None:
        """Go on with another client, as soon as there can be one."""
        await asyncio.sleep(self._renewed_at + RETRY_S - time.monotonic())
        while True:
            try:
                self._take_over(await self._connect())
                break
            except (KafkaConnectionError, TimeoutError):
                self._refusal = None
            except Exception as error:  # whatever it is, those who wait for Kafka must be told
                self._refusal = error
            await asyncio.sleep(RETRY_S)
        self._refusal = None
        self._renewing = None

    def _take_over(self, client: _Client) -> None:
        replaced, self._client = self._client, client
        self._renewed_at = time.monotonic()
        stopping = asyncio.create_task(replaced.stop())  # which waits for what others have under way there
        self._stopping.add(stopping)
        stopping.add_done_callback(self._stopping.discard)

    def _complain(self, error: Exception) -> None:
        if not self._troubled:
            self._troubled = True
            log.warning("journal %s: Kafka does not take a batch: %s", self._topic, _said(error))


def _refused(topic: str, error: Exception) -> IsthmusError:
    said = f"Kafka did not take a message for the journal {topic}: {_said(error)}"
    if isinstance(error, MessageSizeTooLargeError | RecordListTooLargeError):
        return OversizeFailure(said)
    return HardFailure(said, remedy="check that the topic exists, and may be written")


def _said(error: Exception) -> str:
    return str(error) or type(error).__name__
