"""The index: what the journal's headers need, and where the body lies."""

from __future__ import annotations

from uuid import UUID

import pytest

from isthmus.codecs.amqp import (
    AMQP_SEQUENCE,
    AMQP_VALUE,
    DATA,
    AmqpMessage,
    AmqpSequence,
    AmqpValue,
    Byte,
    Char,
    Data,
    Decimal32,
    Decimal64,
    Decimal128,
    Float,
    Int,
    MessageHeader,
    MessageProperties,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
    decode_value,
    index,
)
from isthmus.message import Header, HeaderType

PROPERTIES = {
    "string": ("text", HeaderType.STRING, "text"),
    "large string": ("x" * 300, HeaderType.STRING, "x" * 300),
    "boolean": (True, HeaderType.BOOLEAN, "true"),
    "no": (False, HeaderType.BOOLEAN, "false"),
    "byte": (Byte(-1), HeaderType.BYTE, "-1"),
    "short": (Short(-300), HeaderType.SHORT, "-300"),
    "int": (Int(70_000), HeaderType.INT, "70000"),
    "long": (2**40, HeaderType.LONG, "1099511627776"),
    "float": (Float(3.140000104904175), HeaderType.FLOAT, "3.14"),
    "double": (1e100, HeaderType.DOUBLE, "1e+100"),
    "infinite": (Float("-inf"), HeaderType.FLOAT, "-Infinity"),
    "binary": (b"\x00\xff", HeaderType.BINARY, "AP8="),
    "null": (None, HeaderType.NULL, ""),
    "ubyte": (UByte(255), HeaderType.UBYTE, "255"),
    "ushort": (UShort(65_535), HeaderType.USHORT, "65535"),
    "uint": (UInt(0), HeaderType.UINT, "0"),
    "ulong": (ULong(2**64 - 1), HeaderType.ULONG, "18446744073709551615"),
    "char": (Char("ß"), HeaderType.CHAR, "ß"),
    "timestamp": (Timestamp(1_700_000_000_000), HeaderType.TIMESTAMP, "1700000000000"),
    "uuid": (UUID(int=1), HeaderType.UUID, "00000000-0000-0000-0000-000000000001"),
    "symbol": (Symbol("sym"), HeaderType.SYMBOL, "sym"),
    "decimal32": (Decimal32(bytes(4)), HeaderType.DECIMAL32, "AAAAAA=="),
    "decimal64": (Decimal64(bytes(8)), HeaderType.DECIMAL64, "AAAAAAAAAAA="),
    "decimal128": (Decimal128(bytes(16)), HeaderType.DECIMAL128, "AAAAAAAAAAAAAAAAAAAAAA=="),
}


@pytest.mark.parametrize("name", PROPERTIES)
def test_a_property_of_every_type_becomes_the_text_of_a_header(name: str) -> None:
    value, type, text = PROPERTIES[name]
    found = index(AmqpMessage(application_properties={name: value}).encode())
    assert found.application_properties == {name: text}
    assert found.types == ({} if type is HeaderType.STRING else {name: type})


def test_the_texts_are_plain_strings_that_headers_read_back() -> None:
    message = AmqpMessage(application_properties={name: value for name, (value, _, _) in PROPERTIES.items()})
    found = index(message.encode())
    assert {type(text) for text in found.application_properties.values()} == {str}
    for name, text in found.application_properties.items():
        value = PROPERTIES[name][0]
        read = Header(text, found.types.get(name, HeaderType.STRING)).value
        if isinstance(value, Float):
            assert Float(read).hex() == Float(text).hex()  # type: ignore[arg-type]
        else:
            assert read == (str(value) if isinstance(value, UUID) else value)


def test_header_annotations_and_properties_are_decoded() -> None:
    message = AmqpMessage(
        header=MessageHeader(durable=True, delivery_count=1),
        message_annotations={"x-opt-jms-msg-type": Byte(5), "x-opt-bridge.key": "k", "list": [1]},
        properties=MessageProperties(message_id="ID:1", to="orders", creation_time=5),
    )
    found = index(message.encode())
    assert found.header == message.header
    assert found.annotations == message.message_annotations
    assert found.properties == message.properties


def test_sections_that_are_not_there_are_empty() -> None:
    found = index(b"")
    assert found.header == MessageHeader()
    assert found.properties == MessageProperties()
    assert found.annotations == {}
    assert found.application_properties == {}
    assert found.body_section == 0
    assert found.spans == ()


def contents(message: AmqpMessage) -> tuple[int, str, list[bytes]]:
    data = message.encode()
    found = index(data)
    return found.body_section, found.body_type, [data[o : o + n] for o, n in found.spans]


@pytest.mark.parametrize("size", [0, 5, 255, 256, 70_000])
def test_the_content_of_text_and_bytes_lies_where_the_span_says(size: int) -> None:
    content = b"a" * size
    assert contents(AmqpMessage(body=Data((content,)))) == (DATA, "binary", [content])
    assert contents(AmqpMessage(body=AmqpValue(content))) == (AMQP_VALUE, "binary", [content])
    assert contents(AmqpMessage(body=AmqpValue(content.decode()))) == (AMQP_VALUE, "string", [content])


def test_several_sections_have_a_span_each() -> None:
    assert contents(AmqpMessage(body=Data((b"a", b"", b"b")), footer={})) == (
        DATA,
        "binary",
        [b"a", b"", b"b"],
    )
    section, type, spans = contents(AmqpMessage(body=AmqpSequence(([1], ["a", None]))))
    assert (section, type) == (AMQP_SEQUENCE, "list")
    assert [decode_value(span) for span in spans] == [[1], ["a", None]]


@pytest.mark.parametrize(
    ("value", "type"),
    [
        (None, "null"),
        (1, "long"),
        ({"a": [1]}, "map"),
        ([], "list"),
        (UUID(int=1), "uuid"),
        (True, "boolean"),
    ],
)
def test_any_other_value_is_spanned_whole(value: object, type: str) -> None:
    section, found_type, spans = contents(AmqpMessage(body=AmqpValue(value)))
    assert (section, found_type) == (AMQP_VALUE, type)
    assert [decode_value(span) for span in spans] == [value]


def test_the_body_is_not_looked_into() -> None:
    broken_body = bytes.fromhex("005377 c0 03 05 ff ff")
    assert index(broken_body).body_type == "list"
