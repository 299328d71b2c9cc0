"""What receivers ask of Kafka before they read: topics, partitions, and where groups begin.

Raises `HardFailure` when Kafka refuses or does not answer within a bounded time.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from isthmus.config.model import values
from isthmus.edges.addresses import JMS_PARTITIONS
from isthmus.edges.amqp.protocol.conditions import NOT_FOUND
from isthmus.errors import Refused
from isthmus.events.kafka import GroupSettingRefused, QueueTooOld
from isthmus.kafka.admin import KafkaAdmin
from isthmus.kafka.requests import BROKER_RESOURCE, GROUP_RESOURCE
from isthmus.kafka.share_requests import missing_for_queues
from isthmus.kafka.share_state import PartitionState

KEPT: Final = 10_000
"""How many queues' settings are remembered; then they are asked for anew."""
_COUNT_LIMIT: Final = "share.delivery.count.limit"
_LOCK: Final = "share.record.lock.duration.ms"
_LOCKS: Final = "share.partition.max.record.locks"
_HEARTBEAT: Final = "share.heartbeat.interval.ms"
_RENEW: Final = "share.renew.acknowledge.enable"
_QUEUE_CONFIG: Final = {
    "share.auto.offset.reset": "earliest",
    "share.isolation.level": "read_committed",
    "share.assignment.interval.ms": "0",
    _COUNT_LIMIT: "10",
}
_LOST: Final = {
    "share.auto.offset.reset": "what was sent before the first receiver came is not received",
    "share.isolation.level": "what was rolled back is received",
    "share.assignment.interval.ms": "receivers wait for seconds for their first message",
    _COUNT_LIMIT: "Kafka gives a message up after fewer deliveries",
}
"""What is missing where Kafka does not take a setting."""
_DEFAULTS: Final = {_COUNT_LIMIT: 5, _LOCK: 30_000, _LOCKS: 2_000, _HEARTBEAT: 5_000}
"""Kafka's own, where it does not tell."""


class QueueGroup(NamedTuple):
    """What Kafka grants to a queue's share group."""

    delivery_count_limit: int
    """After how many acquisitions Kafka gives a record up."""
    lock_duration_s: float
    """How long a record that was acquired belongs to the member, unless it renews that."""
    max_record_locks: int
    """How many records of a partition may be acquired at a time, by all members together."""
    heartbeat_s: float
    """What lies between two heartbeats of a member."""
    renews: bool
    """Whether that may be renewed. Before Kafka 4.2 it cannot be, which the versions of requests tell."""


class ReceiverAdmin:
    """Asks and tells Kafka. To be used on one event loop."""

    def __init__(self, admin: KafkaAdmin, *, auto_create: bool, partitions: int) -> None:
        """``partitions`` is how many topics get that are made. JMS destinations get `JMS_PARTITIONS`."""
        self._admin = admin
        self._auto_create = auto_create
        self._partitions = partitions
        self._queues: dict[str, QueueGroup] = {}
        self._told: set[str] = set()

    async def partitions(self, topic: str, *, jms: bool = False) -> list[int]:
        """The partitions of a topic, which is made where that is allowed. Raises `Refused` without one."""
        try:
            values.topic_name(topic)
        except ValueError as error:
            raise Refused(NOT_FOUND, f"no topic can have the name {topic!r:.300}: {error}") from None
        found = await self._admin.topic(topic)
        if found is None:
            if not self._auto_create:
                raise Refused(NOT_FOUND, f"there is no topic {topic}")
            found = await self._admin.create_topic(topic, JMS_PARTITIONS if jms else self._partitions)
        return found.partitions

    async def ends(self, topic: str, partitions: Collection[int]) -> dict[int, int]:
        """Where each partition ends now."""
        return await self._admin.ends(topic, partitions)

    async def progress(self, group: str, topic: str) -> dict[int, PartitionState]:
        """What a queue's share group is done with, by partition. A Kafka that does not tell has it all."""
        return await self._admin.progress(group, topic)

    async def depth(self, group: str, topic: str) -> int:
        """How many messages of a queue are still to be received."""
        states = await self.progress(group, topic)
        ends = await self.ends(topic, list(states))
        return sum(state.left(ends.get(number, 0)) for number, state in states.items())

    async def backlog(self, group: str) -> int:
        """How many messages of a subscription are still to be received."""
        committed = await self._admin.committed(group)
        left = 0
        for topic in {topic for topic, _ in committed}:
            own = {number: each.offset for (name, number), each in committed.items() if name == topic}
            ends = await self.ends(topic, list(own))
            left += sum(max(0, ends.get(number, 0) - offset) for number, offset in own.items())
        return left

    async def begin(self, topic: str, partitions: Collection[int], group: str, note: str = "") -> None:
        """Have a new group begin where the topic ends now; one that has begun goes on where it is."""
        committed = await self._admin.committed(group)
        new = [partition for partition in partitions if (topic, partition) not in committed]
        if new:
            await self._admin.begin(group, topic, await self._admin.ends(topic, new), note)

    async def begun(self, group: str) -> tuple[str, str] | None:
        """The topic that a group reads, and the note that it began with; None if it has not begun."""
        found = await self._admin.committed(group)
        return next(((topic, committed.note) for (topic, _), committed in found.items()), None)

    async def has_members(self, group: str) -> bool:
        """Whether anybody is in a consumer group."""
        return await self._admin.has_members(group)

    async def delete(self, group: str) -> None:
        """Forget a group that nobody is in any more."""
        await self._admin.delete_group(group)

    async def begin_queue(self, group: str) -> QueueGroup:
        """Set a share group up to be a queue, once. Returns what Kafka grants it.

        What a Kafka that is too old does not know is left out, and the log says once what is lost by that.
        """
        if group not in self._queues:
            if len(self._queues) >= KEPT:
                self._queues.clear()
            if not self._queues:
                await self._tell_what_is_missing()
            refused = await self._admin.set_configs(GROUP_RESOURCE, group, _QUEUE_CONFIG)
            self._tell(refused)
            self._queues[group] = await self._granted(group)
        return self._queues[group]

    async def _granted(self, group: str) -> QueueGroup:
        granted = await self._admin.configs(GROUP_RESOURCE, group)
        if _COUNT_LIMIT not in granted:
            granted = {**await self._broker_configs(), **granted}
        numbers = {name: int(granted.get(name, default)) for name, default in _DEFAULTS.items()}
        return QueueGroup(
            numbers[_COUNT_LIMIT],
            numbers[_LOCK] / 1000,
            numbers[_LOCKS],
            numbers[_HEARTBEAT] / 1000,
            granted.get(_RENEW) != "false",
        )

    async def _broker_configs(self) -> dict[str, str]:
        """What brokers have for all groups, by the names that groups have for it."""
        found = await self._admin.configs(BROKER_RESOURCE, str(await self._admin.client.controller()))
        return {name.removeprefix("group."): value for name, value in found.items()}

    async def _tell_what_is_missing(self) -> None:
        missing = missing_for_queues(await self._admin.client.versions())
        if missing is not None and missing not in self._told:
            self._told.add(missing)
            QueueTooOld(missing).emit()

    def _tell(self, refused: dict[str, str]) -> None:
        for name in refused.keys() - self._told:
            GroupSettingRefused(name, refused[name], _LOST[name]).emit()
        self._told |= refused.keys()
