"""Lists, maps, arrays and described values, in every width."""

from __future__ import annotations

from uuid import UUID

import pytest

from isthmus.codecs.amqp import (
    AmqpMessage,
    Array,
    Described,
    Int,
    Pairs,
    Symbol,
    Timestamp,
    UInt,
    ULong,
    decode_value,
    decode_values,
    encode_value,
    index,
)
from isthmus.codecs.amqp.values import MAX_NUMERIC_KEYS
from isthmus.errors import DecodeError


@pytest.mark.parametrize(
    ("encoding", "value"),
    [
        ("c0 04 02 54 01 41", [Int(1), True]),
        ("d0 00000007 00000002 54 01 41", [Int(1), True]),
        ("c1 01 00", {}),
        ("c1 06 02 a1 01 61 54 01", {"a": Int(1)}),
        ("d1 00000009 00000002 a1 01 61 54 01", {"a": Int(1)}),
        ("e0 04 02 54 01 02", Array("int", [Int(1), Int(2)])),
        ("f0 00000007 00000002 54 01 02", Array("int", [Int(1), Int(2)])),
        ("00 53 24 45", Described(ULong(0x24), [])),
        ("00 a3 03 666f6f a1 01 78", Described(Symbol("foo"), "x")),
    ],
)
def test_every_width_of_a_compound_is_read(encoding: str, value: object) -> None:
    assert decode_value(bytes.fromhex(encoding)) == value
    assert decode_value(encode_value(value)) == value


@pytest.mark.parametrize(
    ("value", "start"),
    [
        (["x" * 252], "c0 ff 01"),
        (["x" * 253], "d0 00000103 00000001"),
        ([None] * 254, "c0 ff fe"),
        ([None] * 255, "d0 00000103 000000ff"),
        ({"k": "x" * 249}, "c1 ff 02"),
        ({"k": "x" * 250}, "d1 00000103 00000002"),
        (Array("boolean", [True] * 253), "e0 ff fd"),
        (Array("boolean", [True] * 254), "f0 00000103 000000fe"),
    ],
)
def test_a_compound_is_as_wide_as_its_size_needs(value: object, start: str) -> None:
    encoded = encode_value(value)
    assert encoded.startswith(bytes.fromhex(start))
    assert decode_value(encoded) == value


def test_a_map_keeps_its_order() -> None:
    assert list(decode_value(encode_value({"b": 1, "a": 2}))) == ["b", "a"]  # type: ignore[call-overload]


def test_keys_that_only_python_takes_for_equal_make_pairs_of_a_map() -> None:
    pairs = Pairs([(Symbol("a"), 1), ("a", 2), (1, 3), (UInt(1), 4), (True, 5), (1.0, 6)])
    decoded = decode_value(encode_value(pairs))
    assert isinstance(decoded, Pairs)
    assert [(type(key), value) for key, value in decoded] == [(type(key), value) for key, value in pairs]


@pytest.mark.parametrize(
    "key", [[1], {"a": 1}, Array("int", [Int(1)]), Described(Symbol("a"), 1), UUID(int=1)], ids=repr
)
def test_a_key_that_no_dict_takes_makes_pairs_of_a_map(key: object) -> None:
    decoded = decode_value(encode_value(Pairs([("first", 0), (key, 1), ("last", 2)])))
    assert decoded == Pairs([("first", 0), (key, 1), ("last", 2)])


ARRAYS = [
    ("null", [None, None, None], "e0 02 03 40"),
    ("boolean", [True, False], "e0 04 02 56 0100"),
    ("ubyte", [0, 255], "e0 04 02 50 00ff"),
    ("ushort", [1], "e0 04 01 60 0001"),
    ("uint", [0, 255], "e0 04 02 52 00ff"),
    ("uint", [0, 256], "e0 0a 02 70 0000000000000100"),
    ("ulong", [0, 1], "e0 04 02 53 0001"),
    ("ulong", [0, 2**64 - 1], "e0 12 02 80 0000000000000000ffffffffffffffff"),
    ("byte", [-1], "e0 03 01 51 ff"),
    ("short", [-2], "e0 04 01 61 fffe"),
    ("int", [-1, 127], "e0 04 02 54 ff7f"),
    ("int", [-1, 128], "e0 0a 02 71 ffffffff00000080"),
    ("long", [-1], "e0 03 01 55 ff"),
    ("long", [-1, 2**40], "e0 12 02 81 ffffffffffffffff0000010000000000"),
    ("float", [1.5], "e0 06 01 72 3fc00000"),
    ("double", [1.5], "e0 0a 01 82 3ff8000000000000"),
    ("char", ["A"], "e0 06 01 73 00000041"),
    ("timestamp", [1], "e0 0a 01 83 0000000000000001"),
    ("decimal32", [b"\0\0\0\1"], "e0 06 01 74 00000001"),
    ("binary", [b"", b"\1"], "e0 05 02 a0 00 0101"),
    ("string", ["a", ""], "e0 05 02 a1 0161 00"),
    ("symbol", ["a", "b"], "e0 06 02 a3 0161 0162"),
    ("list", [[], [None]], "e0 07 02 c0 0100 020140"),
    ("map", [{}, {"a": None}], "e0 0a 02 c1 0100 0502a1016140"),
    ("array", [Array("null", [None])], "e0 05 01 e0 020140"),
    ("string", [], "e0 02 00 a1"),
    ("list", [], "e0 02 00 c0"),
]


@pytest.mark.parametrize(("type", "items", "encoding"), ARRAYS)
def test_an_array_has_one_constructor_the_narrowest_that_fits_all(
    type: str, items: list[object], encoding: str
) -> None:
    encoded = encode_value(Array(type, items))
    assert encoded == bytes.fromhex(encoding)
    assert decode_value(encoded) == Array(type, items)


@pytest.mark.parametrize(
    ("type", "items"),
    [
        ("string", ["a", "b" * 300]),
        ("binary", [b"", b"b" * 300]),
        ("symbol", ["a", "b" * 300]),
        ("list", [[], [None], ["a" * 300]]),
        ("map", [{}, {"a": "b" * 300}]),
        ("array", [Array("int", [Int(1)]), Array("string", ["a" * 300])]),
    ],
)
def test_one_large_element_widens_all_others(type: str, items: list[object]) -> None:
    assert decode_value(encode_value(Array(type, items))) == Array(type, items)


@pytest.mark.parametrize(
    ("encoding", "array"),
    [
        ("e0 02 03 41", Array("boolean", [True, True, True])),
        ("e0 02 02 42", Array("boolean", [False, False])),
        ("e0 02 02 43", Array("uint", [UInt(0), UInt(0)])),
        ("e0 02 02 44", Array("ulong", [ULong(0), ULong(0)])),
        ("e0 02 02 45", Array("list", [[], []])),
        ("e0 07 01 00 a3 01 78 54 05", Array("int", [Int(5)], (Symbol("x"),))),
        ("e0 09 01 00 53 01 00 53 02 54 05", Array("int", [Int(5)], (ULong(1), ULong(2)))),
    ],
)
def test_arrays_that_others_write_are_read(encoding: str, array: Array) -> None:
    assert decode_value(bytes.fromhex(encoding)) == array
    assert decode_value(encode_value(array)) == array


def test_values_that_follow_each_other_are_read_one_by_one() -> None:
    assert decode_values(encode_value("a") + encode_value([]) + encode_value(None)) == ["a", [], None]
    assert decode_values(b"") == []


@pytest.mark.parametrize("number", [int, ULong, Timestamp, float])
def test_numbers_that_a_sender_chose_for_their_hashes_are_no_keys_of_a_dict(number: type) -> None:
    few = Pairs([(number(key), None) for key in range(MAX_NUMERIC_KEYS)])
    assert decode_value(encode_value(few)) == dict(few)
    many = Pairs([*few, (number(1 << 40), None), ("text", 1)])
    assert decode_value(encode_value(many)) == many


def test_more_numbers_than_a_dict_may_hold_are_no_annotations() -> None:
    def message(count: int) -> bytes:
        return b"\x00\x53\x72" + encode_value({ULong(key): 1 for key in range(count)})

    assert len(AmqpMessage.decode(message(MAX_NUMERIC_KEYS)).message_annotations or {}) == MAX_NUMERIC_KEYS
    for read in (AmqpMessage.decode, index):
        with pytest.raises(DecodeError, match="numbers for keys"):
            read(message(MAX_NUMERIC_KEYS + 1))
