"""What Kafka knows of a share group: who is in it, and which records of a topic it is done with.

The second is what brokers ask each other. A Kafka with access control tells it to those alone who may do
``CLUSTER_ACTION``.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from typing import Any, ClassVar, Final, NamedTuple

from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import (
    Boolean,
    CompactArray,
    CompactString,
    Int8,
    Int16,
    Int32,
    Int64,
    Schema,
    TaggedFields,
)

from isthmus.kafka.client import ResilientClient, Topic
from isthmus.kafka.faults import GROUP_ID_NOT_FOUND, INVALID_REQUEST, raise_for
from isthmus.kafka.share_requests import Uuid

DESCRIBE_API: Final = 77
FIND_COORDINATOR_API: Final = 10
READ_STATE_API: Final = 84
_SHARE_PARTITION: Final = 2
"""The type of a share-partition's coordinator."""
_AVAILABLE: Final = 0


class PartitionState(NamedTuple):
    """Which records of a partition a share group is done with."""

    start: int = 0
    """All before it."""
    done: tuple[tuple[int, int], ...] = ()
    """Those of these ranges, the last one included."""

    def has(self, offset: int) -> bool:
        """Whether a record is still to be received."""
        return offset >= self.start and not any(first <= offset <= last for first, last in self.done)

    def left(self, end: int) -> int:
        """How many records before this offset are still to be received."""
        done = sum(last + 1 - max(first, self.start) for first, last in self.done if last >= self.start)
        return max(0, end - self.start - done)


async def members_of(client: ResilientClient, group: str) -> list[str]:
    """The ids of a share group's members. Raises what `isthmus.kafka.faults.kind` judges."""
    answer = await client.send(await client.coordinator(group), _Describe(group))
    ((code, said, _, _, _, _, _, members, _, _),) = answer.groups
    if code != GROUP_ID_NOT_FOUND:
        raise_for(code, said)
    return [member_id for member_id, *_ in members]


async def state_of(client: ResilientClient, group: str, topic: Topic, partition: int) -> PartitionState:
    """What a share group is done with of a partition. Raises what `isthmus.kafka.faults.kind` judges."""
    epoch = topic.epochs[partition]
    coordinator = await _coordinator(client, f"{group}:{_text(topic.id)}:{partition}")
    answer = await client.send(coordinator, _ReadState(group, topic.id, partition, epoch))
    ((_, ((_, code, said, _, start, batches, _),), _),) = answer.results
    if code == INVALID_REQUEST:  # nobody has read it yet
        return PartitionState()
    raise_for(code, said)
    done = tuple((first, last) for first, last, state, *_ in batches if state != _AVAILABLE)
    return PartitionState(max(0, start), done)


async def _coordinator(client: ResilientClient, key: str) -> int:
    answer = await client.ask_any(_FindCoordinator(key))
    ((_, node_id, _, _, code, said, _),) = answer.coordinators
    raise_for(code, said)
    return int(node_id)


def _text(topic_id: bytes) -> str:
    return urlsafe_b64encode(topic_id).decode().rstrip("=")


_TOPICS: Final = CompactArray(
    ("topic_id", Uuid),
    ("topic_name", CompactString()),
    ("partitions", CompactArray(Int32)),
    ("tags", TaggedFields),
)


class DescribeResponse(Response):  # noqa: D101
    API_KEY = DESCRIBE_API
    API_VERSION = 1
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "groups",
            CompactArray(
                ("error_code", Int16),
                ("error_message", CompactString()),
                ("group_id", CompactString()),
                ("group_state", CompactString()),
                ("group_epoch", Int32),
                ("assignment_epoch", Int32),
                ("assignor_name", CompactString()),
                (
                    "members",
                    CompactArray(
                        ("member_id", CompactString()),
                        ("rack_id", CompactString()),
                        ("member_epoch", Int32),
                        ("client_id", CompactString()),
                        ("client_host", CompactString()),
                        ("subscribed_topic_names", CompactArray(CompactString())),
                        ("assignment", Schema(("topic_partitions", _TOPICS), ("tags", TaggedFields))),
                        ("tags", TaggedFields),
                    ),
                ),
                ("authorized_operations", Int32),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class _DescribeV1(RequestStruct):
    FLEXIBLE_VERSION: ClassVar[bool] = True
    API_KEY = DESCRIBE_API
    API_VERSION = 1
    RESPONSE_TYPE = DescribeResponse
    SCHEMA = Schema(
        ("group_ids", CompactArray(CompactString())),
        ("include_authorized_operations", Boolean),
        ("tags", TaggedFields),
    )


class _Describe(Request[_DescribeV1]):
    API_KEY = DESCRIBE_API

    def __init__(self, group: str) -> None:
        self._fields: tuple[Any, ...] = ([group], False, {})

    def build(self, request_struct_class: type[_DescribeV1]) -> _DescribeV1:
        return request_struct_class(*self._fields)


class CoordinatorResponse(Response):  # noqa: D101
    API_KEY = FIND_COORDINATOR_API
    API_VERSION = 6
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "coordinators",
            CompactArray(
                ("key", CompactString()),
                ("node_id", Int32),
                ("host", CompactString()),
                ("port", Int32),
                ("error_code", Int16),
                ("error_message", CompactString()),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class _FindCoordinatorV6(RequestStruct):
    FLEXIBLE_VERSION: ClassVar[bool] = True
    API_KEY = FIND_COORDINATOR_API
    API_VERSION = 6
    RESPONSE_TYPE = CoordinatorResponse
    SCHEMA = Schema(
        ("key_type", Int8), ("coordinator_keys", CompactArray(CompactString())), ("tags", TaggedFields)
    )


class _FindCoordinator(Request[_FindCoordinatorV6]):
    API_KEY = FIND_COORDINATOR_API

    def __init__(self, key: str) -> None:
        self._fields: tuple[Any, ...] = (_SHARE_PARTITION, [key], {})

    def build(self, request_struct_class: type[_FindCoordinatorV6]) -> _FindCoordinatorV6:
        return request_struct_class(*self._fields)


class StateResponse(Response):  # noqa: D101
    API_KEY = READ_STATE_API
    API_VERSION = 0
    SCHEMA = Schema(
        (
            "results",
            CompactArray(
                ("topic_id", Uuid),
                (
                    "partitions",
                    CompactArray(
                        ("partition", Int32),
                        ("error_code", Int16),
                        ("error_message", CompactString()),
                        ("state_epoch", Int32),
                        ("start_offset", Int64),
                        (
                            "state_batches",
                            CompactArray(
                                ("first_offset", Int64),
                                ("last_offset", Int64),
                                ("delivery_state", Int8),
                                ("delivery_count", Int16),
                                ("tags", TaggedFields),
                            ),
                        ),
                        ("tags", TaggedFields),
                    ),
                ),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class _ReadStateV0(RequestStruct):
    FLEXIBLE_VERSION: ClassVar[bool] = True
    API_KEY = READ_STATE_API
    API_VERSION = 0
    RESPONSE_TYPE = StateResponse
    SCHEMA = Schema(
        ("group_id", CompactString()),
        (
            "topics",
            CompactArray(
                ("topic_id", Uuid),
                (
                    "partitions",
                    CompactArray(("partition", Int32), ("leader_epoch", Int32), ("tags", TaggedFields)),
                ),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class _ReadState(Request[_ReadStateV0]):
    API_KEY = READ_STATE_API

    def __init__(self, group: str, topic_id: bytes, partition: int, leader_epoch: int) -> None:
        """The epoch must be the leader's own: brokers believe a newer one, and fence the leader out."""
        self._fields: tuple[Any, ...] = (group, [(topic_id, [(partition, leader_epoch, {})], {})], {})

    def build(self, request_struct_class: type[_ReadStateV0]) -> _ReadStateV0:
        return request_struct_class(*self._fields)
