"""Names that one process of many holds at a time, by Kafka's own bookkeeping.

All processes are members of one consumer group (KIP-848), once for each name that they hold, with the name as
``group.instance.id``: Kafka lets one living member have it, and refuses another at once. Members read
nothing. A name that is given up is free at once; that of a process which died is free after the group's
session time-out.

Where Kafka cannot do that (before 4.0), or is unavailable, a process holds what it asks for, and asks again:
if another turns out to have the name, `on_lost` is called.
"""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from aiokafka.errors import KafkaError
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import CompactArray, CompactString, Int16, Int32, Schema, TaggedFields

from isthmus.events.kafka import NamesUnguarded
from isthmus.kafka.client import ResilientClient
from isthmus.kafka.faults import UNRELEASED_INSTANCE_ID, Fault, KafkaRefusal, kind, raise_for, reason
from isthmus.kafka.share_requests import NullableAssignment, Uuid

HEARTBEAT_API: Final = 68
_JOIN: Final = 0
_LEAVE: Final = -1
_REBALANCE_MS: Final = 60_000


@dataclass(eq=False)
class _Held:
    """A name that this process holds."""

    name: str
    on_lost: Callable[[], None]
    member: str = field(default_factory=lambda: str(uuid.uuid4()))
    epoch: int = _JOIN
    unsure: bool = False
    """Whether Kafka may have this member though it did not say so."""

    @property
    def instance(self) -> str:
        return hashlib.sha256(self.name.encode()).hexdigest()


class NameLocks:
    """The names that this process holds. To be used on one event loop."""

    def __init__(
        self,
        client: ResilientClient | None = None,
        group: str = "",
        *,
        patience_s: float = 2.0,
        interval_s: float = 3.0,
    ) -> None:
        """``patience_s``: how long Kafka may take to answer before a name is held without its word.

        Without a ``client`` the process is the only one.
        """
        self._client = client
        self._group = group
        self._patience_s = patience_s
        self._interval_s = interval_s
        self._held: dict[str, _Held] = {}
        self._heartbeats: asyncio.Task[None] | None = None
        self._troubled = False

    async def take(self, name: str, on_lost: Callable[[], None]) -> bool:
        """Whether this process holds the name from now on. False if anybody has it."""
        if name in self._held:
            return False
        held = self._held[name] = _Held(name, on_lost)
        if self._client is None:
            return True
        try:
            async with asyncio.timeout(self._patience_s):
                await self._beat(held)
        except (KafkaError, OSError) as error:  # TimeoutError is one of those
            if isinstance(error, KafkaRefusal) and error.errno == UNRELEASED_INSTANCE_ID:
                self._held.pop(name, None)
                return False
            self._complain(error)
        except BaseException:
            await self.give_up(name)
            raise
        if self._heartbeats is None:
            self._heartbeats = asyncio.create_task(self._stay())
        return True

    async def give_up(self, name: str) -> None:
        """Let others have a name: they can when it returns, unless Kafka does not answer."""
        held = self._held.pop(name, None)
        if held is None or (held.epoch == _JOIN and not held.unsure):
            return
        with suppress(KafkaError, OSError):
            async with asyncio.timeout(self._patience_s):
                await self._leave(held)

    async def close(self) -> None:
        """Give all names up."""
        if self._heartbeats is not None:
            self._heartbeats.cancel()
            with suppress(asyncio.CancelledError):
                await self._heartbeats
        await asyncio.gather(*(self.give_up(name) for name in list(self._held)))
        if self._client is not None:
            self._client.drop(self)

    async def _stay(self) -> None:
        while True:
            await asyncio.sleep(self._interval_s)
            for held in list(self._held.values()):
                if self._held.get(held.name) is held:
                    await self._beat_on(held)

    async def _beat_on(self, held: _Held) -> None:
        try:
            async with asyncio.timeout(self._patience_s):
                await self._beat(held)
        except (KafkaError, OSError) as error:
            if self._held.get(held.name) is not held:  # it was given up meanwhile
                return
            if isinstance(error, KafkaRefusal) and error.errno == UNRELEASED_INSTANCE_ID:
                self._held.pop(held.name, None)
                held.on_lost()
                return
            if kind(error) is not Fault.RETRIABLE:  # fenced: join anew
                held.epoch, held.unsure = _JOIN, True
            self._complain(error)
        else:
            self._troubled = False

    async def _beat(self, held: _Held) -> None:
        if held.epoch == _JOIN and held.unsure:  # Kafka takes no name twice, from the same member neither
            await self._leave(held)
        held.unsure = held.epoch == _JOIN
        try:
            answer = await self._send(held, held.epoch)
        except KafkaRefusal:
            held.unsure = False
            raise
        held.epoch, held.unsure = answer.member_epoch, False
        if self._held.get(held.name) is not held:  # it was given up meanwhile
            await self._leave(held)

    async def _leave(self, held: _Held) -> None:
        with suppress(KafkaRefusal):  # it is not a member
            await self._send(held, _LEAVE)

    async def _send(self, held: _Held, epoch: int) -> Any:
        client = self._client
        assert client is not None
        try:
            coordinator = await client.coordinator(self._group)
            request = ConsumerGroupHeartbeat(self._group, held.member, epoch, held.instance)
            answer = await client.send(coordinator, request, connection=self)
            raise_for(answer.error_code, answer.error_message)
            return answer
        except (KafkaError, OSError) as error:
            if kind(error) is Fault.RETRIABLE:
                client.forget_coordinator(self._group)
            raise

    def _complain(self, error: Exception) -> None:
        if not self._troubled:
            self._troubled = True
            NamesUnguarded(self._group, reason(error)).emit()


_OWNED: Final = CompactArray(("topic_id", Uuid), ("partitions", CompactArray(Int32)), ("tags", TaggedFields))


class HeartbeatResponse(Response):  # noqa: D101
    API_KEY = HEARTBEAT_API
    API_VERSION = 1
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        ("error_message", CompactString()),
        ("member_id", CompactString()),
        ("member_epoch", Int32),
        ("heartbeat_interval_ms", Int32),
        ("assignment", NullableAssignment),
        ("tags", TaggedFields),
    )


class _HeartbeatV1(RequestStruct):
    FLEXIBLE_VERSION: ClassVar[bool] = True
    API_KEY = HEARTBEAT_API
    API_VERSION = 1
    RESPONSE_TYPE = HeartbeatResponse
    SCHEMA = Schema(
        ("group_id", CompactString()),
        ("member_id", CompactString()),
        ("member_epoch", Int32),
        ("instance_id", CompactString()),
        ("rack_id", CompactString()),
        ("rebalance_timeout_ms", Int32),
        ("subscribed_topic_names", CompactArray(CompactString())),
        ("subscribed_topic_regex", CompactString()),
        ("server_assignor", CompactString()),
        ("topic_partitions", _OWNED),
        ("tags", TaggedFields),
    )


class ConsumerGroupHeartbeat(Request[_HeartbeatV1]):
    """A static member that subscribes to nothing: joins with epoch 0, leaves with epoch -1."""

    API_KEY = HEARTBEAT_API

    def __init__(self, group: str, member: str, epoch: int, instance: str) -> None:
        joins = epoch == _JOIN
        none: list[str] | None = [] if joins else None
        timeout_ms = _REBALANCE_MS if joins else -1
        self._fields: tuple[Any, ...] = (
            *(group, member, epoch, instance, None, timeout_ms, none, None, None, none, {}),
        )

    def build(self, request_struct_class: type[_HeartbeatV1]) -> _HeartbeatV1:  # noqa: D102
        return request_struct_class(*self._fields)
