"""The default converter: the body and nothing else, both ways."""

from __future__ import annotations

import pytest

from isthmus import AmqpMessage, AmqpValue, Data, KafkaRecord, MessageProperties, ReceivedRecord
from isthmus.codecs.amqp import Int
from isthmus.codecs.amqp.sections import Body
from isthmus.converters import default


def test_properties_and_annotations_leave_no_trace_in_the_record() -> None:
    message = AmqpMessage(
        properties=MessageProperties(message_id="ID:1", to="orders", subject="news"),
        application_properties={"region": "EU"},
        message_annotations={"x-opt-colour": "red"},
        body=AmqpValue("hello"),
    )
    assert default.to_kafka_record(message) == KafkaRecord(None, None, b"hello", ())


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (AmqpValue("grüß dich"), "grüß dich".encode()),
        (AmqpValue(b"\xff\x00"), b"\xff\x00"),
        (Data((b"\xff", b"\x00")), b"\xff\x00"),
        (AmqpValue({"a": Int(1)}), b'{"a":1}'),
    ],
)
def test_the_body_is_the_value_whether_it_is_an_amqp_value_or_data(body: Body, value: bytes) -> None:
    assert default.to_kafka_record(AmqpMessage(body=body)).value == value


def test_key_and_value_are_text_and_bytes() -> None:
    record = default.to_kafka_record(AmqpMessage(message_annotations={"key": "k"}, body=AmqpValue("v")))
    assert (type(record.key), type(record.value)) == (str, bytes)


def test_back_from_kafka_there_is_data_with_its_place_and_its_address_and_nothing_more() -> None:
    message = default.to_amqp_message("orders/group.id/g", ReceivedRecord("orders", 3, 17, b"k", b"hello"))
    assert message == AmqpMessage(
        properties=MessageProperties(to="orders/group.id/g"),
        message_annotations={
            "x-opt-bridge.partition": Int(3),
            "x-opt-bridge.offset": 17,
            "x-opt-bridge.key": "k",
            "x-opt-bridge.topic": "orders",
        },
        body=Data((b"hello",)),
    )
