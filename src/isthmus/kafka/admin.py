"""What edges ask of Kafka and have it do: topics, offsets, groups and their settings. On the event loop.

Every question is answered within a bounded time. Raises `Outage` if Kafka does not answer, and `HardFailure`
if it refuses.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from aiokafka.errors import KafkaError
from aiokafka.protocol.admin import (
    CreateTopicsRequest,
    DeleteGroupsRequest,
    DescribeConfigsRequest,
    DescribeGroupsRequest,
)
from aiokafka.protocol.commit import OffsetCommitRequest, OffsetFetchRequest
from aiokafka.protocol.offset import OffsetRequest

from isthmus.config.judgement.check import TopicFacts
from isthmus.errors import HardFailure, Outage
from isthmus.events.kafka import QueueStateUnknown
from isthmus.kafka import requests
from isthmus.kafka.client import ResilientClient, Topic
from isthmus.kafka.faults import (
    GROUP_ID_NOT_FOUND,
    INVALID_CONFIG,
    NON_EMPTY_GROUP,
    TOPIC_ALREADY_EXISTS,
    TOPIC_AUTHORIZATION_FAILED,
    Fault,
    KafkaRefusal,
    kind,
    raise_for,
    reason,
)
from isthmus.kafka.options import Kafka
from isthmus.kafka.share_state import PartitionState, state_of

T = TypeVar("T")

REQUEST_TIMEOUT_S: Final = 10.0
LOOK_S: Final = 0.02
"""How long lies between two looks for a topic that was made."""
_LATEST: Final = -1
_READ_COMMITTED: Final = 1
_CONSUMER: Final = -1
"""Who asks for offsets: no replica."""
_NO_GENERATION: Final = -1
_CHANGES: Final = "changes"
"""The connection for what a broker takes its time for: questions do not wait for it."""
_DEFAULT_REPLICATION: Final = -1
_READ, _WRITE = 3, 4
"""Codes of ``AclOperation``."""
_FORBIDDEN_TOPIC: Final = TopicFacts(
    exists=True, writable=False, readable=False, max_message_bytes=None, partitions=0
)


class Committed(NamedTuple):
    """An offset that a group has committed, and the note that came with it."""

    offset: int
    note: str


class KafkaAdmin:
    """Asks and tells Kafka. To be used and closed on one event loop; it connects when it is used."""

    def __init__(self, kafka: Kafka, *, timeout_s: float = REQUEST_TIMEOUT_S) -> None:
        """Raises `ConfigError` for options that aiokafka does not take."""
        self.client = ResilientClient(kafka, request_timeout_s=timeout_s)
        self._servers = kafka.servers
        self._timeout_s = timeout_s

    async def close(self) -> None:
        """Close all connections."""
        await self.client.close()

    # Topics

    async def topic(self, name: str) -> Topic | None:
        """A topic as it is now, if it is there."""
        return await self._ask(lambda: self.client.topic(name))

    async def describe(self, name: str) -> TopicFacts | None:
        """What must be known of a topic before it is written or read; None if it is not there."""
        try:
            found = await self._patiently(lambda: self.client.topic(name, operations=True))
        except KafkaRefusal as refusal:
            if refusal.errno == TOPIC_AUTHORIZATION_FAILED:
                return _FORBIDDEN_TOPIC
            raise self._failure(refusal) from refusal
        except (KafkaError, OSError) as error:
            raise self._failure(error) from error
        if found is None:
            return None
        limit = (await self.configs(requests.TOPIC_RESOURCE, name, ["max.message.bytes"])).get(
            "max.message.bytes"
        )
        allowed = found.operations
        # A broker that does not say what is allowed allows everything until it refuses.
        return TopicFacts(
            exists=True,
            writable=not allowed or _WRITE in allowed,
            readable=not allowed or _READ in allowed,
            max_message_bytes=None if limit is None else int(limit),
            partitions=len(found.leaders),
        )

    async def create_topic(self, name: str, partitions: int) -> Topic:
        """Make a topic unless it is there, and wait until it can be used."""
        asked: list[Any] = [(name, partitions, _DEFAULT_REPLICATION, [], [])]
        request = CreateTopicsRequest(asked, int(self._timeout_s * 1000), False)

        async def create() -> None:
            answer = await self._send_to_controller(request)
            for _, code, said in answer.topic_errors:
                if code != TOPIC_ALREADY_EXISTS:
                    raise_for(code, said)

        try:
            await self._patiently(create)
        except (KafkaError, OSError) as error:
            if kind(error) is not Fault.FINAL:
                raise self._failure(error) from error
            raise HardFailure(
                f"topic {name} cannot be made: {reason(error)}",
                remedy="make it by hand, or let the bridge's user create topics",
            ) from error
        return await self._visible(name)

    async def _visible(self, name: str) -> Topic:
        """Wait for a topic that was made: Kafka answers before every broker knows of it."""
        deadline = asyncio.get_running_loop().time() + self._timeout_s
        while True:
            found = await self.topic(name)
            if found is not None and all(leader >= 0 for leader in found.leaders.values()):
                return found
            if asyncio.get_running_loop().time() > deadline:
                raise HardFailure(
                    f"the topic {name} was made, and cannot be seen",
                    remedy="check that the bridge's user may describe it",
                )
            await asyncio.sleep(LOOK_S)

    async def ends(self, topic: str, partitions: Collection[int]) -> dict[int, int]:
        """Where partitions end now, for those who read committed records."""

        async def ask(node_id: int, led: list[int]) -> dict[int, int]:
            asked = [(topic, [(partition, _LATEST) for partition in led])]
            answer = await self.client.send(node_id, OffsetRequest(_CONSUMER, _READ_COMMITTED, asked))
            found = {}
            for partition, code, _, offset in (each for _, offsets in answer.topics for each in offsets):
                raise_for(code)
                found[partition] = offset
            return found

        async def ends() -> dict[int, int]:
            led = defaultdict(list)
            for partition in partitions:
                led[await self.client.leader(topic, partition)].append(partition)
            answers = await asyncio.gather(*(ask(node_id, numbers) for node_id, numbers in led.items()))
            return {partition: offset for each in answers for partition, offset in each.items()}

        return await self._ask(ends)

    # Groups

    async def committed(self, group: str) -> dict[tuple[str, int], Committed]:
        """What a group has committed, by topic and partition; nothing if there is no such group."""

        async def committed() -> dict[tuple[str, int], Committed]:
            answer = await self._send_to_coordinator(group, OffsetFetchRequest(group, None))
            if answer.error_code != GROUP_ID_NOT_FOUND:
                raise_for(answer.error_code)
            return {
                (topic, partition): Committed(offset, note or "")
                for topic, partitions in answer.topics
                for partition, offset, note, code in partitions
                if not code and offset >= 0
            }

        return await self._ask(committed)

    async def has_members(self, group: str) -> bool:
        """Whether anybody is in a consumer group."""

        async def describe() -> bool:
            answer = await self._send_to_coordinator(group, DescribeGroupsRequest([group]))
            ((code, _, _, _, _, members, *_),) = answer.groups
            if code != GROUP_ID_NOT_FOUND:
                raise_for(code)
            return bool(members)

        return await self._ask(describe)

    async def begin(self, group: str, topic: str, offsets: Mapping[int, int], note: str = "") -> None:
        """Commit offsets for a group that nobody is in; one that has members goes its own way."""
        asked = [(topic, [(partition, offset, note) for partition, offset in offsets.items()])]
        request = OffsetCommitRequest(
            group, _NO_GENERATION, "", OffsetCommitRequest.DEFAULT_RETENTION_TIME, asked
        )

        async def commit() -> None:
            answer = await self._send_to_coordinator(group, request)
            for _, code in (each for _, partitions in answer.topics for each in partitions):
                raise_for(code)

        try:
            await self._patiently(commit)
        except (KafkaError, OSError) as error:
            if kind(error) is not Fault.FENCED:
                raise self._failure(error) from error

    async def progress(self, group: str, topic: str) -> dict[int, PartitionState]:
        """What a share group is done with, by partition; nothing where Kafka does not tell its user."""

        async def ask() -> dict[int, PartitionState]:
            found = await self.client.topic(topic)
            if found is None:
                return {}
            states = (state_of(self.client, group, found, number) for number in found.partitions)
            return dict(zip(found.partitions, await asyncio.gather(*states), strict=True))

        try:
            return await self._patiently(ask)
        except (KafkaError, OSError) as error:
            if kind(error) is Fault.RETRIABLE:
                raise self._failure(error) from error
            QueueStateUnknown(topic, reason(error)).emit()
            return defaultdict(PartitionState)

    async def delete_group(self, group: str) -> None:
        """Forget a group, unless somebody is in it."""

        async def delete() -> None:
            answer = await self._send_to_coordinator(group, DeleteGroupsRequest([group]))
            for _, code in answer.results:
                if code not in (GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP):
                    raise_for(code)

        await self._ask(delete)

    async def _send_to_coordinator(self, group: str, request: Any) -> Any:
        return await self.client.send(await self.client.coordinator(group), request)

    async def _send_to_controller(self, request: Any) -> Any:
        return await self.client.send(await self.client.controller(), request, connection=_CHANGES)

    # Settings

    async def configs(
        self, resource_type: int, name: str, wanted: Collection[str] | None = None
    ) -> dict[str, str]:
        """Settings of a resource with their values; none if they may not be read."""
        request = DescribeConfigsRequest([(resource_type, name, None if wanted is None else list(wanted))])

        async def describe() -> dict[str, str]:
            answer = await self.client.ask_any(request)
            ((code, said, _, _, entries),) = answer.resources
            raise_for(code, said)
            return {key: value for key, value, *_ in entries if value is not None}

        try:
            return await self._patiently(describe)
        except (KafkaError, OSError) as error:
            if kind(error) is Fault.RETRIABLE:
                raise self._failure(error) from error
            return {}

    async def set_configs(self, resource_type: int, name: str, values: Mapping[str, str]) -> dict[str, str]:
        """Give settings of a resource values. Returns those that Kafka does not know or take, with why."""

        async def change(values: Mapping[str, str]) -> None:
            request = requests.set_configs(resource_type, name, values)
            answer = await self._send_to_controller(request)
            for code, said, *_ in answer.responses:
                raise_for(code, said)

        async def change_what_can_be(values: Mapping[str, str]) -> dict[str, str]:
            try:
                await change(values)
            except KafkaRefusal as refusal:  # all are refused for one: those that it is not for are set
                if refusal.errno != INVALID_CONFIG:
                    raise
                if len(values) == 1:
                    return dict.fromkeys(values, refusal.said or "")
                parts = [await change_what_can_be({key: value}) for key, value in values.items()]
                return {key: said for part in parts for key, said in part.items()}
            return {}

        return await self._ask(lambda: change_what_can_be(values))

    # Failures

    async def _patiently(self, attempt: Callable[[], Awaitable[T]]) -> T:
        return await self.client.patiently(attempt, self._timeout_s)

    async def _ask(self, attempt: Callable[[], Awaitable[T]]) -> T:
        try:
            return await self._patiently(attempt)
        except (KafkaError, OSError) as error:
            raise self._failure(error) from error

    def _failure(self, error: Exception) -> HardFailure:
        if kind(error) is Fault.RETRIABLE:
            return Outage(
                f"Kafka at {self._servers!r} does not answer: {reason(error)}",
                remedy="check kafka.bootstrap.servers, the kafka.* security options, and the brokers",
            )
        return HardFailure(
            f"Kafka at {self._servers!r} refuses: {reason(error)}",
            remedy="check the kafka.* security options, and what the bridge's user may do",
        )
