"""What the front door asks of Kafka for receivers: topics, partitions, and what groups have committed.

Every call blocks for as long as Kafka takes to answer, and raises `HardFailure` if it does not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ResourceType,
)

from isthmus.config.model import values
from isthmus.edges.amqp.protocol.conditions import NOT_FOUND
from isthmus.edges.amqp.server.receivers.group import READER_GROUP
from isthmus.errors import HardFailure, Refused
from isthmus.kafka.blocking import QUIET, REQUEST_TIMEOUT_S, LastingAdmin, create_topics
from isthmus.kafka.options import Kafka

T = TypeVar("T")
_QUEUE_CONFIG: Final = {
    "share.auto.offset.reset": "earliest",  # what was sent before anybody received is there, too
    "share.isolation.level": "read_committed",  # and what was rolled back is not
    "share.assignment.interval.ms": "0",
    "share.delivery.count.limit": "10",
}
DEFAULT_HEARTBEAT_S: Final = 5.0
"""Kafka's own, for members of share groups."""
_GONE: Final = (KafkaError.GROUP_ID_NOT_FOUND, KafkaError.NON_EMPTY_GROUP)


class ReceiverAdmin:
    """Asks and tells Kafka."""

    def __init__(self, kafka: Kafka, *, auto_create: bool, partitions: int) -> None:
        self._kafka = kafka
        self._auto_create = auto_create
        self._partitions = partitions
        self._admin = LastingAdmin(kafka)
        self._queues: dict[str, float] = {}

    def partitions(self, topic: str) -> list[int]:
        """The partitions of a topic, which is made where that is allowed. Raises `Refused` without one."""
        try:
            values.topic_name(topic)
        except ValueError as error:
            raise Refused(NOT_FOUND, f"no topic can have the name {topic!r:.300}: {error}") from None
        known = self._known()
        if topic not in known:
            if not self._auto_create:
                raise Refused(NOT_FOUND, f"there is no topic {topic}")
            create_topics(self._kafka, [topic], self._partitions)
            known = self._known()
        return known[topic]

    def ends(self, topic: str, partitions: list[int]) -> list[TopicPartition]:
        """Where each partition ends now."""
        consumer = Consumer({**self._kafka.python_options(), "group.id": READER_GROUP}, logger=QUIET)
        try:
            return _told(lambda: _ends(consumer, topic, partitions))
        finally:
            consumer.close()

    def begin(self, topic: str, partitions: list[int], group: str) -> None:
        """Have a new group begin where the topic ends now; one that has begun goes on where it is."""
        options = {**self._kafka.python_options(), "group.id": group, "enable.auto.commit": False}
        consumer = Consumer(options, logger=QUIET)

        def begin() -> None:
            places = [TopicPartition(topic, partition) for partition in partitions]
            committed = consumer.committed(places, timeout=REQUEST_TIMEOUT_S)
            new = [place.partition for place in committed if place.offset < 0]
            if new:
                consumer.commit(offsets=_ends(consumer, topic, new), asynchronous=False)

        try:
            _told(begin)
        finally:
            consumer.close()

    def topic_of(self, group: str) -> str | None:
        """The topic that a group has committed offsets of."""
        request = [ConsumerGroupTopicPartitions(group)]
        found = self._ask(
            lambda admin: _only(admin.list_consumer_group_offsets(request, request_timeout=REQUEST_TIMEOUT_S))
        )
        places = found.topic_partitions or []
        return next((place.topic for place in places if place.offset >= 0), None)

    def delete(self, group: str) -> None:
        """Forget a group that nobody is in any more."""
        try:
            self._admin.ask(
                lambda admin: _only(admin.delete_consumer_groups([group], request_timeout=REQUEST_TIMEOUT_S))
            )
        except KafkaException as error:
            if error.args[0].code() not in _GONE:
                raise _refusal(error) from error

    def begin_queue(self, group: str) -> int:
        """Set a share group up to be a queue.

        Returns how many seconds lie between two heartbeats of its members.
        """
        if group not in self._queues:
            entries = [
                ConfigEntry(
                    name,
                    value,
                    source=ConfigSource.DYNAMIC_TOPIC_CONFIG,
                    incremental_operation=AlterConfigOpType.SET,
                )
                for name, value in _QUEUE_CONFIG.items()
            ]
            resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=entries)
            self._ask(
                lambda admin: _only(
                    admin.incremental_alter_configs([resource], request_timeout=REQUEST_TIMEOUT_S)
                )
            )
            self._queues[group] = self._heartbeat_s(group)
        return 10

    def _heartbeat_s(self, group: str) -> float:
        resource = ConfigResource(ResourceType.GROUP, group)
        try:
            found = self._admin.ask(
                lambda admin: _only(admin.describe_configs([resource], request_timeout=REQUEST_TIMEOUT_S))
            )
            return float(found["share.heartbeat.interval.ms"].value) / 1000
        except (KafkaException, KeyError):  # it need not be allowed to know
            return DEFAULT_HEARTBEAT_S

    def _known(self) -> dict[str, list[int]]:
        topics = self._ask(lambda admin: admin.list_topics(timeout=REQUEST_TIMEOUT_S)).topics
        return {name: sorted(topic.partitions) for name, topic in topics.items()}

    def _ask(self, question: Callable[[AdminClient], T]) -> T:
        return _told(lambda: self._admin.ask(question))


def _ends(consumer: Consumer, topic: str, partitions: list[int]) -> list[TopicPartition]:
    places = []
    for partition in partitions:
        place = TopicPartition(topic, partition)
        _, place.offset = consumer.get_watermark_offsets(place, timeout=REQUEST_TIMEOUT_S)
        places.append(place)
    return places


def _only(answers: Mapping[Any, Future[T]]) -> T:
    """What was answered to the one thing that was asked."""
    (answer,) = answers.values()
    return answer.result()


def _told(question: Callable[[], T]) -> T:
    try:
        return question()
    except KafkaException as error:
        raise _refusal(error) from error


def _refusal(error: KafkaException) -> HardFailure:
    return HardFailure(
        f"Kafka does not do what a receiver needs: {error.args[0].str()}",
        remedy="check that the brokers are up, and what the bridge's user may do",
    )
