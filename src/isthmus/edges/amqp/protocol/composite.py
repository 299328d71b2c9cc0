"""Composite types: a described list on the wire, a struct in Python (part 1, 1.4 of the specification).

A struct names its descriptor (``CODE``, ``SYMBOL``) and the type of every field in its order (``WIRE``). A
type is one of the specification's names, ``*`` any type, ``error`` an error. A trailing ``!`` says that the
field is mandatory, a trailing ``[]`` that it may hold several values, as an array or as one plain value.

Reading checks types, mandatory fields and their number, and raises `ConnectionFault` with amqp:invalid-field
(a well-formed value in the wrong place) or amqp:decode-error. Writing leaves out trailing fields that are
None or have the default, since the peer takes the same default for them.
"""

from __future__ import annotations

from functools import cache
from typing import Any, ClassVar, Final, Self

import msgspec

from isthmus.codecs.amqp import (
    Array,
    Described,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)
from isthmus.edges.amqp.protocol.conditions import DECODE_ERROR, INVALID_FIELD, ConnectionFault

_CLASSES: Final[dict[str, type]] = {
    "boolean": bool,
    "ubyte": UByte,
    "ushort": UShort,
    "uint": UInt,
    "ulong": ULong,
    "timestamp": Timestamp,
    "binary": bytes,
    "string": str,
    "symbol": Symbol,
    "map": dict,
    "list": list,
}

_ERROR: Final = 0x1D

KNOWN: Final[dict[object, type[Composite]]] = {}
"""The composite types by descriptor, numeric and symbolic."""


class Composite(msgspec.Struct, frozen=True):
    """The root of all composite types."""

    CODE: ClassVar[int] = -1
    SYMBOL: ClassVar[str] = ""
    WIRE: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        KNOWN[cls.CODE] = KNOWN[cls.SYMBOL] = cls

    def described(self) -> Described:
        """The value that the writer takes."""
        fields: list[object] = []
        kept = 0
        for name, kind, default in zip(self.__struct_fields__, self.WIRE, _defaults(type(self)), strict=True):
            value = getattr(self, name)
            if value is None or (value == default and not kind.endswith("!")):
                fields.append(None)
            else:
                fields.append(_typed(value, kind))
                kept = len(fields)
        return Described(ULong(self.CODE), fields[:kept])

    @classmethod
    def of(cls, fields: list[object]) -> Self:
        """The struct of a list that was read."""
        if len(fields) > len(cls.WIRE):
            raise ConnectionFault(DECODE_ERROR, f"{cls.SYMBOL} has {len(fields)} fields")
        given: dict[str, Any] = {}
        for (name, kind, plain), value in zip(_fields(cls), fields, strict=False):
            if value is not None:
                given[name] = value if type(value) is plain else _checked(value, kind, cls, name)
        for name in _mandatory(cls):
            if name not in given:
                raise ConnectionFault(INVALID_FIELD, f"{cls.SYMBOL} lacks its mandatory {_spelled(name)}")
        return cls(**given)


@cache
def _defaults(cls: type[Composite]) -> tuple[object, ...]:
    return tuple(
        None if field.default is msgspec.NODEFAULT else field.default for field in msgspec.structs.fields(cls)
    )


@cache
def _fields(cls: type[Composite]) -> tuple[tuple[str, str, type | None], ...]:
    """For each field its name, its type, and what holds a value that is fine as it is."""
    return tuple(
        (name, kind, _CLASSES.get(kind.rstrip("!")))
        for name, kind in zip(cls.__struct_fields__, cls.WIRE, strict=True)
    )


@cache
def _mandatory(cls: type[Composite]) -> tuple[str, ...]:
    return tuple(name for name, kind, _ in _fields(cls) if kind.endswith("!"))


def interpret(value: object) -> object:
    """A described value of a known composite type as its struct; any other value as it is."""
    if type(value) is not Described:
        return value
    cls = KNOWN.get(value.descriptor) if isinstance(value.descriptor, ULong | Symbol) else None
    if cls is None:
        return value
    if type(value.value) is not list:
        raise ConnectionFault(DECODE_ERROR, f"{cls.SYMBOL} is not a list")
    return cls.of(value.value)


def _typed(value: Any, kind: str) -> object:
    """A field's value as the writer takes it."""
    kind = kind.rstrip("!")
    if isinstance(value, Composite):
        return value.described()
    if kind.endswith("[]"):
        items: list[object] = [Symbol(item) for item in value]
        return Array("symbol", items) if items else None
    cls = _CLASSES.get(kind)
    return value if cls is None or type(value) is cls else cls(value)


def _checked(value: object, kind: str, owner: type[Composite], name: str) -> object:
    """A field's value as the struct holds it. Maps are left as they are but for what they are called."""
    kind = kind.rstrip("!")
    if kind == "*":
        return interpret(value)
    if kind == "error":
        error = interpret(value)
        if type(error) is KNOWN[_ERROR]:
            return error
        raise ConnectionFault(INVALID_FIELD, f"{_spelled(name)} of {owner.SYMBOL} is not an error")
    if kind.endswith("[]"):
        if type(value) is Array and value.type == kind[:-2] and not value.descriptors:
            return tuple(value.items)
        if type(value) is _CLASSES[kind[:-2]]:
            return (value,)
    elif type(value) is _CLASSES[kind]:
        return value
    raise ConnectionFault(
        INVALID_FIELD, f"{_spelled(name)} of {owner.SYMBOL} is not of type {kind.removesuffix('[]')}"
    )


def _spelled(name: str) -> str:
    return name.rstrip("_").replace("_", "-")
