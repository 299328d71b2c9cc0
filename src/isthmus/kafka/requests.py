"""Requests to Kafka that aiokafka lacks, in its terms.

aiokafka has no request that knows a topic's id or what its user may do with it, and none that changes single
settings. `Newest` picks the version that a broker takes, as aiokafka's own requests do.
"""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from typing import Any, Final

from aiokafka.protocol.abstract import AbstractType
from aiokafka.protocol.api import RequestStruct, Response
from aiokafka.protocol.types import (
    Array,
    Boolean,
    CompactArray,
    CompactString,
    Int8,
    Int16,
    Int32,
    Schema,
    String,
    TaggedFields,
)

from isthmus.kafka.faults import KafkaRefusal

UNSUPPORTED_VERSION: Final = 35
TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4
GROUP_RESOURCE: Final = 32
SET: Final = 0
"""An incremental change that gives a setting a value."""


class Newest:
    """One request in several versions: a broker gets the newest that it takes."""

    def __init__(self, *versions: RequestStruct) -> None:
        """``versions`` in the order of preference. What a version cannot say is left out in it."""
        self._versions = versions

    def prepare(self, supported: Mapping[int, tuple[int, int]]) -> RequestStruct:
        """What aiokafka's connections send. Raises `KafkaRefusal` if the broker takes none."""
        for each in self._versions:
            lowest, highest = supported.get(each.API_KEY, (1, 0))
            if lowest <= each.API_VERSION <= highest:
                return each
        raise KafkaRefusal(UNSUPPORTED_VERSION, f"the broker is too old for {self._versions[-1]!r:.60}")


class Uuid(AbstractType[bytes]):
    """A topic's id: sixteen bytes."""

    @classmethod
    def encode(cls, value: bytes) -> bytes:
        """As it is."""
        return value

    @classmethod
    def decode(cls, data: BytesIO) -> bytes:
        """As it is."""
        return data.read(16)


class MetadataResponse_v11(Response):  # noqa: N801
    """The first two versions with topics' ids differ from it in a field."""

    API_KEY = 3
    API_VERSION = 11
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "brokers",
            CompactArray(
                ("node_id", Int32),
                ("host", CompactString("utf-8")),
                ("port", Int32),
                ("rack", CompactString("utf-8")),
                ("tags", TaggedFields),
            ),
        ),
        ("cluster_id", CompactString("utf-8")),
        ("controller_id", Int32),
        (
            "topics",
            CompactArray(
                ("error_code", Int16),
                ("name", CompactString("utf-8")),
                ("topic_id", Uuid),
                ("is_internal", Boolean),
                (
                    "partitions",
                    CompactArray(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader", Int32),
                        ("leader_epoch", Int32),
                        ("replicas", CompactArray(Int32)),
                        ("isr", CompactArray(Int32)),
                        ("offline_replicas", CompactArray(Int32)),
                        ("tags", TaggedFields),
                    ),
                ),
                ("authorized_operations", Int32),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class MetadataRequest_v11(RequestStruct):  # noqa: N801
    """Kafka 2.8 and later."""

    FLEXIBLE_VERSION = True
    API_KEY = 3
    API_VERSION = 11
    RESPONSE_TYPE = MetadataResponse_v11
    SCHEMA = Schema(
        (
            "topics",
            CompactArray(("topic_id", Uuid), ("name", CompactString("utf-8")), ("tags", TaggedFields)),
        ),
        ("allow_auto_topic_creation", Boolean),
        ("include_topic_authorized_operations", Boolean),
        ("tags", TaggedFields),
    )


class IncrementalAlterConfigsResponse_v0(Response):  # noqa: N801
    """An answer for every resource."""

    API_KEY = 44
    API_VERSION = 0
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "responses",
            Array(
                ("error_code", Int16),
                ("error_message", String("utf-8")),
                ("resource_type", Int8),
                ("resource_name", String("utf-8")),
            ),
        ),
    )


class IncrementalAlterConfigsRequest_v0(RequestStruct):  # noqa: N801
    """Kafka 2.3 and later."""

    API_KEY = 44
    API_VERSION = 0
    RESPONSE_TYPE = IncrementalAlterConfigsResponse_v0
    SCHEMA = Schema(
        (
            "resources",
            Array(
                ("resource_type", Int8),
                ("resource_name", String("utf-8")),
                (
                    "configs",
                    Array(("name", String("utf-8")), ("operation", Int8), ("value", String("utf-8"))),
                ),
            ),
        ),
        ("validate_only", Boolean),
    )


def metadata(topics: list[str] | None, *, operations: bool = False) -> Newest:
    """Ask for brokers, and for some topics or, with None, for all. None of them is made by asking.

    ``operations`` asks what may be done with them.
    """
    named: Any = None if topics is None else [(bytes(16), name, {}) for name in topics]
    return Newest(MetadataRequest_v11(named, False, operations, {}))


def set_configs(resource_type: int, name: str, values: Mapping[str, str]) -> Newest:
    """Give some settings of a resource a value, and leave the others as they are."""
    changes = [(key, SET, value) for key, value in values.items()]
    return Newest(IncrementalAlterConfigsRequest_v0([(resource_type, name, changes)], False))
