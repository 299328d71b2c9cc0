"""Reads one AMQP value after another out of bytes. Compiled with mypyc where there is a C compiler.

In come the bytes of values, laid out as `isthmus.codecs.amqp.constructors` draws them; out come the Python
values of `isthmus.codecs.amqp.values`.

Guaranteed of any input: the work is linear in its length, nesting deeper than `MAX_DEPTH` is refused, and
nothing is raised but `DecodeError`, by the functions that stand at the module's edge. Inside, reading a byte
outside the buffer raises ``IndexError`` and bad text ``UnicodeDecodeError``, which `malformed` turns into it,
so that bounds which Python checks anyway are not checked twice. A slice never raises: its end is checked
against that of the value that it lies in.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final
from uuid import UUID

from isthmus.codecs.amqp.constructors import TYPES, type_name
from isthmus.codecs.amqp.values import (
    MAX_DEPTH,
    MAX_NUMERIC_KEYS,
    MAX_VALUES,
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
from isthmus.codecs.amqp.writer import encode_value
from isthmus.errors import DecodeError

if TYPE_CHECKING:
    from mypy_extensions import i64  # a machine word in the compiled form; never imported

ZERO_WIDTH_ALLOWANCE: Final = 1024
"""Elements without data cost no bytes, so a few bytes could claim 2³² of them. A buffer may hold this many,
and one more for every byte it has: the work stays linear."""

_SIZE_8: Final = 0xF1
_SIZE_32: Final = 0xF4
_UNKNOWN: Final = 0xFF

_BY_DIGIT: Final = [0, 1, 2, 4, 8, 16, _SIZE_8, _SIZE_32, _SIZE_8, _SIZE_32, _SIZE_8, _SIZE_32]

_WIDTHS: Final = bytes([_BY_DIGIT[(code >> 4) - 4] if TYPES[code] else _UNKNOWN for code in range(256)])
"""By constructor: the number of data bytes, or the width of the size that comes first."""

_OCTETS: Final[list[list[object]]] = [
    [UByte(n) for n in range(256)],
    [Byte(n - (n >> 7 << 8)) for n in range(256)],
    [UInt(n) for n in range(256)],
    [ULong(n) for n in range(256)],
    [Int(n - (n >> 7 << 8)) for n in range(256)],
    [n - (n >> 7 << 8) for n in range(256)],
    [False, True],
]
"""The values of the constructors 50 to 56, by their one byte, made once."""

_float = struct.Struct(">f").unpack_from
_double = struct.Struct(">d").unpack_from
_signed_64 = struct.Struct(">q").unpack_from
_unsigned_64 = struct.Struct(">Q").unpack_from

_NUMBERS: Final = (int, float)
_KEYS: Final = (bytes, type(None))
"""What a ``dict`` takes as keys here beside text and a few numbers. A sender can choose any number of uuids
with the same hash, which would make the work quadratic; compound values have no hash at all."""

_SYMBOLS_KEPT: Final = 1024
_SYMBOL_KEPT_BYTES: Final = 64
_symbols: Final[dict[bytes, Symbol]] = {}
"""Symbols seen before: the same few annotation names come with every message."""


def malformed(error: Exception, reader: Reader) -> DecodeError:
    """What an error from inside a reader means for whoever gave it the bytes."""
    if isinstance(error, UnicodeDecodeError):
        return DecodeError(f"text is not {error.encoding}: {error.reason}", reader.pos)
    return DecodeError("the bytes end in the middle of a value", len(reader.buf))


class Reader:
    """A position in the bytes, and the end of the innermost value that it is in."""

    def __init__(self, buf: bytes, pos: i64 = 0) -> None:
        self.buf: bytes = buf
        self.pos: i64 = pos
        self.end: i64 = len(buf)
        self.depth: i64 = 0
        self.values: i64 = 0
        self.allowance: i64 = len(buf) + ZERO_WIDTH_ALLOWANCE

    def value(self) -> object:
        """The next value, whatever its type."""
        buf = self.buf
        pos = self.pos
        code: i64 = buf[pos]
        if code == 0xA1:
            return self.text()
        if code == 0xA3:
            start = pos + 2
            stop: i64 = start + buf[pos + 1]
            if stop > self.end:
                raise DecodeError("a symbol is longer than what it lies in", start)
            self.pos = stop
            return symbol(buf[start:stop])
        self.pos = pos + 1
        if code == 0x40:
            return None
        if code == 0:
            return self._described()
        if code >= 0x80:
            return self._sized(code) if code >= 0xA0 else self._wide(code)
        return self.data(code)

    def text(self) -> str:
        """The next value, which must be a string."""
        buf = self.buf
        start = self.pos + 2
        size: i64 = buf[start - 1]
        code: i64 = buf[start - 2]
        if code != 0xA1:
            if code != 0xB1:
                raise DecodeError(f"{type_name(code)} where a string is due", self.pos)
            start += 3
            size = u32(buf, start - 4)
        stop = start + size
        if stop > self.end:
            raise DecodeError("a string is longer than what it lies in", start)
        self.pos = stop
        return buf[start:stop].decode("utf-8")

    def skip(self) -> None:
        """Go past the next value without looking into it."""
        buf = self.buf
        pos = self.pos
        pending: i64 = 1
        while pending > 0:
            code: i64 = buf[pos]
            pos += 1
            if code == 0:
                pending += 1  # a descriptor, then the value
                continue
            width: i64 = _WIDTHS[code]
            if width <= 16:
                pos += width
            elif width == _SIZE_8:
                size: i64 = buf[pos]
                pos += 1 + size
            elif width == _SIZE_32:
                pos += 4 + u32(buf, pos)
            else:
                raise DecodeError(type_name(code), pos - 1)
            pending -= 1
        if pos > self.end:
            raise DecodeError("a value is longer than what it lies in", self.pos)
        self.pos = pos

    def data(self, code: i64) -> object:
        """The data that follows a constructor other than 0x00."""
        buf = self.buf
        pos = self.pos
        if code >= 0xA0:
            return self._sized(code)
        if code < 0x50:
            if code == 0x40:
                return None
            if code == 0x41:
                return True
            if code == 0x42:
                return False
            if code == 0x43:
                return UInt(0)
            if code == 0x44:
                return ULong(0)
            if code == 0x45:
                return []
        elif code < 0x60:
            octet: i64 = buf[pos]
            self.pos = pos + 1
            if code <= 0x55 or (code == 0x56 and octet <= 1):
                return _OCTETS[code - 0x50][octet]
        elif code < 0x80:
            return self._narrow(code)
        else:
            return self._wide(code)
        raise DecodeError(type_name(code), pos - 1)

    def _narrow(self, code: i64) -> object:
        """The data of the constructors 6x and 7x: 2 and 4 bytes."""
        buf = self.buf
        pos = self.pos
        if code < 0x70:
            high: i64 = buf[pos]
            low: i64 = buf[pos + 1]
            short = high << 8 | low
            self.pos = pos + 2
            if code == 0x60:
                return UShort(short)
            if code == 0x61:
                return Short(short - 0x10000 if short >= 0x8000 else short)
        else:
            word = u32(buf, pos)
            self.pos = pos + 4
            if code == 0x70:
                return UInt(word)
            if code == 0x71:
                return Int(word - 0x1_0000_0000 if word >= 0x8000_0000 else word)
            if code == 0x72:
                return Float(_float(buf, pos)[0])
            if code == 0x73:
                if word > 0x10FFFF or 0xD800 <= word < 0xE000:
                    raise DecodeError("a char is not a Unicode character", pos)
                return Char(chr(word))
            if code == 0x74:
                return Decimal32(buf[pos : pos + 4])
        raise DecodeError(type_name(code), pos - 1)

    def _wide(self, code: i64) -> object:
        """The data of the constructors 8x and 9x: 8 and 16 bytes."""
        buf = self.buf
        pos = self.pos
        if code < 0x90:
            if pos + 8 > self.end:
                raise DecodeError(f"a {type_name(code)} is cut off", pos)
            self.pos = pos + 8
            if code == 0x83:
                return Timestamp(_signed_64(buf, pos)[0])
            if code == 0x81:
                return _signed_64(buf, pos)[0]
            if code == 0x80:
                return ULong(_unsigned_64(buf, pos)[0])
            if code == 0x82:
                return _double(buf, pos)[0]
            if code == 0x84:
                return Decimal64(buf[pos : pos + 8])
        else:
            if pos + 16 > self.end:
                raise DecodeError(f"a {type_name(code)} is cut off", pos)
            self.pos = pos + 16
            if code == 0x98:
                return UUID(bytes=buf[pos : pos + 16])
            if code == 0x94:
                return Decimal128(buf[pos : pos + 16])
        raise DecodeError(type_name(code), pos - 1)

    def _sized(self, code: i64) -> object:
        """The data of the constructors Ax to Fx, which begins with its size."""
        if code >= 0xC0:
            outer = self.end
            count = self.open(code)
            value: object
            if code == 0xC1 or code == 0xD1:
                value = self._map(count)
            elif code == 0xC0 or code == 0xD0:
                value = [self.value() for _ in range(count)]
            else:
                value = self._array(count)
            self.close(outer)
            return value
        buf = self.buf
        pos = self.pos
        size: i64
        if code < 0xB0:
            size = buf[pos]
            start = pos + 1
        else:
            size = u32(buf, pos)
            start = pos + 4
        stop = start + size
        if stop > self.end:
            raise DecodeError(f"a {type_name(code)} is longer than what it lies in", start)
        data = buf[start:stop]
        self.pos = stop
        if code == 0xA0 or code == 0xB0:
            return data
        if code == 0xA1 or code == 0xB1:
            return data.decode("utf-8")
        if code == 0xA3 or code == 0xB3:
            return symbol(data)
        raise DecodeError(type_name(code), pos - 1)

    def open(self, code: i64) -> i64:
        """Enter a list, map or array, and return how many values it says it has."""
        buf = self.buf
        pos = self.pos
        count: i64
        stop: i64
        if code in (0xC0, 0xC1, 0xE0):
            stop = pos + 1 + buf[pos]
            count = buf[pos + 1]
            pos += 2
        elif code in (0xD0, 0xD1, 0xF0):
            stop = pos + 4 + u32(buf, pos)
            count = u32(buf, pos + 4)
            pos += 8
        else:
            raise DecodeError(type_name(code), pos - 1)
        if stop > self.end or pos > stop:
            raise DecodeError(f"the size of a {type_name(code)} is wrong", self.pos)
        if count > stop - pos and code < 0xE0:
            raise DecodeError(f"a {type_name(code)} of {count} values has {stop - pos} bytes", self.pos)
        if count & 1 and code in (0xC1, 0xD1):
            raise DecodeError("a map has a key without a value", self.pos)
        self.count(count)
        depth = self.depth + 1
        if depth > MAX_DEPTH:
            raise DecodeError(f"values are nested more than {MAX_DEPTH} deep", self.pos)
        self.depth = depth
        self.pos = pos
        self.end = stop
        return count

    def count(self, values: i64) -> None:
        """Count values that are about to be read. Raises `DecodeError` for more than there may be."""
        self.values += values
        if self.values > MAX_VALUES:
            raise DecodeError(f"a message has more than {MAX_VALUES} values", self.pos)

    def close(self, outer: i64) -> None:
        """Leave what `open` entered; ``outer`` was the end before."""
        if self.pos != self.end:
            raise DecodeError("the size of a compound value is not that of its content", self.pos)
        self.end = outer
        self.depth -= 1

    def _map(self, count: i64) -> object:
        result: dict[object, object] = {}
        numbers: i64 = 0
        for _ in range(count >> 1):
            key = self.value()
            if not isinstance(key, str):
                if isinstance(key, _NUMBERS):
                    numbers += 1
                elif not isinstance(key, _KEYS):
                    return self._pairs(result, key, count)
            if numbers > MAX_NUMERIC_KEYS or key in result:
                return self._pairs(result, key, count)
            result[key] = self.value()
        return result

    def _pairs(self, before: dict[object, object], key: object, count: i64) -> Pairs:
        """The rest of a map that no ``dict`` can hold; the same key twice is an error."""
        result = Pairs(before.items())
        seen = {encode_value(known) for known in before}
        while True:
            encoded = encode_value(key)
            if encoded in seen:
                raise DecodeError("a map has the same key twice", self.pos)
            seen.add(encoded)
            result.append((key, self.value()))
            if len(result) == count >> 1:
                return result
            key = self.value()

    def _described(self) -> Described:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise DecodeError(f"values are nested more than {MAX_DEPTH} deep", self.pos)
        described = Described(self.value(), self.value())
        self.depth -= 1
        return described

    def _array(self, count: i64) -> Array:
        descriptors: list[object] = []
        code: i64 = self.buf[self.pos]
        self.pos += 1
        while code == 0:
            descriptors.append(self.value())
            code = self.buf[self.pos]
            self.pos += 1
        room = self.end - self.pos
        if _WIDTHS[code] == 0:
            room = self.allowance
            self.allowance -= count
        if count > room:
            raise DecodeError(f"an array of {count} values has {self.end - self.pos} bytes", self.pos)
        items = [self.data(code) for _ in range(count)]
        return Array(type_name(code), items, tuple(descriptors))


def u32(buf: bytes, pos: i64) -> i64:
    """The unsigned 32-bit number at a position."""
    high: i64 = buf[pos]
    return (high << 24) + (buf[pos + 1] << 16) + (buf[pos + 2] << 8) + buf[pos + 3]


def symbol(data: bytes) -> Symbol:
    """The symbol that these bytes spell."""
    known = _symbols.get(data)
    if known is None:
        known = Symbol(data.decode("ascii"))
        if len(_symbols) < _SYMBOLS_KEPT and len(data) <= _SYMBOL_KEPT_BYTES:
            _symbols[data] = known
    return known


def decode_value(data: bytes) -> object:
    """The one value that these bytes encode. Raises `DecodeError` if they encode anything else."""
    reader = Reader(data)
    try:
        value = reader.value()
    except (IndexError, UnicodeDecodeError) as error:
        raise malformed(error, reader) from None
    if reader.pos != len(data):
        raise DecodeError("bytes follow the value", reader.pos)
    return value


def decode_values(data: bytes) -> list[object]:
    """The values that these bytes encode, one after the other."""
    reader = Reader(data)
    values: list[object] = []
    try:
        while reader.pos < len(data):
            values.append(reader.value())
    except (IndexError, UnicodeDecodeError) as error:
        raise malformed(error, reader) from None
    return values
