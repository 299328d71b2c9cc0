"""The sections of a message (part 3, 3.2 of the specification) as Python objects.

Every field may be absent, which is None. A field has the type that the specification gives it, so plain
Python values do when a message is made: ``priority=4`` is written as a ubyte, ``creation_time`` as a
timestamp, ``content_type`` as a symbol, a number as ``message_id`` as a ulong.
"""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

import msgspec

from isthmus.message import HeaderType, Span

HEADER: Final = 0x70
DELIVERY_ANNOTATIONS: Final = 0x71
MESSAGE_ANNOTATIONS: Final = 0x72
PROPERTIES: Final = 0x73
APPLICATION_PROPERTIES: Final = 0x74
DATA: Final = 0x75
AMQP_SEQUENCE: Final = 0x76
AMQP_VALUE: Final = 0x77
FOOTER: Final = 0x78

# The types of a section's fields, each as the widest constructor that it has.
ANY_ID: Final = 0xFF
"""A message-id: a string, uuid, ulong or binary."""

_BOOLEAN, _UBYTE, _UINT, _TIMESTAMP, _BINARY, _STRING, _SYMBOL = 0x56, 0x50, 0x70, 0x83, 0xB0, 0xB1, 0xB3

HEADER_TYPES: Final = bytes((_BOOLEAN, _UBYTE, _UINT, _BOOLEAN, _UINT))
PROPERTIES_TYPES: Final = bytes(
    (
        *(ANY_ID, _BINARY, _STRING, _STRING, _STRING, ANY_ID, _SYMBOL, _SYMBOL),
        *(_TIMESTAMP, _TIMESTAMP, _STRING, _UINT, _STRING),
    )
)

MessageId = str | UUID | int | bytes
"""What a message-id or correlation-id may be: a string, a uuid, a ulong or binary."""


class MessageHeader(msgspec.Struct, frozen=True):
    """header: how the message is to be transferred."""

    durable: bool | None = None
    priority: int | None = None
    ttl: int | None = None
    first_acquirer: bool | None = None
    delivery_count: int | None = None


class MessageProperties(msgspec.Struct, frozen=True):
    """properties: the standard properties of the message, which nobody on its way may change."""

    message_id: MessageId | None = None
    user_id: bytes | None = None
    to: str | None = None
    subject: str | None = None
    reply_to: str | None = None
    correlation_id: MessageId | None = None
    content_type: str | None = None
    content_encoding: str | None = None
    absolute_expiry_time: int | None = None
    creation_time: int | None = None
    group_id: str | None = None
    group_sequence: int | None = None
    reply_to_group_id: str | None = None


class Data(msgspec.Struct, frozen=True):
    """A body of one or more data sections: opaque bytes."""

    chunks: tuple[bytes, ...]

    @property
    def content(self) -> bytes:
        """The bytes of all sections together."""
        return self.chunks[0] if len(self.chunks) == 1 else b"".join(self.chunks)


class AmqpSequence(msgspec.Struct, frozen=True):
    """A body of one or more amqp-sequence sections: a list each."""

    lists: tuple[list[object], ...]


class AmqpValue(msgspec.Struct, frozen=True):
    """A body of one amqp-value section: any value of AMQP's types."""

    value: object


Body = Data | AmqpSequence | AmqpValue


class Index(msgspec.Struct, frozen=True):
    """What the journal's headers need of a message; see `isthmus.codecs.amqp.indexer`."""

    header: MessageHeader
    """All of its fields are None when the message has no header."""
    annotations: dict[str, Any]
    """The message annotations."""
    properties: MessageProperties
    """All of its fields are None when the message has no properties."""
    application_properties: dict[str, str]
    """The text of each, as a header has it."""
    types: dict[str, HeaderType]
    """The type of each application property that is not a string."""
    body_section: int
    """`DATA`, `AMQP_SEQUENCE`, `AMQP_VALUE`, or 0 when the message has no body."""
    body_type: str
    """The type of an amqp-value's value, such as ``"string"``."""
    spans: tuple[Span, ...]
    """Where the body lies: one span for each of its sections. A binary or a string is there without its
    constructor and size, anything else as the encoded value."""
