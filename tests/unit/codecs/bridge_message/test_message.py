"""What `BridgeMessage` holds, hands out and writes."""

import copy
import math
import pickle

import msgspec
import pytest

from isthmus.codecs.bridge_message import (
    BridgeHeader,
    BridgeMessage,
    NoSuchProperty,
    Property,
    PropertyType,
    WrongPropertyType,
)
from isthmus.errors import EncodeError, IsthmusError

CODEC_NAMES = {
    "version": "version",
    "report": "report",
    "msg_type": "type",
    "expiry": "exp",
    "feedback": "feed",
    "encoding": "enc",
    "coded_char_set_id": "charset",
    "format": "format",
    "priority": "priority",
    "persistence": "persist",
    "msg_id": "msg_id",
    "correl_id": "corr_id",
    "backout_count": "backout",
    "reply_to_q": "rep_q",
    "reply_to_q_mgr": "rep_qmgr",
    "user_identifier": "user_id",
    "accounting_token": "acct_token",
    "appl_identity_data": "appl_id",
    "put_appl_type": "appl_type",
    "put_appl_name": "appl_name",
    "put_date": "date",
    "put_time": "time",
    "appl_origin_data": "appl_orig_data",
    "group_id": "grp_id",
    "msg_seq_number": "seq",
    "offset": "offset",
    "msg_flags": "flags",
    "original_length": "orig_length",
    "reply_to_channel": "reply_to_channel",
}

GETTERS = {
    PropertyType.STRING: ("get_string_property", "text"),
    PropertyType.INT8: ("get_int8_property", -128),
    PropertyType.INT16: ("get_int16_property", 32767),
    PropertyType.INT32: ("get_int32_property", -(2**31)),
    PropertyType.INT64: ("get_int64_property", 2**63 - 1),
    PropertyType.FLOAT32: ("get_float32_property", 1.5),
    PropertyType.FLOAT64: ("get_float64_property", 0.1),
    PropertyType.BOOL: ("get_bool_property", False),
    PropertyType.BYTES: ("get_bytes_property", b"\x00\xff"),
}


def with_property(value: object, type: PropertyType | None = None) -> BridgeMessage:
    message = BridgeMessage()
    message.set_property("p", value, type)
    return message


def written(message: BridgeMessage) -> object:
    return msgspec.msgpack.decode(message.encode())


def full_header() -> BridgeHeader:
    samples = {int: 7, str: "text", bytes: b"\x00\x01"}
    return BridgeHeader(
        **{field.name: samples[type(field.default)] for field in msgspec.structs.fields(BridgeHeader)}
    )


def test_every_header_field_is_written_under_its_codec_name() -> None:
    header = full_header()
    expected = {codec: getattr(header, name) for name, codec in CODEC_NAMES.items()}
    assert written(BridgeMessage(b"", header))["header"] == expected
    assert len(expected) == 29


def test_every_header_field_survives_the_round_trip() -> None:
    header = full_header()
    assert BridgeMessage.decode(BridgeMessage(b"x", header).encode()).header == header


def test_header_fields_at_their_zero_are_not_written() -> None:
    assert written(BridgeMessage(b"x", BridgeHeader(priority=4, format="")))["header"] == {"priority": 4}


def test_what_is_empty_is_left_out_however_it_was_made() -> None:
    message = BridgeMessage(b"x" * 0, BridgeHeader(msg_id=b"x" * 0, format="x" * 0, expiry=5 - 5))
    assert written(message) == {"header": {}}


def test_leading_and_trailing_zeros_of_a_byte_field_stay() -> None:
    message = BridgeMessage(b"", BridgeHeader(msg_id=b"\x00\x01\x00"))
    assert BridgeMessage.decode(message.encode()).header.msg_id == b"\x00\x01\x00"


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1, 1.0, True, "4", None, b"4"])
def test_a_header_integer_takes_only_integers_of_32_bits(value: object) -> None:
    header = BridgeHeader()
    with pytest.raises(EncodeError, match="priority"):
        header.priority = value
    with pytest.raises(EncodeError, match="priority"):
        BridgeHeader(priority=value)
    assert header.priority == 0


@pytest.mark.parametrize("value", [2**31 - 1, -(2**31)])
def test_a_header_integer_takes_the_whole_range(value: int) -> None:
    assert (
        BridgeMessage.decode(BridgeMessage(b"", BridgeHeader(expiry=value)).encode()).header.expiry == value
    )


def test_a_header_text_takes_no_bytes_and_a_byte_field_no_text() -> None:
    header = BridgeHeader()
    with pytest.raises(EncodeError, match="format takes str, not bytes"):
        header.format = b"MQSTR"
    with pytest.raises(EncodeError, match="msg_id takes bytes, not str"):
        header.msg_id = "id"


def test_a_header_has_no_other_fields() -> None:
    with pytest.raises(AttributeError):
        BridgeHeader().msgid = b""


def test_the_body_is_bytes() -> None:
    with pytest.raises(EncodeError, match="body is bytes, not str"):
        BridgeMessage("text")
    message = BridgeMessage(bytearray(b"abc"))
    with pytest.raises(EncodeError):
        message.body = None
    assert type(message.body) is bytes
    assert message.body == b"abc"


def test_the_header_is_a_bridge_header() -> None:
    with pytest.raises(EncodeError, match="header is a BridgeHeader, not dict"):
        BridgeMessage(b"", {"version": 1})


@pytest.mark.parametrize(
    ("value", "type", "encoded"),
    [
        ("text", PropertyType.STRING, "81 a5 76616c7565 a4 74657874"),
        ("", PropertyType.STRING, "81 a5 76616c7565 a0"),
        (0, PropertyType.INT8, "82 a4 74797065 01 a5 76616c7565 00"),
        (-1, PropertyType.INT16, "82 a4 74797065 02 a5 76616c7565 ff"),
        (2**31 - 1, PropertyType.INT32, "82 a4 74797065 03 a5 76616c7565 ce 7fffffff"),
        (-(2**63), PropertyType.INT64, "82 a4 74797065 04 a5 76616c7565 d3 8000000000000000"),
        (1.5, PropertyType.FLOAT32, "82 a4 74797065 05 a5 76616c7565 ca 3fc00000"),
        (0.0, PropertyType.FLOAT64, "82 a4 74797065 06 a5 76616c7565 cb 0000000000000000"),
        (False, PropertyType.BOOL, "82 a4 74797065 07 a5 76616c7565 c2"),
        (b"", PropertyType.BYTES, "82 a4 74797065 08 a5 76616c7565 c4 00"),
        (None, PropertyType.NULL, "81 a4 74797065 09"),
    ],
)
def test_a_property_is_written_in_one_form(value: object, type: PropertyType, encoded: str) -> None:
    property = bytes.fromhex("a5 70726f7073 81 a1 70" + encoded)
    assert with_property(value, type).encode().endswith(property)


@pytest.mark.parametrize(("type", "getter_and_value"), GETTERS.items())
def test_each_type_has_its_getter(type: PropertyType, getter_and_value: tuple[str, object]) -> None:
    getter, value = getter_and_value
    for message in (with_property(value, type), BridgeMessage.decode(with_property(value, type).encode())):
        got = getattr(message, getter)("p")
        assert got == value
        assert got.__class__ is value.__class__


@pytest.mark.parametrize("there", PropertyType)
def test_a_getter_of_another_type_says_so(there: PropertyType) -> None:
    value = None if there is PropertyType.NULL else GETTERS[there][1]
    message = with_property(value, there)
    for asked in GETTERS.keys() - {there}:
        with pytest.raises(
            WrongPropertyType, match=f"'p' is {there.name.lower()}, not {asked.name.lower()}"
        ) as raised:
            getattr(message, GETTERS[asked][0])("p")
        assert (raised.value.name, raised.value.asked, raised.value.found) == ("p", asked, there)
    assert isinstance(raised.value, IsthmusError)


def test_an_absent_property_is_not_a_null_one() -> None:
    message = with_property(None)
    assert message.has_property("p")
    assert message.properties["p"] == Property(PropertyType.NULL, None)
    assert not message.has_property("q")
    with pytest.raises(NoSuchProperty, match="no property 'q'") as raised:
        message.get_string_property("q")
    assert raised.value.name == "q"


@pytest.mark.parametrize(
    ("value", "type"),
    [
        ("s", PropertyType.STRING),
        (5, PropertyType.INT64),
        (5.0, PropertyType.FLOAT64),
        (True, PropertyType.BOOL),
        (b"b", PropertyType.BYTES),
        (bytearray(b"b"), PropertyType.BYTES),
        (memoryview(b"b"), PropertyType.BYTES),
        (None, PropertyType.NULL),
    ],
)
def test_without_a_type_the_natural_one_is_taken(value: object, type: PropertyType) -> None:
    assert with_property(value).properties["p"].type is type


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_integers_beyond_their_type_are_refused_not_cut(bits: int) -> None:
    type = PropertyType[f"INT{bits}"]
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    for value in (low, high):
        assert BridgeMessage.decode(with_property(value, type).encode()).properties["p"] == Property(
            type, value
        )
    for value in (low - 1, high + 1):
        with pytest.raises(EncodeError, match=f"{value} is out of range for int{bits}: {low} to {high}"):
            with_property(value, type)


def test_259_is_no_int8() -> None:
    with pytest.raises(EncodeError, match="259 is out of range for int8"):
        with_property(259, PropertyType.INT8)


@pytest.mark.parametrize(
    ("value", "type"),
    [
        (1, PropertyType.STRING),
        (b"x", PropertyType.STRING),
        ("1", PropertyType.INT32),
        (True, PropertyType.INT32),
        (1.0, PropertyType.INT64),
        (True, PropertyType.FLOAT64),
        ("1.0", PropertyType.FLOAT32),
        (1, PropertyType.BOOL),
        ("x", PropertyType.BYTES),
        (0, PropertyType.NULL),
        (None, PropertyType.STRING),
    ],
)
def test_a_value_of_another_type_is_refused(value: object, type: PropertyType) -> None:
    with pytest.raises(EncodeError, match=f"not a value of type {type.name.lower()}"):
        with_property(value, type)


@pytest.mark.parametrize("value", [[1], {"a": 1}, 1j, object()])
def test_a_value_without_a_type_is_refused(value: object) -> None:
    with pytest.raises(EncodeError, match="not a value that a property can have"):
        with_property(value)


@pytest.mark.parametrize("type", [10, -1, 0.5, "string"])
def test_an_unknown_type_is_refused(type: object) -> None:
    with pytest.raises(EncodeError, match="is not a property type"):
        with_property(1, type)


def test_a_name_is_text() -> None:
    with pytest.raises(EncodeError, match="name is a str, not int"):
        BridgeMessage().set_property(5, 5)


def test_a_float32_is_rounded_when_it_is_set() -> None:
    message = with_property(3.14, PropertyType.FLOAT32)
    assert message.get_float32_property("p") == 3.140000104904175
    assert BridgeMessage.decode(message.encode()) == message


@pytest.mark.parametrize("value", [3.5e38, -3.5e38, 10**400])
def test_a_float32_out_of_range_is_refused(value: float) -> None:
    with pytest.raises(EncodeError, match="out of range for float32"):
        with_property(value, PropertyType.FLOAT32)


@pytest.mark.parametrize("type", [PropertyType.FLOAT32, PropertyType.FLOAT64])
@pytest.mark.parametrize("value", [math.inf, -math.inf, -0.0, 1e-45, 7])
def test_floats_keep_their_special_values(type: PropertyType, value: float) -> None:
    rounded = 1.401298464324817e-45 if (type, value) == (PropertyType.FLOAT32, 1e-45) else value
    got = BridgeMessage.decode(with_property(value, type).encode()).properties["p"].value
    assert (got, math.copysign(1, got)) == (rounded, math.copysign(1, rounded))
    assert math.isnan(BridgeMessage.decode(with_property(math.nan, type).encode()).properties["p"].value)


def test_numbers_and_texts_of_subclasses_are_written_as_plain_ones() -> None:
    message = with_property(PropertyType.BYTES, PropertyType.INT32)
    message.header.priority = PropertyType.INT64
    assert written(message) == {"header": {"priority": 4}, "props": {"p": {"type": 3, "value": 8}}}


def test_setting_a_property_again_replaces_value_and_type() -> None:
    message = with_property(1)
    message.set_property("p", "one")
    assert dict(message.properties) == {"p": Property(PropertyType.STRING, "one")}


def test_a_deleted_property_is_gone_and_returned() -> None:
    message = BridgeMessage.decode(with_property(5, PropertyType.INT8).encode())
    assert message.delete_property("p") == Property(PropertyType.INT8, 5)
    assert message.delete_property("p") is None
    assert not message.has_property("p")
    assert written(message) == {"header": {}}


def test_the_view_of_the_properties_cannot_be_written_to() -> None:
    with pytest.raises(TypeError):
        with_property(1).properties["p"] = None


def test_a_decoded_message_can_be_changed_and_written_again() -> None:
    message = BridgeMessage.decode(with_property(1.5, PropertyType.FLOAT32).encode())
    message.body = b"new"
    message.header.version = 2
    message.set_property("q", 1)
    expected = BridgeMessage(b"new", BridgeHeader(version=2))
    expected.set_property("q", 1)
    expected.set_property("p", 1.5, PropertyType.FLOAT32)
    assert BridgeMessage.decode(message.encode()) == expected


def test_text_that_is_not_unicode_cannot_be_written() -> None:
    for message in (with_property("\ud800"), BridgeMessage(b"", BridgeHeader(format="\ud800"))):
        with pytest.raises(EncodeError):
            message.encode()


@pytest.mark.parametrize("size", [0, 1, 31, 32, 255, 256, 65535, 65536])
def test_texts_and_bytes_of_any_length_survive(size: int) -> None:
    message = BridgeMessage(b"b" * size, BridgeHeader(format="f" * size, msg_id=b"i" * size))
    message.set_property("ü" * size, "é" * size)
    message.set_property("bytes", b"\xff" * size)
    assert BridgeMessage.decode(message.encode()) == message


@pytest.mark.parametrize("count", [0, 1, 15, 16, 65536])
def test_any_number_of_properties_survives(count: int) -> None:
    message = BridgeMessage()
    for number in range(count):
        message.set_property(str(number), number, PropertyType.INT32)
    decoded = BridgeMessage.decode(message.encode())
    assert decoded == message
    assert count == 0 or decoded.get_int32_property(str(count - 1)) == count - 1


def test_equality_is_of_content_not_of_order() -> None:
    first, second = BridgeMessage(b"x"), BridgeMessage(b"x")
    for name in ("a", "b"):
        first.set_property(name, math.nan)
    for name in ("b", "a"):
        second.set_property(name, math.nan)
    assert first == second
    second.set_property("a", 1)
    assert first != second
    assert first != BridgeMessage(b"y")
    assert first != b"x"


def test_the_type_of_a_property_counts_in_equality() -> None:
    assert with_property(1, PropertyType.INT8) != with_property(1, PropertyType.INT16)


def test_messages_can_be_copied_and_pickled() -> None:
    message = BridgeMessage(b"x", full_header())
    message.set_property("f", 0.1, PropertyType.FLOAT32)
    for original in (message, BridgeMessage.decode(message.encode())):
        assert copy.deepcopy(original) == message
        assert pickle.loads(pickle.dumps(original)) == message


def test_a_message_is_not_hashable() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(BridgeMessage())


def test_the_repr_shows_what_is_set() -> None:
    message = with_property(5, PropertyType.INT8)
    message.body = b"x" * 100
    message.header.priority = 4
    assert repr(message) == (
        f"BridgeMessage(body={b'x' * 64}… (100 bytes), "
        "header=BridgeHeader(priority=4), properties={'p': int8 5})"
    )
