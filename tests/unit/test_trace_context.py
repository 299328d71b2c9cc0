"""``traceparent`` and ``tracestate`` pass every hop under their own names, as text."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.routing import decided, journaled, plan, route

from isthmus.codecs.amqp import AmqpMessage, AmqpValue, MessageHeader, MessageProperties, Symbol, UByte
from isthmus.codecs.bridge_message import Property, PropertyType
from isthmus.codecs.jms import to_message
from isthmus.converters import ReceivedRecord, converter
from isthmus.converters.conversion_headers import conversion_headers
from isthmus.converters.jms_fast_path import encode_plain
from isthmus.edges.mq.descriptor import Mqmd, MqMessage
from isthmus.edges.mq.translate import from_headers
from isthmus.edges.mq.translate import to_message as from_mq
from isthmus.edges.nats.translate import Arrived, body_only, from_nats, nats_mq_form, to_nats
from isthmus.journal import layout
from isthmus.journal.fast_path import FastPath
from isthmus.journal.layout import Entry, Op, Record
from isthmus.message import TRACE_CONTEXT, Header, Message

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
STATE = "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7"
TRACE = {"traceparent": PARENT, "tracestate": STATE}
HEADERS: dict[str, Header] = {name: Header(text) for name, text in TRACE.items()}
KAFKA_HEADERS = [(name, text.encode()) for name, text in TRACE.items()]


def traced(headers: layout.KafkaHeaders) -> dict[str, bytes | None]:
    """What those who trace see of a Kafka record."""
    return {name: value for name, value in headers if name in TRACE_CONTEXT}


def jms_message(properties: dict[str, Any] | None, annotations: dict[Symbol, Any] | None = None) -> bytes:
    return AmqpMessage(
        header=MessageHeader(durable=True),
        message_annotations={Symbol("x-opt-jms-msg-type"): UByte(5), **(annotations or {})},
        properties=MessageProperties(message_id="ID:1", to="orders"),
        application_properties=properties,
        body=AmqpValue("hello"),
    ).encode()


def test_a_property_of_a_jms_message_is_in_the_journal_by_its_own_name_on_both_paths() -> None:
    data = jms_message({**TRACE, "region": "EU"})
    general = layout.encode(Entry(Op.ADD, to_message(data, target="orders", session="s")))
    fast = FastPath("orders", "s").read(data)
    assert fast is not None
    assert fast.record() == general
    assert traced(general.headers) == dict(KAFKA_HEADERS)
    assert layout.decode(general).message.headers["traceparent"] == Header(PARENT)


def test_an_annotation_of_somebody_in_between_outranks_what_the_sender_says() -> None:
    data = jms_message({"traceparent": "00-old"}, {Symbol("traceparent"): PARENT})
    assert FastPath("orders", "s").read(data) is None
    assert to_message(data).headers["traceparent"] == Header(PARENT)


@pytest.mark.parametrize("convert", ["jms", "default", "json", "raw"])
def test_a_published_record_has_it_whatever_the_converter(convert: str) -> None:
    message = to_message(jms_message(TRACE), target="orders", session="s")
    record = layout.encode(Entry(Op.ADD, message, conversion=conversion_headers(message, json=True)))
    published = decided(plan(route(convert=convert)), record).record
    assert published is not None
    assert traced(published.headers) == dict(KAFKA_HEADERS)


def test_a_message_of_no_trace_has_none_of_it() -> None:
    published = decided(plan(route(convert="default")), journaled(to_message(jms_message(None)))).record
    assert published is not None
    assert traced(published.headers) == {}


@pytest.mark.parametrize("convert", ["jms", "default", "json", "raw"])
def test_a_receiver_gets_it_as_text(convert: str) -> None:
    values = {"json": b'{"body":{"type":"data","section":"aGVsbG8="}}', "raw": jms_message(None)}
    record = ReceivedRecord("orders", 0, 7, b"k", values.get(convert, b"hello"), KAFKA_HEADERS)
    message = converter(convert).to_amqp_message("orders", record)
    properties = AmqpMessage.decode(message.encode()).application_properties or {}
    assert {name: properties.get(name) for name in TRACE_CONTEXT} == TRACE


def test_a_receiver_gets_it_as_text_on_the_fast_path_too() -> None:
    data = encode_plain(b"orders", "orders", 0, 7, b"k", b"hello", KAFKA_HEADERS)
    assert data is not None
    properties = AmqpMessage.decode(data).application_properties or {}
    assert {name: properties.get(name) for name in TRACE_CONTEXT} == TRACE


def test_what_a_message_brings_stays_and_the_newer_trace_of_its_record_is_an_annotation() -> None:
    record = ReceivedRecord("orders", 0, 7, None, jms_message({"traceparent": "00-old"}), KAFKA_HEADERS)
    message = converter("raw").to_amqp_message("orders", record)
    assert (message.application_properties or {})["traceparent"] == "00-old"
    assert (message.message_annotations or {})["traceparent"] == PARENT
    assert to_message(message.encode()).headers["traceparent"] == Header(PARENT)


def test_a_record_of_another_topic_carries_it_on() -> None:
    record = Record(b"k", b"v", [("traceparent", PARENT.encode()), ("region", b"EU")])
    assert layout.adopt("orders", record).headers["traceparent"] == Header(PARENT)
    for convert in ("jms", "default"):
        published = decided(plan(route(convert=convert), source_topics=("orders",)), record, "orders").record
        assert published is not None
        assert traced(published.headers) == {"traceparent": PARENT.encode()}


@pytest.mark.parametrize("spelt", [str.lower, str.title])
def test_a_nats_header_is_in_the_journal_by_its_own_name_however_it_is_spelt(spelt: Any) -> None:
    given = {spelt(name): text for name, text in TRACE.items()}
    message = from_nats(Arrived("orders", b"hello", given), "own")
    assert traced(journaled(message).headers) == dict(KAFKA_HEADERS)


def test_nats_gets_it_as_a_header_with_all_others_and_with_the_body_alone() -> None:
    record = Record(b"k", b"hello", KAFKA_HEADERS)
    for form in (to_nats, body_only):
        assert TRACE.items() <= dict(form("j:0:1", "orders", record, lambda reply: reply).headers).items()


def test_in_the_nats_mq_format_the_headers_of_nats_have_it_and_outrank_the_payload() -> None:
    def decode(payload: bytes, subject: str, own_id: str) -> Message:
        return from_nats(Arrived(subject, payload, {"traceparent": "00-old"}), own_id)

    read, write = nats_mq_form(lambda message: message.value or b"", decode)
    message = read(Arrived("orders", b"hello", TRACE), "own")
    assert {name: message.headers[name] for name in TRACE_CONTEXT} == HEADERS
    outgoing = write("j:0:1", "orders", Record(b"k", b"hello", KAFKA_HEADERS), lambda reply: reply)
    assert TRACE.items() <= dict(outgoing.headers).items()


def test_an_mq_property_is_in_the_journal_by_its_own_name_and_comes_back_as_one() -> None:
    properties = {name: Property(PropertyType.STRING, text) for name, text in TRACE.items()}
    taken = MqMessage(descriptor=Mqmd(MsgId=b"1" * 24), body=b"hello", properties=properties)
    message = from_mq(taken, address="Q", session="s", received_ms=0)
    assert traced(journaled(message).headers) == dict(KAFKA_HEADERS)
    back = from_headers(layout.decode_headers(KAFKA_HEADERS), b"hello")
    assert back.properties == properties
