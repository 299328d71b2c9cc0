"""The ``jms`` form: the body as it is, every header as ``jms.<name>``, typed by ``jms.types``.

From AMQP, text and bytes go on unchanged; a message without a body becomes a record without a value. Map,
stream and object messages have no form here, and an object is never deserialised.

From Kafka, the ``jms.*`` headers become headers and properties again, with their types. ``jms.Destination``
outranks the receiver's address: so a Kafka client answers a request. ``traceparent`` and ``tracestate``,
which have no prefix either way, are text. Any other header has no type that we know, and is a property of
bytes. A value is a bytes message if ``jms.x-opt-jms-msg-type`` says so, or it is not UTF-8, and a text
message otherwise; no value is a message without a body, or a text message of null if that header is ``text``.
Where the record lies is there twice: in the bridge's annotations, and for JMS, which shows no annotations, in
the properties ``JMS_kafka_topic``, ``JMS_kafka_partition``, ``JMS_kafka_offset`` and ``JMS_kafka_key``.

A JMS destination takes every message. What has no form here is there as its encoded AMQP message, and
`ENCODED` says so. To receivers the two are one. Routes call that form `DESTINATION`.
"""

from __future__ import annotations

from typing import Any, Final

from isthmus.codecs.amqp import AmqpMessage
from isthmus.codecs.jms import to_message
from isthmus.codecs.jms.names import MESSAGE_TYPE
from isthmus.codecs.jms.outgoing import Standard, assemble, is_standard, put_standard, value_of
from isthmus.converters import registry
from isthmus.converters.annotations import KEY, OFFSET, PARTITION, TOPIC, chosen, place_of, received
from isthmus.converters.canonical import canonical, encoded
from isthmus.converters.contract import KafkaRecord, ReceivedRecord
from isthmus.errors import ConversionFailure
from isthmus.journal import layout
from isthmus.journal.layout import KafkaHeader
from isthmus.message import Body, BodyKind, HeaderType, canonical_header_name

_ENCODED_MESSAGE: Final = "amqp"
DESTINATION: Final = registry.DESTINATION
CONVERTIBLE = (BodyKind.TEXT, BodyKind.BYTES, BodyKind.EMPTY)
ENCODED: Final[KafkaHeader] = (layout.HEADER_PREFIX + MESSAGE_TYPE, _ENCODED_MESSAGE.encode())
"""Says that a record's value is an encoded AMQP message."""

_NOWHERE: Final = "?"
_BYTES_MESSAGE: Final = str(BodyKind.BYTES)
_TEXT_MESSAGE: Final = str(BodyKind.TEXT)


def kafka_value(body: Body, value: bytes | None) -> bytes | None:
    """The Kafka value of a message. Raises `ConversionFailure` for a body that is neither text nor bytes."""
    if body.kind not in CONVERTIBLE:
        raise ConversionFailure(f"a message of the kind {body.kind} has no jms form")
    return body.slice(value)


def to_kafka_record(message: AmqpMessage) -> KafkaRecord:
    """The record of a text or bytes message, or of one without a body."""
    message = canonical(message)
    partition, key = chosen(message.message_annotations)
    as_jms = to_message(encoded(message), target=_NOWHERE)
    headers = dict(as_jms.headers)
    if message.properties is None or not message.properties.to:
        del headers["Destination"]  # which the link would have known
    value = kafka_value(as_jms.body, as_jms.value)
    return KafkaRecord(partition, key, value, layout.encode_headers(headers))


def to_amqp_message(address: str, record: ReceivedRecord) -> AmqpMessage:
    """The message of a record. Raises `EncodeError` for a header that does not hold what its type says."""
    place = place_of(record)
    told = {
        "JMS_kafka_topic": place[TOPIC],
        "JMS_kafka_partition": place[PARTITION],
        "JMS_kafka_offset": place[OFFSET],
        "JMS_kafka_key": place[KEY],
    }
    return _message(address, record, place, told)


def without_place(address: str, record: ReceivedRecord) -> AmqpMessage:
    """The message of a record that says nothing of where the record lies."""
    return _message(address, record, {}, {})


def _message(
    address: str, record: ReceivedRecord, annotations: dict[str, Any], told: dict[str, Any]
) -> AmqpMessage:
    types = layout.types_of(record.headers)
    standard: Standard = {}
    properties: dict[str, Any] = {}
    foreign: dict[str, Any] = {}
    for kafka_name, octets in record.headers:
        meaning, name, own = _known_names.get(kafka_name) or _learn(kafka_name)
        if meaning == _FOREIGN:
            foreign[name] = octets
        elif meaning == _PROPERTY:
            type = types.get(own, _STRING)
            if type is _STRING:
                properties[name] = _text(octets)
            else:
                properties[name] = value_of(own, layout.header_of(octets or b"", type))
        elif meaning == _STANDARD:
            type = types.get(own, _STRING)
            if type is _BINARY or type is _NULL:
                put_standard(standard, name, layout.header_of(octets or b"", type))
            else:
                standard[name] = _text(octets)
    if foreign:
        properties = {**foreign, **properties}
    properties.update(told)
    value = record.value
    if standard.get(MESSAGE_TYPE) == _ENCODED_MESSAGE:
        return received(AmqpMessage.decode(value or b""), address, record)
    kind = _kind(value, standard.get(MESSAGE_TYPE))
    return assemble(standard, properties, annotations, kind, value, address=address)


def _text(octets: bytes | None) -> str | bytes:
    """What a header says that is text, if it is; `layout.header_of` without the header."""
    if octets is None:
        return ""
    try:
        return octets.decode()
    except UnicodeDecodeError:
        return octets


_STRING: Final = HeaderType.STRING
_BINARY: Final = HeaderType.BINARY
_NULL: Final = HeaderType.NULL
_FOREIGN: Final = 0
_PROPERTY: Final = 1
_STANDARD: Final = 2
_OUR_OWN: Final = 3

_NAMES_KEPT: Final = 4096
_NAME_KEPT_LENGTH: Final = 64
_known_names: Final[dict[str, tuple[int, str, str]]] = {}
"""What Kafka's names of headers mean: the same few come with every record."""


def _learn(kafka_name: str) -> tuple[int, str, str]:
    """What a Kafka header is to a message, what it is called as such, and its name without the prefix."""
    own = kafka_name.removeprefix(layout.HEADER_PREFIX)
    if layout.is_reserved(kafka_name):
        learnt = _OUR_OWN, own, own
    elif not layout.is_own(kafka_name):
        learnt = _FOREIGN, own, own
    elif is_standard(own):
        learnt = _STANDARD, canonical_header_name(own), own
    else:
        learnt = _PROPERTY, own.removeprefix("property."), own
    if len(_known_names) < _NAMES_KEPT and len(kafka_name) <= _NAME_KEPT_LENGTH:
        _known_names[kafka_name] = learnt
    return learnt


def _kind(value: bytes | None, said: str | bytes | None) -> BodyKind:
    if value is None:
        return BodyKind.TEXT if said == _TEXT_MESSAGE else BodyKind.EMPTY
    if said == _BYTES_MESSAGE:
        return BodyKind.BYTES
    try:
        value.decode()
    except UnicodeDecodeError:
        return BodyKind.BYTES
    return BodyKind.TEXT
