"""What other writers send for the same message is read as that message."""

import struct
from collections.abc import Callable

import pytest
from msgspec.msgpack import encode

from isthmus.codecs.bridge_message import BridgeHeader, BridgeMessage, Property, PropertyType

NIL = b"\xc0"


def packed_map(*entries: tuple[bytes, bytes]) -> bytes:
    """A map of texts to values that are encoded already, none of them in a form that msgspec would choose."""
    return bytes([0x80 + len(entries)]) + b"".join(encode(key.decode()) + value for key, value in entries)


def message_with(*properties: tuple[bytes, bytes]) -> BridgeMessage:
    return BridgeMessage.decode(packed_map((b"props", packed_map(*properties))))


def value_read(type: int, value: bytes) -> object:
    """What is read for a property ``p`` with this encoded value."""
    message = message_with((b"p", packed_map((b"type", encode(type)), (b"value", value))))
    property = message.properties["p"]
    assert property.type == type
    assert BridgeMessage.decode(message.encode()) == message
    return property.value


def text8(data: bytes) -> bytes:
    return b"\xd9" + bytes([len(data)]) + data


@pytest.mark.parametrize("empty", [NIL, b"\x80", b"\xde\x00\x00", b"\xdf\x00\x00\x00\x00"])
def test_an_empty_header_and_empty_properties_have_many_forms(empty: bytes) -> None:
    data = packed_map((b"props", empty), (b"header", empty), (b"body", NIL))
    assert BridgeMessage.decode(data) == BridgeMessage()


@pytest.mark.parametrize("empty", [b"\x80", b"\xde\x00\x00", b"\xdf\x00\x00\x00\x00"])
def test_an_empty_message_has_many_forms(empty: bytes) -> None:
    assert BridgeMessage.decode(empty) == BridgeMessage()


@pytest.mark.parametrize(
    "widen", [lambda n: b"\xde" + struct.pack(">H", n), lambda n: b"\xdf" + struct.pack(">I", n)]
)
def test_maps_of_any_width_are_read(widen: Callable[[int], bytes]) -> None:
    property = widen(2) + b"\xa4type\x01\xa5value\x05"
    data = (
        widen(3)
        + b"\xa4body\xc4\x01x\xa6header"
        + widen(1)
        + b"\xa3seq\x07\xa5props"
        + widen(1)
        + b"\xa1p"
        + property
    )
    expected = BridgeMessage(b"x", BridgeHeader(msg_seq_number=7))
    expected.set_property("p", 5, PropertyType.INT8)
    assert BridgeMessage.decode(data) == expected


def test_unknown_keys_are_ignored_on_every_level() -> None:
    nested = {"a": [1, {"b": None}], "c": {"d": 1.5}}
    data = encode(
        {
            "later": nested,
            "header": {"version": 2, "later": nested},
            "props": {"p": {"type": 1, "later": nested, "value": 5}},
            "body": b"x",
        }
    )
    expected = BridgeMessage(b"x", BridgeHeader(version=2))
    expected.set_property("p", 5, PropertyType.INT8)
    assert BridgeMessage.decode(data) == expected


def test_the_last_of_two_keys_counts() -> None:
    message = BridgeMessage.decode(
        packed_map(
            (b"body", b"\xc4\x01a"),
            (b"body", b"\xc4\x01b"),
            (b"props", packed_map((b"p", encode({"value": "a"})), (b"p", encode({"value": "b"})))),
        )
    )
    assert message.body == b"b"
    assert message.get_string_property("p") == "b"
    assert message.encode().count(b"\xa1p") == 1


def test_nil_is_empty_in_every_header_field() -> None:
    names = list(BridgeHeader.__struct_encode_fields__)
    header = b"\xde" + struct.pack(">H", len(names)) + b"".join(encode(name) + NIL for name in names)
    assert BridgeMessage.decode(packed_map((b"header", header))).header == BridgeHeader()


def test_the_java_helper_calls_appl_orig_data_appl_orig() -> None:
    assert BridgeMessage.decode(encode({"header": {"appl_orig": "x"}})).header.appl_origin_data == "x"


@pytest.mark.parametrize("names", [["appl_orig", "appl_orig_data"], ["appl_orig_data", "appl_orig"]])
def test_the_proper_name_wins_over_its_alias(names: list[str]) -> None:
    data = encode({"header": {name: name for name in names}})
    assert BridgeMessage.decode(data).header.appl_origin_data == "appl_orig_data"


def test_the_type_of_a_string_may_be_written() -> None:
    assert value_read(0, encode("x")) == "x"


def test_type_and_value_may_come_in_any_order() -> None:
    message = message_with((b"p", packed_map((b"value", b"\x05"), (b"type", b"\x01"))))
    assert message.get_int8_property("p") == 5


@pytest.mark.parametrize("type", [1, 2, 3, 4])
@pytest.mark.parametrize(
    "encoded",
    [b"\x05", *[bytes([code + at]) + bytes(2**at - 1) + b"\x05" for code in (0xCC, 0xD0) for at in range(4)]],
)
def test_integers_are_read_in_any_width(type: int, encoded: bytes) -> None:
    assert value_read(type, encoded) == 5
    assert (
        BridgeMessage.decode(packed_map((b"header", packed_map((b"seq", encoded))))).header.msg_seq_number
        == 5
    )


def test_an_unsigned_byte_of_go_is_the_int8_with_the_same_bits() -> None:
    assert value_read(1, b"\xcc\xc8") == -56


def test_a_float32_may_come_as_float64_and_is_rounded() -> None:
    assert value_read(5, encode(3.14)) == 3.140000104904175


def test_a_float_may_come_as_an_integer() -> None:
    assert value_read(6, b"\x05") == 5.0
    assert value_read(5, b"\x05") == 5.0


def test_a_float64_may_come_as_float32() -> None:
    assert value_read(6, b"\xca\x3f\xc0\x00\x00") == 1.5


@pytest.mark.parametrize(
    "content", [b"", b"text", b"\xff\x00\xfe", b"\xff" * 40, b"\xff" * 300, b"\xff" * 70000]
)
def test_raw_strings_are_read_where_bytes_are_meant(content: bytes) -> None:
    if len(content) < 32:
        raw = bytes([0xA0 + len(content)]) + content
    elif len(content) < 256:
        raw = text8(content)
    elif len(content) < 65536:
        raw = b"\xda" + struct.pack(">H", len(content)) + content
    else:
        raw = b"\xdb" + struct.pack(">I", len(content)) + content
    assert value_read(8, raw) == content
    message = BridgeMessage.decode(packed_map((b"body", raw), (b"header", packed_map((b"msg_id", raw)))))
    assert message.body == content
    assert message.header.msg_id == content


@pytest.mark.parametrize("raw", [b"\xc4\x04t\xc3\xa9x", b"\xc5\x00\x04t\xc3\xa9x", b"\xd9\x04t\xc3\xa9x"])
def test_bytes_are_read_where_text_is_meant(raw: bytes) -> None:
    assert value_read(0, raw) == "téx"
    assert BridgeMessage.decode(packed_map((b"header", packed_map((b"format", raw))))).header.format == "téx"


@pytest.mark.parametrize(
    ("type", "zero"),
    [(0, ""), (1, 0), (2, 0), (3, 0), (4, 0), (5, 0.0), (6, 0.0), (7, False), (8, b""), (9, None)],
)
def test_a_value_that_is_nil_or_absent_is_the_zero_of_its_type(type: int, zero: object) -> None:
    read = [
        message_with((b"p", packed_map((b"type", encode(type)), (b"value", NIL)))),
        message_with((b"p", packed_map((b"type", encode(type))))),
    ]
    for message in read:
        assert message.properties["p"] == Property(PropertyType(type), zero)


def test_a_property_that_is_nil_or_empty_is_an_empty_string() -> None:
    message = message_with(
        (b"nil", NIL), (b"empty", b"\x80"), (b"nils", packed_map((b"type", NIL), (b"value", NIL)))
    )
    assert set(message.properties.values()) == {Property(PropertyType.STRING, "")}


def test_any_buffer_is_read_and_may_be_used_again() -> None:
    message = BridgeMessage(b"x")
    message.set_property("p", "before")
    buffer = bytearray(message.encode())
    for data in (buffer, memoryview(buffer)):
        decoded = BridgeMessage.decode(data)
        before = bytes(buffer)
        buffer[-6:] = b"after!"
        assert decoded.get_string_property("p") == "before"
        buffer[:] = before
