"""Bytes that are no message raise `DecodeError`, at once, and nothing else."""

import contextlib
import struct
import sys
import tracemalloc
from collections.abc import Callable

import pytest
from msgspec.msgpack import encode

from isthmus.codecs.bridge_message import BridgeMessage, canonical
from isthmus.errors import DecodeError


def with_property(property: object) -> bytes:
    return encode({"props": {"p": property}})


def full_message() -> bytes:
    message = BridgeMessage(b"body")
    message.header.format = "MQSTR"
    message.header.msg_id = bytes(24)
    for name, value in {"s": "text", "i": 2**40, "f": 1.5, "b": b"\xff", "t": True, "n": None}.items():
        message.set_property(name, value)
    return message.encode()


def test_every_truncation_is_refused() -> None:
    whole = full_message()
    for length in range(len(whole)):
        with pytest.raises(DecodeError):
            BridgeMessage.decode(whole[:length])


def test_trailing_bytes_are_refused() -> None:
    with pytest.raises(DecodeError, match="trailing"):
        BridgeMessage.decode(full_message() + b"\x00")


@pytest.mark.parametrize(
    "data", [b"hello world", b"\xc0", b"\xc1", b"\x90", b"\x05", b"\xa1x", b"\xc7\x01\x05x"]
)
def test_what_is_not_a_map_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        BridgeMessage.decode(data)


@pytest.mark.parametrize("data", ["text", 5, None, [0x80]])
def test_what_is_not_bytes_at_all_is_a_type_error(data: object) -> None:
    with pytest.raises(TypeError):
        BridgeMessage.decode(data)


@pytest.mark.parametrize(
    "message",
    [
        {"body": 5},
        {"body": ["x"]},
        {"header": 5},
        {"header": []},
        {"header": {"version": "2"}},
        {"header": {"version": 2**31}},
        {"header": {"version": -(2**31) - 1}},
        {"header": {"version": 2.0}},
        {"header": {"version": True}},
        {"header": {"format": 5}},
        {"header": {"format": {}}},
        {"header": {"msg_id": 5}},
        {"header": {"msg_id": []}},
        {"props": 5},
        {"props": []},
        {"props": "x"},
        {"props": {"p": 5}},
        {"props": {"p": []}},
        {"props": {"p": {"type": "int8", "value": 5}}},
        {1: 2},
        {"props": {1: {"value": "x"}}},
        {"header": {1: 2}},
    ],
)
def test_parts_of_a_wrong_kind_are_refused(message: object) -> None:
    with pytest.raises(DecodeError):
        BridgeMessage.decode(encode(message))


@pytest.mark.parametrize(
    "property",
    [
        {"type": 10},
        {"type": -1, "value": 1},
        {"type": 0, "value": 5},
        {"value": True},
        {"type": 1, "value": 256},
        {"type": 1, "value": -129},
        {"type": 2, "value": 32768},
        {"type": 3, "value": 2**31},
        {"type": 4, "value": 2**63},
        {"type": 3, "value": True},
        {"type": 3, "value": 1.0},
        {"type": 3, "value": "1"},
        {"type": 5, "value": 1e300},
        {"type": 5, "value": "1"},
        {"type": 6, "value": b"1"},
        {"type": 7, "value": 1},
        {"type": 8, "value": 1},
        {"type": 9, "value": 1},
        {"type": 0, "value": []},
        {"type": 8, "value": {}},
        {"type": 4, "value": {5: 5}},
    ],
)
def test_a_property_that_contradicts_its_type_is_refused_by_decode_itself(property: object) -> None:
    with pytest.raises(DecodeError):
        BridgeMessage.decode(with_property(property))


def test_the_error_names_the_property_and_what_is_wrong() -> None:
    with pytest.raises(DecodeError, match="property 'p': 300 is out of range for int8: -128 to 127"):
        BridgeMessage.decode(with_property({"type": 1, "value": 300}))


@pytest.mark.parametrize(
    "data",
    [
        b"\x81\xa5props\x81\xa1\xff\x81\xa5value\xa1x",
        b"\x81\xa5props\x81\xa1p\x81\xa5value\xa1\xff",
        b"\x81\xa5props\x81\xa1p\x81\xa5value\xc4\x01\xff",
        b"\x81\xa6header\x81\xa6format\xa1\xff",
        b"\x81\xa6header\x81\xa6format\xc4\x01\xff",
    ],
)
def test_text_that_is_not_utf_8_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        BridgeMessage.decode(data)


@pytest.mark.parametrize("extension", [b"\xd4\x05x", b"\xc7\x03\x05abc", b"\xd6\xff\x00\x00\x00\x00"])
def test_extensions_are_refused_as_values_and_ignored_elsewhere(extension: bytes) -> None:
    with pytest.raises(DecodeError):
        BridgeMessage.decode(b"\x81\xa5props\x81\xa1p\x81\xa5value" + extension)
    assert BridgeMessage.decode(b"\x81\xa5later" + extension) == BridgeMessage()


@pytest.mark.parametrize("opening", [b"\x91", b"\x81\xa1x", b"\xdd\x00\x00\x00\x01", b"\x81"])
@pytest.mark.parametrize(
    "place", [b"\x81\xa5later", b"\x81\xa5props\x81\xa1p\x81\xa5value", b"\x81\xa4body", b""]
)
def test_deep_nesting_is_refused(opening: bytes, place: bytes) -> None:
    with pytest.raises(DecodeError):
        BridgeMessage.decode(place + opening * 100_000 + b"\xc0")


@pytest.mark.parametrize(
    "data",
    [
        b"\xdf\xff\xff\xff\xff",
        b"\x81\xa5props\xdf\xff\xff\xff\xff",
        b"\x81\xa6header\xdf\xff\xff\xff\xff",
        b"\x81\xa4body\xc6\xff\xff\xff\xff",
        b"\x81\xa4body\xdb\xff\xff\xff\xff",
        b"\x81\xa5later\xdd\xff\xff\xff\xff",
        b"\x81\xa5props\x81\xdb\xff\xff\xff\xff",
    ],
)
def test_huge_counts_allocate_nothing(data: bytes) -> None:
    with pytest.raises(DecodeError):
        BridgeMessage.decode(data)


def cost(data: bytes) -> tuple[int, int]:
    """How many functions are called to decode the data, and how many bytes are allocated at most."""
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    tracemalloc.start()
    sys.setprofile(count)
    try:
        with contextlib.suppress(DecodeError):
            BridgeMessage.decode(data)
    finally:
        sys.setprofile(None)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    return calls, peak


def nested_map_value(count: int) -> bytes:
    """A property whose value is a map of integers: its keys could be chosen to collide in a dict."""
    value = (
        b"\xdf"
        + struct.pack(">I", count)
        + b"".join(b"\xce" + struct.pack(">I", n << 12) + b"\x00" for n in range(count))
    )
    return b"\x81\xa5props\x81\xa1p\x81\xa5value" + value


def unknown_keys(count: int) -> bytes:
    return b"\xdf" + struct.pack(">I", count) + b"\xa5later\x01" * count


def one_property_again_and_again(count: int) -> bytes:
    return b"\x81\xa5props\xdf" + struct.pack(">I", count) + b"\xa1p\x81\xa5value\xa2\xc3\xa9" * count


@pytest.mark.parametrize("make", [nested_map_value, unknown_keys, one_property_again_and_again])
def test_what_cannot_be_used_is_not_built(make: Callable[[int], bytes]) -> None:
    small, large = make(2_000), make(32_000)
    cost(small)  # what is made once for all
    (calls_of_small, _), (calls_of_large, allocated) = cost(small), cost(large)
    assert calls_of_large == calls_of_small
    assert allocated < 2 * len(large)


@pytest.mark.parametrize(
    "properties",
    [
        b"",
        b"\xc0",
        b"\x81",
        b"\x81\xa1p\x83\xa4type\x01\xa5value\x05\xa1x\x05",
        b"\x81\xa1p\x82\xa5value\x05\xa4type\x01",
        b"\x81\xa1p\x80",
        b"\x81\xa1p\x81\xa4type\x01",
        b"\x81\xa1p\x82\xa4type\xcc\x01\xa5value\x05",
        b"\x81\xa1p\x82\xa4type\x05\xa5value\xcb" + bytes(8),
        b"\x81\xa1p\x81\xa5value\xa1x\x00",
        b"\x81\xa1p\x82\xa4type\x08\xa5value\xc4\x05x",
        b"\x82\xa1p\x81\xa5value\xa1a\xa1p\x81\xa5value\xa1b",  # one name twice
        b"\x82\xa0\x81\xa5value\xa1a\xa0\x82\xa4type\x01\xa5value\x05",  # and that is empty
        b"\x81\xd9\x01p\x81\xa5value\xa1a",
    ],
)
def test_only_what_our_own_writer_could_have_written_is_left_unread(properties: bytes) -> None:
    assert not canonical.is_canonical(properties)


def test_what_our_own_writer_writes_is_left_unread() -> None:
    data = full_message()
    assert canonical.is_canonical(data[data.index(b"\xa5props") + 6 :])
