"""From an AMQP message to the `Message` over it: the headers and properties that JMS would show of it."""

from __future__ import annotations

import re
from typing import Any, Final, cast

from isthmus.codecs.amqp import DATA, Index, index
from isthmus.codecs.jms.ids import correlation_id_text, message_id_text
from isthmus.codecs.jms.kinds import IMPLIED_CONTENT_TYPES, MESSAGE_TYPES, body_of
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
    TAKEN,
)
from isthmus.errors import DecodeError
from isthmus.message import (
    NON_PERSISTENT,
    TRACE_CONTEXT,
    Body,
    BodyKind,
    Header,
    HeaderType,
    Message,
    property_header_name,
)

_PERSISTENT: Final = Header("PERSISTENT")
_NOT_PERSISTENT: Final = Header(NON_PERSISTENT)
_PRIORITIES: Final = [Header(str(priority), HeaderType.INT) for priority in range(10)]
_REDELIVERED: Final = Header("true", HeaderType.BOOLEAN)
_NOT_REDELIVERED: Final = Header("false", HeaderType.BOOLEAN)
_FIRST_DELIVERY: Final = Header("1", HeaderType.INT)
_MAX_LONG: Final = 2**63 - 1
_DESTINATION_HEADERS: Final = [Header(name) for name in DESTINATION_TYPES]

_BYTES: Final = BodyKind.BYTES
_BYTES_MESSAGE: Final = Header(str(_BYTES))
_TEXT_MESSAGE: Final = Header(str(BodyKind.TEXT))
_STRING: Final = HeaderType.STRING
_LONG: Final = HeaderType.LONG
_make: Final = cast(Any, tuple.__new__)
"""Makes a named tuple faster than its class does."""

_TRACEPARENT: Final = TRACE_CONTEXT[0]
_END_OF_TIME: Final = 2**63 - 1  # the last timestamp that AMQP has

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")

_NAMES_KEPT: Final = 4096
_NAME_KEPT_LENGTH: Final = 64
_names: Final[dict[str, str]] = {}
"""Header names by property: the same few properties come with every message."""


def to_message(
    data: bytes,
    *,
    target: str = "",
    fallback_id: str = "",
    session: str = "",
    received_ms: int | None = None,
) -> Message:
    """The message over these bytes.

    ``target`` is the address of the link that they came over; the message's own ``to`` outranks it.
    ``fallback_id`` is the id of a message that has none. A ttl counts from ``received_ms``, or else from the
    time when the message was made. Raises `DecodeError` for bytes that are not a message with an address,
    for a property whose name has a control character, and for a text that is not UTF-8.
    """
    parts = index(data)
    address = str(parts.properties.to or target)
    if not address:
        raise DecodeError("the message has no 'to', and nobody says where it was sent")
    body = body_of(parts)
    if body.kind is BodyKind.TEXT and parts.body_section == DATA:
        _check_text(body, data)
    headers = standard_headers(parts, body.kind, received_ms)
    headers["Destination"] = _text(address)
    types = parts.types
    for name, text in parts.application_properties.items():
        type = types.get(name, _STRING) if types else _STRING
        headers[_names.get(name) or header_name(name)] = _make(Header, (text, type))
    if _TRACEPARENT in parts.annotations:  # those in between have added it: it outranks what the sender says
        for name in TRACE_CONTEXT:
            context = parts.annotations.get(name)
            if isinstance(context, str):
                headers[name] = _text(str(context))
    message_id = headers.get("MessageId")
    return Message(
        id=message_id.text if message_id else fallback_id,
        address=address,
        protocol="amqp",
        value=data,
        body=body,
        headers=headers,
        session=session,
    )


def _check_text(body: Body, data: bytes) -> None:
    """Raises `DecodeError` for data that says that it is text, and is not UTF-8."""
    try:
        (body.slice(data) or b"").decode()
    except UnicodeDecodeError as error:
        raise DecodeError(f"the text is not utf-8: {error.reason}", error.start) from None


def standard_headers(parts: Index, kind: BodyKind, received_ms: int | None) -> dict[str, Header]:
    """The headers of JMS that a message has, but for its destination and its properties."""
    header, properties, annotations = parts.header, parts.properties, parts.annotations
    count = header.delivery_count or 0
    headers = {
        "DeliveryMode": _PERSISTENT if header.durable else _NOT_PERSISTENT,
        "Priority": _PRIORITIES[DEFAULT_PRIORITY if header.priority is None else min(header.priority, 9)],
        "Redelivered": _REDELIVERED if count else _NOT_REDELIVERED,
        "JMSXDeliveryCount": _number(count + 1) if count else _FIRST_DELIVERY,
    }
    if properties.message_id is not None:
        headers["MessageId"] = _text(message_id_text(properties.message_id))
    if properties.correlation_id is not None:
        headers["CorrelationId"] = _text(correlation_id_text(properties.correlation_id))
    if properties.user_id is not None:
        headers["JMSXUserID"] = _user(properties.user_id)
    if properties.group_sequence is not None:
        headers["JMSXGroupSeq"] = _number(properties.group_sequence)
    if properties.creation_time is not None:
        headers["Timestamp"] = _make(Header, (str(properties.creation_time), _LONG))
    expiration = _expiration(parts, received_ms)
    if expiration is not None:
        headers["Expiration"] = Header(str(expiration), HeaderType.LONG)
    delivery_time = annotations.get(DELIVERY_TIME)
    if isinstance(delivery_time, int) and not isinstance(delivery_time, bool):
        headers["DeliveryTime"] = Header(str(min(delivery_time, _MAX_LONG)), HeaderType.LONG)
    for name in (DESTINATION_TYPE, REPLY_TO_TYPE):
        number = annotations.get(name)
        if isinstance(number, int) and 0 <= number < len(_DESTINATION_HEADERS):
            headers[name] = _DESTINATION_HEADERS[number]
    if kind is _BYTES:
        headers[MESSAGE_TYPE] = _BYTES_MESSAGE
    elif kind is BodyKind.EMPTY and annotations.get(MESSAGE_TYPE) == MESSAGE_TYPES[BodyKind.TEXT]:
        headers[MESSAGE_TYPE] = _TEXT_MESSAGE
    if properties.reply_to is not None:
        headers["ReplyTo"] = Header(str(properties.reply_to))
    if properties.subject is not None:
        headers["Type"] = Header(str(properties.subject))
    if properties.group_id is not None:
        headers["JMSXGroupID"] = Header(str(properties.group_id))
    if properties.reply_to_group_id is not None:
        headers[REPLY_TO_GROUP_ID] = Header(str(properties.reply_to_group_id))
    if properties.content_encoding is not None:
        headers[CONTENT_ENCODING] = Header(str(properties.content_encoding))
    if properties.content_type is not None and properties.content_type != IMPLIED_CONTENT_TYPES.get(kind):
        headers[CONTENT_TYPE] = Header(str(properties.content_type))
    return headers


def _text(text: str) -> Header:
    return cast(Header, _make(Header, (text, _STRING)))


def _number(value: int) -> Header:
    """An int of JMS, and a long where AMQP's uint is too large for one."""
    return Header(str(value), HeaderType.INT if value < 2**31 else HeaderType.LONG)


def _expiration(parts: Index, received_ms: int | None) -> int | None:
    if parts.properties.absolute_expiry_time is not None or parts.header.ttl is None:
        return parts.properties.absolute_expiry_time
    start = parts.properties.creation_time if received_ms is None else received_ms
    return None if start is None else min(start + parts.header.ttl, _END_OF_TIME)


def _user(user_id: bytes) -> Header:
    try:
        return Header(user_id.decode())
    except UnicodeDecodeError:
        return Header.of(user_id, HeaderType.BINARY)


def header_name(name: str) -> str:
    """The header name of a property, kept for the next message if it is not too long.

    Raises `DecodeError` for a name with a control character: where names end with a NUL, as in C, ``ReplyTo``
    and a NUL in front of anything would be the message's own ``ReplyTo``.
    """
    if _CONTROL.search(name) is not None:
        raise DecodeError(f"the name of a property has a control character: {name!r:.100}")
    header_name = f"property.{name}" if name in TAKEN else property_header_name(name)
    if len(_names) < _NAMES_KEPT and len(name) <= _NAME_KEPT_LENGTH:
        _names[name] = header_name
    return header_name
