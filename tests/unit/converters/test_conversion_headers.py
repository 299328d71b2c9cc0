"""What intake adds to a journal record for Spark's converters."""

from __future__ import annotations

from typing import Any

import pytest

from isthmus import AmqpMessage, AmqpSequence, AmqpValue, Data, MessageProperties
from isthmus.codecs.amqp import Byte, Int, index
from isthmus.codecs.jms import to_message
from isthmus.converters.conversion_headers import conversion_headers
from isthmus.errors import ConversionFailure, DecodeError
from isthmus.journal.layout import CONVERSION
from isthmus.message import Body, BodyKind, Header, Message


def headers_of(message: AmqpMessage, *, json: bool = False) -> list[tuple[str, bytes]]:
    data = message.encode()
    found = conversion_headers(to_message(data, target="q"), json=json)
    assert found == conversion_headers(to_message(data, target="q"), json=json, index_of_value=index(data))
    return found


@pytest.mark.parametrize(
    "body", [None, AmqpValue("text"), AmqpValue(b"bytes"), AmqpValue(None), Data((b"a", b"b"))], ids=repr
)
def test_a_message_of_text_or_bytes_needs_nothing(body: Any) -> None:
    assert headers_of(AmqpMessage(message_annotations={"x-opt-jms-dest": Byte(0)}, body=body)) == []


def test_all_that_apply_come_in_the_order_of_the_journal() -> None:
    asked = {"x-opt-bridge.key": "k", "x-opt-bridge.partition": Int(3)}
    message = AmqpMessage(message_annotations=asked, body=AmqpValue({"a": [Int(1)]}))
    found = headers_of(message, json=True)
    assert [name for name, _ in found] == list(CONVERSION)
    assert dict(found) == {
        "isthmus.partition": b"3",
        "isthmus.key": b"k",
        "isthmus.value": b'{"a":[1]}',
        "isthmus.json": b'{"messageAnnotations":{"x-opt-bridge.key":"k","x-opt-bridge.partition":3},'
        b'"body":{"type":"amqpValue","section":',
    }


def test_a_document_without_a_body_is_complete() -> None:
    message = AmqpMessage(properties=MessageProperties(subject="s"))
    assert headers_of(message, json=True) == [("isthmus.json", b'{"properties":{"subject":"s"}}')]


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (AmqpValue(True), b"true"),
        (AmqpValue([Int(1), "a"]), b'[1,"a"]'),
        (AmqpSequence(([Int(1)],)), b"[1]"),
        (AmqpSequence(([Int(1)], [])), b"[[1],[]]"),
    ],
    ids=repr,
)
def test_a_structured_body_is_there_as_json(body: Any, value: bytes) -> None:
    assert headers_of(AmqpMessage(body=body)) == [("isthmus.value", value)]


def test_an_object_of_serialized_bytes_is_left_alone_and_a_typed_one_is_json() -> None:
    object_message = {"x-opt-jms-msg-type": Byte(1)}
    serialized = AmqpMessage(message_annotations=object_message, body=Data((b"\xac\xed\x00\x05",)))
    typed = AmqpMessage(message_annotations=object_message, body=AmqpValue([Int(1)]))
    assert headers_of(serialized) == []
    assert headers_of(typed) == [("isthmus.value", b"[1]")]


def test_annotations_of_the_wrong_type_are_refused() -> None:
    with pytest.raises(ConversionFailure, match=r"x-opt-bridge.key must be a string"):
        headers_of(AmqpMessage(message_annotations={"x-opt-bridge.key": 3}, body=AmqpValue("x")))


def test_a_body_that_is_malformed_where_it_is_looked_into_is_refused() -> None:
    data = b"\x00\x53\x77\xc0\x02\x01\xff"
    with pytest.raises(DecodeError):
        conversion_headers(to_message(data, target="q"), json=False)


def other(kind: BodyKind, value: bytes | None) -> Message:
    headers = {"amount": Header.of(3)}
    return Message(id="i", address="q", protocol="nats", value=value, body=Body(kind), headers=headers)


@pytest.mark.parametrize("kind", [BodyKind.TEXT, BodyKind.BYTES, BodyKind.EMPTY])
def test_a_message_of_another_protocol_needs_nothing_without_json(kind: BodyKind) -> None:
    assert conversion_headers(other(kind, b"x"), json=False) == []


def test_a_message_of_another_protocol_has_the_document_of_the_amqp_message_that_it_would_be() -> None:
    ((name, head),) = conversion_headers(other(BodyKind.TEXT, b"x"), json=True)
    assert name == "isthmus.json"
    assert head.startswith(b'{"properties":{"to":"q"},"applicationProperties":{"amount":3},')
    assert head.endswith(b',"body":{"type":"amqpValue","section":')
