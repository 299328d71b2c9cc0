"""The constructors of AMQP's primitive types (part 1, 1.6 of the specification).

A constructor's first digit tells how its data is laid out::

    00 descriptor constructor             described
    4x                                    no data: null, true, false, zero, the empty list
    5x 6x 7x 8x 9x                        1, 2, 4, 8, 16 bytes
    Ax Bx  size data                      binary, string, symbol; the size has 1 or 4 bytes
    Cx Dx  size count data                list, map: values, each with its constructor
    Ex Fx  size count constructor data    array: one constructor for all elements

A type has one to three of them. Its widest one stands for the type itself where a number is handier than a
name. Elsewhere in the codec constructors are literals: plain Python looks up a named one at run time, every
time.
"""

from __future__ import annotations

from typing import Final

CONSTRUCTORS: Final = {
    # type: its constructors, the narrowest first
    "null": b"\x40",
    "boolean": b"\x41\x42\x56",
    "ubyte": b"\x50",
    "ushort": b"\x60",
    "uint": b"\x43\x52\x70",
    "ulong": b"\x44\x53\x80",
    "byte": b"\x51",
    "short": b"\x61",
    "int": b"\x54\x71",
    "long": b"\x55\x81",
    "float": b"\x72",
    "double": b"\x82",
    "decimal32": b"\x74",
    "decimal64": b"\x84",
    "decimal128": b"\x94",
    "char": b"\x73",
    "timestamp": b"\x83",
    "uuid": b"\x98",
    "binary": b"\xa0\xb0",
    "string": b"\xa1\xb1",
    "symbol": b"\xa3\xb3",
    "list": b"\x45\xc0\xd0",
    "map": b"\xc1\xd1",
    "array": b"\xe0\xf0",
}

_NAMES: Final = {code: name for name, codes in CONSTRUCTORS.items() for code in codes}
_WIDEST: Final = {code: codes[-1] for codes in CONSTRUCTORS.values() for code in codes}

TYPES: Final = bytes([_WIDEST.get(code, 0) for code in range(256)])
"""By constructor: its type, as the widest constructor that the type has; 0 for what is none."""


def type_name(constructor: int) -> str:
    """The name of the type that a constructor stands for."""
    name = _NAMES.get(constructor)
    if name is None:
        return f"unknown constructor 0x{constructor:02x}" if constructor else "described"
    return name
