"""Writes messages to the journal for those who have no event loop. `isthmus.journal.batches` is for edges.

A message is in the journal when the write's future has a result, not before. The messages of one session go
to one partition in the order in which they were written, on ``acks=all`` with an idempotent producer, so that
no retry doubles or reorders them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from types import TracebackType
from typing import NamedTuple, Self

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import Message as Delivered

from isthmus.config.model.settings import JournalSettings
from isthmus.errors import HardFailure, IsthmusError, OversizeFailure
from isthmus.journal import layout
from isthmus.journal.layout import Entry
from isthmus.journal.topic import journal_topic
from isthmus.kafka.blocking import batch_options, describe, producer
from isthmus.kafka.options import Kafka

_LOOK_S = 0.1

_Report = Callable[[KafkaError | None, Delivered], None]


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
        self._topic = journal.topic
        facts = describe(kafka, [journal.topic]).get(journal.topic)
        self._partitions, max_message_bytes = journal_topic(journal, facts)
        self._producer = producer(
            kafka,
            {
                "enable.idempotence": True,  # includes acks=all
                "linger.ms": 1,
                **batch_options(max_message_bytes),
            },
        )
        self._open = True
        self._polling = Thread(target=self._poll, name="journal-writer", daemon=True)
        self._polling.start()

    def write(self, entry: Entry) -> Future[Position]:
        """Write an entry. The future has its place once Kafka has it on all in-sync replicas.

        It fails with `HardFailure` when Kafka refuses, and with a `SoftFailure` for an entry that the journal
        cannot carry or that is too large for it. A full queue waits for Kafka to catch up.
        """
        future: Future[Position] = Future()

        def delivered(error: KafkaError | None, message: Delivered) -> None:
            if error is None:
                place = Position(self._topic, message.partition() or 0, message.offset() or 0)
                future.set_result(place)
            else:
                future.set_exception(self._refused(error))

        try:
            record = layout.encode(entry)
            while not self._offer(record, entry.message.session, delivered):
                self._producer.poll(0.01)
        except KafkaException as error:
            future.set_exception(self._refused(error.args[0]))
        except IsthmusError as failure:
            future.set_exception(failure)
        return future

    def flush(self, timeout_s: float = 30) -> None:
        """Wait until everything that was written is decided. Raises `HardFailure` when time runs out."""
        deadline = time.monotonic() + timeout_s
        while (undecided := len(self._producer)) and time.monotonic() < deadline:
            self._producer.poll(0.01)
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

    def _offer(self, record: layout.Record, session: str, delivered: _Report) -> bool:
        try:
            self._producer.produce(
                self._topic,
                key=record.key,
                value=record.value,
                headers=list(record.headers),
                partition=self._partitions.of_session(session),
                on_delivery=delivered,
            )
        except BufferError:
            return False
        return True

    def _poll(self) -> None:
        while self._open:
            self._producer.poll(_LOOK_S)

    def _refused(self, error: KafkaError) -> IsthmusError:
        """What Kafka's refusal of an entry means: one that is too large is the message's own fault."""
        said = f"Kafka did not take a message for the journal {self._topic}: {error.str()}"
        if error.code() in (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE):
            return OversizeFailure(said)
        return HardFailure(said, remedy="check that the topic exists, and may be written")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
