"""Makes an outlet for every link that a client wants to receive on, and nodes for temporary queues."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeVar

from confluent_kafka import OFFSET_BEGINNING, OFFSET_STORED, TopicPartition
from msgspec.structs import replace

from isthmus.converters import MessageConverter
from isthmus.edges.amqp.ports import ERROR_PREFIX, Client, ReceiverRequest, Refused
from isthmus.edges.amqp.protocol import Link
from isthmus.edges.amqp.protocol.conditions import NOT_FOUND, NOT_IMPLEMENTED, UNAUTHORIZED_ACCESS
from isthmus.edges.amqp.protocol.performatives import SETTLED
from isthmus.edges.amqp.protocol.terms import Source
from isthmus.edges.amqp.receivers.addresses import Kind, Origin, origin_of
from isthmus.edges.amqp.receivers.filters import Position, filters_of
from isthmus.edges.amqp.receivers.group import Commits, GroupSupply, Reading
from isthmus.edges.amqp.receivers.groups import Groups
from isthmus.edges.amqp.receivers.outlet import Ended, RecordOutlet, Undeliverable, skip
from isthmus.edges.amqp.receivers.share import ShareSupply
from isthmus.edges.amqp.receivers.subscriptions import GLOBAL, group_name, subscription_of
from isthmus.edges.amqp.receivers.supply import Supply
from isthmus.kafka import Kafka

T = TypeVar("T")

PARTITION_NOT_EXISTS: Final = f"{ERROR_PREFIX}partition-not-exists"
QUEUE_PREFIX: Final = "jms-queue:"
"""Before the topic in the name of a queue's share group."""
TEMPORARY_PREFIX: Final = "isthmus.temporary."
READER_GROUP: Final = "isthmus-reader"
"""Kafka wants a group's name of everyone. Nothing is ever committed under this one."""
OUTCOMES: Final = (
    "amqp:accepted:list",
    "amqp:rejected:list",
    "amqp:released:list",
    "amqp:modified:list",
)


class KafkaOutlets:
    """Receivers on Kafka's topics. To be used on one event loop."""

    def __init__(
        self,
        kafka: Kafka,
        converter_of: Callable[[str], MessageConverter],
        *,
        auto_create: bool = False,
        partitions: int = 4,
        undeliverable: Undeliverable = skip,
    ) -> None:
        self._kafka = kafka
        self._converter_of = converter_of
        self._groups = Groups(kafka, auto_create=auto_create, partitions=partitions)
        self._undeliverable = undeliverable

    async def open(self, request: ReceiverRequest) -> RecordOutlet:
        """An outlet for a link. Raises `Refused`, or `HardFailure` if Kafka does not answer."""
        asked = request.attach.source
        if not isinstance(asked, Source):
            asked = await self._find_subscription(request)
        if asked.dynamic:
            raise Refused(NOT_IMPLEMENTED, "a temporary queue is made by a sender with a dynamic target")
        origin = origin_of(asked)
        filters = filters_of(asked.filter)
        if filters.selector is not None and origin.kind is Kind.QUEUE:
            raise Refused(NOT_IMPLEMENTED, "a queue takes no selector: Kafka gives its records to anybody")
        partitions = await asyncio.to_thread(self._groups.partitions, origin.topic)
        supply, closed = await self._supply(request, asked, origin, filters.position, partitions)
        granted = replace(
            asked, filter=filters.honoured, outcomes=OUTCOMES, default_outcome=asked.default_outcome
        )
        return RecordOutlet(
            request,
            supply,
            self._converter_of(origin.topic),
            granted,
            selector=filters.selector,
            undeliverable=self._undeliverable,
            closed=closed,
        )

    async def create_node(self, link: Link, client: Client) -> str:  # noqa: ARG002
        """A topic of its own for a temporary queue."""
        address = f"{TEMPORARY_PREFIX}{uuid.uuid4().hex}"
        await asyncio.to_thread(self._groups.create, address, 1)
        return address

    async def delete_node(self, address: str) -> None:
        """Remove the topic of a temporary queue."""
        await asyncio.to_thread(self._groups.delete_topic, address)

    async def _supply(
        self,
        request: ReceiverRequest,
        source: Source,
        origin: Origin,
        position: Position,
        partitions: Sequence[int],
    ) -> tuple[Supply, Ended | None]:
        """Who reads for the link, and what to do when the client closes it."""
        topic = origin.topic
        commits = Commits.BEFORE if request.attach.snd_settle_mode == SETTLED else Commits.AFTER
        read = partial(Reading, topic=topic)
        match origin.kind:
            case Kind.GROUP:
                places = _places(topic, position, partitions)
                return GroupSupply(
                    self._kafka, read(group=origin.group, commits=commits, places=places)
                ), None
            case Kind.QUEUE:
                group = f"{QUEUE_PREFIX}{topic}"
                await asyncio.to_thread(self._groups.begin_queue, group)
                return ShareSupply(self._kafka, topic, group), None
            case Kind.TOPIC:
                return await self._subscribe(request, source, topic, list(partitions), commits)
            case Kind.BROWSER | Kind.TEMPORARY:
                places = [TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions]
                reading = read(group=READER_GROUP, commits=Commits.NEVER, places=places)
                return GroupSupply(self._kafka, reading), None

    async def _subscribe(
        self, request: ReceiverRequest, source: Source, topic: str, partitions: list[int], commits: Commits
    ) -> tuple[Supply, Ended | None]:
        subscription = subscription_of(source, request.link.name, request.client)
        if subscription is None:
            ends = await asyncio.to_thread(self._groups.ends, topic, partitions)
            alone = Reading(topic=topic, group=READER_GROUP, commits=Commits.NEVER, places=ends)
            return GroupSupply(self._kafka, alone), None
        await asyncio.to_thread(self._groups.begin, topic, partitions, subscription.group)
        reading = Reading(topic=topic, group=subscription.group, commits=commits)
        return GroupSupply(self._kafka, reading), partial(self._forget, subscription.group)

    async def _forget(self, group: str) -> None:
        """Unsubscribe: the group is gone, unless others are still in it."""
        await asyncio.to_thread(self._groups.delete, group)

    async def _find_subscription(self, request: ReceiverRequest) -> Source:
        """The source of a durable subscription that a client asks for by its link's name, to end it."""
        wants_global = GLOBAL in request.attach.desired_capabilities
        group = group_name(request.link.name, "" if wants_global else request.client.container_id)
        topic = await asyncio.to_thread(self._groups.topic_of, group)
        if topic is None:
            raise Refused(NOT_FOUND, f"there is no subscription {request.link.name!r:.300}")
        if not request.client.may_receive(topic):
            raise Refused(UNAUTHORIZED_ACCESS, f"you may not receive from {topic!r:.300}")
        capabilities = ("topic", "shared", "global") if wants_global else ("topic",)
        return Source(topic, durable=2, expiry_policy="never", capabilities=capabilities)


def _places(topic: str, position: Position, partitions: Sequence[int]) -> list[TopicPartition]:
    if position.partition is None:
        return []
    if position.partition not in partitions:
        raise Refused(PARTITION_NOT_EXISTS, "Specified partition doesn't exist")
    offset = OFFSET_STORED if position.offset is None else position.offset
    return [TopicPartition(topic, position.partition, offset)]
