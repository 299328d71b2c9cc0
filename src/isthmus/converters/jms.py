"""The ``jms`` form: the body as it is, every header as ``jms.<name>``, typed by ``jms.types``.

From AMQP, text and bytes go on unchanged; a message without a body becomes a record without a value. Map,
stream and object messages have no form here, and an object is never deserialised.

From Kafka, the ``jms.*`` headers become headers and properties again, with their types. ``jms.Destination``
outranks the receiver's address: so a Kafka client answers a request. Any other header has no type that we
know, and is a property of bytes. A value is a text message if it is UTF-8, and a bytes message if not; no
value is a message without a body. Where the record lies is there twice: in the bridge's annotations, and for
JMS, which shows no annotations, in the properties ``kafka_topic``, ``kafka_partition``, ``kafka_offset`` and
``kafka_key``.
"""

from __future__ import annotations

from typing import Final

from isthmus.codecs.amqp import AmqpMessage
from isthmus.codecs.jms import to_amqp, to_message
from isthmus.codecs.jms.names import TAKEN
from isthmus.converters.annotations import KEY, OFFSET, PARTITION, TOPIC, chosen, place_of
from isthmus.converters.canonical import canonical, encoded
from isthmus.converters.contract import KafkaRecord, ReceivedRecord
from isthmus.errors import ConversionFailure
from isthmus.journal import layout
from isthmus.message import Body, BodyKind, Header, property_header_name

CONVERTIBLE = (BodyKind.TEXT, BodyKind.BYTES, BodyKind.EMPTY)

_PLACE_PROPERTIES: Final = {
    "kafka_topic": TOPIC,
    "kafka_partition": PARTITION,
    "kafka_offset": OFFSET,
    "kafka_key": KEY,
}

_NOWHERE: Final = "?"


def kafka_value(body: Body, value: bytes | None) -> bytes | None:
    """The Kafka value of a message. Raises `ConversionFailure` for a body that is neither text nor bytes."""
    if body.kind not in CONVERTIBLE:
        raise ConversionFailure(f"a {body.kind} message has no jms form")
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
    message = without_place(address, record)
    place = place_of(record)
    properties = {name: place[annotation] for name, annotation in _PLACE_PROPERTIES.items()}
    return message.replace(
        message_annotations={**(message.message_annotations or {}), **place},
        application_properties={**(message.application_properties or {}), **properties},
    )


def without_place(address: str, record: ReceivedRecord) -> AmqpMessage:
    """The message of a record that says nothing of where the record lies."""
    foreign = {
        _property_name(name): Header.of(value)
        for name, value in record.headers
        if not name.startswith(layout.HEADER_PREFIX) and not layout.is_reserved(name)
    }
    headers = foreign | layout.decode_headers(record.headers)
    return to_amqp(headers, _kind(record.value), record.value, address=address)


def _property_name(name: str) -> str:
    return f"property.{name}" if name in TAKEN else property_header_name(name)


def _kind(value: bytes | None) -> BodyKind:
    if value is None:
        return BodyKind.EMPTY
    try:
        value.decode()
    except UnicodeDecodeError:
        return BodyKind.BYTES
    return BodyKind.TEXT
