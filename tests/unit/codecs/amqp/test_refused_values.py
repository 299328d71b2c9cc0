"""Values that AMQP cannot carry: the encoder says so."""

from __future__ import annotations

import pytest

from isthmus.codecs.amqp import (
    AmqpMessage,
    AmqpSequence,
    AmqpValue,
    Array,
    Byte,
    Char,
    Data,
    Decimal32,
    Float,
    Int,
    MessageHeader,
    MessageProperties,
    Pairs,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
    encode_value,
)
from isthmus.codecs.amqp.values import MAX_DEPTH
from isthmus.errors import EncodeError


@pytest.mark.parametrize(
    "value",
    [
        *(UByte(-1), UByte(256), UShort(-1), UShort(2**16), UInt(-1), UInt(2**32), ULong(-1), ULong(2**64)),
        *(Byte(-129), Byte(128), Short(-(2**15) - 1), Short(2**15), Int(-(2**31) - 1), Int(2**31)),
        *(-(2**63) - 1, 2**63, Timestamp(2**63), Float(1e39)),
        *(Char(""), Char("ab"), Char("\ud800"), Symbol("ü"), "\ud800", Decimal32(b"abc")),
        *({1, 2}, object(), 1j, bytearray(b"a")),
        *([object()], {"a": object()}, Pairs([(object(), 1)])),
        *(Array("int", ["a"]), Array("int", [True]), Array("string", [Symbol("a")])),
        *(Array("int", [2**31]), Array("uint", [-1]), Array("unknown", [])),
    ],
)
def test_a_value_that_its_type_cannot_hold_is_refused(value: object) -> None:
    with pytest.raises(EncodeError):
        encode_value(value)


def test_nesting_is_written_down_to_the_limit_and_no_further() -> None:
    value: list[object] = []
    for _ in range(MAX_DEPTH):
        value = [value]
    with pytest.raises(EncodeError, match="nested"):
        encode_value(value)
    encode_value(value[0])


def test_a_list_that_holds_itself_is_refused() -> None:
    value: list[object] = []
    value.append(value)
    with pytest.raises(EncodeError, match="nested"):
        encode_value(value)


@pytest.mark.parametrize(
    "message",
    [
        AmqpMessage(header=MessageHeader(priority=256)),
        AmqpMessage(header=MessageHeader(priority=True)),
        AmqpMessage(header=MessageHeader(durable=1)),  # type: ignore[arg-type]
        AmqpMessage(header=MessageHeader(ttl=-1)),
        AmqpMessage(properties=MessageProperties(message_id=-1)),
        AmqpMessage(properties=MessageProperties(message_id=1.5)),  # type: ignore[arg-type]
        AmqpMessage(properties=MessageProperties(to=b"a")),  # type: ignore[arg-type]
        AmqpMessage(properties=MessageProperties(user_id="a")),  # type: ignore[arg-type]
        AmqpMessage(properties=MessageProperties(content_type="ü")),
        AmqpMessage(properties=MessageProperties(creation_time=2**63)),
        AmqpMessage(properties=MessageProperties(group_sequence=2**32)),
        AmqpMessage(message_annotations={"ü": 1}),
        AmqpMessage(message_annotations={1: 1}),  # type: ignore[dict-item]
        AmqpMessage(application_properties={"a": [1]}),
        AmqpMessage(application_properties={"a": {}}),
        AmqpMessage(application_properties={"a": "\udfff"}),
        AmqpMessage(application_properties={1: 1}),  # type: ignore[dict-item]
        AmqpMessage(body=AmqpValue(object())),
        AmqpMessage(body=Data(("text",))),  # type: ignore[arg-type]
        AmqpMessage(body=AmqpSequence((b"bytes",))),  # type: ignore[arg-type]
    ],
)
def test_a_section_that_cannot_be_written_is_refused(message: AmqpMessage) -> None:
    with pytest.raises(EncodeError):
        message.encode()
