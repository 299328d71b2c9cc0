"""Records for a receiver of a JMS queue, from a Kafka share group: every record goes to one of its receivers.

Accepted, released and rejected are Kafka's own acknowledgements, and Kafka counts deliveries. One that Kafka
does not take is logged and counted, and the record comes again. At most once, records are handed over when
Kafka has taken the acknowledgement.

The client library calls its share consumer a preview: all use of it is in this file.

A share consumer reads no further until all that it has read is acknowledged. So that a client may hold some
messages and still get others, a receiver has several, each on a thread of its own: while one waits for
acknowledgements, others read. Kafka shares the partitions out among all of them, so that one that rests keeps
its partitions from everybody: all that can read do.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Callable
from typing import Final

from confluent_kafka import (
    AcknowledgeType,
    IllegalStateException,
    KafkaException,
    Message,
    ShareConsumer,
    TopicPartition,
)

from isthmus.edges.amqp.server.receivers.record_source import (
    KAFKA_SUBSCRIBE,
    Acknowledgement,
    OnLoop,
    PolledRecord,
    RecordSink,
    record_of,
)
from isthmus.kafka.blocking import QUIET, BrokersLost, abandon, watching_brokers
from isthmus.kafka.options import Kafka

log = logging.getLogger(__name__)

POLL_S: Final = 0.1
IDLE_POLLS: Final = 5
"""How many empty looks in a row mean that there is nothing: a fetch may take half a second."""
ACKNOWLEDGE_S: Final = 10.0
"""How long an acknowledgement may take."""
JOIN_S: Final = 1.0
"""How long a new member may get nothing although there is something, beyond the time between two heartbeats:
Kafka tells it of its share with the second."""
GATHER_S: Final = 0.05
"""How long accepted records wait for the rest of their batch before Kafka is told. It keeps books of a batch
that is accepted in pieces record by record."""
BATCH: Final = 500
REST_S: Final = 30.0
"""How long nothing is wanted before a reader leaves the group. To join again takes seconds."""
MAX_READERS: Final = 16
"""How many batches of one receiver may wait for acknowledgements."""
PATIENCE_S: Final = 1.0
"""How long a batch may wait for them before others take over its reader's partitions."""

_ACKNOWLEDGEMENTS: Final = {
    Acknowledgement.ACCEPT: AcknowledgeType.ACCEPT,
    Acknowledgement.RELEASE: AcknowledgeType.RELEASE,
    Acknowledgement.FAIL: AcknowledgeType.RELEASE,
    Acknowledgement.REJECT: AcknowledgeType.REJECT,
}


class AcquiredRecord(PolledRecord):
    """A record of a reader that wants to know what becomes of it."""

    def __init__(self, message: Message, reader: _Reader) -> None:
        read = record_of(message)
        super().__init__(read.topic, read.partition, read, max(0, (message.delivery_count() or 1) - 1))
        self.reader: _Reader | None = reader
        """Until it is decided."""


class QueueSource:
    """Reads a queue for one receiver. All is called on the loop."""

    def __init__(
        self,
        kafka: Kafka,
        topic: str,
        group: str,
        *,
        partitions: int = 1,
        heartbeat_s: float = 5.0,
        at_most_once: bool = False,
        not_acknowledged: Callable[[int], None] = lambda _: None,
    ) -> None:
        """``not_acknowledged`` is told, on any thread, how many acknowledgements Kafka did not take."""
        self.kafka = kafka
        self.topic = topic
        self.group = group
        self.heartbeat_s = heartbeat_s
        self.at_most_once = at_most_once
        self.not_acknowledged = not_acknowledged
        self._readers: list[_Reader] = []
        self._partitions = partitions
        self._wanted = 0
        self._batch = 1
        """How many a reader takes at a time: no more than were ever wanted."""
        self._looking: asyncio.TimerHandle | None = None
        self._sink: RecordSink

    def start(self, sink: RecordSink) -> None:
        """Remember who takes the records."""
        self._sink = sink

    def request(self, count: int) -> None:
        """Have records read."""
        self._wanted = count
        self._batch = max(self._batch, min(count, BATCH))
        self._read_on()

    def settle(self, taken: PolledRecord, verdict: Acknowledgement) -> None:
        """Acknowledge a record."""
        assert isinstance(taken, AcquiredRecord)
        reader, taken.reader = taken.reader, None
        if reader is not None and not self.at_most_once:
            reader.acknowledge(taken, _ACKNOWLEDGEMENTS[verdict])
            if reader.free:
                self._read_on()

    async def close(self) -> None:
        """Release what is left, and leave the group."""
        self._wanted = 0
        if self._looking is not None:
            self._looking.cancel()
        await asyncio.gather(*(reader.close() for reader in self._readers))

    def _read_on(self) -> None:
        free = [each for each in self._readers if each.free]
        if not self._wanted:
            for reader in free:
                reader.read(False)
            return
        while len(free) < self._needed() and len(self._readers) < MAX_READERS:
            free.append(_Reader(self, self._batch, self._sink))
            self._readers.append(free[-1])
        for reader in free:
            reader.read(True)

    def _needed(self) -> int:
        """How many readers must be free, so that every partition has one.

        A partition has as many members as there are for each, rounded up: more than are held up if there are
        that many times more members than partitions. And it takes a member a second to join, so that there is
        one before it is needed.
        """
        long_ago = time.monotonic() - PATIENCE_S
        held_up = sum(not each.free and each.held_since < long_ago for each in self._readers)
        return max(2, held_up * (self._partitions - 1) + 1)

    # What readers call, on the loop

    def has_read(self, reader: _Reader, taken: list[AcquiredRecord]) -> None:
        """Hand records over, and let others read on."""
        reader.reads = False
        if not self.at_most_once:
            reader.held += len(taken)
            reader.held_since = time.monotonic()
            self._look_again()
        self._wanted = max(0, self._wanted - len(taken))
        self._sink.on_records(taken)
        self._read_on()

    def found_nothing(self, reader: _Reader) -> None:
        """Tell that there is nothing, once every reader says so."""
        reader.idle = True
        if all(each.idle for each in self._readers if each.reads):
            self._sink.on_idle()

    def _look_again(self) -> None:
        """See in a while whether readers are held up."""
        if self._looking is None:
            self._looking = asyncio.get_running_loop().call_later(PATIENCE_S * 1.5, self._look)

    def _look(self) -> None:
        self._looking = None
        self._read_on()
        if not all(each.free for each in self._readers):
            self._look_again()


class _Reader:
    """One share consumer on a thread of its own."""

    def __init__(self, supply: QueueSource, batch: int, sink: RecordSink) -> None:
        self.held = 0
        """How many of its records are not acknowledged. This and what follows is known to the loop."""
        self.held_since = 0.0
        self.reads = False
        self.idle = False
        self._options = {
            **supply.kafka.python_options(),
            **watching_brokers(),
            "group.id": supply.group,
            "share.acknowledgement.mode": "explicit",
            "max.poll.records": batch,
            "max.poll.interval.ms": 86_400_000,  # nobody may want anything for a day
        }
        self._topic = supply.topic
        self._records = supply
        self._sink = OnLoop(sink)
        self._loop = asyncio.get_running_loop()
        self._decided: list[tuple[PolledRecord, AcknowledgeType]] = []
        self._telling: asyncio.TimerHandle | None = None
        self._to_do: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._open: set[PolledRecord] = set()
        """What is not acknowledged. Known to the thread."""
        self._polls = False
        self._ended = False
        self._empty = 0
        self._is_member = False
        self._joined_at = 0.0
        self._consumer: ShareConsumer
        self._reading = threading.Thread(target=self._run, name=f"queue {self._topic}", daemon=True)
        self._reading.start()

    # On the loop

    @property
    def free(self) -> bool:
        """Whether it can read."""
        return self.held == 0

    def read(self, reads: bool) -> None:
        """Read one batch, or read no more."""
        if reads != self.reads:
            self.reads = reads
            self.idle = False
            self._to_do.put(lambda: self._read(reads))

    def acknowledge(self, taken: PolledRecord, how: AcknowledgeType) -> None:
        """Acknowledge one of its records: with others, unless somebody may wait for it."""
        self.held -= 1
        self._decided.append((taken, how))
        if self.held == 0 or how is not AcknowledgeType.ACCEPT:
            self._tell()
        elif self._telling is None:
            self._telling = self._loop.call_later(GATHER_S, self._tell)

    def _tell(self) -> None:
        """Have the thread acknowledge what was decided. Waking it costs more than an acknowledgement."""
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None
        decided, self._decided = self._decided, []
        self._to_do.put(lambda: self._acknowledge_all(decided))

    async def close(self) -> None:
        """End the thread."""
        self._tell()
        self._to_do.put(self._end)
        await asyncio.to_thread(self._reading.join)

    # On the thread

    def _run(self) -> None:
        try:
            self._consumer = ShareConsumer(self._options, logger=QUIET)
        except KafkaException as error:
            self._sink.on_failed(KAFKA_SUBSCRIBE, error.args[0].str())
            return
        try:
            self._consumer.set_acknowledgement_commit_callback(self._acknowledged)
            while not self._ended:
                self._turn()
            self._finish()
        except BrokersLost as error:
            abandon(self._consumer)
            self._sink.on_failed(KAFKA_SUBSCRIBE, error.args[0].str())
        except KafkaException as error:
            self._sink.on_failed(KAFKA_SUBSCRIBE, error.args[0].str())
            self._finish()

    def _turn(self) -> None:
        if self._polls:
            self._poll()
        open_before = len(self._open)
        if not self._polls and not self._ended:
            self._rest()
        self._catch_up()
        if len(self._open) < open_before:
            self._consumer.commit_async()

    def _catch_up(self) -> None:
        while not self._ended:
            try:
                self._to_do.get_nowait()()
            except queue.Empty:
                return

    def _rest(self) -> None:
        """Wait for something to do. After a while the partitions are left to others, if nothing is open."""
        try:
            self._to_do.get(timeout=None if self._open or not self._is_member else REST_S)()
        except queue.Empty:
            self._is_member = False
            self._consumer.unsubscribe()

    def _poll(self) -> None:
        found = self._consumer.poll(POLL_S)
        taken = [AcquiredRecord(message, self) for message in found if message.error() is None]
        if not taken:
            self._empty += 1
            if self._empty >= IDLE_POLLS and time.monotonic() > self._joined_at:
                self._loop.call_soon_threadsafe(self._records.found_nothing, self)
            return
        self._joined_at = 0.0
        self._open = set(taken)
        if self._records.at_most_once:
            self._catch_up()
            if self._ended:
                return  # nobody is there to get them
            taken = self._accepted(taken)
            if not taken:
                return  # nothing is ours: look again
        self._polls = False
        self._loop.call_soon_threadsafe(self._records.has_read, self, taken)

    def _accepted(self, taken: list[AcquiredRecord]) -> list[AcquiredRecord]:
        """Acknowledge records before they are handed over: those of which Kafka takes it."""
        for each in taken:
            self._acknowledge(each, AcknowledgeType.ACCEPT)
        results = self._consumer.commit_sync(ACKNOWLEDGE_S)
        fine = {place.partition for place, problem in results.items() if problem is None}
        return [each for each in taken if each.partition in fine]

    def _read(self, reads: bool) -> None:
        self._polls = reads and not self._open
        self._empty = 0
        if self._polls and not self._is_member:
            self._is_member = True
            self._joined_at = time.monotonic() + self._records.heartbeat_s + JOIN_S
            self._consumer.subscribe([self._topic])

    def _acknowledge_all(self, decided: list[tuple[PolledRecord, AcknowledgeType]]) -> None:
        for taken, how in decided:
            self._acknowledge(taken, how)

    def _acknowledge(self, taken: PolledRecord, how: AcknowledgeType) -> None:
        self._open.discard(taken)
        try:
            self._consumer.acknowledge_offset(self._topic, taken.partition, taken.offset, how)
        except IllegalStateException as error:  # its time has run out: Kafka gives it to somebody again
            log.info("%s: too late for %d_%d: %s", self._topic, taken.partition, taken.offset, error)

    def _acknowledged(self, offsets: dict[TopicPartition, set[int]], problem: KafkaException | None) -> None:
        if problem is None:
            return
        count = sum(map(len, offsets.values()))
        self._records.not_acknowledged(count)
        log.warning(
            "%s: Kafka did not take %d acknowledgements, the records come again: %s",
            self._topic,
            count,
            problem.args[0].str(),
        )

    def _end(self) -> None:
        self._ended = True

    def _finish(self) -> None:
        try:
            for taken in list(self._open):
                self._acknowledge(taken, AcknowledgeType.RELEASE)
            self._consumer.commit_sync(ACKNOWLEDGE_S)
            self._consumer.close()
        except (KafkaException, IllegalStateException) as error:
            log.warning("%s: a share consumer ended badly: %s", self._topic, error)
