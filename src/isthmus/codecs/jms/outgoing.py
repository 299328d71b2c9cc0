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


def to_amqp(
    headers: Mapping[str, Header], kind: BodyKind, content: bytes | None, *, address: str | None = None
) -> AmqpMessage:
    """The message with these headers, and with the body that a message of that kind has.

    A header ``Destination`` outranks ``address``. Standard headers may also be named as JMS names them.
    Raises `EncodeError` for a header that does not hold what its name or its type says.
    """
    fields = _Fields(headers)
    body = body_for(kind, content)
    message_id, correlation_id = fields.text("MessageId"), fields.text("CorrelationId")
    content_type = fields.text(CONTENT_TYPE)
    if content_type is None and isinstance(body, Data):
        content_type = IMPLIED_CONTENT_TYPES.get(kind)
    annotations: dict[str, Any] = {
        REPLY_TO_TYPE: fields.destination_type(REPLY_TO_TYPE),
        DELIVERY_TIME: fields.number("DeliveryTime"),
        DESTINATION_TYPE: fields.destination_type(DESTINATION_TYPE),
        MESSAGE_TYPE: Byte(MESSAGE_TYPES[kind]) if kind in MESSAGE_TYPES else None,
    }
    return AmqpMessage(
        header=fields.header(),
        message_annotations={name: value for name, value in annotations.items() if value is not None} or None,
        properties=MessageProperties(
            message_id=None if message_id is None else parse_id(message_id),
            user_id=fields.octets("JMSXUserID"),
            to=fields.text("Destination") or address,
            subject=fields.text("Type"),
            reply_to=fields.text("ReplyTo"),
            correlation_id=None if correlation_id is None else parse_id(correlation_id),
            content_type=content_type,
            content_encoding=fields.text(CONTENT_ENCODING),
            absolute_expiry_time=fields.number("Expiration") or None,  # 0 is JMS's word for never
            creation_time=fields.number("Timestamp") or None,  # and for unknown
            group_id=fields.text("JMSXGroupID"),
            group_sequence=fields.number("JMSXGroupSeq"),
            reply_to_group_id=fields.text(REPLY_TO_GROUP_ID),
        ),
        application_properties=fields.properties() or None,
        body=body,
    )


class _Fields:
    """Headers by their canonical names, each taken once; those left over are an application's properties."""

    def __init__(self, headers: Mapping[str, Header]) -> None:
        self._left = {canonical_header_name(name): header for name, header in headers.items()}

    def text(self, name: str) -> str | None:
        header = self._left.pop(name, None)
        if header is None or header.type is HeaderType.NULL:
            return None
        if header.type is not HeaderType.BINARY:  # what a Kafka client writes without saying its type
            return header.text
        try:
            return bytes(_value(name, header)).decode()
        except UnicodeDecodeError:
            raise EncodeError(f"the header {name} is not UTF-8") from None

    def octets(self, name: str) -> bytes | None:
        header = self._left.get(name)
        if header is not None and header.type is HeaderType.BINARY:
            del self._left[name]
            return bytes(_value(name, header))
        text = self.text(name)
        return None if text is None else text.encode()

    def number(self, name: str) -> int | None:
        text = self.text(name)
        try:
            return None if text is None else int(text)
        except ValueError:
            raise EncodeError(f"the header {name} is not a number: {text!r}") from None

    def destination_type(self, name: str) -> Byte | None:
        text = self.text(name)
        return Byte(DESTINATION_TYPES.index(text)) if text in DESTINATION_TYPES else None

    def header(self) -> MessageHeader | None:
        """The header section; what has AMQP's default value is left out of it, as Qpid JMS does."""
        durable = self.text("DeliveryMode") != NON_PERSISTENT
        priority = self.number("Priority")
        redelivered = self.text("Redelivered") == "true"
        count = self.number("JMSXDeliveryCount")
        earlier = int(redelivered) if count is None else count - 1  # JMS counts this delivery too
        header = MessageHeader(
            durable=durable or None,
            priority=None if priority == DEFAULT_PRIORITY else priority,
            delivery_count=earlier or None,
        )
        return None if header == MessageHeader() else header

    def properties(self) -> dict[str, Any]:
        return {name.removeprefix("property."): _value(name, header) for name, header in self._left.items()}


def _value(name: str, header: Header) -> Any:
    if header.type is HeaderType.STRING:
        return header.text
    try:
        value = header.value
        cls = _CLASSES.get(header.type)
        return value if cls is None else cls(value)
    except ValueError:
        raise EncodeError(f"the header {name} is not a {header.type}: {header.text!r}") from None
