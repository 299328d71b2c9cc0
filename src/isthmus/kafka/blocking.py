"""Kafka for those who have no event loop: the command line, the pipeline's driver and its Spark tasks.

The only home of confluent_kafka, whose clients work on threads of their own and know transactions. Everything
with an event loop uses `isthmus.kafka.client` and what is built on that.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from concurrent.futures import wait
from dataclasses import replace
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclOperation,
    AdminClient,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
    TopicDescription,
)

from isthmus.config.judgement.check import TopicFacts, TopicProbe
from isthmus.config.model.settings import KafkaSettings
from isthmus.errors import ConfigError, HardFailure, Outage
from isthmus.journal.layout import Record
from isthmus.kafka.options import BATCH_BYTES, Kafka, largest_batch_bytes

REQUEST_TIMEOUT_S = 10
"""How long one question to Kafka may take. Its own default is a minute: too long for a person to wait."""

PARTITION_BY_KEY = -1
"""What confluent_kafka takes for no partition in particular."""

_UNANSWERED = 10_000
"""How many records a producer may be ahead of Kafka's answers: a tenth of what its queue has room for."""

QUIET = logging.getLogger("isthmus.kafka.blocking.client")
"""What clients log: each failed attempt to connect, among others. What matters comes as an exception."""
QUIET.setLevel(logging.CRITICAL)


def admin_client(kafka: Kafka) -> AdminClient:
    """A client for topics and their configuration. Raises `ConfigError` for options it does not take."""
    try:
        return AdminClient(kafka.python_options(), logger=QUIET)
    except KafkaException as error:
        raise ConfigError(f"kafka.*: {error.args[0].str()}") from None


def producer(kafka: Kafka, options: Mapping[str, Any]) -> Producer:
    """A producer with these options. Kafka's client for C may lose its brokers for good: replace it then."""
    return Producer({**kafka.python_options(), **options}, logger=QUIET)


def consumer(kafka: Kafka, options: Mapping[str, Any]) -> Consumer:
    """A consumer of committed records with these options, which commits nothing by itself."""
    own = {"enable.auto.commit": False, "isolation.level": "read_committed"}
    return Consumer({**kafka.python_options(), **own, **options}, logger=QUIET)


def answers(kafka: Kafka) -> bool:
    """Whether a broker answers within a short time."""
    try:
        admin_client(kafka).list_topics(timeout=2)
    except KafkaException:
        return False
    return True


def probe(settings: KafkaSettings) -> TopicProbe:
    """Asks the configured Kafka about its topics."""
    kafka = Kafka(settings.bootstrap_servers, settings.client)
    return lambda names: describe(kafka, names)


def describe(kafka: Kafka, names: Collection[str]) -> dict[str, TopicFacts]:
    """What Kafka says of these topics; one that is not there is left out. `HardFailure` without an answer."""
    if not names:
        return {}
    admin = admin_client(kafka)
    described = admin.describe_topics(
        TopicCollection(list(names)), include_authorized_operations=True, request_timeout=REQUEST_TIMEOUT_S
    )
    limits = admin.describe_configs(
        [ConfigResource(ResourceType.TOPIC, name) for name in names], request_timeout=REQUEST_TIMEOUT_S
    )
    # Answers that nobody waits for outlive the client, and end the process when they arrive.
    wait({*described.values(), *limits.values()})
    facts = {}
    for name, future in described.items():
        try:
            facts[name] = _facts(future.result())
        except KafkaException as error:
            match error.args[0].code():
                case KafkaError.UNKNOWN_TOPIC_OR_PART:
                    continue
                case KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    facts[name] = TopicFacts(
                        True, writable=False, readable=False, max_message_bytes=None, partitions=0
                    )
                case _:
                    raise _unreachable(kafka, error) from error
    for resource, future in limits.items():
        if resource.name in facts:
            try:
                limit = int(future.result()["max.message.bytes"].value)
            except KafkaException:  # the limit is not ours to read: the topic then counts as taking any size
                continue
            facts[resource.name] = replace(facts[resource.name], max_message_bytes=limit)
    return facts


def _facts(topic: TopicDescription) -> TopicFacts:
    allowed = topic.authorized_operations
    # A broker that does not say what is allowed allows everything until it refuses.
    return TopicFacts(
        exists=True,
        writable=not allowed or AclOperation.WRITE in allowed,
        readable=not allowed or AclOperation.READ in allowed,
        max_message_bytes=None,
        partitions=len(topic.partitions),
    )


def topic_names(kafka: Kafka) -> set[str]:
    """The topics that the bridge can see. `HardFailure` without an answer."""
    try:
        return set(admin_client(kafka).list_topics(timeout=REQUEST_TIMEOUT_S).topics)
    except KafkaException as error:
        raise _unreachable(kafka, error) from error


def create_topics(
    kafka: Kafka, names: Collection[str], partitions: int, config: Mapping[str, str] | None = None
) -> None:
    """Make those of the topics that are not there yet, and wait until they can be used.

    Raises `HardFailure` when Kafka refuses.
    """
    topics = [
        NewTopic(name, num_partitions=partitions, replication_factor=-1, config=dict(config or {}))
        for name in names
    ]
    admin = admin_client(kafka)  # held until the answers are there: they end with it
    futures = admin.create_topics(topics, request_timeout=REQUEST_TIMEOUT_S) if topics else {}
    for name, future in futures.items():
        try:
            future.result()
        except KafkaException as error:
            if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                continue
            if error.args[0].retriable() or error.args[0].code() == KafkaError._TIMED_OUT:
                raise _unreachable(kafka, error) from error
            raise HardFailure(
                f"topic {name} cannot be made: {error.args[0].str()}",
                remedy="make it by hand, or let the bridge's user create topics",
            ) from error
    # Kafka answers before every broker knows of the topic.
    deadline = time.monotonic() + REQUEST_TIMEOUT_S
    while missing := set(names) - set(admin.list_topics(timeout=REQUEST_TIMEOUT_S).topics):
        if time.monotonic() > deadline:
            raise HardFailure(
                f"topics that were made cannot be seen: {', '.join(sorted(missing))}",
                remedy="check that the bridge's user may describe them",
            )
        time.sleep(0.02)


def _unreachable(kafka: Kafka, error: KafkaException) -> Outage:
    return Outage(
        f"Kafka at {kafka.servers!r} does not answer: {error.args[0].str()}",
        remedy="check kafka.bootstrap.servers, the kafka.* security options, and that the brokers are up",
    )


def batch_options(limit: int | None) -> dict[str, Any]:
    """A producer's options for a topic that takes so much at once, for confluent_kafka."""
    most = largest_batch_bytes(limit)
    return {"message.max.bytes": most, "batch.size": min(BATCH_BYTES, most)}


def produce_all(
    kafka: Kafka, topic: str, records: Iterable[Record], partition: int | None = None
) -> list[str]:
    """Produce records, in order, and return the position of each once Kafka has all of them.

    Raises `HardFailure` for one that Kafka does not take.
    """
    positions: list[str] = []
    failures: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        if error is None:
            positions.append(f"{topic}:{message.partition()}:{message.offset()}")
        else:
            failures.append(error)

    # Keys go where Java's clients would put them.
    options = {"enable.idempotence": True, "partitioner": "murmur2_random", **batch_options(None)}
    own = producer(kafka, options)
    chosen = PARTITION_BY_KEY if partition is None else partition
    try:
        for key, value, headers in records:
            while len(own) >= _UNANSWERED:
                own.poll(0.01)
            own.produce(topic, value, key, headers=list(headers), partition=chosen, on_delivery=on_delivery)
        undecided = own.flush(3 * REQUEST_TIMEOUT_S)
    except KafkaException as error:
        raise HardFailure(
            f"topic {topic} did not take a record: {error.args[0].str()}", remedy="check your rights"
        ) from error
    if failures or undecided:
        said = failures[0].str() if failures else "no answer"
        raise HardFailure(
            f"topic {topic} did not take all records: {said}",
            remedy="check the partition, the size, and your rights",
        )
    return positions


def read_topic(
    kafka: Kafka, topic: str, *, from_beginning: bool = True, follow: bool = False
) -> Generator[Message]:
    """The records of a topic: those that are there, and with ``follow`` those that come, until it is closed.

    Only committed ones, each partition in its order. Raises `HardFailure` when the topic cannot be read.
    """
    reader = consumer(
        kafka,
        {
            "group.id": "isthmus-reader",  # Kafka wants one; nothing is ever committed under it
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 500 if follow else 10,  # how long a broker waits before it says: the end
        },
    )
    try:
        yield from _records(reader, kafka, topic, from_beginning=from_beginning, follow=follow)
    finally:
        reader.close()


def _records(
    consumer: Consumer, kafka: Kafka, topic: str, *, from_beginning: bool, follow: bool
) -> Iterator[Message]:
    try:
        metadata = consumer.list_topics(topic, timeout=REQUEST_TIMEOUT_S).topics[topic]
    except KafkaException as error:
        raise _unreachable(kafka, error) from error
    if metadata.error is not None:
        raise HardFailure(
            f"topic {topic} cannot be read: {metadata.error.str()}", remedy="check its name, and your rights"
        )
    start = OFFSET_BEGINNING if from_beginning else OFFSET_END
    open_partitions = set(metadata.partitions)
    consumer.assign([TopicPartition(topic, partition, start) for partition in open_partitions])
    while open_partitions or follow:
        message = consumer.poll(0.2)
        if message is None:
            continue
        problem = message.error()
        if problem is None:
            yield message
        elif problem.code() == KafkaError._PARTITION_EOF:
            open_partitions.discard(message.partition())
        elif problem.fatal() or not problem.retriable():
            raise HardFailure(f"topic {topic} cannot be read: {problem.str()}", remedy="check your rights")


def end_offsets(kafka: Kafka, topics: Collection[str]) -> dict[tuple[str, int], int]:
    """By topic and partition: the offset of the next record. Topics that are not there are left out.

    Raises `Outage` without an answer.
    """
    admin = admin_client(kafka)
    try:
        known = admin.list_topics(timeout=REQUEST_TIMEOUT_S).topics
        partitions = [
            TopicPartition(topic, each)
            for topic in topics
            if topic in known
            for each in known[topic].partitions
        ]
        return _offsets(admin, partitions, OffsetSpec.latest())
    except KafkaException as error:
        raise _unreachable(kafka, error) from error


def offsets_at(kafka: Kafka, ends: Mapping[tuple[str, int], int], time_ms: int) -> dict[tuple[str, int], int]:
    """By topic and partition: the first offset of that time or later; where there is none, the end.

    Raises `Outage` unless every partition answers.
    """
    partitions = [TopicPartition(*each) for each in ends]
    try:
        found = _offsets(admin_client(kafka), partitions, OffsetSpec.for_timestamp(time_ms))
    except KafkaException as error:
        raise _unreachable(kafka, error) from error
    return {each: ends[each] if offset < 0 else offset for each, offset in found.items()}


def _offsets(
    admin: AdminClient, partitions: Collection[TopicPartition], which: OffsetSpec
) -> dict[tuple[str, int], int]:
    """Raises `KafkaException` unless every partition answers."""
    if not partitions:
        return {}
    found = admin.list_offsets(dict.fromkeys(partitions, which), request_timeout=REQUEST_TIMEOUT_S)
    wait(set(found.values()))
    return {(each.topic, each.partition): future.result().offset for each, future in found.items()}


class EndOffsets:
    """Asks for the end offsets of topics again and again, on one connection."""

    def __init__(self, kafka: Kafka) -> None:
        self._admin = admin_client(kafka)

    def of(self, wanted: Callable[[str], bool]) -> dict[tuple[str, int], int]:
        """By topic and partition: the offset of the next record, of all topics that are wanted.

        A partition that has no leader is left out. Raises `KafkaException` when Kafka does not answer.
        """
        topics = self._admin.list_topics(timeout=REQUEST_TIMEOUT_S).topics
        partitions = {
            TopicPartition(name, each): OffsetSpec.latest()
            for name, topic in topics.items()
            if wanted(name)
            for each in topic.partitions
        }
        if not partitions:
            return {}
        ends = self._admin.list_offsets(partitions, request_timeout=REQUEST_TIMEOUT_S)
        wait(set(ends.values()))
        return {
            (each.topic, each.partition): future.result().offset
            for each, future in ends.items()
            if future.exception() is None
        }


def read_between(
    kafka: Kafka, starts: Mapping[tuple[str, int], int], ends: Mapping[tuple[str, int], int]
) -> Iterator[Message]:
    """The records of partitions from the first offset to before the second.

    Also those of transactions that are open or aborted: nothing hides behind somebody's open transaction.
    Raises `Outage` when Kafka does not answer.
    """
    yield from _read(kafka, starts, ends)


def read_present(kafka: Kafka, topic: str) -> Generator[Message]:
    """The committed records of a topic up to where it ends now, whatever is written meanwhile; none if there
    is no such topic. Raises `Outage` when Kafka does not answer."""
    ends = end_offsets(kafka, [topic])
    yield from _read(kafka, dict.fromkeys(ends, 0), ends, isolation="read_committed")


def read_last(kafka: Kafka, topic: str, count: int) -> Generator[Message]:
    """Of each partition of a topic the last committed records, so many or fewer; none if there is no such
    topic. Raises `Outage` when Kafka does not answer."""
    ends = end_offsets(kafka, [topic])
    starts = {each: max(0, end - count) for each, end in ends.items()}
    yield from _read(kafka, starts, ends, isolation="read_committed")


def read_one(kafka: Kafka, topic: str, partition: int, offset: int) -> Message | None:
    """The committed record at a position; None if there is none. Raises `Outage` without an answer."""
    if not offset < end_offsets(kafka, [topic]).get((topic, partition), 0):
        return None
    reader = _reader(kafka, "read_committed")
    try:
        reader.assign([TopicPartition(topic, partition, offset)])
        deadline = time.monotonic() + REQUEST_TIMEOUT_S
        while time.monotonic() < deadline:
            message = reader.poll(0.2)
            if message is None:
                continue
            problem = message.error()
            if problem is None:
                return message if message.offset() == offset else None
            if problem.code() == KafkaError._PARTITION_EOF:
                return None
            if problem.fatal() or not problem.retriable():
                raise _unreachable(kafka, KafkaException(problem))
    finally:
        reader.close()
    raise _unreachable(kafka, KafkaException(KafkaError(KafkaError._TIMED_OUT)))


def _reader(kafka: Kafka, isolation: str = "read_uncommitted") -> Consumer:
    options = {
        "group.id": "isthmus-reader",  # Kafka wants one; nothing is ever committed under it
        "isolation.level": isolation,
        "enable.partition.eof": True,
        "fetch.wait.max.ms": 10,
        "auto.offset.reset": "earliest",  # where the first records are gone, those that are left
    }
    return consumer(kafka, options)


def _read(
    kafka: Kafka,
    starts: Mapping[tuple[str, int], int],
    ends: Mapping[tuple[str, int], int],
    isolation: str = "read_uncommitted",
) -> Generator[Message]:
    """The records from the ones of these offsets to the others."""
    wanted = {each: offset for each, offset in starts.items() if offset < ends.get(each, 0)}
    reader = _reader(kafka, isolation)
    try:
        reader.assign([TopicPartition(*each, offset) for each, offset in wanted.items()])
        yield from _until(reader, {each: ends[each] for each in wanted})
    except KafkaException as error:
        raise _unreachable(kafka, error) from error
    finally:
        reader.close()


def _until(consumer: Consumer, ends: dict[tuple[str, int], int]) -> Iterator[Message]:
    """What the consumer reads before these offsets."""
    silent_since = time.monotonic()
    while ends:
        messages = consumer.consume(10_000, timeout=0.2)
        if not messages and time.monotonic() - silent_since > REQUEST_TIMEOUT_S:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no records, and no end of them"))
        for message in messages:
            partition = (message.topic() or "", message.partition() or 0)
            problem = message.error()
            if problem is not None and problem.code() != KafkaError._PARTITION_EOF:
                if problem.fatal() or not problem.retriable():
                    raise KafkaException(problem)
                continue
            if partition not in ends:
                continue
            offset = message.offset() or 0
            if problem is None and offset < ends[partition]:
                yield message
            if problem is not None or offset + 1 >= ends[partition]:
                del ends[partition]
                consumer.incremental_unassign([TopicPartition(*partition)])
        if messages:
            silent_since = time.monotonic()  # here: whoever takes them may take long
