"""The fast path from a record to its AMQP message leads where the usual one does, or nowhere."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus.codecs.amqp import (
    AmqpMessage,
    AmqpValue,
    Data,
    MessageHeader,
    MessageProperties,
    Symbol,
    Timestamp,
)
from isthmus.converters import ReceivedRecord, converter
from isthmus.converters.jms_fast_path import encode_plain
from isthmus.errors import IsthmusError
from isthmus.message import HeaderType

JMS = converter("jms")
ADDRESS = "orders-ü"

STANDARD = [
    *(
        "MessageId",
        "CorrelationId",
        "Destination",
        "ReplyTo",
        "Type",
        "Timestamp",
        "Expiration",
        "DeliveryMode",
    ),
    *(
        "DeliveryTime",
        "Priority",
        "Redelivered",
        "JMSXDeliveryCount",
        "JMSXUserID",
        "JMSXGroupID",
        "JMSXGroupSeq",
    ),
    *("x-opt-jms-msg-type", "x-opt-jms-dest", "x-opt-jms-reply-to", "JMS_AMQP_CONTENT_TYPE"),
    *(
        "JMS_AMQP_CONTENT_ENCODING",
        "JMS_AMQP_REPLY_TO_GROUP_ID",
        "JMSMessageID",
        "JMSCorrelationID",
        "JMSType",
    ),
]
PROPERTIES = ["Region", "Amount", "property.Type", "JMS_kafka_topic", "isthmus.client", "ü", "a" * 300]
OTHERS = ["foreign", "traceparent", "isthmus.id", "jmsbridge.origin", "ISTHMUS.x"]
NAMES = [*(f"jms.{name}" for name in (*STANDARD, *PROPERTIES)), *OTHERS]
USUAL = {
    "jms.MessageId": [b"ID:1", b"x"],
    "jms.CorrelationId": [b"c", b"ID:AMQP_ULONG:7"],
    "jms.DeliveryMode": [b"PERSISTENT", b"NON_PERSISTENT"],
    "jms.Priority": [b"4", b"9"],
    "jms.Redelivered": [b"false", b"true"],
    "jms.JMSXDeliveryCount": [b"1", b"3"],
    "jms.Timestamp": [b"1794780306920", b"0", b"-1"],
    "jms.Expiration": [b"0", b"1794780306920"],
    "jms.x-opt-jms-dest": [b"queue", b"temporary-topic", b"moon"],
    "jms.x-opt-jms-reply-to": [b"topic", b"temporary-queue"],
    "jms.x-opt-jms-msg-type": [b"bytes", b"text"],
    "jms.JMS_AMQP_CONTENT_TYPE": [b"application/json", b"text/pl\xc3\xa4in"],
}
VALUES = [
    b"",
    b"EU",
    b"42",
    b"-42",
    b"1e3",
    b"true",
    b"false",
    "grüße".encode(),
    b"\xff",
    b"x" * 300,
    b"9" * 20,
]


def value_of(name: str) -> st.SearchStrategy[bytes | None]:
    usual = st.sampled_from(USUAL.get(name, VALUES))
    anything = st.one_of(st.sampled_from(VALUES), st.binary(max_size=8), st.none())
    return st.integers(0, 9).flatmap(lambda dice: anything if dice == 7 else usual)


@st.composite
def records(draw: st.DrawFn) -> ReceivedRecord:
    names = draw(st.lists(st.sampled_from(NAMES), max_size=9, unique=draw(st.integers(0, 9)) != 7))
    headers: list[tuple[str, bytes | None]] = [(name, draw(value_of(name))) for name in names]
    kinds = st.sampled_from([HeaderType.STRING, *HeaderType])
    types = "".join(
        f"{name.removeprefix('jms.')}={draw(kinds)};" for name in names if draw(st.integers(0, 3)) == 0
    )
    if types:
        headers.append(("jms.types", types.encode()))
    return ReceivedRecord(
        draw(st.sampled_from(["orders", "t" * 240])),
        draw(st.sampled_from([0, 127, 128, 70_000])),
        draw(st.sampled_from([0, 127, 128, 2**40])),
        draw(st.sampled_from([None, b"", b"key", "schlüssel".encode(), b"\xff", b"k" * 300])),
        draw(st.sampled_from([None, b"", b"text", "grüße".encode(), b"\xff\x00", b"x" * 1000])),
        headers,
    )


def fast(record: ReceivedRecord) -> bytes | None:
    return encode_plain(
        ADDRESS.encode(),
        record.topic,
        record.partition,
        record.offset,
        record.key,
        record.value,
        record.headers,
    )


@given(records())
def test_the_fast_path_gives_the_message_of_the_usual_one_or_nothing(record: ReceivedRecord) -> None:
    encoded = fast(record)
    if encoded is not None:
        assert encoded == JMS.to_amqp_message(ADDRESS, record).encode()


@given(records())
def test_what_the_usual_path_refuses_the_fast_one_does_not_make(record: ReceivedRecord) -> None:
    try:
        JMS.to_amqp_message(ADDRESS, record).encode()
    except IsthmusError:
        assert fast(record) is None


@pytest.mark.parametrize(
    ("properties", "body"),
    [
        ({"Region": "EU", "Amount": 42, "Paid": True, "Rate": 0.5}, AmqpValue("text")),
        (None, AmqpValue("grüße" * 100)),
        ({"n": 2**40}, Data((b"\xff\x00",))),
    ],
)
def test_the_messages_of_jms_clients_take_the_fast_path(properties: dict[str, Any] | None, body: Any) -> None:
    message = AmqpMessage(
        header=MessageHeader(durable=True),
        message_annotations={Symbol("x-opt-jms-dest"): 0},
        properties=MessageProperties(
            message_id="ID:1",
            to="orders",
            reply_to="answers",
            correlation_id="c",
            creation_time=Timestamp(1_794_780_306_920),
        ),
        application_properties=properties,
        body=body,
    )
    made = JMS.to_kafka_record(message)
    record = ReceivedRecord("orders", 0, 1000, b"ID:1", made.value, made.headers)
    assert fast(record) == JMS.to_amqp_message(ADDRESS, record).encode()
