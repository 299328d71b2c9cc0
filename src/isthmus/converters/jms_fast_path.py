"""From a record in the ``jms`` form straight to the bytes of its AMQP message. Compiled with mypyc where
there is a C compiler.

The usual path is `isthmus.converters.jms.to_amqp_message`, whose message is then encoded. This one is for
what nearly every record is, in less than half of the time: text or bytes, ids that are strings, the usual
standard headers with their usual values. What comes out is the same message, byte for byte; for anything else
None.

What the headers of a record mean depends on their names and on their types, and most records of a topic have
the same ones: so that is found out once, and kept as a `_Plan`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from isthmus.codecs.amqp import encode_value
from isthmus.codecs.amqp.writer import fill
from isthmus.codecs.jms.kinds import IMPLIED_CONTENT_TYPES, MESSAGE_TYPES
from isthmus.codecs.jms.names import (
    CONTENT_TYPE,
    DESTINATION_TYPE,
    DESTINATION_TYPES,
    MESSAGE_TYPE,
    REPLY_TO_TYPE,
)
from isthmus.codecs.jms.outgoing import is_standard, value_of
from isthmus.converters.annotations import KEY, OFFSET, PARTITION, TOPIC
from isthmus.journal import layout
from isthmus.journal.layout import CLIENT, HEADER_PREFIX, TYPES, KafkaHeaders
from isthmus.message import BodyKind, HeaderType, canonical_header_name

if TYPE_CHECKING:
    from mypy_extensions import i64  # a machine word in the compiled form; never imported

_KEPT: Final = 1024
_KEPT_BYTES: Final = 2048
"""How many plans are kept, and for names of how many bytes."""

_RARE: Final = 0
_SKIPPED: Final = 1
_USUAL: Final = 2
"""A header that has the value which nearly every message has."""
_MODE: Final = 3
_ID: Final = 4
_FIELD: Final = 5
_TIMESTAMP: Final = 6
_TYPE_OF_BODY: Final = 7
_ANNOTATION: Final = 8
_CONTENT: Final = 9
_TEXT: Final = 10
_LONG: Final = 11
_INT: Final = 12
_VALUE: Final = 13

_FIELDS: Final = {
    "MessageId": 0,
    "Destination": 2,
    "Type": 3,
    "ReplyTo": 4,
    "CorrelationId": 5,
    "JMSXGroupID": 10,
}
_CONTENT_FIELD: Final = 6
_CREATION_FIELD: Final = 9
_USUAL_VALUES: Final = {
    "Priority": b"4",
    "Redelivered": b"false",
    "JMSXDeliveryCount": b"1",
    "Expiration": b"0",
}
_OURS: Final = frozenset({"JMS_kafka_topic", "JMS_kafka_partition", "JMS_kafka_offset", "JMS_kafka_key"})

_DURABLE: Final = b"\x00\x53\x70\xc0\x02\x01\x41"
_MARKED_ID: Final = b"ID:AMQP_"
_NULL: Final = b"\x40"
_IMPLIED: Final = IMPLIED_CONTENT_TYPES[BodyKind.BYTES].encode()
_DESTINATIONS: Final = {text.encode(): b"\x51" + bytes([n]) for n, text in enumerate(DESTINATION_TYPES)}
_BYTES_MESSAGE: Final = str(BodyKind.BYTES).encode()


def _symbol(text: str) -> bytes:
    return b"\xa3" + bytes([len(text)]) + text.encode()


def _name(text: str) -> bytes:
    return encode_value(text)


_REPLY_TYPE: Final = _symbol(REPLY_TO_TYPE)
_DESTINATION_TYPE: Final = _symbol(DESTINATION_TYPE)
_TEXT_MESSAGE: Final = _symbol(MESSAGE_TYPE) + b"\x51" + bytes([MESSAGE_TYPES[BodyKind.TEXT]])
_BINARY_MESSAGE: Final = _symbol(MESSAGE_TYPE) + b"\x51" + bytes([MESSAGE_TYPES[BodyKind.BYTES]])
_OFFSET: Final = _symbol(OFFSET)
_KEY: Final = _symbol(KEY)
_KAFKA_OFFSET: Final = _name("JMS_kafka_offset")
_KAFKA_KEY: Final = _name("JMS_kafka_key")


class _Step:
    """What becomes of one header."""

    def __init__(
        self, kind: int, own: str = "", name: bytes = b"", usual: bytes = b"", field: int = 0
    ) -> None:
        self.kind: i64 = kind
        self.own = own
        self.name = name
        self.usual = usual
        self.field: i64 = field
        self.type = HeaderType.STRING


class _Plan:
    """What becomes of the headers of a record, by their names and types."""

    def __init__(self, names: tuple[str, ...], types: bytes) -> None:
        known = layout.types_of([(TYPES, types)])
        self.steps = [_step(name, known.get(_own(name), HeaderType.STRING)) for name in names]
        kinds = {step.kind for step in self.steps}
        meant = [canonical_header_name(_own(name)) for name in names]
        self.rare = _RARE in kinds or len(set(meant)) < len(meant)


class _Place:
    """What a message says of where its record lies, but for the offset and the key."""

    def __init__(self, topic: str, partition: int) -> None:
        number = b"\x54" + bytes([partition]) if partition < 128 else b"\x71" + partition.to_bytes(4)
        self.partition = _symbol(PARTITION) + number
        self.topic = _symbol(TOPIC) + encode_value(topic)
        self.properties = (
            _name("JMS_kafka_topic") + encode_value(topic) + _name("JMS_kafka_partition") + number
        )


_plans: Final[dict[tuple[tuple[str, ...], bytes], _Plan]] = {}
_places: Final[dict[tuple[str, int], _Place]] = {}


def _own(name: str) -> str:
    return name.removeprefix(HEADER_PREFIX)


def _step(name: str, type: HeaderType) -> _Step:
    own = _own(name)
    if layout.is_reserved(name):
        return _Step(_SKIPPED)
    if not layout.is_own(name):
        return _Step(_RARE)
    if is_standard(own):
        return _standard(canonical_header_name(own), type)
    property = own.removeprefix("property.")
    if property in _OURS or property == CLIENT:
        return _Step(_RARE)
    kinds = {HeaderType.STRING: _TEXT, HeaderType.LONG: _LONG, HeaderType.INT: _INT}
    step = _Step(kinds.get(type, _VALUE), own, _name(property))
    step.type = type
    return step


def _standard(name: str, type: HeaderType) -> _Step:
    if type is HeaderType.BINARY or type is HeaderType.NULL:
        return _Step(_RARE)
    if name in _USUAL_VALUES:
        return _Step(_USUAL, usual=_USUAL_VALUES[name])
    if name in _FIELDS:
        return _Step(_ID if name in ("MessageId", "CorrelationId") else _FIELD, field=_FIELDS[name])
    kinds = {
        "DeliveryMode": _MODE,
        "Timestamp": _TIMESTAMP,
        MESSAGE_TYPE: _TYPE_OF_BODY,
        DESTINATION_TYPE: _ANNOTATION,
        REPLY_TO_TYPE: _ANNOTATION,
        CONTENT_TYPE: _CONTENT,
    }
    return _Step(kinds.get(name, _RARE), field=int(name == REPLY_TO_TYPE))


def encode_plain(
    address: bytes,
    topic: str,
    partition: int,
    offset: int,
    key: bytes | None,
    value: bytes | None,
    headers: KafkaHeaders,
) -> bytes | None:
    """The bytes of the message of a record, or None if the usual path has to see to it.

    ``address`` is where the receiver receives from, in UTF-8.
    """
    if value is None or partition < 0 or offset < 0:
        return None
    types = b""
    names: list[str] = []
    for name, octets in headers:
        names.append(name)
        if name == TYPES:
            types = octets or b""
    plan = _plan(tuple(names), types)
    if plan.rare:
        return None

    durable, is_bytes = True, False
    to_field = reply_type = destination_type = content_type = b""
    fields: list[bytes] = [_NULL] * 13
    last: i64 = -1
    properties: list[bytes] = [b"\x00\x53\x74", b""]
    size: i64 = 0
    count: i64 = 0
    place: i64 = 0
    for _, octets in headers:
        step = plan.steps[place]
        place += 1
        kind = step.kind
        if kind == _SKIPPED:
            continue
        if octets is None:
            return None
        if kind == _TEXT:
            if not _is_text(octets):
                return None
            encoded = _text(octets)
            properties.append(step.name)
            properties.append(encoded)
            size += len(step.name) + len(encoded)
            count += 1
        elif kind == _USUAL:
            if octets != step.usual:
                return None
        elif kind in (_ID, _FIELD):
            if not _is_text(octets) or (kind == _ID and octets.startswith(_MARKED_ID)):
                return None
            if step.field == 2:
                to_field = octets
            else:
                fields[step.field] = _text(octets)
                last = max(last, step.field)
        elif kind in (_LONG, _INT):
            encoded = _number(octets, kind == _LONG)
            if not encoded:
                return None
            properties.append(step.name)
            properties.append(encoded)
            size += len(step.name) + len(encoded)
            count += 1
        elif kind == _MODE:
            if octets == b"NON_PERSISTENT":
                durable = False
            elif octets != b"PERSISTENT":
                return None
        elif kind == _TIMESTAMP:
            if not octets.isdigit() or len(octets) > 18:
                return None
            number = int(octets)
            if number:
                fields[_CREATION_FIELD] = b"\x83" + number.to_bytes(8)
                last = max(last, _CREATION_FIELD)
        elif kind == _TYPE_OF_BODY:
            if octets != _BYTES_MESSAGE:
                return None
            is_bytes = True
        elif kind == _ANNOTATION:
            found = _DESTINATIONS.get(octets)
            if found is None:
                return None
            if step.field:
                reply_type = _REPLY_TYPE + found
            else:
                destination_type = _DESTINATION_TYPE + found
        elif kind == _CONTENT:
            if not octets.isascii() or len(octets) > 255:
                return None
            content_type = octets
        else:
            try:
                encoded = encode_value(value_of(step.own, layout.header_of(octets, step.type)))
            except Exception:  # whatever is wrong with it, the usual path finds out
                return None
            properties.append(step.name)
            properties.append(encoded)
            size += len(step.name) + len(encoded)
            count += 1

    if not is_bytes and not _is_text(value):
        is_bytes = True
    if is_bytes and not content_type:
        content_type = _IMPLIED
    if content_type:
        fields[_CONTENT_FIELD] = b"\xa3" + len(content_type).to_bytes() + content_type
        last = max(last, _CONTENT_FIELD)
    to = to_field or address
    fields[2] = _text(to)
    last = max(last, 2)
    key_text = _NULL
    if key is not None:
        if not _is_text(key):
            return None
        key_text = _text(key)
    where = _place(topic, partition)
    number_of_offset = b"\x55" + offset.to_bytes() if offset < 128 else b"\x81" + offset.to_bytes(8)

    parts: list[bytes] = [_DURABLE] if durable else []
    kind_of_message = _BINARY_MESSAGE if is_bytes else _TEXT_MESSAGE
    annotations = (
        reply_type
        + destination_type
        + kind_of_message
        + where.partition
        + _OFFSET
        + number_of_offset
        + _KEY
        + key_text
        + where.topic
    )
    parts.append(b"\x00\x53\x72")
    slot: i64 = len(parts)
    parts.append(b"")
    parts.append(annotations)
    fill(parts, slot, 0xC1, len(annotations), 10 + 2 * bool(reply_type) + 2 * bool(destination_type))

    parts.append(b"\x00\x53\x73")
    slot = len(parts)
    parts.append(b"")
    field_bytes = b"".join(fields[: last + 1])
    parts.append(field_bytes)
    fill(parts, slot, 0xC0, len(field_bytes), last + 1)

    told = where.properties + _KAFKA_OFFSET + number_of_offset + _KAFKA_KEY + key_text
    properties.append(told)
    fill(properties, 1, 0xC1, size + len(told), 2 * (count + 4))
    parts += properties
    if is_bytes:
        parts.append(b"\x00\x53\x75")
        parts.append(
            b"\xa0" + len(value).to_bytes() if len(value) < 256 else b"\xb0" + len(value).to_bytes(4)
        )
    else:
        parts.append(b"\x00\x53\x77")
        parts.append(
            b"\xa1" + len(value).to_bytes() if len(value) < 256 else b"\xb1" + len(value).to_bytes(4)
        )
    parts.append(value)
    return b"".join(parts)


def _plan(names: tuple[str, ...], types: bytes) -> _Plan:
    key = (names, types)
    plan = _plans.get(key)
    if plan is None:
        plan = _Plan(names, types)
        if len(_plans) < _KEPT and sum(map(len, names)) + len(types) <= _KEPT_BYTES:
            _plans[key] = plan
    return plan


def _place(topic: str, partition: int) -> _Place:
    key = (topic, partition)
    place = _places.get(key)
    if place is None:
        if len(_places) >= _KEPT:
            _places.clear()
        place = _places[key] = _Place(topic, partition)
    return place


def _is_text(octets: bytes) -> bool:
    if octets.isascii():
        return True
    try:
        octets.decode()
    except UnicodeDecodeError:
        return False
    return True


def _text(octets: bytes) -> bytes:
    """A string of these bytes."""
    if len(octets) < 256:
        return b"\xa1" + len(octets).to_bytes() + octets
    return b"\xb1" + len(octets).to_bytes(4) + octets


def _number(octets: bytes, is_long: bool) -> bytes:
    """An integer of this text; nothing for one that is not usual."""
    digits = octets[1:] if octets.startswith(b"-") else octets
    if not digits.isdigit() or len(digits) > (18 if is_long else 9):
        return b""
    number = int(octets)
    if -128 <= number < 128:
        return (b"\x55" if is_long else b"\x54") + number.to_bytes(1, signed=True)
    return b"\x81" + number.to_bytes(8, signed=True) if is_long else b"\x71" + number.to_bytes(4, signed=True)
