"""Writes what a task of a Spark query has for Kafka, batch after batch, each batch exactly once.

A batch that Spark repeats after a crash has the same records in the same tasks. Each task writes its records
in one Kafka transaction, together with a *marker*: the number of the batch, in a topic of markers. So the
marker is there if and only if the records are. A task looks for its marker first, and skips a batch that has
one.

Two attempts at one task may be alive at once. Each opens its transactions under the same transactional id, of
which Kafka lets only the youngest commit: whichever attempt comes second finds the marker of the first, or
has put an end to it.

Markers are kept by the query's id, which Spark makes with a checkpoint: a query that starts anew counts anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from isthmus.errors import HardFailure
from isthmus.journal.layout import Record
from isthmus.kafka import blocking
from isthmus.kafka.blocking import QUIET, batch_options, create_topics, describe
from isthmus.kafka.options import Kafka

TIMEOUT_S = 60.0
"""How long Kafka may take to begin or end a transaction."""

_PRODUCER = {
    "enable.idempotence": True,  # includes acks=all
    # A batch of Spark's has thousands of records: fewer, larger requests, and no more than this in memory.
    "linger.ms": 20,
    "queue.buffering.max.kbytes": 65_536,
}
_TRANSACTIONAL = {
    # One that died with its process keeps readers waiting for so long, unless its task is tried again.
    "transaction.timeout.ms": 300_000,
}
_CONNECTED_S = 0.1
_RECENT = 64
"""How many places before its end to look for a topic's last marker before looking through all of it."""


class Placed(NamedTuple):
    """A record, and where it goes."""

    topic: str
    partition: int
    record: Record


@dataclass(frozen=True, slots=True)
class Task:
    """A task of a query: what has a marker of its own."""

    name: str
    """The query's name: the same for ever."""
    query_id: str
    """The query's id: the same for as long as its checkpoint."""
    number: int
    """Which of the query's tasks it is, from 0."""
    markers: str
    """The topic for markers; it has a partition for every task."""

    @property
    def transactional_id(self) -> str:
        """Under this id Kafka sees to it that only one attempt at the task can commit."""
        return f"{self.name}-{self.number}"


def prepare_markers(kafka: Kafka, topic: str, tasks: int) -> None:
    """Make the topic for markers if it is missing. Raises `HardFailure` if it has too few partitions."""
    facts = describe(kafka, [topic])
    if topic not in facts:
        create_topics(kafka, [topic], tasks, {"cleanup.policy": "compact"})
    elif facts[topic].partitions < tasks:
        raise HardFailure(
            f"topic {topic} has {facts[topic].partitions} partitions, and needs {tasks}",
            remedy=f"add partitions to {topic}: one for each task",
        )


def write_once(kafka: Kafka, task: Task, batch: int, records: Iterable[Placed]) -> bool:
    """Write the task's share of a batch, unless it was written before. Says whether it was written now.

    All of the records are taken in either case: what makes them may have other effects. Raises what Kafka
    says when it cannot be written; then nothing of it was.
    """
    iterator = iter(records)
    first = next(iterator, None)
    if first is None:
        return False
    writer = _begin(kafka, task, batch, first)
    if writer is None:
        for _ in iterator:
            continue
        return False
    try:
        for placed in iterator:
            _produce(writer.producer, placed)
        _retried(writer.producer.commit_transaction)
    except BaseException:
        _writers.pop(task.transactional_id, None)
        _abort(writer.producer)
        raise
    writer.last_batch = batch
    return True


def write_repeatable(kafka: Kafka, records: Iterable[Placed]) -> int:
    """Write records that do no harm when they are written again. Says how many there were."""
    iterator = iter(records)
    first = next(iterator, None)
    if first is None:
        return 0
    producer = _plain_producer(kafka, first.topic)
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: object) -> None:
        if error is not None:
            failed.append(error)

    count = 0
    for placed in chain([first], iterator):
        _produce(producer, placed, delivered)
        count += 1
    undecided = producer.flush(TIMEOUT_S)
    if failed or undecided:
        del _plain[kafka.servers, first.topic]  # the client may have lost its brokers for ever
        raise KafkaException(failed[0] if failed else KafkaError(KafkaError._TIMED_OUT))
    return count


@dataclass(slots=True)
class _Writer:
    """A transactional producer that this process has, and the last batch that it knows to be written."""

    producer: Producer
    query_id: str
    last_batch: int


_writers: dict[str, _Writer] = {}
"""Spark uses a Python process for many batches. A producer that was fenced in the meantime is replaced."""
_plain: dict[tuple[str, str], Producer] = {}


def _begin(kafka: Kafka, task: Task, batch: int, first: Placed) -> _Writer | None:
    """A writer whose transaction has begun, with marker and first record. None if the batch was written."""
    writer = _writers.pop(task.transactional_id, None)
    if writer is not None and writer.query_id == task.query_id and batch > writer.last_batch:
        try:
            _open(writer.producer, task, batch, first)
        except KafkaException as error:
            # Most likely another process has written for the task since: see what it wrote.
            QUIET.info("the task %s begins anew: %s", task.transactional_id, error)
            _abort(writer.producer)
            writer = None
    else:
        writer = None
    if writer is None:
        writer = _new_writer(kafka, task, first.topic)
        if batch <= writer.last_batch:
            return None
        _open(writer.producer, task, batch, first)
    _writers[task.transactional_id] = writer
    return writer


def _new_writer(kafka: Kafka, task: Task, topic: str) -> _Writer:
    options = {**_options(kafka, topic), **_TRANSACTIONAL, "transactional.id": task.transactional_id}
    producer = blocking.producer(kafka, options)
    # While it still connects, Kafka's client would look for its coordinator in vain, and half a second later
    # again.
    producer.list_topics(task.markers, timeout=TIMEOUT_S)
    producer.poll(_CONNECTED_S)
    # Ends what an earlier attempt has left open, so that its marker is there or never will be.
    _retried(producer.init_transactions)
    return _Writer(producer, task.query_id, _last_batch(kafka, task))


def _open(producer: Producer, task: Task, batch: int, first: Placed) -> None:
    """Begin a transaction. Raises `KafkaException` at once if another producer has taken the task over."""
    producer.begin_transaction()
    marker = Record(task.query_id.encode(), str(batch).encode(), [])
    _produce(producer, Placed(task.markers, task.number, marker))
    # Kafka's client hears that it was overtaken when Kafka has seen a record, and says so with the next one.
    # A callback must not ask for it: the client may call that while it handles an error of its own.
    producer.flush(TIMEOUT_S)
    _produce(producer, first)


def _last_batch(kafka: Kafka, task: Task) -> int:
    """The batch of the task's last marker; -1 if there is none."""
    consumer = blocking.consumer(
        kafka,
        {
            "group.id": "isthmus-markers",  # Kafka wants one; nothing is ever committed under it
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
        },
    )
    try:
        place = TopicPartition(task.markers, task.number)
        low, high = consumer.get_watermark_offsets(place, timeout=TIMEOUT_S)
        for start in dict.fromkeys((max(low, high - _RECENT), low)):
            batches = _markers(consumer, TopicPartition(task.markers, task.number, start), task.query_id)
            if batches:
                return max(batches)
        return -1
    finally:
        consumer.close()


def _markers(consumer: Consumer, start: TopicPartition, query_id: str) -> list[int]:
    consumer.assign([start])
    batches: list[int] = []
    while True:
        message = consumer.poll(TIMEOUT_S)
        problem = KafkaError(KafkaError._TIMED_OUT) if message is None else message.error()
        if problem is not None:
            if problem.code() == KafkaError._PARTITION_EOF:
                return batches
            raise KafkaException(problem)
        if message is not None and message.key() == query_id.encode():
            batches.append(int(message.value() or b"-1"))


def _produce(producer: Producer, placed: Placed, on_delivery: Any = None) -> None:
    topic, partition, (key, value, headers) = placed
    options: Mapping[str, Any] = {} if on_delivery is None else {"on_delivery": on_delivery}
    while True:
        try:
            producer.produce(
                topic,
                key=key,
                value=value,
                headers=cast("list[tuple[str, str | bytes | None]]", headers),
                partition=partition,
                **options,
            )
        except BufferError:
            producer.poll(0.05)
        else:
            return


def _abort(producer: Producer) -> None:
    """As well as it goes: a transaction that cannot be aborted is ended by the next attempt, or by time."""
    try:
        producer.purge()
        producer.abort_transaction(5)
    except KafkaException as error:
        QUIET.info("a transaction was left to Kafka: %s", error)


def _retried(call: Callable[[float], None]) -> None:
    """Call until it succeeds; what may pass is tried again for as long as there is time."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        left_s = deadline - time.monotonic()
        try:
            call(max(left_s, 0.1))
        except KafkaException as error:
            if left_s <= 0 or not error.args[0].retriable():
                raise
        else:
            return


def _plain_producer(kafka: Kafka, topic: str) -> Producer:
    if (kafka.servers, topic) not in _plain:
        _plain[kafka.servers, topic] = blocking.producer(kafka, _options(kafka, topic))
    return _plain[kafka.servers, topic]


def _options(kafka: Kafka, topic: str) -> dict[str, Any]:
    """Of a producer that writes to this topic, but for a few small records."""
    facts = describe(kafka, [topic]).get(topic)
    return {
        **_PRODUCER,
        **batch_options(facts.max_message_bytes if facts else None),
    }
