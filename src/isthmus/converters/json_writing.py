"""AMQP values as plain JSON, beside the types that plain JSON does not show.

In come values as the codec decodes them; out come compact JSON text and, for each value that would not be
read back as what it was, an entry of ``types``: where it is, and of which type. ``docs/converters.md`` has
the form of every type.

Strings are escaped as Jackson does it, and so Spark: ``\\" \\\\ \\b \\f \\n \\r \\t``, any other control
character as ``\\u00XX`` with capital digits, and nothing else. Numbers are the shortest text that reads back
as the same number.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from json.encoder import encode_basestring
from math import isfinite
from typing import Any, Final
from uuid import UUID

from isthmus.codecs.amqp import (
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
from isthmus.converters.json_pointer import Place, pointer
from isthmus.errors import ConversionFailure
from isthmus.message import Header, HeaderType

MAX_TYPES_CHARS: Final = 4 * 2**20
"""How long the ``types`` of one document may be. Every entry repeats the way to its value, so that a message
made for the purpose could need far more than it has bytes itself."""

_ESCAPES: Final = {
    **{code: f"\\u{code:04X}" for code in range(0x20)},
    **{ord(char): f"\\{escape}" for char, escape in zip('"\\\b\f\n\r\t', '"\\bfnrt', strict=True)},
}


def quote(text: str) -> str:
    """A string of JSON."""
    quoted: str = encode_basestring(text)
    if "\\u00" in quoted:  # whose digits Python writes small
        return f'"{text.translate(_ESCAPES)}"'
    return quoted


def quote_bytes(data: bytes) -> str:
    """Bytes in Base64, as a string of JSON."""
    return f'"{b64encode(data).decode()}"'


def _quote_uuid(value: UUID) -> str:
    return f'"{value}"'


def _double(value: float) -> str:
    text = repr(value)
    return text if isfinite(value) else f'"{Header.of(value).text}"'


def _float(value: Float) -> str:
    text = Header.of(float(value), HeaderType.FLOAT).text
    return text if isfinite(value) else f'"{text}"'


_SIMPLE: Final[dict[type, tuple[str, Callable[[Any], str]]]] = {
    type(None): ("null", lambda _: "null"),
    bool: ("boolean", lambda value: "true" if value else "false"),
    UByte: ("ubyte", str),
    UShort: ("ushort", str),
    UInt: ("uint", str),
    ULong: ("ulong", str),
    Byte: ("byte", str),
    Short: ("short", str),
    Int: ("int", str),
    int: ("long", str),
    Float: ("float", _float),
    float: ("double", _double),
    Decimal32: ("decimal32", quote_bytes),
    Decimal64: ("decimal64", quote_bytes),
    Decimal128: ("decimal128", quote_bytes),
    Char: ("char", quote),
    Timestamp: ("timestamp", str),
    UUID: ("uuid", _quote_uuid),
    bytes: ("binary", quote_bytes),
    str: ("string", quote),
    Symbol: ("symbol", quote),
}
"""By class: the name of the type, and what makes the JSON of a value."""

_NATURAL: Final = frozenset({type(None), bool, Int, str})
"""What plain JSON is always read back as; long and double are so for some values."""


class JsonWriter:
    """Writes the values of one document and collects their types, unless nobody needs those."""

    def __init__(self, *, with_types: bool = True) -> None:
        self._with_types = with_types
        self._entries: list[str] = []
        self._room = MAX_TYPES_CHARS

    @property
    def types(self) -> str:
        """The object of all types so far; empty text if there are none."""
        return f"{{{','.join(self._entries)}}}" if self._entries else ""

    def value(self, value: object, place: Place, due: str | None = None) -> str:
        """The JSON of a value. ``due`` is the type that a reader takes for granted at that place."""
        simple = _SIMPLE.get(type(value))
        if simple is None:
            return self._compound(value, place, due)
        name, text = simple
        if name != due and (due is not None or not _is_natural(value)):
            self.note(place, name)
        return text(value)

    def _compound(self, value: object, place: Place, due: str | None) -> str:
        match value:
            case dict() if all(type(key) is str for key in value):
                return self.object(value, place)
            case dict() | Pairs():
                pairs = list(value.items()) if isinstance(value, dict) else value
                if due != "map":
                    self.note(place, "map")
                return self._list([list(pair) for pair in pairs], place)
            case list():
                return self._list(value, place)
            case Described():
                self.note(place, "described")
                return self._list([value.descriptor, value.value], place)
            case Array():
                return self._array(value, place)
        raise ConversionFailure(f"a {type(value).__name__} has no form in JSON")

    def object(self, members: dict[Any, object], place: Place) -> str:
        """The JSON object of values by name; most are strings, which need no type."""
        texts = [
            f"{quote(name)}:{quote(value) if type(value) is str else self.value(value, (place, name))}"
            for name, value in members.items()
        ]
        return f"{{{','.join(texts)}}}"

    def _list(self, items: list[Any], place: Place, due: str | None = None) -> str:
        texts = [self.value(item, (place, number), due) for number, item in enumerate(items)]
        return f"[{','.join(texts)}]"

    def _array(self, array: Array, place: Place) -> str:
        if not array.descriptors:
            self.note(place, f"array of {array.type}")
            return self._list(array.items, place, array.type)
        self.note(place, f"described array of {array.type}")
        descriptors = self._list(list(array.descriptors), (place, 0))
        return f"[{descriptors},{self._list(array.items, (place, 1), array.type)}]"

    def note(self, place: Place, name: str) -> None:
        """Say of which type the value at a place is."""
        if not self._with_types:
            return
        entry = f'{quote(pointer(place))}:"{name}"'
        self._room -= len(entry)
        if self._room < 0:
            raise ConversionFailure(f"the types of the values need more than {MAX_TYPES_CHARS} characters")
        self._entries.append(entry)


def _is_natural(value: object) -> bool:
    kind = type(value)
    if kind in _NATURAL:
        return True
    if isinstance(value, int) and kind is int:
        return not -(2**31) <= value < 2**31
    return isinstance(value, float) and kind is float and isfinite(value)
