"""What would keep a server from its other clients for long is refused before it is read."""

from __future__ import annotations

import struct

import pytest

from isthmus.codecs.amqp import AmqpMessage, boundaries, decode_value, index
from isthmus.codecs.amqp.values import MAX_VALUES, SECTION_VALUES
from isthmus.errors import DecodeError

VALUE = b"\x00\x53\x77"


def compound(code: int, count: int, data: bytes) -> bytes:
    return bytes([code]) + struct.pack(">II", len(data) + 4, count) + data


def many(count: int) -> list[bytes]:
    """So many values: as a list, a map, an array, and in lists of a list."""
    return [
        compound(0xD0, count, b"\x40" * count),
        compound(0xD1, count, b"\xa0\x00" * count),
        compound(0xF0, count, b"\x51" + b"\x01" * count),
        compound(0xD0, 2, compound(0xD0, count // 2, b"\x40" * (count // 2)) * 2),
    ]


@pytest.mark.parametrize("value", many(MAX_VALUES + 2))
def test_more_values_than_there_may_be_are_refused(value: bytes) -> None:
    with pytest.raises(DecodeError, match=f"more than {MAX_VALUES} values"):
        decode_value(value)
    with pytest.raises(DecodeError, match=f"more than {MAX_VALUES} values"):
        AmqpMessage.decode(VALUE + value)


@pytest.mark.parametrize("value", many(MAX_VALUES)[0:3:2])
def test_as_many_as_there_may_be_are_read(value: bytes) -> None:
    decode_value(value)
    AmqpMessage.decode(VALUE + value)


def test_what_is_not_looked_into_may_have_any_number() -> None:
    assert index(VALUE + many(1_000_000)[0]).body_type == "list"


def test_more_application_properties_than_there_may_be_are_refused() -> None:
    properties = b"".join(b"\xa1\x05%05d\x40" % number for number in range(MAX_VALUES))
    section = b"\x00\x53\x74" + compound(0xD1, 2 * MAX_VALUES, properties)
    with pytest.raises(DecodeError, match="values"):
        index(section)


@pytest.mark.parametrize("section", [b"\x00\x53\x75\xa0\x01x", b"\x00\x53\x76\x45"])
def test_sections_of_a_body_count_too(section: bytes) -> None:
    many = MAX_VALUES // SECTION_VALUES
    boundaries(section * many)
    for read in (boundaries, index, AmqpMessage.decode):
        with pytest.raises(DecodeError, match="values"):
            read(section * (many + 2))
