"""Records for a receiver of a JMS queue, from a Kafka share group: every record goes to one of its receivers.

Accepted, released and rejected are Kafka's own acknowledgements, and Kafka counts deliveries. The client
library calls its share consumer a preview: all use of it is in this file.

A share consumer reads no further until all that it has read is acknowledged. So that a client may hold some
messages and still get others, a receiver has several, each on a thread of its own: while one waits for
acknowledgements, the next reads.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Callable
from typing import Final

from confluent_kafka import AcknowledgeType, IllegalStateException, KafkaException, Message, ShareConsumer

from isthmus.edges.amqp.receivers.group import record_of
from isthmus.edges.amqp.receivers.supply import KAFKA_SUBSCRIBE, OnLoop, Sink, Taken, Verdict
from isthmus.kafka import QUIET, Kafka

log = logging.getLogger(__name__)

POLL_S: Final = 0.1
IDLE_POLLS: Final = 5
"""How many empty looks in a row mean that there is nothing: a fetch may take half a second."""
JOIN_S: Final = 6.0
"""How long a new member may get nothing although there is something: Kafka tells it of its share with the
second heartbeat, after five seconds."""
BATCH: Final = 500
MAX_READERS: Final = 16
"""How many batches of one receiver may wait for acknowledgements."""

_ACKNOWLEDGEMENTS: Final = {
    Verdict.ACCEPT: AcknowledgeType.ACCEPT,
    Verdict.RELEASE: AcknowledgeType.RELEASE,
    Verdict.FAIL: AcknowledgeType.RELEASE,
    Verdict.REJECT: AcknowledgeType.REJECT,
}
Place = tuple[int, int]


class ShareSupply:
    """Reads a queue for one receiver. All is called on the loop."""

    def __init__(self, kafka: Kafka, topic: str, group: str) -> None:
        self._kafka = kafka
        self._topic = topic
        self._group = group
        self._readers: list[_Reader] = []
        self._owners: dict[Place, _Reader] = {}
        self._wanted = 0
        self._reading: _Reader | None = None
        self._sink: Sink

    def start(self, sink: Sink) -> None:
        """Remember who takes the records."""
        self._sink = sink

    def want(self, count: int) -> None:
        """Have records read."""
        self._wanted = count
        self._read_on()

    def settle(self, taken: Taken, verdict: Verdict) -> None:
        """Acknowledge a record."""
        place = (taken.record.partition, taken.record.offset)
        owner = self._owners.pop(place, None)
        if owner is not None:
            owner.acknowledge(place, _ACKNOWLEDGEMENTS[verdict])
            if owner.free:
                self._read_on()

    async def close(self) -> None:
        """Release what is left, and leave the group."""
        self._wanted = 0
        await asyncio.gather(*(reader.close() for reader in self._readers))

    def _read_on(self) -> None:
        if self._reading is not None:
            if not self._wanted:
                self._reading.read(False)
                self._reading = None
            return
        if not self._wanted:
            return
        # One to read, and one to be in the group already when the first has read: joining takes seconds.
        free = [each for each in self._readers if each.free]
        while len(free) < 2 and len(self._readers) < MAX_READERS:
            batch = min(self._wanted, BATCH)
            free.append(_Reader(self._kafka, self._topic, self._group, batch, self, self._sink))
            self._readers.append(free[-1])
        if free:
            self._reading = free[0]
            free[0].read(True)

    # What readers call, on the loop

    def has_read(self, reader: _Reader, taken: list[Taken]) -> None:
        """Remember whose records these are, and let the next one read."""
        for each in taken:
            self._owners[each.record.partition, each.record.offset] = reader
        reader.held += len(taken)
        self._wanted = max(0, self._wanted - len(taken))
        if self._reading is reader:
            self._reading = None
        self._sink.arrived(taken)
        self._read_on()


class _Reader:
    """One share consumer on a thread of its own."""

    def __init__(
        self, kafka: Kafka, topic: str, group: str, batch: int, supply: ShareSupply, sink: Sink
    ) -> None:
        self.held = 0
        """How many of its records are not acknowledged. Known to the loop."""
        self._options = {
            **kafka.python_options(),
            "group.id": group,
            "share.acknowledgement.mode": "explicit",
            "max.poll.records": batch,
            "max.poll.interval.ms": 86_400_000,  # nobody may want anything for a day
        }
        self._topic = topic
        self._supply = supply
        self._sink = OnLoop(sink)
        self._loop = asyncio.get_running_loop()
        self._to_do: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._open: set[Place] = set()
        """What is not acknowledged. Known to the thread."""
        self._reads = False
        self._ended = False
        self._empty = 0
        self._joined_at = time.monotonic() + JOIN_S
        self._consumer: ShareConsumer
        self._thread = threading.Thread(target=self._run, name=f"queue {topic}", daemon=True)
        self._thread.start()

    # On the loop

    @property
    def free(self) -> bool:
        """Whether it can read."""
        return self.held == 0

    def read(self, reads: bool) -> None:
        """Read one batch, or read no more."""
        self._to_do.put(lambda: self._read(reads))

    def acknowledge(self, place: Place, how: AcknowledgeType) -> None:
        """Acknowledge one of its records."""
        self.held -= 1
        self._to_do.put(lambda: self._acknowledge(place, how))

    async def close(self) -> None:
        """End the thread."""
        self._to_do.put(self._end)
        await asyncio.to_thread(self._thread.join)

    # On the thread

    def _run(self) -> None:
        try:
            self._consumer = ShareConsumer(self._options, logger=QUIET)
        except KafkaException as error:
            self._sink.failed(KAFKA_SUBSCRIBE, error.args[0].str())
            return
        try:
            self._consumer.subscribe([self._topic])
            while not self._ended:
                self._turn()
        except KafkaException as error:
            self._sink.failed(KAFKA_SUBSCRIBE, error.args[0].str())
        finally:
            self._finish()

    def _turn(self) -> None:
        if self._reads:
            self._poll()
        open_before = len(self._open)
        if not self._reads:
            self._to_do.get()()
        while not self._ended:
            try:
                self._to_do.get_nowait()()
            except queue.Empty:
                break
        if len(self._open) < open_before:
            self._consumer.commit_async()

    def _poll(self) -> None:
        found = self._consumer.poll(POLL_S)
        taken = [_taken(message) for message in found if message.error() is None]
        if not taken:
            self._empty += 1
            if self._empty >= IDLE_POLLS and time.monotonic() > self._joined_at:
                self._sink.idle()
            return
        self._reads = False
        self._joined_at = 0.0
        self._open = {(each.record.partition, each.record.offset) for each in taken}
        self._loop.call_soon_threadsafe(self._supply.has_read, self, taken)

    def _read(self, reads: bool) -> None:
        self._reads = reads and not self._open
        self._empty = 0

    def _acknowledge(self, place: Place, how: AcknowledgeType) -> None:
        self._open.discard(place)
        try:
            self._consumer.acknowledge_offset(self._topic, *place, how)
        except IllegalStateException as error:  # its time has run out: Kafka gives it to somebody again
            log.info("%s: too late for %d_%d: %s", self._topic, *place, error)

    def _end(self) -> None:
        self._ended = True

    def _finish(self) -> None:
        try:
            for place in set(self._open):
                self._acknowledge(place, AcknowledgeType.RELEASE)
            self._consumer.commit_sync(10.0)
            self._consumer.close()
        except (KafkaException, IllegalStateException) as error:
            log.warning("%s: a share consumer ended badly: %s", self._topic, error)


def _taken(message: Message) -> Taken:
    return Taken(record_of(message), max(0, (message.delivery_count() or 1) - 1))
