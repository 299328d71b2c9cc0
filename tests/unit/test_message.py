"""Typed headers, bodies within a value, and the names that headers go by."""

from __future__ import annotations

import math
import struct

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from isthmus.errors import EncodeError
from isthmus.message import (
    INTEGER_RANGES,
    STANDARD_HEADERS,
    Body,
    BodyKind,
    Header,
    HeaderType,
    HeaderValue,
    Message,
    Span,
    canonical_header_name,
    property_header_name,
)

T = HeaderType
UUID_TEXT = "123e4567-e89b-12d3-a456-426614174000"

EDGES: dict[HeaderType, list[tuple[HeaderValue, str]]] = {
    T.STRING: [("", ""), ("Grüße 世界 🚀", "Grüße 世界 🚀"), ("a=b;c%", "a=b;c%")],
    T.BOOLEAN: [(True, "true"), (False, "false")],
    T.FLOAT: [(0.1, "0.1"), (-0.0, "-0.0"), (math.inf, "Infinity"), (16777216, "16777216.0")],
    T.DOUBLE: [(0.1, "0.1"), (5e-324, "5e-324"), (-math.inf, "-Infinity"), (3, "3.0")],
    T.BINARY: [(b"", ""), (b"\x00\xff", "AP8=")],
    T.NULL: [(None, "")],
    T.CHAR: [("x", "x"), ("🚀", "🚀")],
    T.UUID: [(UUID_TEXT, UUID_TEXT)],
    T.SYMBOL: [("amqp:symbol", "amqp:symbol")],
    T.DECIMAL32: [(b"\x00\x01\x02\x03", "AAECAw==")],
    T.DECIMAL64: [(bytes(8), "AAAAAAAAAAA=")],
    T.DECIMAL128: [(bytes(16), "AAAAAAAAAAAAAAAAAAAAAA==")],
    **{type: [(edge, str(edge)) for edge in (low, 0, high)] for type, (low, high) in INTEGER_RANGES.items()},
}


def test_no_type_is_left_out_of_this_file() -> None:
    assert set(EDGES) == set(HeaderType)


@pytest.mark.parametrize(
    ("type", "value", "text"), [(type, *edge) for type, edges in EDGES.items() for edge in edges]
)
def test_a_value_of_every_type_survives_as_text(type: HeaderType, value: HeaderValue, text: str) -> None:
    header = Header.of(value, type)
    assert header == Header(text, type)
    assert header.value == value


@pytest.mark.parametrize("type", INTEGER_RANGES)
def test_an_integer_outside_of_its_type_is_refused(type: HeaderType) -> None:
    low, high = INTEGER_RANGES[type]
    for outside in (low - 1, high + 1):
        with pytest.raises(EncodeError, match="out of range"):
            Header.of(outside, type)


@pytest.mark.parametrize(
    ("type", "value"),
    [
        (T.INT, True),
        (T.INT, 1.0),
        (T.INT, "1"),
        (T.INT, None),
        (T.BOOLEAN, 1),
        (T.BOOLEAN, "true"),
        (T.DOUBLE, False),
        (T.DOUBLE, "1.5"),
        (T.STRING, b"x"),
        (T.STRING, 1),
        (T.STRING, None),
        (T.BINARY, "x"),
        (T.NULL, ""),
        (T.UUID, b"\x00" * 16),
        (T.DECIMAL32, 1),
    ],
)
def test_a_value_of_another_type_is_refused(type: HeaderType, value: HeaderValue) -> None:
    with pytest.raises(EncodeError, match=f"is not a value of type {type}"):
        Header.of(value, type)


@pytest.mark.parametrize(
    ("type", "value"),
    [
        (T.CHAR, ""),
        (T.CHAR, "ab"),
        (T.UUID, "not a uuid"),
        (T.DECIMAL32, b"\x00"),
        (T.DECIMAL64, bytes(4)),
        (T.DECIMAL128, bytes(8)),
    ],
)
def test_a_value_of_the_wrong_length_or_shape_is_refused(type: HeaderType, value: HeaderValue) -> None:
    with pytest.raises(EncodeError):
        Header.of(value, type)


@pytest.mark.parametrize(
    ("type", "value"),
    [(T.FLOAT, 3.5e38), (T.FLOAT, -3.5e38), (T.FLOAT, 10**400), (T.DOUBLE, 10**400), (T.DOUBLE, -(10**400))],
    ids=["float", "float below", "int for float", "int for double", "int for double below"],
)
def test_a_number_too_large_for_its_type_is_refused(type: HeaderType, value: float) -> None:
    with pytest.raises(EncodeError, match="out of range"):
        Header.of(value, type)


@settings(max_examples=50)
@given(st.floats(-3.4028235677973362e38, 3.4028235677973362e38))
@example(3.4028234663852886e38)  # the largest float
@example(3.40282356e38)  # rounds to the largest float; with seven digits it would be larger
@example(1.17549435e-38)
@example(1e-45)
def test_a_float_has_the_text_of_the_nearest_float(value: float) -> None:
    nearest = struct.pack(">f", value)
    header = Header.of(value, T.FLOAT)
    assert isinstance(header.value, float)
    assert struct.pack(">f", header.value) == nearest
    assert Header.of(header.value, T.FLOAT) == header


@settings(max_examples=50)
@given(st.floats(allow_nan=False))
def test_a_double_comes_back_to_the_last_bit(value: float) -> None:
    came_back = Header.of(value).value
    assert isinstance(came_back, float)
    assert struct.pack(">d", came_back) == struct.pack(">d", value)


@pytest.mark.parametrize("type", [T.FLOAT, T.DOUBLE])
def test_not_a_number_is_spelled_as_java_does(type: HeaderType) -> None:
    header = Header.of(math.nan, type)
    assert header.text == "NaN"
    assert isinstance(header.value, float)
    assert math.isnan(header.value)


@pytest.mark.parametrize(
    ("value", "type"),
    [
        (None, T.NULL),
        (True, T.BOOLEAN),
        (2**31 - 1, T.INT),
        (-(2**31), T.INT),
        (2**31, T.LONG),
        (-(2**31) - 1, T.LONG),
        (1.5, T.DOUBLE),
        (b"x", T.BINARY),
        ("x", T.STRING),
    ],
)
def test_a_value_without_a_type_gets_its_natural_one(value: HeaderValue, type: HeaderType) -> None:
    assert Header.of(value).type is type
    assert Header.of(value).value == value


def test_an_integer_that_no_natural_type_holds_is_refused() -> None:
    with pytest.raises(EncodeError, match="out of range for long"):
        Header.of(2**63)


def test_a_text_is_a_string_unless_it_says_otherwise() -> None:
    assert Header("1") == Header("1", T.STRING)
    assert Header("1").value == "1"


# --- bodies ---------------------------------------------------------------------------------------------


def test_a_body_without_spans_is_the_whole_value() -> None:
    assert Body(BodyKind.TEXT).slice(b"whole") == b"whole"


def test_a_body_is_cut_out_of_the_value_and_its_pieces_are_joined() -> None:
    body = Body(BodyKind.BYTES, (Span(1, 2), Span(4, 1), Span(0, 0)))
    assert body.slice(b"0123456") == b"124"


def test_an_empty_body_and_a_tombstone_have_no_bytes() -> None:
    assert Body(BodyKind.EMPTY).slice(b"encoded headers") is None
    assert Body(BodyKind.TEXT).slice(None) is None


# --- names ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "jms_name"), STANDARD_HEADERS.items())
def test_a_standard_header_may_be_called_by_its_jms_name(name: str, jms_name: str) -> None:
    assert canonical_header_name(jms_name) == name
    assert canonical_header_name(jms_name.removeprefix("JMS")) == name
    assert canonical_header_name(name) == name


@pytest.mark.parametrize("name", ["region", "JMSXGroupID", "messageid", "jmsMessageID", "property.Type", ""])
def test_any_other_header_has_only_its_own_name(name: str) -> None:
    assert canonical_header_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        *STANDARD_HEADERS,
        *STANDARD_HEADERS.values(),
        "MessageID",
        "types",
        "Types",
        "TYPES",
        "property.region",
    ],
)
def test_a_property_whose_name_is_taken_is_carried_as_property(name: str) -> None:
    assert property_header_name(name) == f"property.{name}"


@pytest.mark.parametrize("name", ["region", "JMSXGroupID", "isthmus.op", "jmsbridge.origin", "typesetter"])
def test_any_other_property_keeps_its_name(name: str) -> None:
    assert property_header_name(name) == name


@settings(max_examples=50)
@given(st.lists(st.sampled_from(["Type", "JMSType", "types", "property.", "x"]), max_size=4).map("".join))
def test_the_name_of_a_property_can_be_told_from_its_header(name: str) -> None:
    carried = property_header_name(name)
    assert carried.removeprefix("property.") == name
    assert canonical_header_name(carried) == carried


# --- messages -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "durable"), [(None, True), ("PERSISTENT", True), ("NON_PERSISTENT", False), ("", True)]
)
def test_a_message_is_durable_unless_it_says_otherwise(mode: str | None, durable: bool) -> None:
    headers = {} if mode is None else {"DeliveryMode": Header(mode)}
    message = Message(
        id="1", address="a", protocol="amqp", value=b"", body=Body(BodyKind.TEXT), headers=headers
    )
    assert message.durable is durable
