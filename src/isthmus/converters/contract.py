"""What a converter is: an AMQP message to a Kafka record, and a Kafka record to an AMQP message.

::

    AmqpMessage ──to_kafka_record──► KafkaRecord ──► Kafka ──► ReceivedRecord ──to_amqp_message──► AmqpMessage

A converter keeps nothing between two messages and may be called from several threads at once. The bridge may
convert the same message again after a crash, and expects the same result.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from isthmus.codecs.amqp import AmqpMessage
    from isthmus.journal.layout import KafkaHeaders


class KafkaRecord(NamedTuple):
    """A record to be published. Without a partition the key decides, without a key Kafka does."""

    partition: int | None
    key: str | None
    value: bytes | None
    """None is a tombstone."""
    headers: KafkaHeaders = ()


class NoBody(StrEnum):
    """What a route makes of a message without a body, where the record's value is the body."""

    NULL = "null"
    """A record without a value: in a compacted topic it deletes what has its key."""
    EMPTY = "empty"
    """A value of no bytes."""
    FAIL = "fail"
    """A soft failure."""


class ReceivedRecord(NamedTuple):
    """A record that was read from a topic."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: KafkaHeaders = ()


class MessageConverter(Protocol):
    """The two directions. One that has no use in an application may always raise `ConversionFailure`."""

    def to_kafka_record(self, message: AmqpMessage) -> KafkaRecord:
        """The record of a message. Raises a `SoftFailure` for a message that has no form in Kafka."""
        ...

    def to_amqp_message(self, address: str, record: ReceivedRecord) -> AmqpMessage:
        """The message of a record, for a receiver whose source is ``address``.

        Raises a `SoftFailure` for a record that is not what the converter writes: `DecodeError` if it is
        malformed. Anybody may write to a topic, so no record may raise anything else.
        """
        ...
