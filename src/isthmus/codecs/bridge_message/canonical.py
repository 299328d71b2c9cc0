"""Properties that stay encoded: whether they are in order, and one of them. Compiled with a C compiler.

In come the bytes of the map of properties; `is_canonical` says whether each of them is a text name that no
other has, with ``{type, value}`` in this order, the value in one of its type's own forms and within its
type's range:

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

The properties that our own writer and the Go helper write are so, up to 15 of them: finding one takes as long
as there are others. A message that passes leaves them encoded, and `find` finds one without reading the
others. Whatever else a writer may do is not judged here: that is for `tolerant`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from isthmus.codecs.bridge_message.properties import (
    BOOL,
    BYTES,
    FLOAT32,
    FLOAT64,
    INT64,
    NULL,
    STRING,
)

if TYPE_CHECKING:
    from mypy_extensions import i64  # a machine word in the compiled form; never imported

_NO: Final = -1  # instead of a position: not canonical
_FLOAT: Final = msgspec.msgpack.Decoder(float).decode


def is_canonical(buf: bytes) -> bool:
    """Whether these bytes are a map of properties in the form that is described above."""
    try:
        return _properties_end(buf) == len(buf)
    except (IndexError, UnicodeDecodeError):
        return False


def find(buf: bytes, name: str, type: i64, begin: i64) -> i64:
    """Where the value of the property with this name and type begins, in bytes that are canonical.

    It is 0 where there is none, and for every name that is not ASCII. ``begin`` is 1 or where a value ends:
    the search goes round from there, so that properties read in their order are found at once.
    """
    size: i64 = len(name)
    pos: i64 = begin
    code: i64 = buf[0]
    left: i64 = code & 0x0F
    while left > 0:
        left -= 1
        if pos == len(buf):
            pos = 1
        code = buf[pos]
        pos += 1
        length: i64 = code & 0x1F
        if code > 0xBF:
            start: i64 = _text_start(buf, pos - 1)
            length = _number(buf, pos, start)
            pos = start
        end: i64 = pos + length
        found: bool = length == size
        while found and pos < end:
            octet: i64 = buf[pos]
            found = octet <= 0x7F and octet == ord(name[pos - end + size])
            pos += 1
        pos = end
        fields: i64 = buf[pos]
        declared: i64 = STRING
        pos += 1
        if fields == 0x82 or (fields == 0x81 and buf[pos] == 0xA4):  # a4 begins "type", a5 "value"
            declared = buf[pos + 5]
            pos += 6
            fields -= 1
        if found:
            if declared != type:
                return 0
            return pos + 6
        if fields == 0x81:
            pos = value_end(buf, pos + 6)
    return 0


def text_at(buf: bytes, pos: i64) -> str:
    """The string whose value begins there."""
    return buf[_text_start(buf, pos) : value_end(buf, pos)].decode()


def bytes_at(buf: bytes, pos: i64) -> bytes:
    """The bytes whose value begins there."""
    code: i64 = buf[pos]
    return buf[pos + 2 if code == 0xC4 else pos + 3 if code == 0xC5 else pos + 5 : value_end(buf, pos)]


def float_at(buf: bytes, pos: i64) -> float:
    """The float32 or float64 whose value begins there."""
    return _FLOAT(buf[pos : value_end(buf, pos)])


def bool_at(buf: bytes, pos: i64) -> bool:
    """The boolean whose value begins there."""
    return buf[pos] == 0xC3


def integer_at(buf: bytes, pos: i64) -> i64:
    """The integer of any width whose value begins there."""
    code: i64 = buf[pos]
    if code <= 0x7F:
        return code
    if code >= 0xE0:
        return code - 0x100
    end: i64 = value_end(buf, pos)
    number: i64 = buf[pos + 1]
    if code >= 0xD0 and number > 0x7F:
        number -= 0x100
    pos += 2
    while pos < end:
        number = number << 8 | buf[pos]
        pos += 1
    return number


def value_end(buf: bytes, pos: i64) -> i64:
    """Where a value of a property that is canonical ends."""
    code: i64 = buf[pos]
    if 0xA0 <= code <= 0xBF:
        return pos + 1 + (code & 0x1F)
    if code <= 0x7F or code >= 0xE0 or 0xC0 <= code <= 0xC3:
        return pos + 1
    if code == 0xCA:
        return pos + 5
    if code == 0xCB:
        return pos + 9
    if 0xCC <= code <= 0xD3:
        return pos + 1 + (1 << (code & 3))
    start: i64 = pos + 2
    if code == 0xDA or code == 0xC5:
        start = pos + 3
    elif code == 0xDB or code == 0xC6:
        start = pos + 5
    return start + _number(buf, pos + 1, start)


def _properties_end(buf: bytes) -> i64:
    # All in one: a call costs as much as half a property.
    code: i64 = buf[0]
    if not 0x80 <= code <= 0x8F:
        return _NO
    count: i64 = code & 0x0F
    pos: i64 = 1
    seen: i64 = 0
    others: i64 = 0
    while count > 0:
        count -= 1
        begin: i64 = pos
        code = buf[pos]
        pos += 1
        end: i64 = pos + (code & 0x1F)
        if not 0xA0 <= code <= 0xBF:
            pos = _text_start(buf, begin)
            if pos < 0:
                return _NO
            end = value_end(buf, begin)
            if end - pos <= 0x1F:  # a name has one form, so that one that is there twice is found
                return _NO
        # Names that are alike have the same two bits, and hardly any others do.
        early: i64 = buf[begin + ((end - begin) >> 2)]
        middle: i64 = buf[(begin + end) >> 1]
        last: i64 = buf[end - 1]
        bit: i64 = 1 << ((7 * code + last) & 0x3F)
        other: i64 = 1 << ((5 * early + middle) & 0x3F)
        while pos < end:
            if buf[pos] > 0x7F:
                buf[pos:end].decode()
                pos = end
            else:
                pos += 1
        if seen & bit and others & other and _is_repeated(buf, begin, pos):
            return _NO
        seen |= bit
        others |= other
        fields: i64 = buf[pos]
        pos += 1
        type: i64 = 0
        if (
            buf[pos] == 0xA4
            and buf[pos + 1] == 0x74
            and buf[pos + 2] == 0x79
            and buf[pos + 3] == 0x70
            and buf[pos + 4] == 0x65
        ):
            type = buf[pos + 5]
            pos += 6
            fields -= 1
        if fields == 0x80 and type == NULL:
            continue
        if not (
            fields == 0x81
            and buf[pos] == 0xA5
            and buf[pos + 1] == 0x76
            and buf[pos + 2] == 0x61
            and buf[pos + 3] == 0x6C
            and buf[pos + 4] == 0x75
            and buf[pos + 5] == 0x65
        ):
            return _NO
        pos += 6
        code = buf[pos]
        if type == STRING:
            pos = _text_end(buf, pos)
        elif type <= INT64:
            if code <= 0x7F or code >= 0xE0:
                pos += 1
            else:
                pos = _integer_end(buf, pos, type)
        elif type == FLOAT32 and code == 0xCA:
            pos += 5
        elif type == FLOAT64 and code == 0xCB:
            pos += 9
        elif (type == BOOL and (code == 0xC2 or code == 0xC3)) or (type == NULL and code == 0xC0):
            pos += 1
        elif type == BYTES and 0xC4 <= code <= 0xC6:
            pos = value_end(buf, pos)
        else:
            return _NO
        if pos < 0:
            return _NO
    return pos


def _integer_end(buf: bytes, pos: i64, type: i64) -> i64:
    code: i64 = buf[pos]
    signed: bool = 0xD0 <= code <= 0xD3
    if not signed and not 0xCC <= code <= 0xCF:
        return _NO
    width: i64 = 1 << (code & 3)  # d0…d3 and cc…cf: 1, 2, 4 and 8 bytes
    room: i64 = 1 << (type - 1)
    if width > room or (width == room and not signed and buf[pos + 1] > 0x7F):
        return _NO
    return pos + 1 + width


def _text_start(buf: bytes, pos: i64) -> i64:
    code: i64 = buf[pos]
    if 0xA0 <= code <= 0xBF:
        return pos + 1
    if 0xD9 <= code <= 0xDB:
        return pos + 2 if code == 0xD9 else pos + 3 if code == 0xDA else pos + 5
    return _NO


def _text_end(buf: bytes, pos: i64) -> i64:
    start: i64 = _text_start(buf, pos)
    if start < 0:
        return _NO
    end: i64 = value_end(buf, pos)
    pos = start
    while pos < end:
        if buf[pos] > 0x7F:
            buf[pos:end].decode()
            return end
        pos += 1
    return end


def _is_repeated(buf: bytes, begin: i64, end: i64) -> bool:
    """Whether the name from ``begin`` to ``end`` is one of those before it, all of which are in order."""
    size: i64 = end - begin
    pos: i64 = 1
    while pos < begin:
        name_end: i64 = value_end(buf, pos)
        at: i64 = 0
        if name_end - pos == size:
            while at < size and buf[pos + at] == buf[begin + at]:
                at += 1
            if at == size:
                return True
        pos = name_end + 1
        fields: i64 = buf[name_end]
        if fields == 0x82 or (fields == 0x81 and buf[pos] == 0xA4):
            pos += 6
            fields -= 1
        if fields == 0x81:
            pos = value_end(buf, pos + 6)
    return False


def _number(buf: bytes, pos: i64, end: i64) -> i64:
    number: i64 = 0
    while pos < end:
        number = number << 8 | buf[pos]
        pos += 1
    return number
