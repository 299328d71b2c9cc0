"""The ``jms`` form: text and bytes as they are, headers and properties with their types, and back."""

from __future__ import annotations

import pickle

import pytest

from isthmus import AmqpMessage, AmqpValue, Data, MessageProperties, ReceivedRecord
from isthmus.codecs.amqp import Byte, Int, Short
from isthmus.converters import jms
from isthmus.converters.jms import kafka_value
from isthmus.errors import ConversionFailure, DecodeError, EncodeError
from isthmus.message import Body, BodyKind, Span


@pytest.mark.parametrize("kind", [BodyKind.TEXT, BodyKind.BYTES])
@pytest.mark.parametrize("content", [b"", "Grüße".encode(), b"\x00\xff\xfe", b"x" * 100_000])
def test_text_and_bytes_are_published_as_they_are(kind: BodyKind, content: bytes) -> None:
    assert kafka_value(Body(kind), content) == content


def test_the_body_is_cut_out_of_what_arrived() -> None:
    body = Body(BodyKind.TEXT, (Span(3, 5),))
    assert kafka_value(body, b"\x00\x53\x77hello\x01") == b"hello"


def test_several_sections_of_data_are_joined() -> None:
    assert kafka_value(Body(BodyKind.BYTES, (Span(0, 2), Span(4, 2))), b"ab..cd") == b"abcd"


def test_a_message_without_a_body_becomes_a_record_without_a_value() -> None:
    assert kafka_value(Body(BodyKind.EMPTY), b"only headers") is None
    assert kafka_value(Body(BodyKind.EMPTY), None) is None


@pytest.mark.parametrize("kind", [BodyKind.MAP, BodyKind.STREAM, BodyKind.OBJECT, BodyKind.OTHER])
def test_a_message_that_is_neither_text_nor_bytes_is_a_conversion_failure(kind: BodyKind) -> None:
    with pytest.raises(ConversionFailure, match=f"a message of the kind {kind} has no jms form"):
        kafka_value(Body(kind), b"content")


class _Bomb:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return pytest.fail, ("an object was deserialised",)


def test_an_object_is_never_deserialised() -> None:
    with pytest.raises(ConversionFailure):
        kafka_value(Body(BodyKind.OBJECT), pickle.dumps(_Bomb()))


# --- from AMQP to Kafka and back ------------------------------------------------------------------------


def received(value: bytes | None, *headers: tuple[str, bytes | None]) -> AmqpMessage:
    return jms.to_amqp_message("address", ReceivedRecord("topic", 3, 17, b"k", value, headers))


def test_a_record_that_is_an_encoded_message_is_that_message() -> None:
    sent = AmqpMessage(properties=MessageProperties(message_id="ID:1"), body=AmqpValue({"a": 1}))
    got = received(sent.encode(), ("jms.MessageId", b"ID:1"), jms.ENCODED, ("jmsbridge.origin", b"b"))
    assert got.body == AmqpValue({"a": 1})
    assert got.properties is not None
    assert (got.properties.message_id, got.properties.to) == ("ID:1", "address")
    assert got.message_annotations["x-opt-bridge.offset"] == 17
    with pytest.raises(DecodeError):
        received(b"no message", jms.ENCODED)


def properties_of(message: AmqpMessage) -> dict[str, object]:
    """The application's own, without the place of the record."""
    own = message.application_properties or {}
    return {name: value for name, value in own.items() if not name.startswith("JMS_kafka_")}


def test_headers_and_properties_become_kafka_headers_with_types() -> None:
    message = AmqpMessage(
        properties=MessageProperties(to="orders", correlation_id="c-1"),
        application_properties={"amount": Int(3)},
        body=AmqpValue("hello"),
    )
    record = jms.to_kafka_record(message)
    headers = dict(record.headers)
    assert record.value == b"hello"
    assert headers["jms.Destination"] == b"orders"
    assert headers["jms.CorrelationId"] == b"c-1"
    assert headers["jms.amount"] == b"3"
    assert b"amount=int;" in (headers["jms.types"] or b"")


def test_a_message_that_was_sent_nowhere_has_no_destination() -> None:
    assert "jms.Destination" not in dict(jms.to_kafka_record(AmqpMessage(body=AmqpValue("x"))).headers)


def test_a_map_message_has_no_form() -> None:
    with pytest.raises(ConversionFailure, match="has no jms form"):
        jms.to_kafka_record(AmqpMessage(body=AmqpValue({"a": 1})))


def test_typed_headers_become_properties_of_their_types_again() -> None:
    message = received(b"x", ("jms.n", b"3"), ("jms.t", b"EU"), ("jms.types", b"n=short;"))
    assert properties_of(message) == {"n": 3, "t": "EU"}
    assert type(properties_of(message)["n"]) is Short


def test_a_header_without_a_known_type_is_bytes() -> None:
    message = received(
        b"x", ("trace", b"t-1"), ("none", None), ("CorrelationId", b"c"), ("JMSXGroupID", b"g")
    )
    assert properties_of(message) == {
        "trace": b"t-1",
        "none": None,
        "CorrelationId": b"c",
        "JMSXGroupID": b"g",
    }
    assert message.properties == MessageProperties(to="address")


def test_the_bridge_s_own_headers_are_dropped() -> None:
    assert properties_of(received(b"x", ("isthmus.id", b"t:0:1"), ("jmsbridge.origin", b"b"))) == {}


def test_a_destination_header_outranks_the_address() -> None:
    assert received(b"x").properties == MessageProperties(to="address")
    assert received(b"x", ("jms.Destination", b"reply")).properties == MessageProperties(to="reply")


def test_the_place_of_the_record_is_in_properties_and_annotations() -> None:
    message = received(b"x", ("jms.JMS_kafka_topic", b"a lie"))
    assert message.application_properties == {
        "JMS_kafka_topic": "topic",
        "JMS_kafka_partition": 3,
        "JMS_kafka_offset": 17,
        "JMS_kafka_key": "k",
    }
    assert (message.message_annotations or {})["x-opt-bridge.offset"] == 17


@pytest.mark.parametrize(
    ("value", "body"),
    [(b"gr\xc3\xbc\xc3\x9fe", AmqpValue("grüße")), (b"\xff", Data((b"\xff",))), (None, AmqpValue(None))],
    ids=["text", "bytes", "tombstone"],
)
def test_the_value_tells_what_kind_of_message_it_is(value: bytes | None, body: object) -> None:
    assert received(value).body == body


@pytest.mark.parametrize("content", [b"", b"hello", b"\xff"])
def test_a_bytes_message_stays_one_though_it_may_be_text(content: bytes) -> None:
    sent = AmqpMessage(message_annotations={"x-opt-jms-msg-type": Byte(3)}, body=Data((content,)))
    record = jms.to_kafka_record(sent)
    assert ("jms.x-opt-jms-msg-type", b"bytes") in record.headers
    message = received(record.value, *record.headers)
    assert message.body == Data((content,))
    assert (message.message_annotations or {})["x-opt-jms-msg-type"] == 3
    assert properties_of(message) == {}


def test_a_text_message_of_null_stays_one() -> None:
    sent = AmqpMessage(message_annotations={"x-opt-jms-msg-type": Byte(5)}, body=AmqpValue(None))
    record = jms.to_kafka_record(sent)
    assert record.value is None
    message = received(record.value, *record.headers)
    assert message.body == AmqpValue(None)
    assert (message.message_annotations or {})["x-opt-jms-msg-type"] == 5


def test_what_a_record_says_it_is_does_not_make_a_tombstone_a_message_with_a_body() -> None:
    assert received(None, ("jms.x-opt-jms-msg-type", b"bytes")).body == AmqpValue(None)


def test_a_property_called_like_the_kind_of_a_message_is_a_property() -> None:
    sent = AmqpMessage(application_properties={"x-opt-jms-msg-type": "bytes"}, body=AmqpValue("hello"))
    record = jms.to_kafka_record(sent)
    message = received(record.value, *record.headers)
    assert message.body == AmqpValue("hello")
    assert properties_of(message) == {"x-opt-jms-msg-type": "bytes"}


def test_a_request_s_answer_finds_its_way() -> None:
    request = AmqpMessage(
        properties=MessageProperties(to="service", reply_to="temp-1", correlation_id="c-1"),
        body=AmqpValue("?"),
    )
    headers = dict(jms.to_kafka_record(request).headers)
    answer = received(
        b"!", ("jms.Destination", headers["jms.ReplyTo"]), ("jms.CorrelationId", headers["jms.CorrelationId"])
    )
    assert answer.properties == MessageProperties(to="temp-1", correlation_id="c-1")


@pytest.mark.parametrize(
    "headers",
    [[("jms.n", b"x"), ("jms.types", b"n=int;")], [("jms.Priority", b"high")]],
    ids=["type", "standard"],
)
def test_a_header_that_is_not_what_it_says_is_a_soft_failure(headers: list[tuple[str, bytes]]) -> None:
    with pytest.raises(EncodeError):
        received(b"x", *headers)
