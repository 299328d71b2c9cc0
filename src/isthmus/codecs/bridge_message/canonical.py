"""Tells whether encoded properties are in order, without decoding them. Compiled where there is a C compiler.

In come the bytes of the map of properties; out comes whether each of them is a text name with
``{type, value}`` in this order, the value in one of its type's own forms and within its type's range:

====== ========= =====================================================
type             the first byte of the value
====== ========= =====================================================
0      string    a0…bf d9 da db, and the text is UTF-8 (type may be absent)
1 … 4  integers  00…7f e0…ff d0…d3 cc…cf, as wide as the range allows
5      float32   ca
6      float64   cb
7      bool      c2 c3
8      bytes     c4 c5 c6
9      null      none, or c0
====== ========= =====================================================

The properties that our own writer and the Go helper write are so, and a message that passes can leave them
encoded until somebody asks for one. Whatever else a writer may do is not judged here: that is for `tolerant`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mypy_extensions import i64  # a machine word in the compiled form; never imported

_TYPE: Final = b"\xa4type"
_VALUE: Final = b"\xa5value"

_NO: Final = -1  # instead of a position: not canonical


def is_canonical(buf: bytes) -> bool:
    """Whether these bytes are a map of properties in the form that is described above."""
    try:
        return _properties_end(buf) == len(buf)
    except (IndexError, UnicodeDecodeError):
        return False


def _properties_end(buf: bytes) -> i64:
    pos: i64 = 1
    code: i64 = buf[0]
    count: i64 = 0
    if 0x80 <= code <= 0x8F:
        count = code & 0x0F
    elif code == 0xDE or code == 0xDF:
        pos = 3 if code == 0xDE else 5
        count = _number(buf, 1, pos)
    else:
        return _NO
    while count > 0:
        count -= 1
        pos = _text_end(buf, pos)
        if pos < 0:
            return _NO
        pos = _property_end(buf, pos)
        if pos < 0:
            return _NO
    return pos


def _property_end(buf: bytes, pos: i64) -> i64:
    fields: i64 = buf[pos] - 0x80
    pos += 1
    type: i64 = 0
    if fields >= 1 and _is_type(buf, pos):
        type = buf[pos + 5]
        pos += 6
        fields -= 1
    if fields == 0:
        return pos if type == 9 else _NO
    if fields != 1 or not _is_value(buf, pos):
        return _NO
    pos += 6
    code: i64 = buf[pos]
    if type == 0:
        return _text_end(buf, pos)
    if type <= 4:
        return _integer_end(buf, pos, type)
    if type == 5:
        return pos + 5 if code == 0xCA else _NO
    if type == 6:
        return pos + 9 if code == 0xCB else _NO
    if type == 7:
        return pos + 1 if code == 0xC2 or code == 0xC3 else _NO
    if type == 8:
        if not 0xC4 <= code <= 0xC6:
            return _NO
        start: i64 = pos + (2 if code == 0xC4 else 3 if code == 0xC5 else 5)
        return start + _number(buf, pos + 1, start)
    return pos + 1 if type == 9 and code == 0xC0 else _NO


def _integer_end(buf: bytes, pos: i64, type: i64) -> i64:
    code: i64 = buf[pos]
    if code <= 0x7F or code >= 0xE0:
        return pos + 1
    signed: bool = 0xD0 <= code <= 0xD3
    if not signed and not 0xCC <= code <= 0xCF:
        return _NO
    width: i64 = 1 << (code & 3)  # d0…d3 and cc…cf: 1, 2, 4 and 8 bytes
    room: i64 = 1 << (type - 1)
    if width > room or (width == room and not signed and buf[pos + 1] > 0x7F):
        return _NO
    return pos + 1 + width


def _text_end(buf: bytes, pos: i64) -> i64:
    code: i64 = buf[pos]
    start: i64 = pos + 1
    end: i64 = start
    if 0xA0 <= code <= 0xBF:
        end += code & 0x1F
    elif 0xD9 <= code <= 0xDB:
        start += 1 if code == 0xD9 else 2 if code == 0xDA else 4
        end = start + _number(buf, pos + 1, start)
    else:
        return _NO
    pos = start
    while pos < end:
        if buf[pos] > 0x7F:
            buf[pos:end].decode()
            return end
        pos += 1
    return end


def _number(buf: bytes, pos: i64, end: i64) -> i64:
    number: i64 = 0
    while pos < end:
        number = number << 8 | buf[pos]
        pos += 1
    return number


def _is_type(buf: bytes, pos: i64) -> bool:
    at: i64 = 0
    while at < 5:
        if buf[pos + at] != _TYPE[at]:
            return False
        at += 1
    return True


def _is_value(buf: bytes, pos: i64) -> bool:
    at: i64 = 0
    while at < 6:
        if buf[pos + at] != _VALUE[at]:
            return False
        at += 1
    return True
