"""Through Kafka and back: a message keeps what its converter promises, and a bad record is a soft failure."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from base64 import b64encode
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.fuzz.amqp import mutations
from tests.support import strategies as messages_of_any_protocol
from tests.support.amqp import strategies as amqp

from isthmus import AmqpMessage, AmqpValue, Data, MessageProperties, ReceivedRecord, converters
from isthmus.codecs.amqp import Int, Symbol
from isthmus.codecs.jms import to_amqp, to_message
from isthmus.converters.conversion_headers import conversion_headers
from isthmus.converters.json_writing import quote
from isthmus.errors import SoftFailure
from isthmus.message import BodyKind, Message

ROUND_TRIPS = 2000

# Half of a message, or all of it: whole ones take hypothesis twice as long to make.
messages = st.one_of(
    st.builds(
        AmqpMessage,
        message_annotations=amqp.annotations(amqp.values),
        properties=st.none() | amqp.properties,
        body=amqp.bodies(amqp.simple_values),
    ),
    st.builds(
        AmqpMessage,
        header=st.none() | amqp.headers,
        application_properties=amqp.application_properties,
        body=amqp.bodies(amqp.values),
        footer=amqp.annotations(amqp.simple_values),
    ),
    amqp.messages,
)


def received(value: bytes | None, headers: Any = (), key: bytes | None = b"k") -> ReceivedRecord:
    return ReceivedRecord("orders", 3, 2**40, key, value, headers)


def as_received(message: AmqpMessage) -> AmqpMessage:
    """The message with what every converter sets on the way back."""
    place = {
        Symbol("x-opt-bridge.partition"): Int(3),
        Symbol("x-opt-bridge.offset"): 2**40,
        Symbol("x-opt-bridge.key"): "k",
        Symbol("x-opt-bridge.topic"): "orders",
    }
    properties = message.properties or MessageProperties()
    return message.replace(
        properties=properties if properties.to is not None else replace(properties, to="there"),
        message_annotations={**(message.message_annotations or {}), **place},
    )


@settings(max_examples=ROUND_TRIPS)
@given(messages)
def test_raw_and_json_bring_back_what_they_promise(message: AmqpMessage) -> None:
    raw = converters.raw.to_kafka_record(message)
    assert raw.value == message.encode()
    assert converters.raw.to_amqp_message("there", received(raw.value)) == as_received(message)

    document = converters.json.to_kafka_record(message)
    kept = message.replace(header=None, delivery_annotations=None, footer=None)
    if isinstance(kept.body, Data):
        kept = kept.replace(body=Data((kept.body.content,)))
    assert converters.json.to_amqp_message("there", received(document.value)) == as_received(kept)


@settings(max_examples=200)
@given(messages)
def test_a_message_converts_alike_before_and_after_it_was_sent(message: AmqpMessage) -> None:
    sent = AmqpMessage.decode(message.encode())
    for form in (converters.default, converters.json, converters.raw):
        assert form.to_kafka_record(message) == form.to_kafka_record(sent)


@settings(max_examples=200)
@given(amqp.bodies(amqp.values))
def test_the_default_value_of_a_structured_body_is_the_section_of_its_document(body: Any) -> None:
    message = AmqpMessage(body=body)
    value = converters.default.to_kafka_record(message).value
    document = msgspec.json.decode(converters.json.to_kafka_record(message).value or b"")
    match body:
        case Data() as data:
            assert value == data.content
        case None | AmqpValue(None):
            assert value is None
        case AmqpValue(content) if type(content) in (str, bytes):
            assert value == (content if isinstance(content, bytes) else str(content).encode())
        case _:
            assert value is not None
            assert msgspec.json.decode(value) == document["body"]["section"]


def section(message: AmqpMessage, headers: dict[str, bytes], body: bytes | None) -> str:
    """What Spark puts between the head of the document and its end."""
    match message.body:
        case AmqpValue(str() as text) if type(text) is str:
            return quote(text)
        case Data():
            return f'"{b64encode(body or b"").decode()}"'
        case AmqpValue(bytes() as content) if type(content) is bytes:
            return f'"{b64encode(body or b"").decode()}"'
        case AmqpValue(None):
            return "null"
    return headers["isthmus.value"].decode()


def check_conversion_headers(message: Message, sent: AmqpMessage) -> None:
    headers = dict(conversion_headers(message, json=True))
    document = converters.json.to_kafka_record(sent).value
    head = headers["isthmus.json"].decode()
    body = message.body.slice(message.value)
    whole = head if sent.body is None else head + section(sent, headers, body) + "}}"
    assert whole.encode() == document
    without = dict(conversion_headers(message, json=False))
    assert without == {name: value for name, value in headers.items() if name != "isthmus.json"}
    assert without.get("isthmus.value", body) == converters.default.to_kafka_record(sent).value


@settings(max_examples=300)
@given(messages)
def test_spark_can_put_the_forms_of_an_amqp_message_together(message: AmqpMessage) -> None:
    data = message.encode()
    check_conversion_headers(to_message(data, target="q"), AmqpMessage.decode(data))


@settings(max_examples=200)
@given(messages_of_any_protocol.messages(), st.sampled_from([BodyKind.TEXT, BodyKind.BYTES, BodyKind.EMPTY]))
def test_spark_can_put_the_forms_of_any_other_message_together(message: Message, kind: BodyKind) -> None:
    value = b"text \xc3\xbc" if kind is BodyKind.TEXT else message.value
    changed = {"protocol": "isthmus", "value": value, "body": message.body._replace(kind=kind, spans=())}
    message = dataclasses.replace(message, **changed)
    try:
        sent = to_amqp(message.headers, kind, message.body.slice(value), address=message.address)
        sent.encode()
    except SoftFailure:
        with pytest.raises(SoftFailure):
            conversion_headers(message, json=True)
        return
    check_conversion_headers(message, sent)


# --- bad records ----------------------------------------------------------------------------------------

FORMS = (converters.default, converters.json, converters.raw, converters.jms)


def read_every_way(record: ReceivedRecord) -> None:
    """Only soft failures may come; what is read can be sent."""
    for form in (*FORMS, converters.converter("json", compat=True)):
        with contextlib.suppress(SoftFailure):
            message = form.to_amqp_message("there", record)
            if form is converters.jms:
                message.encode()
            else:
                assert AmqpMessage.decode(message.encode()) == message


DOCUMENTS = [
    b'{"properties":{"messageId":7,"userId":"dQ==","to":"q","creationTime":5},"applicationProperties":'
    b'{"count":3,"f":0.5,"n":"NaN","u":"00000000-0000-0000-0000-000000000001","b":true,"z":null},'
    b'"messageAnnotations":{"x":["a",[[1,2]],[1,2],["d",[1]],[["s"],["t"]]]},"types":{"/properties/messageId":'
    b'"ulong","/applicationProperties/count":"long","/applicationProperties/n":"double",'
    b'"/applicationProperties/u":"uuid","/messageAnnotations/x/0":"symbol","/messageAnnotations/x/1":"map",'
    b'"/messageAnnotations/x/2":"array of long","/messageAnnotations/x/3":"described",'
    b'"/messageAnnotations/x/4":"described array of string","/messageAnnotations/x/4/0/0":"symbol"},'
    b'"body":{"type":"data","section":"aGVsbG8="}}',
    b'{"types":{"/body/section":"sequences","/body/section/0/0":"byte"},'
    b'"body":{"type":"amqpSequence","section":[[1,-5],["x",1e30]]}}',
    b'{"types":{"/body/section":"binary"},"body":{"type":"amqpValue","section":"AAEC"}}',
    b'{"messageAnnotations":[[1,2]],"types":{"/messageAnnotations":"map","/messageAnnotations/0/0":"ulong"},'
    b'"body":{"type":"amqpValue","section":{"a":[[[]]]}}}',
]

WORDS = [
    *(
        b"null",
        b"true",
        b"-1",
        b"1e999",
        b"99999999999999999999",
        b'"\\ud800"',
        b'""',
        b"[]",
        b"{}",
        b"[[]]",
        b"0.5",
    ),
    *(
        b'"long"',
        b'"ubyte"',
        b'"map"',
        b'"array of map"',
        b'"array of array"',
        b'"described"',
        b'"char"',
        b'"symbol"',
    ),
    *(
        b'"/body/section"',
        b'"/body"',
        b'"~"',
        b'"\xc3\xbc"',
        b'"\xff"',
        b'"decimal32"',
        b'"float"',
        b'"uuid"',
        b'"x"',
    ),
    *(b'"amqpValue"', b'"amqpSequence"', b'"data"', b'"timestamp"', b'"sequences"', b'"section"', b'"types"'),
]


@st.composite
def damaged_documents(draw: st.DrawFn) -> bytes:
    """Documents in which words were exchanged for others: JSON still, but for a few."""
    pieces = re.findall(rb'"[^"]*"|[-0-9.e+]+|true|null|[\[\]{}:,]', draw(st.sampled_from(DOCUMENTS)))
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(pieces) - 1))
        if pieces[place] not in b"[]{}:,":
            pieces[place] = draw(st.sampled_from(WORDS))
    return b"".join(pieces)


@settings(max_examples=1000)
@given(damaged_documents())
def test_a_damaged_document_is_read_or_a_soft_failure(document: bytes) -> None:
    read_every_way(received(document))


@settings(max_examples=300)
@given(st.sampled_from(DOCUMENTS), st.randoms(use_true_random=False))
def test_a_document_with_damaged_bytes_is_read_or_a_soft_failure(document: bytes, random: Random) -> None:
    read_every_way(received(mutations(document, random)))


@settings(max_examples=300)
@given(
    st.none() | st.binary(max_size=100),
    messages_of_any_protocol.foreign_records(),
    st.none() | st.binary(max_size=4),
)
def test_any_record_is_read_or_a_soft_failure(value: bytes | None, foreign: Any, key: bytes | None) -> None:
    read_every_way(received(value, foreign.headers, key))
