"""From a journal entry to the value of a Kafka record, by what the journal's headers say and nothing else.

This is the reference of `isthmus.converters.columns`. For an entry as intake writes it the value is, byte for
byte, the one that the converter of that name makes of the message; see `conversion_headers`.
"""

from __future__ import annotations

from isthmus.codecs.amqp import AmqpMessage
from isthmus.codecs.jms import to_amqp
from isthmus.converters import jms
from isthmus.converters.contract import NoBody
from isthmus.converters.json_writing import quote, quote_bytes
from isthmus.converters.registry import BODY_FORMS
from isthmus.errors import ConversionFailure
from isthmus.journal.layout import JSON_DOCUMENT, JSON_VALUE, Entry
from isthmus.message import BodyKind, Message

BASE64_FOLLOWS = (
    b'"data","section":',
    b'"/body/section":"binary"},"body":{"type":"amqpValue","section":',
)
"""What the head of a document ends in when the body is bytes."""


def as_amqp(message: Message) -> AmqpMessage:
    """The message as AMQP has it: its own bytes, or made of its headers and body if it came otherwise."""
    if message.protocol == "amqp" and message.value is not None:
        return AmqpMessage.decode(message.value)
    content = message.body.slice(message.value)
    return to_amqp(message.headers, message.body.kind, content, address=message.address)


WITHOUT_BODY = "the message has no body"


def kafka_value(convert: str, entry: Entry, no_body: NoBody = NoBody.NULL) -> bytes | None:
    """The value that a built-in converter publishes. Raises `ConversionFailure` when there is none."""
    value = _value(convert, entry)
    if value is not None or convert not in BODY_FORMS or no_body is NoBody.NULL:
        return value
    if no_body is NoBody.FAIL:
        raise ConversionFailure(WITHOUT_BODY)
    return b""


def _value(convert: str, entry: Entry) -> bytes | None:
    message = entry.message
    match convert:
        case "jms":
            return jms.kafka_value(message.body, message.value)
        case jms.DESTINATION if message.protocol != "amqp" or message.body.kind in jms.CONVERTIBLE:
            return jms.kafka_value(message.body, message.value)
        case jms.DESTINATION:
            return message.value
        case "raw":
            if message.protocol != "amqp":
                raise ConversionFailure("only a message that came over AMQP has a raw form")
            return message.value
        case "default":
            return _body(entry)
        case _:
            return _document(entry)


def _body(entry: Entry) -> bytes | None:
    message, structured = entry.message, dict(entry.conversion).get(JSON_VALUE)
    if structured is not None:
        return structured
    if message.body.kind in (BodyKind.MAP, BodyKind.STREAM, BodyKind.OTHER):
        raise ConversionFailure(f"the journal has no JSON for this {message.body.kind} message")
    return message.body.slice(message.value)


def _document(entry: Entry) -> bytes:
    head = dict(entry.conversion).get(JSON_DOCUMENT)
    if head is None:
        raise ConversionFailure("the message was journaled before any route asked for json")
    if head.endswith(b"}"):
        return head
    return head + _section(entry, head) + b"}}"


def _section(entry: Entry, head: bytes) -> bytes:
    body = _body(entry)
    if JSON_VALUE in dict(entry.conversion):
        return body or b""
    if body is None:
        return b"null"
    if head.endswith(BASE64_FOLLOWS):
        return quote_bytes(body).encode()
    try:
        return quote(body.decode()).encode()
    except UnicodeDecodeError:
        raise ConversionFailure("the text is not UTF-8") from None
