"""Writes messages to the journal. A message is in it when the write's future has a result, not before.

The messages of one session go to one partition in the order in which they were written, on ``acks=all``
with an idempotent producer, so that no retry doubles or reorders them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from itertools import count
from operator import itemgetter
from threading import Event, RLock, Thread
from types import TracebackType
from typing import NamedTuple, Self

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import Message as Delivered

from isthmus.config.settings import JournalSettings
from isthmus.errors import HardFailure, IsthmusError, OversizeFailure
from isthmus.journal import layout
from isthmus.journal.layout import Entry, Record
from isthmus.journal.places import Places
from isthmus.kafka import QUIET, BrokersLost, Kafka, batch_options, describe, watching_brokers

log = logging.getLogger(__name__)

Report = Callable[[KafkaError | None, Delivered], None]
"""Called by Kafka's client with the fate of an entry."""

_LOOK_S = 0.1
_HURRY_S = 0.001
_PURGED = (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT)


class Position(NamedTuple):
    """A place in the journal."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return layout.stable_id(*self)


class JournalWriter:
    """Puts entries into the journal. One writer serves many sessions, from any thread."""

    def __init__(self, kafka: Kafka, journal: JournalSettings) -> None:
        self._topic = topic = journal.topic
        facts = describe(kafka, [topic]).get(topic)
        if facts is None or not facts.writable:
            raise HardFailure(
                f"the journal {topic} {'may not be written' if facts else 'does not exist'}",
                remedy="start the bridge once: it makes its journal; or check journal.topic",
            )
        self._places = Places.of(topic, facts.partitions, journal.ledger_partitions)
        self._options = {
            **kafka.python_options(),
            "enable.idempotence": True,  # includes acks=all
            # Without it, the first of many that are given at once leaves alone, and the others wait for its
            # answer: half as many messages a second in transactions.
            "linger.ms": 1,
            # While a request is under way, the next batch gathers. With several, the line is mostly free
            # and batches are small: that costs three times the CPU for each message.
            "max.in.flight.requests.per.connection": 1,
            **batch_options(facts.max_message_bytes),
        }
        self._producer = self._connect()
        self._renewal = RLock()
        self._numbers = count()
        self._purged: list[tuple[int, Record, int, Report]] = []
        """What a lost client held: not in the order in which it was given."""
        self._after_reports: list[Callable[[], None]] = []
        self._given = Event()
        self._hurried = False
        self._open = True
        self._polling = Thread(target=self._poll, name="journal-writer", daemon=True)
        self._polling.start()

    def write(self, entry: Entry) -> Future[Position]:
        """Write an entry. The future has its place once Kafka has it on all in-sync replicas.

        The future fails with what `refused` says when Kafka does. A full queue waits for Kafka to catch up.
        """
        future: Future[Position] = Future()

        def delivered(error: KafkaError | None, message: Delivered) -> None:
            if error is None:
                future.set_result(self.position(message))
            else:
                future.set_exception(self.refused(error))

        try:
            while not self.offer(entry, delivered):
                self._serve(0.01)
        except IsthmusError as failure:
            future.set_exception(failure)
        return future

    def offer(self, entry: Entry, delivered: Report, *, alone: bool = False) -> bool:
        """Write an entry without waiting: False, and nothing is written, when the queue is full.

        One that is ``alone`` leaves at once; others wait for a moment, so that more can go with them.
        ``delivered`` is called from the writer's own thread once the entry's fate is decided. Raises
        what `refused` says for what is refused before Kafka is even asked.
        """
        record = layout.encode(entry)
        try:
            with self._renewal:
                self._hurried = alone
                self._produce(record, self._places.of_session(entry.message.session), delivered)
        except BufferError:
            return False
        except KafkaException as error:
            raise self.refused(error.args[0]) from None
        return True

    def after_reports(self, call: Callable[[], None]) -> None:
        """Have something called, from another thread, whenever the fate of some entries was reported."""
        self._after_reports.append(call)

    def position(self, message: Delivered) -> Position:
        """The place of a delivered message."""
        return Position(self._topic, message.partition() or 0, message.offset() or 0)

    def refused(self, error: KafkaError) -> IsthmusError:
        """What Kafka's refusal of an entry means: one that is too large is the message's own fault."""
        return _refused(self._topic, error)

    def flush(self, timeout_s: float = 30) -> None:
        """Wait until everything that was written is decided. Raises `HardFailure` when time runs out."""
        deadline = time.monotonic() + timeout_s
        while (undecided := self._undecided()) and time.monotonic() < deadline:
            self._serve(0.01)
        if undecided:
            raise HardFailure(
                f"{undecided} messages are not in the journal after {timeout_s:g} s",
                remedy="check that Kafka is up, then send them again",
            )

    def close(self) -> None:
        """Flush, and let go of Kafka."""
        try:
            self.flush()
        finally:
            self._open = False
            self._polling.join()

    def _undecided(self) -> int:
        with self._renewal:
            return len(self._producer)

    def _connect(self) -> Producer:
        return Producer({**self._options, **watching_brokers()}, logger=QUIET)

    def _produce(self, record: Record, partition: int, delivered: Report) -> None:
        self._producer.produce(
            self._topic,
            key=record.key,
            value=record.value,
            headers=list(record.headers),
            partition=partition,
            on_delivery=partial(self._report, next(self._numbers), record, partition, delivered),
        )
        if not self._given.is_set():
            self._given.set()

    def _report(
        self,
        number: int,
        record: Record,
        partition: int,
        delivered: Report,
        error: KafkaError | None,
        message: Delivered,
    ) -> None:
        if error is not None and error.code() in _PURGED:
            self._purged.append((number, record, partition, delivered))
        else:
            delivered(error, message)

    def _poll(self) -> None:
        while self._open:
            idle = not self._undecided() and not self._given.wait(_LOOK_S)
            self._given.clear()
            self._serve(0 if idle else _LOOK_S)

    def _serve(self, timeout_s: float) -> None:
        """Let Kafka's client report."""
        try:
            if self._hurried:
                self._hurried = False
                self._producer.flush(_HURRY_S)  # it sends at once for that time, and reports
                reported = True
            else:
                reported = bool(self._producer.poll(timeout_s))
        except BrokersLost:
            self._renew()
            reported = True
        if reported:
            for call in self._after_reports:
                call()

    def _renew(self) -> None:
        """Go on with another client. What the lost one holds is written by that, before all that follows.

        A message whose answer was under way may be in the journal twice then, as after a crash.
        """
        log.warning("journal %s: Kafka's client has lost its brokers and is replaced", self._topic)
        with self._renewal:
            lost, self._producer = self._producer, self._connect()
            lost.purge()
            while len(lost):
                lost.poll(0.1)
            purged, self._purged = sorted(self._purged, key=itemgetter(0)), []
            for _, record, partition, delivered in purged:
                self._produce(record, partition, delivered)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _refused(topic: str, error: KafkaError) -> IsthmusError:
    said = f"Kafka did not take a message for the journal {topic}: {error.str()}"
    if error.code() in (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE):
        return OversizeFailure(said)
    return HardFailure(said, remedy="check that the topic exists, and may be written")
