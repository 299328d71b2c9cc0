"""Reads an edge's outbox and has every letter delivered: at least once, in the order of its partition.

In: the records that the router wrote to ``isthmus.<bridge.id>.outbox.<edge>``. Out: `OutboundMessage`s,
batch after batch, to a `Delivery`. What it guarantees:

- a letter is settled when it was delivered, or kept as a dead letter because it never can be;
- what is committed to Kafka is the contiguous prefix of settled letters: after each batch, and when
  partitions are taken away and at the end. After a crash the letters behind it come again, with the same id;
- while the other system is away the letters wait, partitions are paused and the consumer stays in its group;
- while Kafka is away it waits too. Each change of state is one line in the log.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol, TypeVar, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from isthmus.edges.contract import Delivery, OutboundMessage
from isthmus.edges.running import end_if_cancelled
from isthmus.errors import DecodeError, HardFailure, SoftFailure, Unreachable
from isthmus.journal import layout
from isthmus.journal.layout import KafkaHeaders, Record
from isthmus.kafka.blocking import QUIET, RECOVERING, BrokersLost, abandon, watching_brokers
from isthmus.kafka.options import Kafka

log = logging.getLogger(__name__)

DESTINATION = "isthmus.destination"
"""The header of an outbox record that says where it goes."""
BATCH = 500
POLL_S = 0.1
FIRST_WAIT_S = 0.05
LONGEST_WAIT_S = 10.0

T = TypeVar("T")
Partition = tuple[str, int]
KeepAlive = Callable[[], Awaitable[None]]


class DeadLetters(Protocol):
    """Where a letter goes that can never be delivered. It is settled once this returns."""

    async def __call__(self, letter: OutboundMessage, failure: SoftFailure) -> None:
        """Keep the letter, with what is wrong with it."""
        ...


@dataclass(slots=True)
class OutboxCounts:
    """What became of letters since the start."""

    delivered: int = 0
    dead_letters: int = 0
    retries: int = 0
    times_s: deque[float] = field(default_factory=lambda: deque(maxlen=1000))
    """How long the last batches took to be delivered."""


def outbound_message(record: Record, position: str) -> OutboundMessage:
    """The letter that an outbox record is; ``position`` is its id if the record has none.

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
    letter = OutboundMessage(identity, destination, Record(record.key, record.value, headers))
    if not destination:
        raise DecodeError(f"an outbox record without {DESTINATION}")
    return letter


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
        self._kafka = kafka
        self._topic = topic
        self._group = group or topic
        self._delivery = delivery
        self._dead_letters = dead_letters
        self._batch = batch
        self._longest_wait_s = longest_wait_s
        self._settled: dict[Partition, int] = {}
        """The offset to go on from, for partitions whose commit is due."""
        self._lost_meanwhile: set[Partition] = set()
        """Partitions taken away while letters were under way: nothing of theirs is ours to settle."""
        self._paused = False
        self._trouble = ""

    async def run(self) -> None:
        """Deliver until cancelled. Raises `HardFailure` when the topic may not be read."""
        # Kafka's client is used by one thread, and blocks that one only.
        with ThreadPoolExecutor(1, thread_name_prefix=f"outbox-{self._topic}") as thread:
            while True:
                try:
                    await self._run_in(thread)
                except BrokersLost:
                    log.warning("%s: Kafka's client has lost its brokers and is replaced", self._topic)

    async def _run_in(self, thread: ThreadPoolExecutor) -> None:
        """Deliver, as one member of the group."""

        async def apart(work: Callable[[], T]) -> T:
            return await asyncio.get_running_loop().run_in_executor(thread, work)

        consumer = await apart(self._open)
        try:
            while True:
                end_if_cancelled()
                if messages := await apart(lambda: self._read(consumer)):
                    await self._hand_over(messages, lambda: apart(lambda: self._keep_alive(consumer)))
                    if self._paused:
                        await apart(lambda: self._resume(consumer))
        except BrokersLost:
            abandon(consumer)
            self._settled.clear()
            self._paused = False
            raise
        except BaseException:
            # Not `apart`: whoever cancels may do so again, and the commits must be made.
            await asyncio.shield(asyncio.get_running_loop().run_in_executor(thread, self._close, consumer))
            raise

    # On the loop.

    async def _hand_over(self, messages: list[Message], keep_alive: KeepAlive) -> None:
        self._lost_meanwhile.clear()
        read = [(message, *self._letter(message)) for message in messages]
        rest = [(message, letter) for message, letter, failure in read if failure is None]
        answers: Sequence[SoftFailure | None] = ()
        attempts = 0
        while rest:
            began = time.monotonic()
            try:
                answers = await self._delivery.deliver([letter for _, letter in rest])
                self.counts.times_s.append(time.monotonic() - began)
                break
            except Unreachable as error:
                if attempts == 0:
                    log.warning("%s: letters wait: %s", self._topic, error)
                attempts += 1
                self.counts.retries += 1
                await self._back_off(attempts, keep_alive)
                # Those of partitions that were taken away are for somebody else now.
                rest = [each for each in rest if _partition(each[0]) not in self._lost_meanwhile]
        if attempts:
            log.info("%s: letters are delivered again", self._topic)
        refused = [(letter, failure) for _, letter, failure in read]
        refused += [(letter, answer) for (_, letter), answer in zip(rest, answers, strict=True)]
        self.counts.delivered += answers.count(None)
        for letter, failure in refused:
            if failure is not None:
                self.counts.dead_letters += 1
                await self._dead_letters(letter, failure)
        for message in messages:
            if _partition(message) not in self._lost_meanwhile:
                self._settled[_partition(message)] = _place(message)[1] + 1

    async def _back_off(self, attempts: int, keep_alive: KeepAlive) -> None:
        longest = min(self._longest_wait_s, FIRST_WAIT_S * 2 ** min(attempts, 16))
        deadline = time.monotonic() + random.uniform(longest / 2, longest)
        while (left := deadline - time.monotonic()) > 0:
            await keep_alive()
            await asyncio.sleep(min(left, POLL_S))

    def _letter(self, message: Message) -> tuple[OutboundMessage, SoftFailure | None]:
        record = Record(message.key(), message.value(), cast("KafkaHeaders", message.headers() or []))
        position = layout.stable_id(self._topic, *_place(message))
        try:
            return outbound_message(record, position), None
        except DecodeError as error:
            return OutboundMessage(position, "", record), error

    # In the thread.

    def _open(self) -> Consumer:
        consumer = Consumer(
            {
                **RECOVERING,
                **watching_brokers(),
                **self._kafka.python_options(),
                "group.id": self._group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "queued.max.messages.kbytes": 32_768,
                "on_commit": lambda *_: None,  # one that failed is made good by the next
            },
            logger=QUIET,
        )
        consumer.subscribe(
            [self._topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
        )
        return consumer

    def _read(self, consumer: Consumer) -> list[Message]:
        self._commit(consumer, asynchronous=True)
        first = consumer.poll(POLL_S)
        if first is None:
            return []
        messages = [first, *consumer.consume(self._batch - 1, 0)]
        return [message for message in messages if not self._is_trouble(message.error())]

    def _keep_alive(self, consumer: Consumer) -> None:
        """Answer the group while letters wait; nothing is read meanwhile."""
        if not self._paused:
            self._paused = True
            consumer.pause(consumer.assignment())
        if message := consumer.poll(0):
            self._is_trouble(message.error())

    def _resume(self, consumer: Consumer) -> None:
        if self._paused:
            self._paused = False
            consumer.resume(consumer.assignment())

    def _close(self, consumer: Consumer) -> None:
        self._commit(consumer, asynchronous=False)
        consumer.close()

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if self._paused:
            consumer.assign(partitions)
            consumer.pause(partitions)

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._commit(consumer, asynchronous=False)
        self._lost(consumer, partitions)

    def _lost(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        for each in partitions:
            self._lost_meanwhile.add((each.topic, each.partition))
            self._settled.pop((each.topic, each.partition), None)

    def _commit(self, consumer: Consumer, *, asynchronous: bool) -> None:
        due = dict(self._settled)
        if not due:
            return
        offsets = [TopicPartition(topic, number, offset) for (topic, number), offset in due.items()]
        with contextlib.suppress(KafkaException):  # Kafka is away: then these letters come again
            if asynchronous:
                consumer.commit(offsets=offsets, asynchronous=True)
            else:
                consumer.commit(offsets=offsets, asynchronous=False)
            for partition, offset in due.items():
                if self._settled.get(partition) == offset:
                    del self._settled[partition]

    def _is_trouble(self, error: KafkaError | None) -> bool:
        if error is None:
            if self._trouble:
                log.info("%s: can be read again", self._topic)
                self._trouble = ""
            return False
        if error.fatal() or error.code() in (
            KafkaError.TOPIC_AUTHORIZATION_FAILED,
            KafkaError.GROUP_AUTHORIZATION_FAILED,
        ):
            raise HardFailure(
                f"the outbox {self._topic} cannot be read: {error.str()}",
                remedy="check that the bridge's user may read the topic and use its consumer group",
            )
        if not self._trouble:
            log.warning("%s: cannot be read now: %s", self._topic, error.str())
        self._trouble = error.str()
        return True


def _place(message: Message) -> tuple[int, int]:
    """Partition and offset, which every message that was read has."""
    return message.partition() or 0, message.offset() or 0


def _partition(message: Message) -> Partition:
    return message.topic() or "", message.partition() or 0
