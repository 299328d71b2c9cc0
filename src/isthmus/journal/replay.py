"""Replays dead letters: each goes through the journal again, once, or back to where it was read.

Records and *notes* are written in one Kafka transaction. A note says in a compacted topic
(``isthmus.<bridge.id>.replays``) what became of a dead letter, by its position: so the note is there if and
only if the record is. A replay that is killed leaves nothing half done; the next one ends its transaction
first, since both use one transactional id, reads the notes, and goes on behind them. Two at a time cannot be
for the same reason: Kafka lets only the younger one commit.

Into the journal they go by the partitions that the ledger writes: a reader waits behind an open transaction,
and what others send must not have to.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any, cast

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from isthmus.config.model.settings import Settings
from isthmus.errors import ConfigError, HardFailure
from isthmus.journal.dead_letter import DeadLetter, read_dead_letter
from isthmus.journal.layout import Record
from isthmus.journal.replay_plan import State, Step
from isthmus.kafka.blocking import batch_options, create_topics, describe, producer, read_present
from isthmus.kafka.options import Kafka
from isthmus.kafka.received import record_of
from isthmus.routing.reserved import QUARANTINE

TIMEOUT_S = 60.0
"""How long Kafka may take to begin or end a transaction."""
TRANSACTION_TIMEOUT_MS = 15_000
"""After which Kafka itself ends that of a replay which was killed: for so long readers may have to wait."""
BATCH = 200
"""How many dead letters there are in a transaction."""
_CONNECTED_S = 0.1


def dead_letter_topic(settings: Settings, *, quarantine: bool = False) -> str:
    """The topic of dead letters, or of those that failed too often. Raises `ConfigError` without one."""
    topic = settings.routing.dead_letter_topic
    if topic is None:
        raise ConfigError("this bridge has no dead letters: routing.dead-letter.topic is not set")
    return topic + QUARANTINE if quarantine else topic


def read_dead_letters(kafka: Kafka, topic: str) -> Generator[DeadLetter]:
    """The dead letters that are in the topic now; other records are passed over."""
    for message in read_present(kafka, topic):
        dead = dead_letter_of(message)
        if dead is not None:
            yield dead


def dead_letter_of(message: Message) -> DeadLetter | None:
    """The dead letter that Kafka's client read; None if it is none."""
    _, time_ms = message.timestamp()
    place = (message.topic() or "", message.partition() or 0, message.offset() or 0)
    return read_dead_letter(*place, time_ms, record_of(message))


def read_notes(kafka: Kafka, settings: Settings) -> Notes:
    """What became of dead letters so far."""
    notes = Notes()
    for message in read_present(kafka, settings.replays_topic):
        notes.add(message.key(), message.value())
    return notes


class Notes:
    """What became of dead letters, by their position. A topic that was deleted and made anew counts its
    positions anew: a note is about the dead letter that has its timestamp."""

    def __init__(self) -> None:
        self._states: dict[str, tuple[State, int]] = {}

    def add(self, key: str | bytes | None, value: str | bytes | None) -> None:
        """Take in a record of the topic; what cannot be read is passed over."""
        try:
            note = json.loads(value or b"")
            self._states[(key or b"").decode() if isinstance(key, bytes) else key or ""] = (
                State(note["state"]),
                int(note["timestamp_ms"]),
            )
        except (ValueError, KeyError, TypeError):
            return

    def state(self, dead: DeadLetter) -> State | None:
        """What became of it; None if nothing yet."""
        state, timestamp_ms = self._states.get(dead.position, (None, 0))
        return state if timestamp_ms == dead.timestamp_ms else None


class Replayer:
    """Writes steps, each once, whoever else tries.

    Once there is one, no earlier one of the same bridge can write any more.
    """

    def __init__(
        self, settings: Settings, kafka: Kafka, *, largest_record: int | None = None, batch: int = BATCH
    ) -> None:
        """``largest_record``: how many bytes a record may have; ``batch``: how many a transaction has."""
        self._settings = settings
        self._kafka = kafka
        self._batch = batch
        if not describe(kafka, [settings.replays_topic]):
            create_topics(kafka, [settings.replays_topic], 1, {"cleanup.policy": "compact"})
        self._producer = self._connected(largest_record)
        self.notes = read_notes(kafka, settings)

    def write(
        self, steps: Iterable[Step], on_batch: Callable[[Mapping[State, int]], None]
    ) -> dict[State, int]:
        """Write what the steps say, and notes of it. Says how many came to which end.

        ``on_batch`` is told the same after each transaction. Raises `HardFailure` when Kafka does not take
        one; those before it stay.
        """
        counts: dict[State, int] = dict.fromkeys(State, 0)
        pending: list[Step] = []
        for step in steps:
            if step.state is State.LEFT:
                counts[State.LEFT] += 1
                continue
            pending.append(step)
            if len(pending) >= self._batch:
                self._commit(pending, counts)
                on_batch(counts)
        if pending:
            self._commit(pending, counts)
        on_batch(counts)
        return counts

    def _commit(self, pending: list[Step], counts: dict[State, int]) -> None:
        for topic in {each.dead.topic for each in pending if each.state is State.QUARANTINED}:
            self._make_quarantine(topic)
        try:
            self._producer.begin_transaction()
            for step in pending:
                self._produce(self._settings.replays_topic, 0, _note(step))
                if step.record is not None:
                    self._produce(step.topic, step.partition, step.record)
            self._producer.commit_transaction(TIMEOUT_S)
        except KafkaException as error:
            raise _ended(error) from error
        for step in pending:
            counts[step.state] += 1
        pending.clear()

    def _make_quarantine(self, dead_letters: str) -> None:
        """Make the topic if it is not there: it takes what the dead letters' takes, and keeps it for good."""
        facts = describe(self._kafka, [dead_letters, dead_letters + QUARANTINE])
        if dead_letters + QUARANTINE in facts:
            return
        config = {"retention.ms": "-1"}
        if (of := facts.get(dead_letters)) is not None and of.max_message_bytes is not None:
            config["max.message.bytes"] = str(of.max_message_bytes)
        create_topics(self._kafka, [dead_letters + QUARANTINE], 1, config)

    def _connected(self, largest_record: int | None) -> Producer:
        options = {
            "transactional.id": f"isthmus.{self._settings.bridge_id}.replays",
            "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
            "enable.idempotence": True,  # includes acks=all
            "linger.ms": 5,
            **batch_options(largest_record),
        }
        made = producer(self._kafka, options)
        try:
            # While it still connects, Kafka's client would look for its coordinator in vain.
            made.list_topics(self._settings.replays_topic, timeout=TIMEOUT_S)
            made.poll(_CONNECTED_S)
            made.init_transactions(TIMEOUT_S)
        except KafkaException as error:
            raise _ended(error) from error
        return made

    def _produce(self, topic: str, partition: int | None, record: Record) -> None:
        options: dict[str, Any] = {} if partition is None else {"partition": partition}
        headers = cast("list[tuple[str, str | bytes | None]]", list(record.headers))
        while True:
            try:
                self._producer.produce(topic, record.value, record.key, headers=headers, **options)
            except BufferError:
                self._producer.poll(0.05)
            else:
                return


def _note(step: Step) -> Record:
    said = {
        "state": step.state,
        "timestamp_ms": step.dead.timestamp_ms,
        "at_ms": time.time_ns() // 1_000_000,
        "id": step.dead.id,
    }
    return Record(step.dead.position.encode(), json.dumps(said).encode(), [])


def _ended(error: KafkaException) -> HardFailure:
    said: KafkaError = error.args[0]
    if said.code() in (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH):
        return HardFailure(
            "another replay of this bridge has begun, and this one has ended",
            remedy="let that one finish; what was replayed is not replayed again",
        )
    return HardFailure(
        f"Kafka does not take the replay: {said.str()}",
        remedy="check that Kafka is up and its rights, then start it again: it goes on where it ended",
    )
