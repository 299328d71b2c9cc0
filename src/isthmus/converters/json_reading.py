"""AMQP values out of plain JSON and the types beside it: the other half of `isthmus.converters.json_writing`.

A value without a type is read as what it looks like: a string, boolean, null, list or map; a whole number as
an int, or as a long if it needs more than 32 bits; any other number as a double. Everything that is read can
be encoded as AMQP. What a type cannot hold is a `DecodeError` with the pointer to it.
"""

from __future__ import annotations

import re
import struct
from base64 import b64decode
from collections.abc import Callable
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
    encode_value,
)
from isthmus.codecs.amqp.constructors import type_name
from isthmus.codecs.amqp.values import MAX_DEPTH, MAX_NUMERIC_KEYS
from isthmus.codecs.amqp.writer import type_of
from isthmus.converters.json_pointer import Place, TypeTree, malformed
from isthmus.message import INTEGER_RANGES, HeaderType

Simple = Callable[[Any], object]
"""Makes a value of the JSON; raises ``ValueError`` for what the type cannot hold."""

_UUID: Final = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")


def _integer(name: HeaderType, cls: type) -> Simple:
    low, high = INTEGER_RANGES[name]

    def read(plain: object) -> object:
        if not isinstance(plain, int) or isinstance(plain, bool):
            raise ValueError(f"must be a whole number of type {name}")
        if not low <= plain <= high:
            raise ValueError(f"is out of range for {name}: {low} to {high}")
        return cls(plain)

    return read


def _double(plain: object) -> float:
    if plain in ("NaN", "Infinity", "-Infinity"):
        return float(str(plain))
    if not isinstance(plain, int | float) or isinstance(plain, bool):
        raise ValueError('must be a number, "NaN", "Infinity" or "-Infinity"')
    try:
        return float(plain)
    except OverflowError:
        raise ValueError("is out of range for double") from None


def _float(plain: object) -> Float:
    value = Float(_double(plain))
    try:
        struct.pack(">f", value)
    except OverflowError:
        raise ValueError("is out of range for float") from None
    return value


def text(plain: object) -> str:
    """A string."""
    if not isinstance(plain, str):
        raise ValueError("must be a string")
    return plain


def _symbol(plain: object) -> Symbol:
    if not text(plain).isascii():
        raise ValueError("must be ASCII, as symbols are")
    return Symbol(plain)


def _char(plain: object) -> Char:
    if len(text(plain)) != 1:
        raise ValueError("must be one character")
    return Char(plain)


def _uuid(plain: object) -> UUID:
    if not _UUID.fullmatch(text(plain)):
        raise ValueError("must be a UUID")
    return UUID(text(plain))


def octets(plain: object) -> bytes:
    """Bytes, out of Base64."""
    try:
        return b64decode(text(plain), validate=True)
    except ValueError:
        raise ValueError("must be bytes in Base64") from None


def _decimal(cls: type[bytes], size: int) -> Simple:
    def read(plain: object) -> object:
        value = octets(plain)
        if len(value) != size:
            raise ValueError(f"must be {size} bytes in Base64, not {len(value)}")
        return cls(value)

    return read


def _boolean(plain: object) -> bool:
    if not isinstance(plain, bool):
        raise ValueError("must be true or false")
    return plain


def _null(plain: object) -> None:
    if plain is not None:
        raise ValueError("must be null")


SIMPLE: Final[dict[str, Simple]] = {
    "null": _null,
    "boolean": _boolean,
    "ubyte": _integer(HeaderType.UBYTE, UByte),
    "ushort": _integer(HeaderType.USHORT, UShort),
    "uint": _integer(HeaderType.UINT, UInt),
    "ulong": _integer(HeaderType.ULONG, ULong),
    "byte": _integer(HeaderType.BYTE, Byte),
    "short": _integer(HeaderType.SHORT, Short),
    "int": _integer(HeaderType.INT, Int),
    "long": _integer(HeaderType.LONG, int),
    "float": _float,
    "double": _double,
    "decimal32": _decimal(Decimal32, 4),
    "decimal64": _decimal(Decimal64, 8),
    "decimal128": _decimal(Decimal128, 16),
    "char": _char,
    "timestamp": _integer(HeaderType.TIMESTAMP, Timestamp),
    "uuid": _uuid,
    "binary": octets,
    "string": text,
    "symbol": _symbol,
}
"""By the name of a type: what reads a value of it."""

_ARRAY: Final = re.compile(f"(described )?array of ({'|'.join([*SIMPLE, 'list', 'map', 'array'])})")

_KEYS: Final = (str, int, float, bytes, type(None))
"""What the codec takes as keys of a ``dict``; a map with others, or with many numbers, is `Pairs`."""


def read_value(
    plain: object, types: TypeTree, place: Place, *, due: str | None = None, depth: int = 0
) -> Any:
    """The value at a place. ``due`` is its type if the document says none.

    ``depth`` is how many values it lies in.
    """
    name = types.name or due or _natural_type(plain)
    simple = SIMPLE.get(name)
    if simple is not None:
        try:
            return simple(plain)
        except ValueError as error:
            raise malformed(place, str(error)) from None
    if depth >= MAX_DEPTH:
        raise malformed(place, f"values are nested more than {MAX_DEPTH} deep")
    depth += 1
    if name == "map":
        return read_map(plain, types, place, depth)
    if name == "list":
        return read_list(plain, types, place, depth)
    if name == "described":
        items = read_list(plain, types, place, depth)
        if len(items) != 2:
            raise malformed(place, "must be a list of a descriptor and a value")
        return Described(*items)
    if array := _ARRAY.fullmatch(name):
        return _read_array(plain, types, place, depth, described=bool(array[1]), type=array[2])
    raise malformed(place, f"is of a type that is not known: {name[:50]!r}")


def _natural_type(plain: object) -> str:
    match plain:
        case None:
            return "null"
        case bool():
            return "boolean"
        case str():
            return "string"
        case int():
            return "int" if -(2**31) <= plain < 2**31 else "long"
        case float():
            return "double"
        case dict():
            return "map"
        case _:
            return "list"


def read_list(
    plain: object, types: TypeTree, place: Place, depth: int, due: str | None = None
) -> list[object]:
    """The values of a list, which are ``depth`` deep."""
    if not isinstance(plain, list):
        raise malformed(place, "must be a list")
    return [
        read_value(item, types.at(number), (place, number), due=due, depth=depth)
        for number, item in enumerate(plain)
    ]


def read_map(plain: object, types: TypeTree, place: Place, depth: int) -> dict[Any, object] | Pairs:
    """The values of a map, which are ``depth`` deep: an object, or a list of pairs."""
    if isinstance(plain, dict):
        return {
            name: read_value(value, types.at(name), (place, name), depth=depth)
            for name, value in plain.items()
        }
    if not isinstance(plain, list):
        raise malformed(place, "must be an object, or a list of pairs")
    pairs = Pairs()
    seen: set[bytes] = set()
    for number, pair in enumerate(plain):
        items = read_list(pair, types.at(number), (place, number), depth)
        if len(items) != 2:
            raise malformed((place, number), "must be a list of a key and a value")
        encoded = encode_value(items[0])
        if encoded in seen:
            raise malformed((place, number), "is a key for the second time")
        seen.add(encoded)
        pairs.append((items[0], items[1]))
    numbers = sum(isinstance(key, int | float) for key, _ in pairs)
    if numbers > MAX_NUMERIC_KEYS or not all(isinstance(key, _KEYS) for key, _ in pairs):
        return pairs
    result = dict(pairs)
    return result if len(result) == len(pairs) else pairs  # some keys are equal to Python, and not to AMQP


def _read_array(
    plain: object, types: TypeTree, place: Place, depth: int, *, described: bool, type: str
) -> Array:
    descriptors: list[object] = []
    if described:
        if not isinstance(plain, list) or len(plain) != 2:
            raise malformed(place, "must be a list of descriptors and a list of values")
        descriptors = read_list(plain[0], types.at(0), (place, 0), depth)
        plain, types, place = plain[1], types.at(1), (place, 1)
    items = read_list(plain, types, place, depth, due=type)
    for number, item in enumerate(items):
        if type_name(type_of(item)) != type:
            raise malformed((place, number), f"must be of type {type}, as the array")
    return Array(type, items, tuple(descriptors))
