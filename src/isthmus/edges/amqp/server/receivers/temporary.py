"""Temporary queues: addresses that live as long as a link, and all of whose messages are in one Kafka topic.

A record's key is the address of its queue. One consumer reads the topic's new records for all queues of this
process, and hands each to its queue; those of other processes are passed over unread. So a queue costs no
topic, and one that is gone costs nobody anything.

What comes while nobody receives waits in memory. What is more than `LIMIT_BYTES` is undeliverable.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from confluent_kafka import Consumer, Message, TopicPartition

from isthmus.codecs.amqp import AmqpMessage
from isthmus.converters import KafkaRecord, ReceivedRecord, converter
from isthmus.edges.amqp.protocol.conditions import NOT_FOUND
from isthmus.edges.amqp.server.receivers.group import BATCH, POLL_S, READER_GROUP
from isthmus.edges.amqp.server.receivers.record_source import (
    Acknowledgement,
    RecordSink,
    record_of,
)
from isthmus.errors import ConversionFailure, Refused
from isthmus.journal.layout import HEADER_PREFIX
from isthmus.kafka.blocking import QUIET, BrokersLost, abandon, watching_brokers
from isthmus.kafka.options import Kafka
from isthmus.kafka.records import PolledRecord
from isthmus.routing.route import TEMPORARY_PREFIX

log = logging.getLogger(__name__)

LIMIT_BYTES: Final = 64 * 2**20

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

    def __init__(
        self, kafka: Kafka, ends: Callable[[], Sequence[TopicPartition]], overflow: Overflow
    ) -> None:
        """``ends`` asks Kafka where the topic ends now."""
        self._kafka = kafka
        self._ends = ends
        self._overflow = overflow
        self._queues: dict[str, _Queue] = {}
        self._tail: _Tail | None = None
        self._changing = asyncio.Lock()

    async def create(self, owner: str) -> str:
        """The address of a new queue, which only its owner may receive from. Raises `HardFailure`."""
        async with self._changing:
            if self._tail is None:
                places = await asyncio.to_thread(self._ends)
                self._tail = _Tail(self._kafka, list(places), self._queues.__contains__, self._arrived)
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

    def supply(self, address: str, owner: str) -> TemporarySource:
        """What comes to a queue. Raises `Refused` to everyone but its owner."""
        queue = self._queues.get(address)
        if queue is None or queue.owner != owner:
            raise Refused(NOT_FOUND, f"this connection has made no temporary queue {address!r:.300}")
        return TemporarySource(queue)

    def _arrived(self, records: Sequence[ReceivedRecord]) -> None:
        for record in records:
            queue = self._queues.get((record.key or b"").decode(errors="replace"))
            if queue is not None and not queue.put(PolledRecord(record.topic, record.partition, record)):
                self._overflow(record)


class _Queue:
    """What waits, and who takes it."""

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.supplies: list[TemporarySource] = []
        self.waiting: deque[PolledRecord] = deque()
        self._size_bytes = 0

    def put(self, taken: PolledRecord, *, first: bool = False) -> bool:
        """Take a record. False if there is no room for it."""
        size = len(taken.record.value or b"")
        if self._size_bytes + size > LIMIT_BYTES and not first:
            return False
        self._size_bytes += size
        if first:
            self.waiting.appendleft(taken)
        else:
            self.waiting.append(taken)
        self.hand_out()
        return True

    def hand_out(self) -> None:
        """Give what waits to those who want it."""
        for supply in self.supplies:
            while self.waiting and supply.wanted:
                taken = self.waiting.popleft()
                self._size_bytes -= len(taken.record.value or b"")
                supply.take(taken)


class TemporarySource:
    """Reads a temporary queue for one receiver."""

    def __init__(self, queue: _Queue) -> None:
        self.wanted = 0
        self._queue = queue
        self._sink: RecordSink
        queue.supplies.append(self)

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

    def settle(self, taken: PolledRecord, verdict: Acknowledgement) -> None:
        """Forget a record, or have it come again before all others."""
        if verdict in (Acknowledgement.RELEASE, Acknowledgement.FAIL):
            self._queue.put(taken.again(failed=verdict is Acknowledgement.FAIL), first=True)

    async def close(self) -> None:
        """Take no more."""
        self.wanted = 0
        if self in self._queue.supplies:
            self._queue.supplies.remove(self)

    def _look(self) -> None:
        self._queue.hand_out()
        if self.wanted:
            self._sink.on_idle()


class _Tail:
    """Reads what is new in the topic, on a thread of its own."""

    def __init__(
        self,
        kafka: Kafka,
        places: list[TopicPartition],
        is_ours: Callable[[str], bool],
        arrived: Callable[[Sequence[ReceivedRecord]], None],
    ) -> None:
        self._places = {place.partition: place for place in places}
        """Where to read on."""
        self._is_ours = is_ours
        self._arrived = arrived
        self._loop = asyncio.get_running_loop()
        self._ended = False
        self._options = {
            **kafka.python_options(),
            "group.id": READER_GROUP,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
        self._thread = threading.Thread(target=self._run, name="temporary queues", daemon=True)
        self._thread.start()

    async def close(self) -> None:
        """End the thread."""
        self._ended = True
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        while not self._ended:
            try:
                self._read()
            except BrokersLost:
                log.warning("temporary queues: Kafka's client has lost its brokers and is replaced")

    def _read(self) -> None:
        consumer = Consumer({**self._options, **watching_brokers()}, logger=QUIET)
        try:
            consumer.assign(list(self._places.values()))
            while not self._ended:
                first = consumer.poll(POLL_S)
                if first is None:
                    continue
                found = [first, *consumer.consume(BATCH, timeout=0)]
                records = [record_of(each) for each in found if self._is_wanted(each)]
                if records and not self._loop.is_closed():
                    self._loop.call_soon_threadsafe(self._arrived, records)
            consumer.close()
        except BrokersLost:
            abandon(consumer)
            raise

    def _is_wanted(self, message: Message) -> bool:
        problem = message.error()
        if problem is not None:
            log.warning("temporary queues: %s", problem.str())
            return False
        place = TopicPartition(message.topic() or "", message.partition() or 0, (message.offset() or 0) + 1)
        self._places[place.partition] = place
        return self._is_ours((message.key() or b"").decode(errors="replace"))
