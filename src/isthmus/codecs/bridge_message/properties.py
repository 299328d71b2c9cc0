"""The typed properties of a message, and the forms that they have on the wire.

A property's value has one form per type, which `wire_property` gives it or raises `EncodeError`. Other
writers' forms of the same value (`received`) become that one form, or raise `DecodeError`.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Any, Final

import msgspec

from isthmus.errors import DecodeError, EncodeError


class PropertyType(IntEnum):
    """The types that a property can have; the number is what stands on the wire."""

    STRING = 0
    INT8 = 1
    INT16 = 2
    INT32 = 3
    INT64 = 4
    FLOAT32 = 5
    FLOAT64 = 6
    BOOL = 7
    BYTES = 8
    NULL = 9


# The same as plain numbers, which the compiler puts where they are used: looking up and comparing an Enum's
# members takes longer than all the rest.
STRING: Final = 0
INT8: Final = 1
INT16: Final = 2
INT32: Final = 3
INT64: Final = 4
FLOAT32: Final = 5
FLOAT64: Final = 6
BOOL: Final = 7
BYTES: Final = 8
NULL: Final = 9

TYPES: Final = {int(type): type for type in PropertyType}

PropertyValue = str | int | float | bool | bytes | None


class Property(msgspec.Struct, frozen=True, gc=False):
    """A property as it is handed out."""

    type: PropertyType
    value: PropertyValue


class WireProperty(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """A property as msgspec writes and reads it. A float32 is kept encoded: msgspec writes float64 alone."""

    type: int = 0
    value: Any = None


Properties = dict[str, WireProperty]
"""The properties of a message by their names, each in the form in which it is written."""

INTEGER_RANGES: Final = {
    INT8: (-(2**7), 2**7 - 1),
    INT16: (-(2**15), 2**15 - 1),
    INT32: (-(2**31), 2**31 - 1),
    INT64: (-(2**63), 2**63 - 1),
}

_ZEROS: Final[dict[int, PropertyValue]] = {
    STRING: "",
    **dict.fromkeys(INTEGER_RANGES, 0),
    FLOAT32: 0.0,
    FLOAT64: 0.0,
    BOOL: False,
    BYTES: b"",
    NULL: None,
}

_EXACT: Final[dict[int, type]] = {
    STRING: str,
    FLOAT64: float,
    BOOL: bool,
    BYTES: bytes,
    NULL: type(None),
}
"""The types whose every value of one Python class is fit to be written."""

_SINGLE: Final = struct.Struct(">Bf")
_SINGLE_CODE: Final = 0xCA


def natural_type(value: object) -> int:
    """The type that a Python value has when none is given. An int is an int64, whatever its size."""
    match value:
        case None:
            return NULL
        case bool():
            return BOOL
        case int():
            return INT64
        case float():
            return FLOAT64
        case str():
            return STRING
        case bytes() | bytearray() | memoryview():
            return BYTES
    raise EncodeError(f"a {type(value).__name__} is not a value that a property can have")


def wire_property(type: int, value: object) -> WireProperty:
    """The property in its one form. Raises `EncodeError` where the value does not fit the type."""
    if value.__class__ is _EXACT.get(type):
        return WireProperty(type, value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        if type in (FLOAT32, FLOAT64):
            return _float_property(type, value)
        if type in INTEGER_RANGES and isinstance(value, int):
            low, high = INTEGER_RANGES[type]
            if not low <= value <= high:
                raise EncodeError(f"{value} is out of range for {_called(type)}: {low} to {high}")
            return WireProperty(type, int(value))
    elif type == STRING and isinstance(value, str):
        return WireProperty(type, str(value))
    elif type == BYTES and isinstance(value, bytes | bytearray | memoryview):
        return WireProperty(type, bytes(value))
    raise EncodeError(f"a {value.__class__.__name__} is not a value of type {_called(type)}")


def _float_property(type: int, value: float) -> WireProperty:
    try:
        number = float(value)
        return WireProperty(type, _single(number) if type == FLOAT32 else number)
    except OverflowError:
        raise EncodeError(f"{value} is out of range for {_called(type)}") from None


def handed_out(wire: WireProperty) -> Property:
    """The property as it is handed out."""
    return Property(TYPES[wire.type], single_value(wire) if wire.type == FLOAT32 else wire.value)


def single_value(wire: WireProperty) -> float:
    """The value of a float32."""
    value: float = _SINGLE.unpack(wire.value)[1]
    return value


def received(name: str, type: int, value: object) -> WireProperty:
    """The property in its one form, from the form in which some writer sent it. Raises `DecodeError`.

    A value that is not there is the type's zero. A string may have come as bytes, a float as an integer, and
    an int8 as the unsigned byte that Go's helper takes for one.
    """
    if type not in TYPES:
        raise DecodeError(f"property {name!r}: there is no type {type}")
    try:
        if value is None:
            value = _ZEROS[type]
        elif type == STRING and isinstance(value, bytes):
            value = value.decode()
        elif type == INT8 and isinstance(value, int) and 0x80 <= value <= 0xFF:
            value -= 0x100
        return wire_property(type, value)
    except (EncodeError, UnicodeDecodeError) as error:
        raise DecodeError(f"property {name!r}: {error}") from error


def from_canonical(wire: bytes) -> Properties:
    """The properties out of bytes that `canonical.is_canonical` has found to be in order."""
    properties = _READ(wire)
    if b"type\x05" in wire:  # a float32, most likely, and few messages have one
        for property in properties.values():
            if property.type == FLOAT32:
                property.value = _single(property.value)
    return properties


def _single(number: float) -> msgspec.Raw:
    return msgspec.Raw(_SINGLE.pack(_SINGLE_CODE, number))


def _called(type: int) -> str:
    return TYPES[type].name.lower()


_READ: Final = msgspec.msgpack.Decoder(dict[str, WireProperty]).decode
