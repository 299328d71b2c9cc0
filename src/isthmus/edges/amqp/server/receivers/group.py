"""Records for a receiver from a Kafka consumer of its own, on a thread of its own.

The consumer is a member of a consumer group, or reads from given places. At least once: it commits the
contiguous prefix of what was settled, now and then and when it loses a partition or ends. At most once: it
commits before it hands records over. While nothing is wanted it is paused, and stays in its group.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from isthmus.edges.amqp.server.receivers.prefix import ContiguousPrefix
from isthmus.edges.amqp.server.receivers.record_source import (
    KAFKA_COMMIT,
    KAFKA_SUBSCRIBE,
    Acknowledgement,
    OnLoop,
    RecordSink,
    record_of,
)
from isthmus.kafka.blocking import QUIET, RECOVERING, BrokersLost, abandon, watching_brokers
from isthmus.kafka.options import Kafka
from isthmus.kafka.records import PolledRecord

log = logging.getLogger(__name__)

POLL_S: Final = 0.1
"""How long one look for records takes, and so how late a settlement may be seen."""
COMMIT_S: Final = 0.1
LAST_COMMIT_S: Final = 5.0
"""How long the last commit of a receiver is tried: what it does not get in is delivered again."""
IDLE_S: Final = 1.0
"""How long nothing is wanted before the consumer pauses, which throws away what it has fetched ahead."""
BATCH: Final = 500
READER_GROUP: Final = "isthmus-reader"
"""Kafka wants a group's name of everyone. Nothing is ever committed under this one."""

_OTHERS_TURN: Final = (
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError._ASSIGNMENT_LOST,
)
"""A commit that comes too late in a rebalance: the next owner delivers again."""
_PASSING: Final = (
    KafkaError._TRANSPORT,
    KafkaError._TIMED_OUT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._WAIT_COORD,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.NETWORK_EXCEPTION,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
)
"""A commit that Kafka cannot take now, as when a broker starts again: it is tried again."""
_HOPELESS: Final = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.INCONSISTENT_GROUP_PROTOCOL,
)


class Commits(Enum):
    """When offsets are committed."""

    BEFORE = "before records are handed over"
    AFTER = "after they were settled"
    NEVER = "never"


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What to read, and how."""

    topic: str
    group: str
    commits: Commits
    places: Sequence[TopicPartition] = field(default=())
    """Where to read from; none: what the group assigns."""
    from_beginning: bool = True
    """Where a group begins that has committed nothing."""


class GroupSource:
    """Reads for one receiver, from `start` to `close`."""

    def __init__(self, kafka: Kafka, reading: Reading) -> None:
        self._kafka = kafka
        self._reading = reading
        self._to_do: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._wanted = 0
        self._paused = False
        self._ended = False
        self._assigned: set[int] | None = None
        self._at_end: set[int] = set()
        self._again: list[PolledRecord] = []
        self._wanted_at = 0.0
        self._commit_at = 0.0
        self._prefixes: dict[int, ContiguousPrefix] = {}
        self._thread = threading.Thread(target=self._run, name=f"receiver {reading.topic}", daemon=True)
        self._consumer: Consumer
        self._sink: RecordSink
        self._loop: OnLoop

    # On the loop

    def start(self, sink: RecordSink) -> None:
        """Start the thread."""
        self._sink = sink
        self._loop = OnLoop(sink)
        self._thread.start()

    def request(self, count: int, *, drain: bool = False) -> None:  # noqa: ARG002
        """Have that many records read."""
        self._to_do.put(lambda: self._want(count))

    def holds(self, record: PolledRecord) -> bool:  # noqa: ARG002
        """Nobody takes it away."""
        return True

    def settle(self, taken: PolledRecord, verdict: Acknowledgement) -> None:
        """Count a record as done with, or hand it over again."""
        if verdict in (Acknowledgement.ACCEPT, Acknowledgement.REJECT):
            self._to_do.put(lambda: self._settle(taken.partition, taken.offset))
        else:
            if not self._again:
                asyncio.get_running_loop().call_soon(self._hand_over_again)
            self._again.append(taken.again(failed=verdict is Acknowledgement.FAIL))

    def _hand_over_again(self) -> None:
        again, self._again = self._again, []
        again.sort(key=lambda each: (each.partition, each.offset))
        self._sink.on_records(again, redelivered=True)

    async def close(self) -> None:
        """Commit, and leave the group."""
        self._to_do.put(self._end)
        await asyncio.to_thread(self._thread.join)

    # On the thread

    def _run(self) -> None:
        reading = self._reading
        try:
            self._consumer = Consumer(
                {
                    **RECOVERING,
                    **watching_brokers(),
                    **self._kafka.python_options(),
                    "group.id": reading.group,
                    "enable.auto.commit": False,
                    "auto.offset.reset": "earliest" if reading.from_beginning else "latest",
                    "isolation.level": "read_committed",
                    "enable.partition.eof": True,
                },
                logger=QUIET,
            )
        except KafkaException as error:
            self._loop.on_failed(KAFKA_SUBSCRIBE, error.args[0].str())
            return
        try:
            if reading.places:
                self._consumer.assign(list(reading.places))
                self._on_assign(self._consumer, list(reading.places))
            else:
                self._consumer.subscribe(
                    [reading.topic],
                    on_assign=self._on_assign,
                    on_revoke=self._on_revoke,
                    on_lost=self._on_lost,
                )
            while not self._ended:
                self._turn()
            self._finish()
        except BrokersLost as error:
            abandon(self._consumer)
            self._loop.on_failed(KAFKA_SUBSCRIBE, error.args[0].str())
        except KafkaException as error:
            self._loop.on_failed(KAFKA_SUBSCRIBE, error.args[0].str())
            self._finish()

    def _finish(self) -> None:
        give_up_at = time.monotonic() + LAST_COMMIT_S
        while not self._commit(retry=False) and self._reading.places and time.monotonic() < give_up_at:
            time.sleep(POLL_S)
        try:
            self._consumer.close()  # calls _on_revoke
        except KafkaException as error:
            log.warning("%s: a consumer ended badly: %s", self._reading.topic, error.args[0].str())

    def _turn(self) -> None:
        """One look at what there is to do, and one for records."""
        self._catch_up()
        if self._ended:
            return
        if time.monotonic() >= self._commit_at:
            self._commit(retry=True)
        if self._wanted > 0:
            self._read()
        elif not self._paused and time.monotonic() - self._wanted_at > IDLE_S:
            self._pause()
        else:
            self._rest()

    def _catch_up(self) -> None:
        while not self._ended:
            try:
                self._to_do.get_nowait()()
            except queue.Empty:
                return

    def _rest(self) -> None:
        if self._paused:
            self._take(self._consumer.poll(0))
        try:
            self._to_do.get(timeout=POLL_S)()
        except queue.Empty:
            return

    def _read(self) -> None:
        first = self._consumer.poll(POLL_S)
        if first is None:
            if self._assigned is not None and self._assigned <= self._at_end:
                self._loop.on_idle()
            return
        found = [first]
        if self._wanted > 1:
            found += self._consumer.consume(min(self._wanted, BATCH) - 1, timeout=0)
        self._take(*found)

    def _take(self, *found: Message | None) -> None:
        taken = []
        for message in found:
            if message is None:
                continue
            problem = message.error()
            if problem is None:
                read = record_of(message)
                taken.append(PolledRecord(read.topic, read.partition, read))
                self._at_end.discard(taken[-1].partition)
            elif problem.code() == KafkaError._PARTITION_EOF:
                self._at_end.add(message.partition() or 0)
            elif problem.fatal() or problem.code() in _HOPELESS:
                self._wanted = 0
                self._loop.on_failed(KAFKA_SUBSCRIBE, problem.str())
        if not taken:
            return
        for each in taken:
            prefix = self._prefixes.setdefault(each.partition, ContiguousPrefix())
            prefix.take(each.offset)
            if self._reading.commits is Commits.BEFORE:
                prefix.settle(each.offset)
        if self._reading.commits is Commits.BEFORE and not self._commit(retry=True):
            self._go_back(taken)
            return
        self._wanted = max(0, self._wanted - len(taken))
        self._wanted_at = time.monotonic()
        self._loop.on_records(taken)

    def _go_back(self, taken: list[PolledRecord]) -> None:
        """Read records again that could not be committed, and so were not handed over."""
        lowest: dict[int, int] = {}
        for each in taken:
            lowest.setdefault(each.partition, each.offset)
        for partition, offset in lowest.items():
            self._prefixes[partition] = ContiguousPrefix()
            self._consumer.seek(TopicPartition(self._reading.topic, partition, offset))

    def _want(self, count: int) -> None:
        self._wanted = count
        self._wanted_at = time.monotonic()
        if count and self._paused:
            self._paused = False
            self._consumer.resume(self._consumer.assignment())

    def _settle(self, partition: int, offset: int) -> None:
        prefix = self._prefixes.get(partition)
        if prefix is not None:
            prefix.settle(offset)

    def _end(self) -> None:
        self._ended = True

    def _pause(self) -> None:
        self._paused = True
        self._consumer.pause(self._consumer.assignment())

    def _commit(self, *, retry: bool) -> bool:
        """Commit what is due. False if Kafka did not take it, which is then due again later."""
        self._commit_at = time.monotonic() + COMMIT_S
        if self._reading.commits is Commits.NEVER:
            return True
        due = {
            partition: prefix.due for partition, prefix in self._prefixes.items() if prefix.due is not None
        }
        if not due:
            return True
        places = [TopicPartition(self._reading.topic, *each) for each in due.items()]
        try:
            self._consumer.commit(offsets=places, asynchronous=False)
        except KafkaException as error:
            self._not_committed(error.args[0], retry=retry)
            return False
        for partition, offset in due.items():
            self._prefixes[partition].committed(offset)
        return True

    def _not_committed(self, problem: KafkaError, *, retry: bool) -> None:
        member = not self._reading.places
        if problem.retriable() or problem.code() in _PASSING:
            return
        if member and problem.code() in _OTHERS_TURN:
            return
        log.warning("%s: group %s: no commit: %s", self._reading.topic, self._reading.group, problem.str())
        if retry:
            self._wanted = 0
            self._loop.on_failed(KAFKA_COMMIT, problem.str())

    def _on_assign(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        self._assigned = {place.partition for place in places}
        self._at_end.clear()
        self._prefixes = {partition: ContiguousPrefix() for partition in self._assigned}
        if self._paused:
            consumer.pause(places)

    def _on_revoke(self, _: Consumer, places: list[TopicPartition]) -> None:
        self._catch_up()
        self._commit(retry=False)
        self._on_lost(_, places)

    def _on_lost(self, _: Consumer, places: list[TopicPartition]) -> None:
        self._prefixes.clear()
        self._assigned = None
        self._loop.on_revoked({place.partition for place in places})
