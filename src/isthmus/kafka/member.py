"""A member of a consumer group: joins, stays by heartbeats, commits and leaves. On the event loop.

It speaks Kafka's classic protocol, as every Kafka of the last years does, and offers the assignors ``range``
and ``roundrobin``, so that members of other makes may be in the same group. A rebalance takes all partitions
away before they are shared out anew.

aiokafka has such a member inside its consumer, which takes "the coordinator is loading" for "nothing is
committed", joins once for every assignor, gives up at errors that pass, does not look for brokers that were
moved, and cannot end while a join waits for others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, NoReturn, Protocol

from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.protocol import ConsumerProtocol
from aiokafka.errors import KafkaError, UnknownTopicOrPartitionError
from aiokafka.protocol.commit import OffsetCommitRequest, OffsetFetchRequest
from aiokafka.protocol.group import HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest

from isthmus.kafka.client import ResilientClient
from isthmus.kafka.faults import (
    MEMBER_ID_REQUIRED,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
    Fault,
    KafkaRefusal,
    kind,
    raise_for,
    reason,
)

_ASSIGNORS: Final = {each.name: each for each in (RangePartitionAssignor, RoundRobinPartitionAssignor)}
_NO_GENERATION: Final = -1
FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 1.0


@dataclass(frozen=True, kw_only=True)
class Timings:
    """How long a member waits for what."""

    session_s: float = 10.0
    """After which a member that is gone is missed."""
    heartbeat_s: float = 1.0
    """Between two heartbeats: so late may a member hear of a rebalance."""
    rebalance_s: float = 10.0
    """How long the others wait for a member in a rebalance."""
    look_s: float = 10.0
    """How often the leader of a group looks for new partitions."""
    leave_s: float = 2.0
    """How long it may take to leave. A member that does not get to it is missed after its session."""
    missing_s: float = 10.0
    """How long a topic may not be there before it is taken for deleted: a broker that has just started may
    not know of it yet."""


class Assignments(Protocol):
    """Told which partitions are the member's."""

    async def on_assigned(self, partitions: Collection[int]) -> None:
        """These are the member's from now on."""
        ...

    async def on_revoked(self, partitions: Collection[int]) -> None:
        """These are about to be shared out anew: what is to be committed of them must be now."""
        ...

    async def on_lost(self, partitions: Collection[int]) -> None:
        """These are somebody else's already."""
        ...


class GroupMember:
    """One membership, or, without `run`, one who only commits in a group's name."""

    def __init__(
        self, client: ResilientClient, group: str, topic: str, *, timings: Timings | None = None
    ) -> None:
        self.trouble = ""
        """What keeps it from the group at the moment."""
        self._client = client
        self._group = group
        self._topic = topic
        self._timings = timings or Timings()
        self._member_id = ""
        self._generation = _NO_GENERATION
        self._joining = False
        self._missing_since: float | None = None
        self._watched: dict[str, int] = {}
        """How many partitions the topics of the group have, if this member is its leader."""

    async def run(self, assignments: Assignments) -> NoReturn:
        """Be a member until cancelled. Raises `KafkaError` once that can never be."""
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                mine = await self._join()
            except (KafkaError, OSError) as error:
                self._joining = False
                self._recover(error)
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
                continue
            self._joining, self._missing_since = False, None
            self.trouble, pause_s = "", FIRST_PAUSE_S
            await assignments.on_assigned(mine)
            if await self._stay():
                await assignments.on_revoked(mine)
            else:
                await assignments.on_lost(mine)

    async def commit(self, offsets: Mapping[int, int], note: str = "") -> None:
        """Commit offsets, and a note with them that Kafka keeps.

        Raises what `isthmus.kafka.faults.kind` judges; fenced: others go on from there.
        """
        request = OffsetCommitRequest(
            self._group,
            self._generation,
            self._member_id,
            OffsetCommitRequest.DEFAULT_RETENTION_TIME,
            [(self._topic, [(partition, offset, note) for partition, offset in offsets.items()])],
        )
        answer = await self._send(request)
        for _, code in (each for _, partitions in answer.topics for each in partitions):
            self._raise_for(code)

    async def committed(self, partitions: Iterable[int]) -> dict[int, int]:
        """What the group has committed of partitions; those of which it has nothing are left out."""
        answer = await self._send(OffsetFetchRequest(self._group, [(self._topic, list(partitions))]))
        self._raise_for(answer.error_code)
        found = {}
        for partition, offset, _, code in (each for _, offsets in answer.topics for each in offsets):
            self._raise_for(code)
            if offset >= 0:
                found[partition] = offset
        return found

    async def leave(self) -> None:
        """Have the others take over at once. Nothing is raised: they do so after a while in any case."""
        if not self._member_id:
            return
        if self._joining:
            self._client.drop(None)  # what is asked behind a join would wait for its answer
        with suppress(KafkaError, OSError):
            async with asyncio.timeout(self._timings.leave_s):
                await self._send(LeaveGroupRequest(self._group, self._member_id))
        self._member_id, self._generation = "", _NO_GENERATION

    # Joining

    async def _join(self) -> frozenset[int]:
        """The partitions that this member is given."""
        self._joining = True
        answer = await self._ask_to_join()
        if answer.error_code == MEMBER_ID_REQUIRED:
            self._member_id = answer.member_id
            answer = await self._ask_to_join()
        self._raise_for(answer.error_code)
        self._member_id, self._generation = answer.member_id, answer.generation_id
        self._watched = {}
        shares = await self._share_out(answer) if answer.leader_id == answer.member_id else []
        sync = SyncGroupRequest(self._group, self._generation, self._member_id, None, shares)
        answer = await self._send(sync)
        self._raise_for(answer.error_code)
        if not answer.member_assignment:
            return frozenset()
        given = ConsumerProtocol.ASSIGNMENT.decode(answer.member_assignment).assignment
        return frozenset(number for topic, numbers in given if topic == self._topic for number in numbers)

    async def _ask_to_join(self) -> Any:
        offered = [(name, each.metadata([self._topic]).encode()) for name, each in _ASSIGNORS.items()]
        request = JoinGroupRequest(
            self._group,
            int(self._timings.session_s * 1000),
            int(self._timings.rebalance_s * 1000),
            self._member_id,
            None,
            ConsumerProtocol.PROTOCOL_TYPE,
            offered,
        )
        return await self._send(request)

    async def _share_out(self, joined: Any) -> list[tuple[str, bytes]]:
        """What each member is given, as the leader of the group decides."""
        members = {
            member_id: ConsumerProtocol.METADATA.decode(data) for member_id, *_, data in joined.members
        }
        topics = {topic for each in members.values() for topic in each.subscription}
        partitions = await self._partitions(topics)
        self._watched = _sizes(partitions)
        shares = _ASSIGNORS[joined.group_protocol].assign(_Cluster(partitions), members)
        return [(member_id, share.encode()) for member_id, share in shares.items()]

    async def _partitions(self, topics: Collection[str]) -> dict[str, set[int]]:
        found = {topic: await self._client.topic(topic) for topic in topics}
        if found.get(self._topic) is None:  # a broker that has just started may not know of it
            raise UnknownTopicOrPartitionError(self._topic)
        return {topic: set() if each is None else set(each.leaders) for topic, each in found.items()}

    # Staying

    async def _stay(self) -> bool:
        """Stay until there is a rebalance: True; or, False, until others have the partitions already."""
        timings, clock = self._timings, asyncio.get_running_loop().time
        look_at, pause_s = clock() + timings.look_s, timings.heartbeat_s
        while True:
            await asyncio.sleep(pause_s)
            try:
                answer = await self._send(HeartbeatRequest(self._group, self._generation, self._member_id))
                if answer.error_code == REBALANCE_IN_PROGRESS:
                    return True
                self._raise_for(answer.error_code)
                if self._watched and clock() > look_at:
                    look_at = clock() + timings.look_s
                    if _sizes(await self._partitions(self._watched)) != self._watched:
                        return True
            except (KafkaError, OSError) as error:
                self._recover(error)
                if kind(error) is Fault.FENCED:
                    return False
                pause_s = FIRST_PAUSE_S
            else:
                self.trouble, pause_s = "", timings.heartbeat_s

    # Talking

    async def _send(self, request: Any) -> Any:
        return await self._client.send(await self._client.coordinator(self._group), request)

    def _raise_for(self, code: int) -> None:
        try:
            raise_for(code)
        except KafkaRefusal as refusal:
            if kind(refusal) is Fault.RETRIABLE:
                self._client.forget_coordinator(self._group)
            raise

    def _recover(self, error: Exception) -> None:
        """Prepare for another attempt. Raises the error if that is in vain."""
        if isinstance(error, UnknownTopicOrPartitionError):
            now = asyncio.get_running_loop().time()
            self._missing_since = self._missing_since or now
            if now - self._missing_since > self._timings.missing_s:
                raise error
        match kind(error):
            case Fault.RETRIABLE:
                self.trouble = reason(error)
                self._client.forget_coordinator(self._group)
            case Fault.FENCED:
                self._watched = {}
                self._generation = _NO_GENERATION
                if isinstance(error, KafkaRefusal) and error.errno == UNKNOWN_MEMBER_ID:
                    self._member_id = ""
            case Fault.FINAL:
                raise error


def _sizes(partitions: Mapping[str, set[int]]) -> dict[str, int]:
    return {topic: len(numbers) for topic, numbers in partitions.items()}


class _Cluster:
    """What aiokafka's assignors ask of a cluster."""

    def __init__(self, partitions: Mapping[str, set[int]]) -> None:
        self._partitions = partitions

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        return self._partitions.get(topic)
