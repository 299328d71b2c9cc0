"""Writes AMQP values, each in its most compact encoding. Compiled with mypyc where there is a C compiler.

In come the Python values of `isthmus.codecs.amqp.values`; out come their bytes, as a list of pieces that the
caller joins once. A function that writes returns how many bytes it wrote: the size that stands before a list
or a map is filled in when its content is there.

A value that its type cannot hold, or of no type that AMQP has, raises `EncodeError`. Text that cannot be
encoded raises ``UnicodeEncodeError`` inside, which the functions at the edge turn into it.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final
from uuid import UUID

from isthmus.codecs.amqp.constructors import CONSTRUCTORS, type_name
from isthmus.codecs.amqp.values import (
    MAX_DEPTH,
    Array,
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Float,
    Int,
    Pairs,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)
from isthmus.errors import EncodeError

if TYPE_CHECKING:
    from mypy_extensions import i64  # a machine word in the compiled form; never imported

_CLASSES: Final[dict[int, type]] = {
    # a type's widest constructor, which stands for it: its class
    0x40: type(None), 0x56: bool, 0x50: UByte, 0x60: UShort, 0x70: UInt, 0x80: ULong, 0x51: Byte, 0x61: Short,
    0x71: Int, 0x81: int, 0x72: Float, 0x82: float, 0x74: Decimal32, 0x84: Decimal64, 0x94: Decimal128,
    0x73: Char, 0x83: Timestamp, 0x98: UUID, 0xB0: bytes, 0xB1: str, 0xB3: Symbol, 0xD0: list, 0xD1: dict,
    0xF0: Array,
}  # fmt: skip

_TYPES: Final[dict[type, int]] = {
    **{cls: type for type, cls in _CLASSES.items()},
    tuple: 0xD0,
    Pairs: 0xD1,
    Described: 0,
}

_PACK: Final = {
    code: struct.Struct(">B" + letter).pack
    for code, letter in {
        0x50: "B", 0x51: "b", 0x60: "H", 0x61: "h", 0x70: "I", 0x71: "i", 0x72: "f", 0x80: "Q", 0x81: "q",
        0x82: "d", 0x83: "q",
    }.items()
}  # fmt: skip


def _with_octet(code: int) -> list[bytes]:
    return [bytes((code, octet)) for octet in range(256)]


# A constructor and the one byte that follows it, made once.
_STR8: Final = _with_octet(0xA1)
_SYM8: Final = _with_octet(0xA3)
_VBIN8: Final = _with_octet(0xA0)
_UNSIGNED: Final = {0x50: _with_octet(0x50), 0x70: _with_octet(0x52), 0x80: _with_octet(0x53)}
_SIGNED: Final = {0x51: _with_octet(0x51), 0x71: _with_octet(0x54), 0x81: _with_octet(0x55)}
_UNSIGNED[0x70][0] = b"\x43"
_UNSIGNED[0x80][0] = b"\x44"

_counted_8 = struct.Struct(">BBB").pack
_counted_32 = struct.Struct(">BII").pack


def encode_value(value: object) -> bytes:
    """The most compact encoding of a value."""
    parts: list[bytes] = []
    try:
        write(parts, value, 0)
    except UnicodeEncodeError as error:
        raise unencodable(error) from None
    return b"".join(parts)


def unencodable(error: UnicodeEncodeError) -> EncodeError:
    """What text that cannot be encoded means for whoever gave it."""
    return EncodeError(f"text is not {error.encoding}: {error.reason}")


def type_of(value: object) -> i64:
    """The AMQP type that a Python value stands for, as its widest constructor; 0 if it is described."""
    kind = type(value)
    known = _TYPES.get(kind)
    if known is None:
        known = next((_TYPES[base] for base in kind.__mro__ if base in _TYPES), None)
        if known is None:
            raise EncodeError(f"a {kind.__name__} is not a value of any AMQP type")
    return known


def write(parts: list[bytes], value: object, depth: i64) -> i64:
    """Add the encoding of a value to the pieces and return its length."""
    if value is None:
        parts.append(b"\x40")
        return 1
    type = type_of(value)
    if isinstance(value, str):
        if type == 0xB1:
            return write_text(parts, value)
        if type == 0xB3:
            return write_symbol(parts, value)
    elif isinstance(value, bool):
        parts.append(b"\x41" if value else b"\x42")
        return 1
    elif isinstance(value, int):
        return write_integer(parts, type, value)
    elif isinstance(value, bytes):
        if type == 0xB0:
            return write_binary(parts, value)
    elif type == 0 or type >= 0xD0:
        if depth >= MAX_DEPTH:
            raise EncodeError(f"values are nested more than {MAX_DEPTH} deep")
        return _write_compound(parts, type, value, depth + 1)
    data = _fixed(type, value)
    parts.append(data)
    return len(data)


def write_text(parts: list[bytes], text: str) -> i64:
    """Write a string."""
    data = text.encode("utf-8")
    if len(data) < 256:
        parts.append(_STR8[len(data)])
        parts.append(data)
        return 2 + len(data)
    return _write_sized(parts, 0xB1, data)


def write_symbol(parts: list[bytes], text: str) -> i64:
    """Write text as a symbol."""
    data = text.encode("ascii")
    if len(data) < 256:
        parts.append(_SYM8[len(data)])
        parts.append(data)
        return 2 + len(data)
    return _write_sized(parts, 0xB3, data)


def write_binary(parts: list[bytes], data: bytes) -> i64:
    """Write bytes."""
    if len(data) < 256:
        parts.append(_VBIN8[len(data)])
        parts.append(data)
        return 2 + len(data)
    return _write_sized(parts, 0xB0, data)


def _write_sized(parts: list[bytes], code: int, data: bytes) -> i64:
    if len(data) > 0xFFFF_FFFF:
        raise EncodeError(f"{len(data)} bytes are more than one value can hold")
    parts.append(code.to_bytes() + len(data).to_bytes(4))
    parts.append(data)
    return 5 + len(data)


def write_integer(parts: list[bytes], type: i64, number: int) -> i64:
    """Write a number as the integer type that ``type`` is the widest constructor of."""
    if 0 <= number < 256 and type in _UNSIGNED:
        data = _UNSIGNED[type][number]
    elif -128 <= number < 128 and type in _SIGNED:
        data = _SIGNED[type][number & 0xFF]
    else:
        try:
            data = _PACK[type](type, number)
        except struct.error:
            raise EncodeError(f"{number} is out of range for {type_name(type)}") from None
    parts.append(data)
    return len(data)


def _fixed(type: int, value: object) -> bytes:
    """The encoding of those types that have only one."""
    if isinstance(value, float):
        try:
            return _PACK[type](type, value)
        except OverflowError:
            raise EncodeError(f"{value} is out of range for {type_name(type)}") from None
    if isinstance(value, UUID):
        return b"\x98" + value.bytes
    if isinstance(value, bytes):
        width = {0x74: 4, 0x84: 8, 0x94: 16}[type]
        if len(value) != width:
            raise EncodeError(f"a {type_name(type)} has {width} bytes, not {len(value)}")
        return type.to_bytes() + value
    if isinstance(value, str) and len(value) == 1 and not 0xD800 <= ord(value) < 0xE000:
        return b"\x73" + ord(value).to_bytes(4)
    raise EncodeError(f"{value!r} is not one Unicode character")


def _write_compound(parts: list[bytes], type: i64, value: object, depth: i64) -> i64:
    """Write a value with values in it, which are ``depth`` deep."""
    if isinstance(value, Described):
        parts.append(b"\x00")
        size = write(parts, value.descriptor, depth)
        return 1 + size + write(parts, value.value, depth)
    if isinstance(value, Array):
        return _write_array(parts, value, depth)
    if isinstance(value, dict):
        return _write_map(parts, list(value.items()), depth)
    if isinstance(value, Pairs):
        return _write_map(parts, value, depth)
    if isinstance(value, list):
        return write_list(parts, value, depth)
    assert isinstance(value, tuple), type_name(type)
    return write_list(parts, list(value), depth)


def write_list(parts: list[bytes], items: list[object], depth: i64) -> i64:
    """Write a list whose items are ``depth`` deep."""
    if not items:
        parts.append(b"\x45")
        return 1
    slot = len(parts)
    parts.append(b"")
    size: i64 = 0
    for item in items:
        size += write(parts, item, depth)
    return fill(parts, slot, 0xC0, size, len(items))


def _write_map(parts: list[bytes], pairs: list[tuple[object, object]], depth: i64) -> i64:
    slot = len(parts)
    parts.append(b"")
    size: i64 = 0
    for key, value in pairs:
        size += write(parts, key, depth)
        size += write(parts, value, depth)
    return fill(parts, slot, 0xC1, size, 2 * len(pairs))


def fill(parts: list[bytes], slot: i64, code: i64, size: i64, count: i64) -> i64:
    """Put the head of a list, map or array where room was left for it, now that its size is known."""
    if size < 255 and count < 256:
        parts[slot] = _counted_8(code, size + 1, count)
        return 3 + size
    if size > 0xFFFF_FFFF - 4:
        raise EncodeError(f"{size} bytes are more than one value can hold")
    parts[slot] = _counted_32(code + 0x10, size + 4, count)
    return 9 + size


def _write_array(parts: list[bytes], array: Array, depth: i64) -> i64:
    codes = CONSTRUCTORS.get(array.type)
    if codes is None:
        raise EncodeError(f"{array.type!r} is not the name of an AMQP type")
    slot = len(parts)
    parts.append(b"")
    size: i64 = 1
    for descriptor in array.descriptors:
        parts.append(b"\x00")
        size += 1 + write(parts, descriptor, depth)
    pieces = [_element(codes[-1], item, depth) for item in array.items]
    # Elements that are written with no data are the narrowest form only of null, which has no other.
    narrowest = next((code for code in codes if code >= 0x50), codes[0])
    code = max([narrowest, *[piece[0] for piece in pieces]])
    parts.append(code.to_bytes())
    for piece in pieces:
        data = piece[1:] if piece[0] == code else _widened(piece, code)
        parts.append(data)
        size += len(data)
    return fill(parts, slot, 0xE0, size, len(pieces))


def _element(type: i64, item: object, depth: i64) -> bytes:
    """The encoding of an array's element on its own: a plain Python value stands for the array's type."""
    cls = _CLASSES[type]
    kind = item.__class__
    if type_of(item) != type:
        if kind not in cls.__mro__[1:-1]:
            raise EncodeError(f"a {kind.__name__} cannot be an element of an array of {type_name(type)}")
        item = cls(item)
    parts: list[bytes] = []
    write(parts, item, depth)
    return b"".join(parts)


def _widened(piece: bytes, code: i64) -> bytes:
    """The data of an element under a wider constructor than the one it has on its own."""
    narrow = piece[0]
    data = piece[1:]
    if code == 0x56:
        return b"\x01" if narrow == 0x41 else b"\x00"
    if narrow == 0x45:
        return b"\x01\x00" if code == 0xC0 else b"\x00\x00\x00\x04\x00\x00\x00\x00"
    if code < 0xA0:
        signed = code == 0x71 or code == 0x81
        width = 1 if code < 0x60 else 4 if code < 0x80 else 8
        return int.from_bytes(data, signed=signed).to_bytes(width, signed=signed)
    if code < 0xC0:
        return data[0].to_bytes(4) + data[1:]
    return (data[0] + 3).to_bytes(4) + data[1].to_bytes(4) + data[2:]
