"""The requests of a share group's member, as Kafka has them (KIP-932, KIP-1222), for aiokafka's connections.

Version 1 is Kafka 4.1's. Version 2, from 4.2 on, adds the record-limit mode and the renewal of locks; the
connection chooses what the broker has.
"""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from typing import Any, ClassVar, Final

from aiokafka.protocol.abstract import AbstractType
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import (
    Boolean,
    CompactArray,
    CompactBytes,
    CompactString,
    Int8,
    Int16,
    Int32,
    Int64,
    Schema,
    TaggedFields,
)

HEARTBEAT_API: Final = 76
FETCH_API: Final = 78
ACKNOWLEDGE_API: Final = 79

_NO_GROUPS: Final = "it has no share groups, which JMS queues need: Kafka 4.1 or later has them"
_NO_RENEWAL: Final = (
    "it cannot renew locks, nor give exactly the messages that were asked for: a queue's message that is "
    "held longer than share.record.lock.duration.ms may be delivered to others, too. Kafka 4.2 or later can"
)


def renews_locks(versions: Mapping[int, int]) -> bool:
    """Whether brokers that take these versions of requests renew locks."""
    return min(versions.get(FETCH_API, 0), versions.get(ACKNOWLEDGE_API, 0)) >= 2


def missing_for_queues(versions: Mapping[int, int]) -> str | None:
    """What brokers that take these versions of requests lack for JMS queues, for people."""
    if HEARTBEAT_API not in versions or versions.get(FETCH_API, 0) < 1:
        return _NO_GROUPS
    return None if renews_locks(versions) else _NO_RENEWAL


Acknowledgements = list[tuple[int, int, list[int], dict[int, bytes]]]
"""First offset, last offset, the type of all of them, no tags."""
PartitionAcknowledgements = list[tuple[int, Acknowledgements, dict[int, bytes]]]
"""A partition with what is acknowledged of it."""


class Uuid(AbstractType[bytes]):
    """The id of a topic."""

    @classmethod
    def encode(cls, value: bytes) -> bytes:  # noqa: D102
        return value

    @classmethod
    def decode(cls, data: BytesIO) -> bytes:  # noqa: D102
        return data.read(16)


_ASSIGNMENT: Final = Schema(
    (
        "topic_partitions",
        CompactArray(("topic_id", Uuid), ("partitions", CompactArray(Int32)), ("tags", TaggedFields)),
    ),
    ("tags", TaggedFields),
)


class NullableAssignment(AbstractType[Any]):
    """The partitions that a member is given; nothing if they have not changed."""

    @classmethod
    def encode(cls, value: Any) -> bytes:  # noqa: D102
        raise NotImplementedError  # only brokers send it

    @classmethod
    def decode(cls, data: BytesIO) -> Any:  # noqa: D102
        return None if Int8.decode(data) < 0 else _ASSIGNMENT.decode(data)


_ACKNOWLEDGEMENT_BATCHES: Final = CompactArray(
    ("first_offset", Int64), ("last_offset", Int64), ("types", CompactArray(Int8)), ("tags", TaggedFields)
)
_ACKNOWLEDGED_TOPICS: Final = CompactArray(
    ("topic_id", Uuid),
    (
        "partitions",
        CompactArray(
            ("partition", Int32), ("acknowledgements", _ACKNOWLEDGEMENT_BATCHES), ("tags", TaggedFields)
        ),
    ),
    ("tags", TaggedFields),
)
_LEADER: Final = Schema(("leader_id", Int32), ("leader_epoch", Int32), ("tags", TaggedFields))
_ENDPOINTS: Final = CompactArray(
    ("node_id", Int32),
    ("host", CompactString()),
    ("port", Int32),
    ("rack", CompactString()),
    ("tags", TaggedFields),
)


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


class _Heartbeat(RequestStruct):
    FLEXIBLE_VERSION: ClassVar[bool] = True
    API_KEY = HEARTBEAT_API
    API_VERSION = 1
    RESPONSE_TYPE = HeartbeatResponse
    SCHEMA = Schema(
        ("group_id", CompactString()),
        ("member_id", CompactString()),
        ("member_epoch", Int32),
        ("rack_id", CompactString()),
        ("subscribed_topic_names", CompactArray(CompactString())),
        ("tags", TaggedFields),
    )


class ShareGroupHeartbeat(Request[_Heartbeat]):
    """Joins with epoch 0, stays with the epoch that Kafka gave, leaves with epoch -1."""

    API_KEY = HEARTBEAT_API

    def __init__(self, group: str, member: str, epoch: int, topics: list[str] | None) -> None:
        self._fields: tuple[Any, ...] = (group, member, epoch, None, topics, {})

    def build(self, request_struct_class: type[_Heartbeat]) -> _Heartbeat:  # noqa: D102
        return request_struct_class(*self._fields)


class FetchResponse(Response):  # noqa: D101
    API_KEY = FETCH_API
    API_VERSION = 2
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        ("error_message", CompactString()),
        ("lock_timeout_ms", Int32),
        (
            "topics",
            CompactArray(
                ("topic_id", Uuid),
                (
                    "partitions",
                    CompactArray(
                        ("partition", Int32),
                        ("error_code", Int16),
                        ("error_message", CompactString()),
                        ("acknowledge_error_code", Int16),
                        ("acknowledge_error_message", CompactString()),
                        ("current_leader", _LEADER),
                        ("records", CompactBytes),
                        (
                            "acquired",
                            CompactArray(
                                ("first_offset", Int64),
                                ("last_offset", Int64),
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
        ("node_endpoints", _ENDPOINTS),
        ("tags", TaggedFields),
    )


_FETCH_FIRST: Final = (
    ("group_id", CompactString()),
    ("member_id", CompactString()),
    ("epoch", Int32),
    ("max_wait_ms", Int32),
    ("min_bytes", Int32),
    ("max_bytes", Int32),
    ("max_records", Int32),
    ("batch_size", Int32),
)
_FETCH_LAST: Final = (
    ("topics", _ACKNOWLEDGED_TOPICS),
    (
        "forgotten_topics",
        CompactArray(("topic_id", Uuid), ("partitions", CompactArray(Int32)), ("tags", TaggedFields)),
    ),
    ("tags", TaggedFields),
)


class _FetchV1(RequestStruct):
    FLEXIBLE_VERSION: ClassVar[bool] = True
    API_KEY = FETCH_API
    API_VERSION = 1
    RESPONSE_TYPE = FetchResponse
    SCHEMA = Schema(*_FETCH_FIRST, *_FETCH_LAST)


class _FetchV2(RequestStruct):
    FLEXIBLE_VERSION: ClassVar[bool] = True
    API_KEY = FETCH_API
    API_VERSION = 2
    RESPONSE_TYPE = FetchResponse
    SCHEMA = Schema(*_FETCH_FIRST, ("acquire_mode", Int8), ("is_renewal", Boolean), *_FETCH_LAST)


class ShareFetch(Request[_FetchV1 | _FetchV2]):
    """Acquires records, and acknowledges others on the way."""

    API_KEY = FETCH_API

    def __init__(
        self,
        group: str,
        member: str,
        epoch: int,
        topic_id: bytes,
        partitions: PartitionAcknowledgements,
        *,
        forgotten: list[int],
        max_wait_ms: int,
        max_bytes: int,
        max_records: int,
        exact: bool,
    ) -> None:
        """``exact`` asks for no more than ``max_records``, where the broker can; else whole batches come."""
        self._first = (group, member, epoch, max_wait_ms, 1, max_bytes, max_records, max_records)
        topics: list[Any] = [(topic_id, partitions, {})] if partitions else []
        self._last: tuple[Any, ...] = (topics, [(topic_id, forgotten, {})] if forgotten else [], {})
        self._exact = exact

    def build(self, request_struct_class: type[_FetchV1 | _FetchV2]) -> _FetchV1 | _FetchV2:  # noqa: D102
        if request_struct_class is _FetchV1:
            return _FetchV1(*self._first, *self._last)
        return _FetchV2(*self._first, int(self._exact), False, *self._last)


class AcknowledgeResponse(Response):  # noqa: D101
    API_KEY = ACKNOWLEDGE_API
    API_VERSION = 1
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        ("error_message", CompactString()),
        (
            "topics",
            CompactArray(
                ("topic_id", Uuid),
                (
                    "partitions",
                    CompactArray(
                        ("partition", Int32),
                        ("error_code", Int16),
                        ("error_message", CompactString()),
                        ("current_leader", _LEADER),
                        ("tags", TaggedFields),
                    ),
                ),
                ("tags", TaggedFields),
            ),
        ),
        ("node_endpoints", _ENDPOINTS),
        ("tags", TaggedFields),
    )


class AcknowledgeResponseV2(Response):  # noqa: D101
    API_KEY = ACKNOWLEDGE_API
    API_VERSION = 2
    SCHEMA = Schema(
        *zip(AcknowledgeResponse.SCHEMA.names[:3], AcknowledgeResponse.SCHEMA.fields[:3], strict=True),
        ("lock_timeout_ms", Int32),
        *zip(AcknowledgeResponse.SCHEMA.names[3:], AcknowledgeResponse.SCHEMA.fields[3:], strict=True),
    )


class _AcknowledgeV1(RequestStruct):
    FLEXIBLE_VERSION: ClassVar[bool] = True
    API_KEY = ACKNOWLEDGE_API
    API_VERSION = 1
    RESPONSE_TYPE = AcknowledgeResponse
    SCHEMA = Schema(
        ("group_id", CompactString()),
        ("member_id", CompactString()),
        ("epoch", Int32),
        ("topics", _ACKNOWLEDGED_TOPICS),
        ("tags", TaggedFields),
    )


class _AcknowledgeV2(RequestStruct):
    FLEXIBLE_VERSION: ClassVar[bool] = True
    API_KEY = ACKNOWLEDGE_API
    API_VERSION = 2
    RESPONSE_TYPE = AcknowledgeResponseV2
    SCHEMA = Schema(
        ("group_id", CompactString()),
        ("member_id", CompactString()),
        ("epoch", Int32),
        ("is_renewal", Boolean),
        ("topics", _ACKNOWLEDGED_TOPICS),
        ("tags", TaggedFields),
    )


class ShareAcknowledge(Request[_AcknowledgeV1 | _AcknowledgeV2]):
    """Acknowledges records without asking for others; with epoch -1 it ends the session."""

    API_KEY = ACKNOWLEDGE_API

    def __init__(
        self,
        group: str,
        member: str,
        epoch: int,
        topic_id: bytes,
        partitions: PartitionAcknowledgements,
        *,
        renews: bool = False,
    ) -> None:
        self._session = (group, member, epoch)
        self._topics: list[Any] = [(topic_id, partitions, {})] if partitions else []
        self._renews = renews

    def build(  # noqa: D102
        self, request_struct_class: type[_AcknowledgeV1 | _AcknowledgeV2]
    ) -> _AcknowledgeV1 | _AcknowledgeV2:
        if request_struct_class is _AcknowledgeV1:
            return _AcknowledgeV1(*self._session, self._topics, {})
        return _AcknowledgeV2(*self._session, self._renews, self._topics, {})
