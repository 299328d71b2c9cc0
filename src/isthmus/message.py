"""The waist: what every message becomes, whichever system it came from.

A `Message` is an index over bytes that are kept as they arrived. Its headers are readable text, each with
the type that its value had, so that nothing is lost on the way to a system without types and back.

Header names are those of JMS without its prefix (``MessageId``, ``CorrelationId``, …) for the standard
headers, and the property's own name for all others. A property whose name would be taken for a standard
header, or for something of the journal's own, is called ``property.<name>`` instead.
"""

from __future__ import annotations

import base64
import math
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from isthmus.errors import EncodeError


class HeaderType(StrEnum):
    """The type of a header's value: those of JMS, and those that AMQP 1.0 has beyond them."""

    STRING = "string"
    BOOLEAN = "boolean"
    BYTE = "byte"
    SHORT = "short"
    INT = "int"
    LONG = "long"
    FLOAT = "float"
    DOUBLE = "double"
    BINARY = "binary"
    NULL = "null"
    UBYTE = "ubyte"
    USHORT = "ushort"
    UINT = "uint"
    ULONG = "ulong"
    CHAR = "char"
    TIMESTAMP = "timestamp"
    UUID = "uuid"
    SYMBOL = "symbol"
    DECIMAL32 = "decimal32"
    DECIMAL64 = "decimal64"
    DECIMAL128 = "decimal128"

    __hash__ = str.__hash__  # Enum's own is ten times slower


INTEGER_RANGES = {
    HeaderType.BYTE: (-(2**7), 2**7 - 1),
    HeaderType.SHORT: (-(2**15), 2**15 - 1),
    HeaderType.INT: (-(2**31), 2**31 - 1),
    HeaderType.LONG: (-(2**63), 2**63 - 1),
    HeaderType.UBYTE: (0, 2**8 - 1),
    HeaderType.USHORT: (0, 2**16 - 1),
    HeaderType.UINT: (0, 2**32 - 1),
    HeaderType.ULONG: (0, 2**64 - 1),
    HeaderType.TIMESTAMP: (-(2**63), 2**63 - 1),  # milliseconds since 1970 in UTC
}

_DECIMAL_BYTES = {HeaderType.DECIMAL32: 4, HeaderType.DECIMAL64: 8, HeaderType.DECIMAL128: 16}
_UUID = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")

OPAQUE_TYPES = frozenset(
    {
        HeaderType.BOOLEAN,
        HeaderType.BINARY,
        HeaderType.NULL,
        HeaderType.DECIMAL32,
        HeaderType.DECIMAL64,
        HeaderType.DECIMAL128,
    }
)
"""The types whose values are neither text nor a number that can be read: none can be a key."""

HeaderValue = bool | int | float | str | bytes | None


class Header(NamedTuple):
    """A header's value as text, with the type that it stands for."""

    text: str
    type: HeaderType = HeaderType.STRING

    @classmethod
    def of(cls, value: HeaderValue, type: HeaderType | None = None) -> Header:
        """The header for a Python value; the type is the natural one unless it is given.

        Raises `EncodeError` when the value is not of that type or out of its range.
        """
        if type is None:
            type = _natural_type(value)
        match type, value:
            case HeaderType.NULL, None:
                text = ""
            case HeaderType.BOOLEAN, bool():
                text = "true" if value else "false"
            case ((HeaderType.FLOAT | HeaderType.DOUBLE), float() | int()) if not isinstance(value, bool):
                text = _float_text(value, single=type is HeaderType.FLOAT)
            case _, int() if type in INTEGER_RANGES and not isinstance(value, bool):
                low, high = INTEGER_RANGES[type]
                if not low <= value <= high:
                    raise EncodeError(f"{value} is out of range for {type}: {low} to {high}")
                text = str(value)
            case HeaderType.BINARY, bytes():
                text = base64.b64encode(value).decode()
            case _, bytes() if len(value) == _DECIMAL_BYTES.get(type):
                text = base64.b64encode(value).decode()
            case ((HeaderType.STRING | HeaderType.SYMBOL), str()):
                text = value
            case HeaderType.CHAR, str() if len(value) == 1:
                text = value
            case HeaderType.UUID, str() if _UUID.fullmatch(value):
                text = value
            case _:
                raise EncodeError(f"this {value.__class__.__name__} is not a value of type {type}")
        return cls(text, type)

    @property
    def value(self) -> HeaderValue:
        """The Python value that the text stands for."""
        if self.type in INTEGER_RANGES:
            return int(self.text)
        match self.type:
            case HeaderType.BOOLEAN:
                return self.text == "true"
            case HeaderType.FLOAT | HeaderType.DOUBLE:
                return float(self.text)
            case HeaderType.BINARY | HeaderType.DECIMAL32 | HeaderType.DECIMAL64 | HeaderType.DECIMAL128:
                return base64.b64decode(self.text)
            case HeaderType.NULL:
                return None
            case _:
                return self.text


def _natural_type(value: HeaderValue) -> HeaderType:
    match value:
        case None:
            return HeaderType.NULL
        case bool():
            return HeaderType.BOOLEAN
        case int():
            return HeaderType.INT if -(2**31) <= value < 2**31 else HeaderType.LONG
        case float():
            return HeaderType.DOUBLE
        case bytes():
            return HeaderType.BINARY
        case _:
            return HeaderType.STRING


_LARGEST_FLOAT = (2 - 2**-23) * 2.0**127


def _float_text(number: float, *, single: bool) -> str:
    """The shortest text that reads back as the same number; infinities and NaN as Java spells them."""
    try:
        value = float(number)
        packed = struct.pack(">f" if single else ">d", value)
    except OverflowError:
        raise EncodeError(f"out of range for {'float' if single else 'double'}") from None
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if not single:
        return repr(value)
    nearest: float = struct.unpack(">f", packed)[0]
    for digits in range(6, 10):
        shorter = float(f"{nearest:.{digits}g}")
        if abs(shorter) <= _LARGEST_FLOAT and struct.pack(">f", shorter) == packed:
            return repr(shorter)
    return repr(nearest)


class BodyKind(StrEnum):
    """What a message's body is, in the words of JMS."""

    TEXT = "text"
    BYTES = "bytes"
    MAP = "map"
    STREAM = "stream"
    OBJECT = "object"
    EMPTY = "empty"
    """No body at all: a plain ``jakarta.jms.Message``, a Kafka tombstone."""
    OTHER = "other"
    """A value that JMS has no message type for, such as a bare AMQP number."""

    __hash__ = str.__hash__


class Span(NamedTuple):
    """A stretch of bytes."""

    offset: int
    length: int


class Body(NamedTuple):
    """What the body is, and where it lies in the message's bytes: no spans stand for all of them."""

    kind: BodyKind
    spans: tuple[Span, ...] = ()

    def slice(self, value: bytes | None) -> bytes | None:
        """The body's bytes out of the whole message's; None for an empty body."""
        if value is None or self.kind is BodyKind.EMPTY:
            return None
        if not self.spans:
            return value
        return b"".join(value[offset : offset + length] for offset, length in self.spans)


STANDARD_HEADERS = {
    "MessageId": "JMSMessageID",
    "CorrelationId": "JMSCorrelationID",
    "Destination": "JMSDestination",
    "ReplyTo": "JMSReplyTo",
    "DeliveryMode": "JMSDeliveryMode",
    "DeliveryTime": "JMSDeliveryTime",
    "Expiration": "JMSExpiration",
    "Priority": "JMSPriority",
    "Redelivered": "JMSRedelivered",
    "Timestamp": "JMSTimestamp",
    "Type": "JMSType",
}
"""The standard headers: our name for each, and the name that JMS gives it."""

STANDARD_TYPES = {
    "DeliveryTime": HeaderType.LONG,
    "Expiration": HeaderType.LONG,
    "Priority": HeaderType.INT,
    "Redelivered": HeaderType.BOOLEAN,
    "Timestamp": HeaderType.LONG,
}
"""The standard headers that are not strings."""

_CANONICAL = {
    alias: name
    for name, jms_name in STANDARD_HEADERS.items()
    for alias in (name, jms_name, jms_name.removeprefix("JMS"))
}

TRACE_CONTEXT = ("traceparent", "tracestate")
"""The headers that say which trace a message belongs to (W3C Trace Context): the same names everywhere."""

SAMPLED_TRACE = "[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f][13579bdf]"
"""A ``traceparent`` whose flag *sampled* is set. Python and Java read this pattern alike."""

NON_PERSISTENT = "NON_PERSISTENT"
"""The text of ``DeliveryMode`` for a message that is not durable, as JMS selectors spell it."""


def canonical_header_name(name: str) -> str:
    """The one name of a header that users may also call by its JMS name: JMSCorrelationID → CorrelationId."""
    return _CANONICAL.get(name, name)


def property_header_name(name: str) -> str:
    """The header name that carries an application's property: its own, unless that means something else."""
    taken = name in _CANONICAL or name.lower() == "types" or name.startswith("property.")
    return f"property.{name}" if taken else name


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message: the bytes that arrived, and an index over them."""

    id: str
    """The sender's id of the message; the edge makes one where the protocol has none."""
    address: str
    """Where it was sent: a queue, topic, subject or link target, without a scheme."""
    protocol: str
    """What it came over: ``amqp``, ``nats``, ``mq``, ``kafka`` or ``isthmus`` (the command line)."""
    value: bytes | None
    """The message as it arrived, byte for byte; None for a tombstone."""
    body: Body
    headers: Mapping[str, Header] = field(default_factory=dict)
    session: str = ""
    """Who produced it. The messages of one session keep their order."""

    @property
    def durable(self) -> bool:
        """Whether the sender asked for it to survive a crash. JMS messages do unless they say otherwise."""
        mode = self.headers.get("DeliveryMode")
        return mode is None or mode.text != NON_PERSISTENT
