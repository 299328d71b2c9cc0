"""An MQ message as a `Message`, and back, without loss.

The standard headers come from the MQMD, see `to_message`. Every other field that does not have MQ's default
is a header ``mq.<field>`` with its type. Properties are headers of their own name and type. The body is text
where the format is ``MQSTR`` and the bytes are UTF-8, and bytes otherwise; it is never converted.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from isthmus.codecs.bridge_message import Property, PropertyType
from isthmus.config.model.plan import ANSWER_FORM
from isthmus.edges.mq.descriptor import (
    DEFAULTS,
    FIELD_BYTES,
    FIELDS,
    MQEI_UNLIMITED,
    MQFMT_STRING,
    MQMT_REQUEST,
    MQPER_NOT_PERSISTENT,
    MQPER_PERSISTENT,
    UTF8_CCSID,
    Mqmd,
    MqMessage,
)
from isthmus.edges.mq.names import FIELD_PREFIX, header_of_property, property_of_header
from isthmus.edges.mq.port import QueueTarget
from isthmus.edges.mq.replies import Requester
from isthmus.errors import EncodeError
from isthmus.message import (
    NON_PERSISTENT,
    Body,
    BodyKind,
    Header,
    HeaderType,
    Message,
    canonical_header_name,
)

IN_STANDARD_HEADERS: Final = {
    "MsgId": "MessageId",
    "CorrelId": "CorrelationId",
    "ReplyToQ": "ReplyTo",
    "ReplyToQMgr": "ReplyTo",
    "Priority": "Priority",
    "Persistence": "DeliveryMode",
}
"""The fields that standard headers carry completely. All others are also, or only, ``mq.<field>``."""

ASCII_CCSIDS: Final = frozenset(
    {UTF8_CCSID, 367, 437, 813, 819, 850, 858, 912, 915, 920, 923, 924, 1252, 5348}
)
"""Character sets in which ASCII is ASCII. Text in them that is also UTF-8 is taken for that."""

HEADER_TYPES: Final = {
    PropertyType.STRING: HeaderType.STRING,
    PropertyType.INT8: HeaderType.BYTE,
    PropertyType.INT16: HeaderType.SHORT,
    PropertyType.INT32: HeaderType.INT,
    PropertyType.INT64: HeaderType.LONG,
    PropertyType.FLOAT32: HeaderType.FLOAT,
    PropertyType.FLOAT64: HeaderType.DOUBLE,
    PropertyType.BOOL: HeaderType.BOOLEAN,
    PropertyType.BYTES: HeaderType.BINARY,
    PropertyType.NULL: HeaderType.NULL,
}

PROPERTY_TYPES: Final = {header: property for property, header in HEADER_TYPES.items()} | {
    HeaderType.UBYTE: PropertyType.INT16,
    HeaderType.USHORT: PropertyType.INT32,
    HeaderType.UINT: PropertyType.INT64,
    HeaderType.TIMESTAMP: PropertyType.INT64,
    HeaderType.DECIMAL32: PropertyType.BYTES,
    HeaderType.DECIMAL64: PropertyType.BYTES,
    HeaderType.DECIMAL128: PropertyType.BYTES,
}
"""MQ's type for each of a header's; of those that are not here, the text. MQ has no unsigned numbers."""

INBOX: Final = "_INBOX."
"""What the names of NATS's own reply subjects begin with. MQ would take them for queues."""

_QUEUE_NAME: Final = re.compile(r"[A-Za-z0-9._/%]{1,48}", re.ASCII)
_ID: Final = re.compile(r"ID:((?:[0-9a-fA-F]{2}){1,24})")
_LEFT_BEHIND: Final = frozenset({"Destination", "Redelivered", "JMSXDeliveryCount"})
"""What tells of one delivery, and is another's to tell of the next."""


def to_message(
    mq: MqMessage, *, address: str, session: str, received_ms: int, requester: Requester | None = None
) -> Message:
    """The message that came from this queue or topic string. Expiry counts from ``received_ms``.

    ``requester`` is where an answer goes: its inbox becomes the destination, in place of the address.
    """
    descriptor = mq.descriptor
    headers = _standard_headers(descriptor, received_ms)
    headers["Destination"] = Header(address)
    for name in FIELDS:
        value = getattr(descriptor, name)
        if name not in IN_STANDARD_HEADERS and value != getattr(DEFAULTS, name):
            headers[FIELD_PREFIX + name] = Header.of(value)
    if descriptor.ReplyToQMgr and not descriptor.ReplyToQ:  # MQ fills it in where nobody asks for a reply
        headers[f"{FIELD_PREFIX}ReplyToQMgr"] = Header(descriptor.ReplyToQMgr)
    for name, property in mq.properties.items():
        header_name = header_of_property(name)
        if header_name == "CorrelationId" and not _begins_with(property, descriptor.CorrelId):
            continue  # somebody has set another one since
        headers[header_name] = Header.of(property.value, HEADER_TYPES[property.type])
    if requester is not None:
        headers["Destination"] = Header(requester.inbox)
        headers[ANSWER_FORM] = Header(requester.form)
    return Message(
        id=headers["MessageId"].text,
        address=address,
        protocol="mq",
        value=mq.body,
        body=Body(_kind(mq)),
        headers=headers,
        session=session,
    )


def _standard_headers(descriptor: Mqmd, received_ms: int) -> dict[str, Header]:
    persistent = descriptor.Persistence == MQPER_PERSISTENT
    headers = {
        "MessageId": Header(_id_text(descriptor.MsgId)),
        "DeliveryMode": Header("PERSISTENT" if persistent else NON_PERSISTENT),
        "Priority": Header.of(descriptor.Priority, HeaderType.INT),
        "Redelivered": Header.of(descriptor.BackoutCount > 0),
        "JMSXDeliveryCount": Header.of(min(descriptor.BackoutCount, 2**31 - 2) + 1, HeaderType.INT),
    }
    if descriptor.CorrelId:
        headers["CorrelationId"] = Header(_id_text(descriptor.CorrelId))
    if descriptor.ReplyToQ:
        headers["ReplyTo"] = Header(str(QueueTarget(descriptor.ReplyToQ, descriptor.ReplyToQMgr)))
    if descriptor.Expiry >= 0:
        headers["Expiration"] = Header.of(received_ms + descriptor.Expiry * 100, HeaderType.LONG)
    put_ms = _put_ms(descriptor)
    if put_ms is not None:
        headers["Timestamp"] = Header.of(put_ms, HeaderType.LONG)
    return headers


def _kind(mq: MqMessage) -> BodyKind:
    if mq.descriptor.Format == MQFMT_STRING and mq.descriptor.CodedCharSetId in ASCII_CCSIDS:
        return BodyKind.TEXT if _is_utf8(mq.body) else BodyKind.BYTES
    return BodyKind.BYTES


def from_headers(
    headers: Mapping[str, Header], body: bytes | None, *, now_ms: int | None = None
) -> MqMessage:
    """The MQ message with these headers: the one that `to_message` was given, if they are its own.

    What has no field in an MQMD becomes a property. A body without ``mq.Format`` is ``MQSTR`` if it is UTF-8.
    Without ``now_ms`` the expiry is ``mq.Expiry``; with it, what is left until ``Expiration``. Raises
    `EncodeError` for a header that does not hold what its name says.
    """
    body = body or b""
    left = {canonical_header_name(name): header for name, header in headers.items()}
    fields: dict[str, Any] = {}
    properties: dict[str, Property] = {}
    _take_fields(left, fields)
    if FIELD_PREFIX + "Format" not in headers and not _has_descriptor(headers) and _is_utf8(body):
        fields |= {"Format": MQFMT_STRING, "CodedCharSetId": UTF8_CCSID}
    _take_standard(left, fields, now_ms)
    for name, header in left.items():
        if name not in _LEFT_BEHIND:
            properties[property_of_header(name)] = _property(name, header)
    return MqMessage(descriptor=Mqmd(**fields), body=body, properties=properties)


def _has_descriptor(headers: Mapping[str, Header]) -> bool:
    """Whether the message came from MQ, where no format means no format."""
    return f"{FIELD_PREFIX}PutDate" in headers


def _take_fields(left: dict[str, Header], fields: dict[str, Any]) -> None:
    for name in FIELDS:
        header = left.pop(FIELD_PREFIX + name, None)
        if header is None:
            continue
        default = getattr(DEFAULTS, name)
        value = _value(name, header) if name in FIELD_BYTES else _number(name, header)
        if isinstance(default, str) and isinstance(value, bytes):
            value = _text(name, header)
        if type(value) is not type(default):
            raise EncodeError(f"the header {FIELD_PREFIX}{name} is not {type(default).__name__}")
        fields[name] = value


def _take_standard(left: dict[str, Header], fields: dict[str, Any], now_ms: int | None) -> None:
    """Move the standard headers that the MQMD has fields for."""
    message_id = left.get("MessageId")
    if message_id is not None and (octets := _id_bytes(_text("MessageId", message_id))) is not None:
        fields["MsgId"] = octets
        del left["MessageId"]
    correlation_id = left.get("CorrelationId")
    if correlation_id is not None:
        text = _text("CorrelationId", correlation_id)
        octets = _id_bytes(text)
        fields["CorrelId"] = _encode("CorrelationId", text)[:24] if octets is None else octets
        if octets is not None:
            del left["CorrelationId"]
    reply_to = left.get("ReplyTo")
    if reply_to is not None and (target := queue_of(_text("ReplyTo", reply_to))) is not None:
        fields |= {"ReplyToQ": target.queue, "ReplyToQMgr": target.queue_manager}
        if "PutDate" not in fields:  # not a message of MQ's, which has a type of its own
            fields.setdefault("MsgType", MQMT_REQUEST)
        del left["ReplyTo"]
    if (priority := left.pop("Priority", None)) is not None:
        fields["Priority"] = min(max(_number("Priority", priority), 0), 9)
    mode = left.pop("DeliveryMode", None)
    not_persistent = mode is not None and mode.text == NON_PERSISTENT
    fields["Persistence"] = MQPER_NOT_PERSISTENT if not_persistent else MQPER_PERSISTENT
    expiration = left.pop("Expiration", None)
    if now_ms is not None:
        ends_ms = _number("Expiration", expiration) if expiration is not None else 0
        fields["Expiry"] = max(1, (ends_ms - now_ms) // 100) if ends_ms else MQEI_UNLIMITED
    if "PutDate" in fields:
        left.pop("Timestamp", None)


def queue_of(text: str) -> QueueTarget | None:
    """The queue that ``queue`` or ``queue@qmgr`` names; None where MQ has no such names."""
    queue, at, queue_manager = text.partition("@")
    if text.startswith(INBOX):
        return None
    if _QUEUE_NAME.fullmatch(queue) and (not at or _QUEUE_NAME.fullmatch(queue_manager)):
        return QueueTarget(queue, queue_manager)
    return None


def _property(name: str, header: Header) -> Property:
    type = PROPERTY_TYPES.get(header.type, PropertyType.STRING)
    if type is PropertyType.STRING:
        return Property(type, header.text)
    value = _value(name, header)
    Header.of(value, header.type)  # which refuses a number that is out of its type's range
    if type is PropertyType.FLOAT32:
        value = struct.unpack(">f", struct.pack(">f", value))[0]  # the text is shorter than the number
    return Property(type, value)


def _value(name: str, header: Header) -> Any:
    try:
        return header.value
    except ValueError:
        raise EncodeError(f"the header {name} is not a {header.type}: {header.text!r}") from None


def _text(name: str, header: Header) -> str:
    if header.type is not HeaderType.BINARY:  # what a Kafka client writes without saying its type
        return header.text
    try:
        return bytes(_value(name, header)).decode()
    except UnicodeDecodeError:
        raise EncodeError(f"the header {name} is not UTF-8") from None


def _number(name: str, header: Header) -> int:
    text = _text(name, header)
    try:
        return int(text)
    except ValueError:
        raise EncodeError(f"the header {name} is not a number: {text!r}") from None


def _id_text(octets: bytes) -> str:
    """An id as JMS writes it: all 24 bytes, with the zeros that fill them up."""
    return "ID:" + octets.ljust(24, b"\0").hex()


def _id_bytes(text: str) -> bytes | None:
    found = _ID.fullmatch(text)
    return bytes.fromhex(found[1]) if found else None


def _begins_with(property: Property, octets: bytes) -> bool:
    text = property.value
    return isinstance(text, str) and text.encode(errors="replace")[:24].rstrip(b"\0") == octets


def _put_ms(descriptor: Mqmd) -> int | None:
    """Milliseconds since 1970 of PutDate and PutTime; None where they are blank or not a time."""
    digits = descriptor.PutDate + descriptor.PutTime
    if len(digits) != 16 or not digits.isdecimal() or not digits.isascii():
        return None
    try:
        put = datetime.strptime(digits[:14], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        return None
    return int(put.timestamp()) * 1000 + int(digits[14:]) * 10


def _encode(name: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise EncodeError(f"the header {name} is not text that UTF-8 can carry") from None


def _is_utf8(octets: bytes) -> bool:
    try:
        octets.decode()
    except UnicodeDecodeError:
        return False
    return True
