"""Temporary queues and topics: addresses that links make, with all messages in one Kafka topic.

A record's key is the address of its queue; a temporary topic is a queue for each of its subscribers. One
consumer reads the topic's new records for all queues of this process, and hands each to its queue; those of
other processes are passed over. So a queue costs no topic, and one that is gone costs nobody anything.

What comes while nobody receives waits in memory. What is more than `LIMIT_BYTES` is undeliverable.

A node is deleted with the link that made it, or as its lifetime policy says: when no link of this process
leads to it or from it; when it has no messages, and none has come for `EMPTY_S`, in which those that were
sent arrive; or when both hold. Without a link it lasts `ABANDONED_S` at most, whatever is in it.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any, Final

from aiokafka.errors import KafkaError

from isthmus.codecs.amqp import AmqpMessage
from isthmus.converters import KafkaRecord, ReceivedRecord, converter
from isthmus.edges.amqp.protocol.composite import Composite
from isthmus.edges.amqp.protocol.conditions import (
    NOT_FOUND,
    RESOURCE_DELETED,
    RESOURCE_LIMIT_EXCEEDED,
    RESOURCE_LOCKED,
)
from isthmus.edges.amqp.protocol.terms import (
    DeleteOnClose,
    DeleteOnNoLinks,
    DeleteOnNoLinksOrMessages,
    DeleteOnNoMessages,
)
from isthmus.edges.amqp.server.receivers.record_source import (
    Acknowledgement,
    RecordSink,
    RecordSource,
    Snapshot,
)
from isthmus.edges.amqp.server.receivers.turns import Turns
from isthmus.edges.reconnect import Backoff
from isthmus.errors import ConversionFailure, Refused
from isthmus.journal.layout import HEADER_PREFIX
from isthmus.kafka.consumer import LATEST, Consumer
from isthmus.kafka.faults import reason
from isthmus.kafka.options import Kafka
from isthmus.kafka.records import PolledRecord, held_bytes
from isthmus.routing.route import TEMPORARY_PREFIX

LIMIT_BYTES: Final = 64 * 2**20
MAX_QUEUES: Final = 1000
"""How many temporary queues an owner may have."""
EMPTY_S: Final = 10.0
"""How long nothing is in a queue before it counts as empty: what was sent to it may be on its way."""
ABANDONED_S: Final = 3600.0
"""How long a queue that nobody has a link to is kept, for what is in it."""
BATCH: Final = 500
POLL_S: Final = 60.0

Ends = Callable[[], Awaitable[Mapping[int, int]]]
Overflow = Callable[[ReceivedRecord], None]
WantsRecord = Callable[[PolledRecord], bool]
"""Whether a receiver of a queue wants a record."""


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
        self,
        kafka: Kafka,
        topic: str,
        ends: Ends,
        overflow: Overflow,
        *,
        empty_s: float = EMPTY_S,
        abandoned_s: float = ABANDONED_S,
        turns: Turns | None = None,
    ) -> None:
        """``ends`` asks Kafka where the topic ends now."""
        self._turns = turns or Turns()
        self._empty_s = empty_s
        self._abandoned_s = abandoned_s
        self._orphans: dict[str, asyncio.TimerHandle] = {}
        """Nodes whose link is gone, and when to look at them next."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._kafka = kafka
        self._topic = topic
        self._ends = ends
        self._overflow = overflow
        self._nodes: dict[str, _Node] = {}
        self._tail: _Tail | None = None
        self._changing = asyncio.Lock()

    async def create(
        self, owner: str, *, topic: bool = False, lifetime: type[Composite] = DeleteOnClose
    ) -> str:
        """The address of a new queue, or topic, which only its owner may receive from.

        Raises `Refused` to one that has too many, and `HardFailure`.
        """
        async with self._changing:
            if self._tail is None:
                self._tail = _Tail(self._kafka, self._topic, await self._ends(), self._on_records)
            if sum(node.owner == owner for node in self._nodes.values()) >= MAX_QUEUES:
                raise Refused(RESOURCE_LIMIT_EXCEEDED, f"{MAX_QUEUES} temporary queues are the most")
            address = f"{TEMPORARY_PREFIX}{uuid.uuid4().hex}"
            self._nodes[address] = _Node(owner, lifetime, self._turns, is_topic=topic)
            return address

    async def leave(self, address: str) -> None:
        """The link that made a queue is gone: it goes with that, or as its lifetime policy says."""
        node = self._nodes.get(address)
        if node is None:
            return
        if node.lifetime is DeleteOnClose:
            await self._delete(address)
        else:
            node.empty_since = node.abandoned_since = asyncio.get_running_loop().time()
            await self._look_at(address)

    async def link(self, address: str, on_deleted: Callable[[], None]) -> None:
        """One more sender has a link to a queue, and is to be told when that is deleted."""
        node = self._nodes.get(address)
        if node is not None:
            node.senders[on_deleted] = None
            if address in self._orphans:
                await self._look_at(address)

    async def unlink(self, address: str, on_deleted: Callable[[], None]) -> None:
        """A sender has no link to a queue any longer."""
        node = self._nodes.get(address)
        if node is not None:
            node.senders.pop(on_deleted, None)
            if address in self._orphans:
                await self._look_at(address)

    async def close(self) -> None:
        """Look at nothing any more."""
        for timer in self._orphans.values():
            timer.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def source(
        self,
        address: str,
        owners: Collection[str],
        *,
        wants: WantsRecord | None = None,
        browses: bool = False,
    ) -> RecordSource:
        """What comes to a queue. Raises `Refused` to everyone but its owner, who may go by several names.

        What a receiver of a queue does not want is for its others. ``browses``: what is there now, which
        stays.
        """
        node = self._nodes.get(address)
        if node is None:
            raise Refused(NOT_FOUND, f"there is no temporary queue {address!r:.300}")
        if node.owner not in owners:
            raise Refused(RESOURCE_LOCKED, f"the temporary queue {address!r:.300} is that of another")
        if browses:
            return Snapshot(each for queue in node.queues for each in queue.waiting.values())
        return TemporarySource(node, wants)

    async def _look_at(self, address: str) -> None:
        """Delete a queue whose link is gone, if its time has come; else look again."""
        timer, node = self._orphans.pop(address, None), self._nodes.get(address)
        if timer is not None:
            timer.cancel()
        if node is None:
            return
        loop = asyncio.get_running_loop()
        now = loop.time()
        if node.links:
            node.abandoned_since = now
        if node.messages:
            node.empty_since = now
        is_empty = now >= node.empty_since + self._empty_s
        is_over = {
            DeleteOnNoLinks: not node.links,
            DeleteOnNoMessages: is_empty,
            DeleteOnNoLinksOrMessages: is_empty and not node.links,
        }
        if is_over[node.lifetime] or now >= node.abandoned_since + self._abandoned_s:
            await self._delete(address)
        else:
            self._orphans[address] = loop.call_later(self._empty_s / 10, self._look_at_soon, address)

    def _look_at_soon(self, address: str) -> None:
        task = asyncio.create_task(self._look_at(address))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _delete(self, address: str) -> None:
        """Forget a queue with what is in it, and tell all who have a link to it."""
        async with self._changing:
            node = self._nodes.pop(address, None)
            if node is not None:
                for source in node.sources:
                    source.on_deleted()
                for on_deleted in list(node.senders):
                    on_deleted()
            if not self._nodes and self._tail is not None:
                tail, self._tail = self._tail, None
                await tail.close()

    def _on_records(self, records: Iterable[Any]) -> None:
        for read in records:
            node = self._nodes.get((read.key or b"").decode(errors="replace"))
            for queue in [] if node is None else node.queues:
                polled = PolledRecord(read.topic, read.partition, read)
                if not queue.put(polled):
                    self._overflow(polled.record)


class _Node:
    """A temporary queue, or a topic with a queue for each subscriber."""

    def __init__(self, owner: str, lifetime: type[Composite], turns: Turns, *, is_topic: bool) -> None:
        self._turns = turns
        self.owner = owner
        self.lifetime = lifetime
        self.is_topic = is_topic
        self.senders: dict[Callable[[], None], None] = {}
        """What tells those who have a link to it that it is deleted."""
        self.empty_since = 0.0
        self.abandoned_since = 0.0
        self.queues: list[_Queue] = [] if is_topic else [_Queue(turns)]

    @property
    def sources(self) -> list[TemporarySource]:
        """Who receives."""
        return [source for queue in self.queues for source in queue.sources]

    @property
    def links(self) -> int:
        """How many links lead to it, or from it."""
        return len(self.senders) + len(self.sources)

    @property
    def messages(self) -> int:
        """How many messages are in it, or with receivers that have not settled them."""
        return sum(len(queue.waiting) for queue in self.queues) + sum(each.unsettled for each in self.sources)

    def join(self, source: TemporarySource) -> _Queue:
        """The queue of one more receiver."""
        if self.is_topic:
            self.queues.append(_Queue(self._turns))
        queue = self.queues[-1]
        queue.sources.append(source)
        source.unseen.extend(queue.waiting)
        return queue

    def leave(self, queue: _Queue, source: TemporarySource) -> None:
        """Forget a receiver, of a topic with all that it has not received."""
        if source in queue.sources:
            queue.sources.remove(source)
            if self.is_topic:
                self.queues.remove(queue)


class _Queue:
    """What waits, and who takes it."""

    def __init__(self, turns: Turns) -> None:
        self.sources: list[TemporarySource] = []
        self.waiting: OrderedDict[int, PolledRecord] = OrderedDict()
        """In order, by numbers that say nothing but which record it is."""
        self._turns = turns
        self._count = 0
        self._size_bytes = 0

    def put(
        self, taken: PolledRecord, *, first: bool = False, declined_by: TemporarySource | None = None
    ) -> bool:
        """Take a record. False if there is no room for it."""
        taken.size = held_bytes(taken.read)
        if self._size_bytes + taken.size > LIMIT_BYTES and not first:
            return False
        self._size_bytes += taken.size
        self._count += 1
        number = self._count
        self.waiting[number] = taken
        if first:
            self.waiting.move_to_end(number, last=False)
        for source in self.sources:
            if source is not declined_by:
                source.offer(number, first=first)
        self.hand_out()
        return True

    def hand_out(self) -> None:
        """Give what waits to those who want it. Each is asked once for a record, as far as there is time."""
        for source in self.sources:
            while source.wanted and source.unseen:
                taken = self.waiting.get(source.unseen[0])
                if taken is not None and source.selects and not self._turns.has_time():
                    self._turns.later(self.hand_out)
                    break
                number = source.unseen.popleft()
                if taken is not None and source.wants(taken):
                    del self.waiting[number]
                    self._size_bytes -= taken.size
                    source.take(taken)
            if source.wanted and not source.unseen:
                source.on_idle()
            if len(source.unseen) > 2 * len(self.waiting) + BATCH:  # others have taken most of it
                source.unseen = deque(each for each in source.unseen if each in self.waiting)


class TemporarySource:
    """Reads a temporary queue for one receiver."""

    def __init__(self, node: _Node, wants: WantsRecord | None) -> None:
        self.wanted = 0
        self.unsettled = 0
        self.unseen: deque[int] = deque()
        """The numbers of what it was not asked for yet; some of it may be gone."""
        self._wants = wants
        self._idle = True
        """Whether the receiver knows that there is nothing."""
        self._node = node
        self._queue = node.join(self)
        self._sink: RecordSink

    def start(self, sink: RecordSink) -> None:
        """Remember who takes the records."""
        self._sink = sink

    def request(self, count: int, *, drain: bool = False) -> None:  # noqa: ARG002
        """Hand over what is there, and tell when that is all."""
        self.wanted = count
        self._idle = False
        # Not at once: whoever wants is in the middle of it.
        asyncio.get_running_loop().call_soon(self._queue.hand_out)

    @property
    def selects(self) -> bool:
        """Whether there may be what the receiver does not want."""
        return self._wants is not None

    def offer(self, number: int, *, first: bool) -> None:
        """Have the receiver asked for a record of the queue."""
        if first:
            self.unseen.appendleft(number)
        else:
            self.unseen.append(number)

    def wants(self, record: PolledRecord) -> bool:
        """Whether the receiver wants a record."""
        return self._wants is None or self._wants(record)

    def on_idle(self) -> None:
        """Tell the receiver, once for each request, that there is nothing more."""
        if not self._idle:
            self._idle = True
            self._sink.on_idle()

    def take(self, taken: PolledRecord) -> None:
        """Hand a record over."""
        self.wanted -= 1
        self.unsettled += 1
        self._sink.on_records([taken])

    def holds(self, record: PolledRecord) -> bool:  # noqa: ARG002
        """Nobody takes it away."""
        return True

    def settle(self, taken: PolledRecord, acknowledgement: Acknowledgement) -> None:
        """Forget a record, or have it redelivered before all others."""
        self.unsettled -= 1
        if acknowledgement in (Acknowledgement.RELEASE, Acknowledgement.FAIL):
            self._queue.put(taken.again(failed=acknowledgement is Acknowledgement.FAIL), first=True)

    def decline(self, record: PolledRecord, *, failed: bool) -> bool:
        """Leave a record to other receivers of the queue, those that come later included."""
        if self._node.is_topic:
            return False
        self.unsettled -= 1
        self._queue.put(record.again(failed=failed), first=True, declined_by=self)
        return True

    async def close(self) -> None:
        """Take no more."""
        self.wanted = 0
        self._node.leave(self._queue, self)

    def on_deleted(self) -> None:
        """Tell the receiver that the queue is no more."""
        self._sink.on_failed(RESOURCE_DELETED, "the temporary queue was deleted")


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
        self._backoff = Backoff(f"the topic {topic} of temporary queues")
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
