"""From headers and a body to the AMQP message that a JMS client takes for the one that was sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from isthmus.codecs.amqp import (
    AmqpMessage,
    Byte,
    Char,
    Data,
    Decimal32,
    Decimal64,
    Decimal128,
    Float,
    Int,
    MessageHeader,
    MessageProperties,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)
from isthmus.codecs.jms.ids import parse_id
from isthmus.codecs.jms.kinds import IMPLIED_CONTENT_TYPES, MESSAGE_TYPES, body_for
from isthmus.codecs.jms.names import (
    CONTENT_ENCODING,
    CONTENT_TYPE,
    DEFAULT_PRIORITY,
    DELIVERY_TIME,
    DESTINATION_TYPE,
    DESTINATION_TYPES,
    MESSAGE_TYPE,
    REPLY_TO_GROUP_ID,
    REPLY_TO_TYPE,
)
from isthmus.errors import EncodeError
from isthmus.message import NON_PERSISTENT, BodyKind, Header, HeaderType, canonical_header_name

_CLASSES: Final[dict[HeaderType, Any]] = {
    HeaderType.BYTE: Byte,
    HeaderType.SHORT: Short,
    HeaderType.INT: Int,
    HeaderType.FLOAT: Float,
    HeaderType.UBYTE: UByte,
    HeaderType.USHORT: UShort,
    HeaderType.UINT: UInt,
    HeaderType.ULONG: ULong,
    HeaderType.CHAR: Char,
    HeaderType.TIMESTAMP: Timestamp,
    HeaderType.UUID: UUID,
    HeaderType.SYMBOL: Symbol,
    HeaderType.DECIMAL32: Decimal32,
    HeaderType.DECIMAL64: Decimal64,
    HeaderType.DECIMAL128: Decimal128,
}
"""What holds a header's value in AMQP, where it is not the plain Python value."""

_STRING: Final = HeaderType.STRING

Standard = dict[str, str | bytes]
"""Standard headers by their canonical names: text, or bytes of which nobody has said that they are."""


def to_amqp(
    headers: Mapping[str, Header], kind: BodyKind, content: bytes | None, *, address: str | None = None
) -> AmqpMessage:
    """The message with these headers, and with the body that a message of that kind has.

    A header ``Destination`` outranks ``address``. Standard headers may also be named as JMS names them.
    Raises `EncodeError` for a header that does not hold what its name or its type says.
    """
    standard: Standard = {}
    properties: dict[str, Any] = {}
    for given, header in headers.items():
        if is_standard(given):
            put_standard(standard, canonical_header_name(given), header)
        else:
            properties[given.removeprefix("property.")] = value_of(given, header)
    return assemble(standard, properties, {}, kind, content, address=address)


def assemble(
    standard: Standard,
    properties: dict[str, Any],
    annotations: dict[str, Any],
    kind: BodyKind,
    content: bytes | None,
    *,
    address: str | None,
) -> AmqpMessage:
    """The message with these standard headers, as `put_standard` puts them, and these properties.

    ``annotations`` are those that it has beyond its own.
    """
    body = body_for(kind, content)
    message_id, correlation_id = _text(standard, "MessageId"), _text(standard, "CorrelationId")
    content_type = _text(standard, CONTENT_TYPE)
    if content_type is None and isinstance(body, Data):
        content_type = IMPLIED_CONTENT_TYPES.get(kind)
    own: dict[str, Any] = {}
    if REPLY_TO_TYPE in standard:
        _put_destination_type(own, standard, REPLY_TO_TYPE)
    if "DeliveryTime" in standard:
        own[DELIVERY_TIME] = _number(standard, "DeliveryTime")
    if DESTINATION_TYPE in standard:
        _put_destination_type(own, standard, DESTINATION_TYPE)
    if kind in _MESSAGE_TYPES:
        own[MESSAGE_TYPE] = _MESSAGE_TYPES[kind]
    own.update(annotations)
    return AmqpMessage(
        header=_header(standard),
        message_annotations=own or None,
        properties=MessageProperties(
            None if message_id is None else parse_id(message_id),
            _octets(standard, "JMSXUserID"),
            _text(standard, "Destination") or address,
            _text(standard, "Type"),
            _text(standard, "ReplyTo"),
            None if correlation_id is None else parse_id(correlation_id),
            content_type,
            _text(standard, CONTENT_ENCODING),
            _number(standard, "Expiration") or None,  # 0 is JMS's word for never
            _number(standard, "Timestamp") or None,  # and for unknown
            _text(standard, "JMSXGroupID"),
            _number(standard, "JMSXGroupSeq"),
            _text(standard, REPLY_TO_GROUP_ID),
        ),
        application_properties=properties or None,
        body=body,
    )


def is_standard(name: str) -> bool:
    """Whether a header means something to AMQP or JMS, and is no property of an application."""
    return canonical_header_name(name) in _STANDARD_NAMES


def put_standard(standard: Standard, name: str, header: Header) -> None:
    """Put such a header among others by its canonical name; one of type null is none."""
    if header.type is HeaderType.BINARY:
        standard[name] = value_of(name, header)
    elif header.type is not HeaderType.NULL:
        standard[name] = header.text


_STANDARD_NAMES: Final = frozenset(
    {
        *("MessageId", "CorrelationId", "Destination", "ReplyTo", "Type", "Timestamp", "Expiration"),
        *("DeliveryMode", "DeliveryTime", "Priority", "Redelivered", "JMSXDeliveryCount", "JMSXUserID"),
        *("JMSXGroupID", "JMSXGroupSeq", REPLY_TO_GROUP_ID, CONTENT_TYPE, CONTENT_ENCODING),
        *(MESSAGE_TYPE, DESTINATION_TYPE, REPLY_TO_TYPE),
    }
)
_MESSAGE_TYPES: Final = {kind: Byte(number) for kind, number in MESSAGE_TYPES.items()}


def _text(standard: Standard, name: str) -> str | None:
    value = standard.get(name)
    if value is None or isinstance(value, str):
        return value
    try:  # what a Kafka client writes without saying its type
        return value.decode()
    except UnicodeDecodeError:
        raise EncodeError(f"the header {name} is not UTF-8") from None


def _octets(standard: Standard, name: str) -> bytes | None:
    value = standard.get(name)
    return value.encode() if isinstance(value, str) else value


def _number(standard: Standard, name: str) -> int | None:
    text = _text(standard, name)
    try:
        return None if text is None else int(text)
    except ValueError:
        raise EncodeError(f"the header {name} is not a number: {text!r}") from None


def _put_destination_type(annotations: dict[str, Any], standard: Standard, name: str) -> None:
    text = _text(standard, name)
    if text in DESTINATION_TYPES:
        annotations[name] = Byte(DESTINATION_TYPES.index(text))


def _header(standard: Standard) -> MessageHeader | None:
    """The header section; what has AMQP's default value is left out of it, as Qpid JMS does."""
    durable = _text(standard, "DeliveryMode") != NON_PERSISTENT
    priority = _number(standard, "Priority")
    count = _number(standard, "JMSXDeliveryCount")
    # JMS counts this delivery too.
    earlier = int(_text(standard, "Redelivered") == "true") if count is None else count - 1
    if priority == DEFAULT_PRIORITY:
        priority = None
    if not (durable or earlier) and priority is None:
        return None
    return MessageHeader(durable or None, priority, None, None, earlier or None)


def value_of(name: str, header: Header) -> Any:
    """What holds a header's value in AMQP. Raises `EncodeError` for a text that is not of its type."""
    type = header.type
    if type is _STRING:
        return header.text
    try:
        value = header.value
        cls = _CLASSES.get(type)
        return value if cls is None else cls(value)
    except ValueError:
        raise EncodeError(f"the header {name} is not a {header.type}: {header.text!r}") from None
