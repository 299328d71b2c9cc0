"""Bytes that are not values: one error, and soon."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from isthmus.codecs.amqp import Described, Symbol, decode_value, encode_value
from isthmus.codecs.amqp.values import MAX_DEPTH
from isthmus.errors import DecodeError

MALFORMED = {
    "nothing": "",
    "an unknown constructor": "46",
    "an unknown constructor of each width": "57 00",
    "an unknown constructor of 16 bytes": "99" + "00" * 16,
    "an unknown sized constructor": "a2 00",
    "an unknown compound constructor": "c2 01 00",
    "a cut off fixed value": "70 0000",
    "a cut off uuid": "98 0011",
    "a cut off double": "82 3ff80000",
    "a cut off string": "a1 05 6162",
    "a cut off size": "b1 0000",
    "a string longer than any buffer": "b1 ffffffff 61",
    "invalid UTF-8": "a1 02 c328",
    "a surrogate in UTF-8": "a1 03 eda080",
    "a symbol beyond ASCII": "a3 02 c3bc",
    "a boolean that is neither": "56 02",
    "a char beyond Unicode": "73 00110000",
    "a char that is a surrogate": "73 0000d800",
    "a list without its count": "c0 00",
    "a list that is longer than the bytes": "c0 05 01 40",
    "a list shorter than its items": "c0 02 02 40 40",
    "a list longer than its items": "c0 03 01 40 40",
    "a list with more items than bytes": "c0 02 ff 40",
    "a list32 of 2³² items": "d0 00000005 ffffffff 40",
    "an item that reaches beyond its list": "c0 03 01 a1 05 6162636465",
    "a map with a key and no value": "c1 02 01 40",
    "a map with the same key twice": "c1 07 04 a1 01 61 40 a1 01 61 40",
    "a map with the same key twice in two encodings": "c1 0a 04 52 01 40 70 00000001 40",
    "a map with the same list as key twice": "c1 05 04 45 40 45 40",
    "an array without a constructor": "e0 01 00",
    "an array of an unknown constructor": "e0 03 01 46 00",
    "an array with more elements than bytes": "f0 00000006 ffffffff 50 00",
    "an array of 2³² nulls": "f0 00000005 ffffffff 40",
    "an array of 2³² trues": "f0 00000005 ffffffff 41",
    "an array of 2³² zeros": "f0 00000005 ffffffff 43",
    "an array of 2³² empty lists": "f0 00000005 ffffffff 45",
    "an array of strings that are too long": "e0 04 02 a1 0161",
    "a descriptor without a value": "00 53 01",
    "a descriptor alone": "00",
    "bytes after the value": "40 40",
}


@pytest.mark.parametrize("encoding", MALFORMED.values(), ids=MALFORMED)
def test_malformed_bytes_raise_the_one_error(encoding: str) -> None:
    with pytest.raises(DecodeError):
        decode_value(bytes.fromhex(encoding))


def test_the_error_says_where() -> None:
    with pytest.raises(DecodeError) as error:
        decode_value(bytes.fromhex("c0 03 02 40 46"))
    assert error.value.position == 4


def test_every_beginning_of_a_value_is_malformed() -> None:
    whole = encode_value({"list": [1, "a", {"b": None}], "text": "x" * 300, Symbol("s"): Described(1, [2.0])})
    for length in range(len(whole)):
        with pytest.raises(DecodeError):
            decode_value(whole[:length])


def nested_lists(depth: int) -> bytes:
    data = b"\x45"
    for _ in range(depth):
        size = len(data) + 4
        data = b"\xd0" + size.to_bytes(4) + b"\x00\x00\x00\x01" + data
    return data


def test_nesting_is_read_down_to_the_limit_and_no_further() -> None:
    decode_value(nested_lists(MAX_DEPTH))
    with pytest.raises(DecodeError, match="nested"):
        decode_value(nested_lists(MAX_DEPTH + 1))


@pytest.mark.parametrize(
    "data",
    [
        nested_lists(5_000),
        b"\x00" * 100_000,
        b"\x00\x40" * 100_000,
        b"\xf0\x00\x00\x00\x05\x00\x00\x04\x00\x40" * 1_000,
    ],
    ids=["lists", "descriptors", "described values", "arrays of nulls after each other"],
)
def test_deep_or_many_levels_end_in_the_error_and_not_in_the_stack(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_value(data)


def arrays_of_nulls(count: int) -> bytes:
    array = b"\xe0\x02\xff\x40"  # 4 bytes that claim 255 elements
    content = array * count
    return b"\xd0" + (len(content) + 4).to_bytes(4) + count.to_bytes(4) + content


def test_elements_without_data_are_limited_by_the_size_of_the_whole() -> None:
    assert len(decode_value(arrays_of_nulls(4))) == 4  # type: ignore[arg-type]
    with pytest.raises(DecodeError, match="array"):
        decode_value(arrays_of_nulls(1_000))


def map_of(keys: list[bytes]) -> bytes:
    content = b"".join(key + b"\x40" for key in keys)
    return b"\xd1" + (len(content) + 4).to_bytes(4) + (2 * len(keys)).to_bytes(4) + content


def lists_as_keys(count: int) -> bytes:
    return map_of([b"\xc0\x06\x01\x71" + number.to_bytes(4) for number in range(count)])


def uuids_with_one_hash(count: int) -> bytes:
    return map_of([b"\x98" + (number * (2**61 - 1)).to_bytes(16) for number in range(count)])


@pytest.mark.parametrize("make", [lists_as_keys, uuids_with_one_hash])
def test_the_work_is_linear_in_the_length(make: Callable[[int], bytes]) -> None:
    def seconds(data: bytes) -> float:
        times = []
        for _ in range(3):
            start = time.process_time()
            decode_value(data)
            times.append(time.process_time() - start)
        return min(times)

    small, large = make(500), make(10_000)  # nearly as many values as are read
    assert seconds(large) < 4 * 20 * max(seconds(small), 0.001)  # a quadratic one takes 20 times that
