"""The typed properties of a message, and the forms that they have on the wire.

A property's value has one form per type, which `wire_property` gives it or raises `EncodeError`. Other
writers' forms of the same value (`received`) become that one form, or raise `DecodeError`.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Any, Final, NamedTuple

import msgspec

from isthmus.errors import DecodeError, EncodeError, IsthmusError


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


PropertyValue = str | int | float | bool | bytes | None


class Property(NamedTuple):
    """A property as it is handed out."""

    type: PropertyType
    value: PropertyValue


class PropertyError(IsthmusError):
    """A property that cannot be had as it was asked for."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


class NoSuchProperty(PropertyError):
    """The message has no property of that name; one that is null is there."""

    def __init__(self, name: str) -> None:
        super().__init__(name, f"there is no property {name!r}")


class WrongPropertyType(PropertyError):
    """The property is there and has another type than it was asked for as."""

    def __init__(self, name: str, asked: PropertyType, found: PropertyType) -> None:
        super().__init__(name, f"property {name!r} is {_called(found)}, not {_called(asked)}")
        self.asked = asked
        self.found = found


class WireProperty(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """A property as msgspec writes and reads it. A float32 is kept encoded: msgspec writes float64 alone."""

    type: int = 0
    value: Any = None


Properties = dict[str, WireProperty]
"""The properties of a message by their names, each in the form in which it is written."""

INTEGER_RANGES: Final = {
    PropertyType.INT8: (-(2**7), 2**7 - 1),
    PropertyType.INT16: (-(2**15), 2**15 - 1),
    PropertyType.INT32: (-(2**31), 2**31 - 1),
    PropertyType.INT64: (-(2**63), 2**63 - 1),
}

_ZEROS: Final[dict[PropertyType, PropertyValue]] = {
    PropertyType.STRING: "",
    **dict.fromkeys(INTEGER_RANGES, 0),
    PropertyType.FLOAT32: 0.0,
    PropertyType.FLOAT64: 0.0,
    PropertyType.BOOL: False,
    PropertyType.BYTES: b"",
    PropertyType.NULL: None,
}

_EXACT: Final[dict[int, type]] = {
    PropertyType.STRING: str,
    PropertyType.FLOAT64: float,
    PropertyType.BOOL: bool,
    PropertyType.BYTES: bytes,
    PropertyType.NULL: type(None),
}
"""The types whose every value of one Python class is fit to be written."""

# Plain numbers, because looking up and comparing an Enum's members takes longer than all the rest.
_TYPES: Final = {int(type): type for type in PropertyType}
_STRING, _INT8, _FLOAT32_TYPE, _FLOAT64_TYPE, _BYTES = (_TYPES[code].value for code in (0, 1, 5, 6, 8))
_FLOAT32: Final = struct.Struct(">Bf")
_FLOAT32_CODE: Final = 0xCA


def natural_type(value: object) -> PropertyType:
    """The type that a Python value has when none is given. An int is an int64, whatever its size."""
    match value:
        case None:
            return PropertyType.NULL
        case bool():
            return PropertyType.BOOL
        case int():
            return PropertyType.INT64
        case float():
            return PropertyType.FLOAT64
        case str():
            return PropertyType.STRING
        case bytes() | bytearray() | memoryview():
            return PropertyType.BYTES
    raise EncodeError(f"a {type(value).__name__} is not a value that a property can have")


def wire_property(type: PropertyType, value: object) -> WireProperty:
    """The property in its one form. Raises `EncodeError` where the value does not fit the type."""
    code = int(type)
    if value.__class__ is _EXACT.get(code):
        return WireProperty(code, value)
    if isinstance(value, int) and not isinstance(value, bool):
        if code in INTEGER_RANGES:
            low, high = INTEGER_RANGES[type]
            if not low <= value <= high:
                raise EncodeError(f"{value} is out of range for {_called(type)}: {low} to {high}")
            return WireProperty(code, int(value))
        if code in (_FLOAT32_TYPE, _FLOAT64_TYPE):
            return _float_property(type, value)
    elif isinstance(value, float) and code in (_FLOAT32_TYPE, _FLOAT64_TYPE):
        return _float_property(type, value)
    elif isinstance(value, str) and code == _STRING:
        return WireProperty(code, str(value))
    elif isinstance(value, bytes | bytearray | memoryview) and code == _BYTES:
        return WireProperty(code, bytes(value))
    raise EncodeError(f"a {value.__class__.__name__} is not a value of type {_called(type)}")


def _float_property(type: PropertyType, value: float) -> WireProperty:
    try:
        number = float(value)
        return WireProperty(int(type), _float32(number) if type == _FLOAT32_TYPE else number)
    except OverflowError:
        raise EncodeError(f"{value} is out of range for {_called(type)}") from None


def value_of(property: WireProperty) -> PropertyValue:
    """The Python value of a property that has its one form."""
    value: PropertyValue | msgspec.Raw = property.value
    if isinstance(value, msgspec.Raw):
        single: float = _FLOAT32.unpack(value)[1]
        return single
    return value


def received(name: str, type: int, value: object) -> WireProperty:
    """The property in its one form, from the form in which some writer sent it. Raises `DecodeError`.

    A value that is not there is the type's zero. A string may have come as bytes, a float as an integer, and
    an int8 as the unsigned byte that Go's helper takes for one.
    """
    try:
        declared = _TYPES[type] if type in _TYPES else PropertyType(type)
        if value is None:
            value = _ZEROS[declared]
        elif isinstance(value, bytes) and type == _STRING:
            value = value.decode()
        elif isinstance(value, int) and type == _INT8 and 0x80 <= value <= 0xFF:
            value -= 0x100
        return wire_property(declared, value)
    except (EncodeError, ValueError) as error:  # ValueError: no such type, or text that is not UTF-8
        raise DecodeError(f"property {name!r}: {error}") from error


def from_canonical(wire: bytes) -> Properties:
    """The properties out of bytes that `canonical.is_canonical` has found to be in order."""
    properties = _READ(wire)
    for property in properties.values():
        if property.type == _FLOAT32_TYPE:
            property.value = _float32(property.value)
    return properties


def _float32(number: float) -> msgspec.Raw:
    return msgspec.Raw(_FLOAT32.pack(_FLOAT32_CODE, number))


def _called(type: PropertyType) -> str:
    return type.name.lower()


_READ: Final = msgspec.msgpack.Decoder(dict[str, WireProperty]).decode
