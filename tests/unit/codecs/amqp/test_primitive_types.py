"""Every primitive encoding of the specification (part 1, 1.6), read and written."""

from __future__ import annotations

import math
import struct
from datetime import UTC, datetime
from uuid import UUID

import pytest

from isthmus.codecs.amqp import (
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Float,
    Int,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
    decode_value,
    encode_value,
)

SOME_UUID = UUID("00112233-4455-6677-8899-aabbccddeeff")
LONG_TEXT = "ü" * 200

COMPACT = [
    ("40", None),
    ("41", True),
    ("42", False),
    ("50 ff", UByte(255)),
    ("60 0100", UShort(256)),
    ("43", UInt(0)),
    ("52 01", UInt(1)),
    ("52 ff", UInt(255)),
    ("70 00000100", UInt(256)),
    ("70 ffffffff", UInt(2**32 - 1)),
    ("44", ULong(0)),
    ("53 ff", ULong(255)),
    ("80 0000000000000100", ULong(256)),
    ("80 ffffffffffffffff", ULong(2**64 - 1)),
    ("51 80", Byte(-128)),
    ("61 8000", Short(-(2**15))),
    ("61 7fff", Short(2**15 - 1)),
    ("54 80", Int(-128)),
    ("54 7f", Int(127)),
    ("71 00000080", Int(128)),
    ("71 80000000", Int(-(2**31))),
    ("71 7fffffff", Int(2**31 - 1)),
    ("55 ff", -1),
    ("81 ffffffffffffff7f", -129),
    ("81 7fffffffffffffff", 2**63 - 1),
    ("81 8000000000000000", -(2**63)),
    ("72 3fc00000", Float(1.5)),
    ("72 ff800000", Float(-math.inf)),
    ("82 3ff8000000000000", 1.5),
    ("82 8000000000000000", -0.0),
    ("74 22000005", Decimal32(b"\x22\x00\x00\x05")),
    ("84 0102030405060708", Decimal64(bytes(range(1, 9)))),
    ("94" + bytes(range(16)).hex(), Decimal128(bytes(range(16)))),
    ("73 00000041", Char("A")),
    ("73 0001f600", Char("😀")),
    ("83 0000018bcfe56800", Timestamp(1_700_000_000_000)),
    ("83 ffffffffffffffff", Timestamp(-1)),
    ("98 00112233445566778899aabbccddeeff", SOME_UUID),
    ("a0 00", b""),
    ("a0 03 010203", b"\x01\x02\x03"),
    ("b0 00000100" + "aa" * 256, b"\xaa" * 256),
    ("a1 00", ""),
    ("a1 07 4772c3bcc39f65", "Grüße"),
    ("b1 00000190" + LONG_TEXT.encode().hex(), LONG_TEXT),
    ("a3 01 61", Symbol("a")),
    ("b3 00000100" + "61" * 256, Symbol("a" * 256)),
    ("45", []),
]

WIDE = [
    ("56 00", False),
    ("56 01", True),
    ("70 00000000", UInt(0)),
    ("52 00", UInt(0)),
    ("80 0000000000000001", ULong(1)),
    ("53 00", ULong(0)),
    ("71 ffffffff", Int(-1)),
    ("81 ffffffffffffffff", -1),
    ("b0 00000001 07", b"\x07"),
    ("b1 00000001 61", "a"),
    ("b3 00000001 61", Symbol("a")),
    ("c0 01 00", []),
    ("d0 00000004 00000000", []),
]


@pytest.mark.parametrize(("encoding", "value"), COMPACT + WIDE)
def test_an_encoding_is_read_as_a_value_of_its_own_type(encoding: str, value: object) -> None:
    decoded = decode_value(bytes.fromhex(encoding))
    assert decoded == value
    assert type(decoded) is type(value)


@pytest.mark.parametrize(("encoding", "value"), COMPACT)
def test_a_value_is_written_in_its_most_compact_encoding(encoding: str, value: object) -> None:
    assert encode_value(value) == bytes.fromhex(encoding)


@pytest.mark.parametrize(("_encoding", "value"), WIDE)
def test_a_value_that_came_in_a_wide_encoding_goes_out_in_a_narrow_one(_encoding: str, value: object) -> None:
    assert decode_value(encode_value(value)) == value
    assert len(encode_value(value)) < len(bytes.fromhex(_encoding))


def test_numbers_that_are_equal_to_python_are_written_as_what_they_are() -> None:
    ones = [True, UByte(1), UShort(1), UInt(1), ULong(1), Byte(1), Short(1), Int(1), 1, Timestamp(1), 1.0]
    assert all(one == 1 for one in ones)
    assert len({encode_value(one) for one in ones}) == len(ones)


def test_a_float_that_is_not_a_number_stays_one() -> None:
    assert math.isnan(decode_value(encode_value(Float(math.nan))))  # type: ignore[arg-type]
    assert math.isnan(decode_value(encode_value(math.nan)))  # type: ignore[arg-type]


def test_a_float_is_rounded_to_32_bits_when_it_is_written() -> None:
    assert decode_value(encode_value(Float(0.1))) == struct.unpack(">f", struct.pack(">f", 0.1))[0]


def test_a_timestamp_is_a_moment_in_utc() -> None:
    moment = datetime(2023, 11, 14, 22, 13, 20, 999_000, tzinfo=UTC)
    assert Timestamp.from_datetime(moment) == 1_700_000_000_999
    assert Timestamp(1_700_000_000_999).to_datetime() == moment
    assert Timestamp(-1).to_datetime() == datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)


def test_a_value_prints_as_python_would_and_shows_its_type_to_a_developer() -> None:
    assert f"{UInt(5)} {Float(1.5)} {Symbol('a')} {Char('b')}" == "5 1.5 a b"
    assert str(UInt(5)) == "5"
    assert repr([UInt(5), Float(1.5), Symbol("a"), Char("b"), Decimal32(b"abcd")]) == (
        "[UInt(5), Float(1.5), Symbol('a'), Char('b'), Decimal32(b'abcd')]"
    )


def test_a_subclass_is_written_as_what_it_extends() -> None:
    class Region(str):
        pass

    assert encode_value(Region("EU")) == encode_value("EU")
