"""Temporary queues: addresses that live as long as a link, and all of whose messages are in one Kafka topic.

A record's key is the address of its queue. One consumer reads the topic's new records for all queues of this
process, and hands each to its queue; those of other processes are passed over. So a queue costs no topic, and
one that is gone costs nobody anything.

What comes while nobody receives waits in memory. What is more than `LIMIT_BYTES` is undeliverable.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any, Final

from aiokafka.errors import KafkaError

from isthmus.codecs.amqp import AmqpMessage
from isthmus.converters import KafkaRecord, ReceivedRecord, converter
from isthmus.edges.amqp.protocol.conditions import NOT_FOUND, RESOURCE_LIMIT_EXCEEDED, RESOURCE_LOCKED
from isthmus.edges.amqp.server.receivers.record_source import Acknowledgement, RecordSink
from isthmus.edges.reconnect import Backoff
from isthmus.errors import ConversionFailure, Refused
from isthmus.journal.layout import HEADER_PREFIX
from isthmus.kafka.consumer import LATEST, Consumer
from isthmus.kafka.faults import reason
from isthmus.kafka.options import Kafka
from isthmus.kafka.records import PolledRecord, held_bytes
from isthmus.routing.route import TEMPORARY_PREFIX

log = logging.getLogger(__name__)

LIMIT_BYTES: Final = 64 * 2**20
MAX_QUEUES: Final = 1000
"""How many temporary queues an owner may have."""
BATCH: Final = 500
POLL_S: Final = 60.0

Ends = Callable[[], Awaitable[Mapping[int, int]]]
Overflow = Callable[[ReceivedRecord], None]


class TemporaryForm:
    """Reads the records: those of AMQP clients are as they were sent, those of Kafka clients ``jms``."""

    def __init__(self) -> None:
        self._as_sent = converter("raw")
        self._jms = converter("jms")

    def to_kafka_record(self, message: AmqpMessage) -> KafkaRecord:  # noqa: ARG002
        """The router writes."""
        raise ConversionFailure("a temporary queue is written by the router")

    def to_amqp_message(self, address: str, record: ReceivedRecord) -> AmqpMessage:
        """See `MessageConverter`."""
        is_jms = any(name.startswith(HEADER_PREFIX) for name, _ in record.headers)
        return (self._jms if is_jms else self._as_sent).to_amqp_message(address, record)


class TemporaryQueues:
    """All temporary queues of this process. To be used on one event loop."""

    def __init__(self, kafka: Kafka, topic: str, ends: Ends, overflow: Overflow) -> None:
        """``ends`` asks Kafka where the topic ends now."""
        self._kafka = kafka
        self._topic = topic
        self._ends = ends
        self._overflow = overflow
        self._queues: dict[str, _Queue] = {}
        self._tail: _Tail | None = None
        self._changing = asyncio.Lock()

    async def create(self, owner: str) -> str:
        """The address of a new queue, which only its owner may receive from.

        Raises `Refused` to one that has too many, and `HardFailure`.
        """
        async with self._changing:
            if self._tail is None:
                self._tail = _Tail(self._kafka, self._topic, await self._ends(), self._on_records)
            if sum(queue.owner == owner for queue in self._queues.values()) >= MAX_QUEUES:
                raise Refused(RESOURCE_LIMIT_EXCEEDED, f"{MAX_QUEUES} temporary queues are the most")
            address = f"{TEMPORARY_PREFIX}{uuid.uuid4().hex}"
            self._queues[address] = _Queue(owner)
            return address

    async def delete(self, address: str) -> None:
        """Forget a queue with what is in it."""
        async with self._changing:
            self._queues.pop(address, None)
            if not self._queues and self._tail is not None:
                tail, self._tail = self._tail, None
                await tail.close()

    def source(self, address: str, owners: Collection[str]) -> TemporarySource:
        """What comes to a queue. Raises `Refused` to everyone but its owner, who may go by several names."""
        queue = self._queues.get(address)
        if queue is None:
            raise Refused(NOT_FOUND, f"there is no temporary queue {address!r:.300}")
        if queue.owner not in owners:
            raise Refused(RESOURCE_LOCKED, f"the temporary queue {address!r:.300} is that of another")
        return TemporarySource(queue)

    def _on_records(self, records: Iterable[Any]) -> None:
        for read in records:
            queue = self._queues.get((read.key or b"").decode(errors="replace"))
            if queue is not None:
                polled = PolledRecord(read.topic, read.partition, read)
                if not queue.put(polled):
                    self._overflow(polled.record)


class _Queue:
    """What waits, and who takes it."""

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.sources: list[TemporarySource] = []
        self.waiting: deque[PolledRecord] = deque()
        self._size_bytes = 0

    def put(self, taken: PolledRecord, *, first: bool = False) -> bool:
        """Take a record. False if there is no room for it."""
        taken.size = held_bytes(taken.read)
        if self._size_bytes + taken.size > LIMIT_BYTES and not first:
            return False
        self._size_bytes += taken.size
        if first:
            self.waiting.appendleft(taken)
        else:
            self.waiting.append(taken)
        self.hand_out()
        return True

    def hand_out(self) -> None:
        """Give what waits to those who want it."""
        for source in self.sources:
            while self.waiting and source.wanted:
                taken = self.waiting.popleft()
                self._size_bytes -= taken.size
                source.take(taken)


class TemporarySource:
    """Reads a temporary queue for one receiver."""

    def __init__(self, queue: _Queue) -> None:
        self.wanted = 0
        self._queue = queue
        self._sink: RecordSink
        queue.sources.append(self)

    def start(self, sink: RecordSink) -> None:
        """Remember who takes the records."""
        self._sink = sink

    def request(self, count: int, *, drain: bool = False) -> None:  # noqa: ARG002
        """Hand over what is there."""
        self.wanted = count
        # Not at once: whoever wants is in the middle of it.
        asyncio.get_running_loop().call_soon(self._look)

    def take(self, taken: PolledRecord) -> None:
        """Hand a record over."""
        self.wanted -= 1
        self._sink.on_records([taken])

    def holds(self, record: PolledRecord) -> bool:  # noqa: ARG002
        """Nobody takes it away."""
        return True

    def settle(self, taken: PolledRecord, acknowledgement: Acknowledgement) -> None:
        """Forget a record, or have it redelivered before all others."""
        if acknowledgement in (Acknowledgement.RELEASE, Acknowledgement.FAIL):
            self._queue.put(taken.again(failed=acknowledgement is Acknowledgement.FAIL), first=True)

    async def close(self) -> None:
        """Take no more."""
        self.wanted = 0
        if self in self._queue.sources:
            self._queue.sources.remove(self)

    def _look(self) -> None:
        self._queue.hand_out()
        if self.wanted:
            self._sink.on_idle()


class _Tail:
    """Reads what is new in the topic."""

    def __init__(
        self,
        kafka: Kafka,
        topic: str,
        positions: Mapping[int, int],
        on_records: Callable[[Iterable[Any]], None],
    ) -> None:
        self._kafka = kafka
        self._topic = topic
        self._positions = dict(positions)
        """Where to read on."""
        self._on_records = on_records
        self._backoff = Backoff(f"the topic {topic} of temporary queues", log=log)
        self._reading = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Read no more."""
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            consumer = Consumer(self._kafka, self._topic, positions=self._positions, reset=LATEST)
            consumer.start()
            consumer.resume()
            try:
                await self._read(consumer)
            except (KafkaError, OSError) as error:
                self._backoff.failed(reason(error))
            finally:
                await consumer.close()
            await self._backoff.wait()

    async def _read(self, consumer: Consumer) -> None:
        while True:
            records = await consumer.poll(BATCH, POLL_S)
            if records:
                self._backoff.succeeded()
            self._positions |= {each.partition: each.offset + 1 for each in records}
            self._on_records(records)
            await asyncio.sleep(0)  # others want their turn
