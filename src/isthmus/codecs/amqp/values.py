"""How Python holds a value of the AMQP 1.0 type system (part 1 of the specification).

============  ==========================  ============  ==========================
AMQP          Python                      AMQP          Python
============  ==========================  ============  ==========================
null          ``None``                    float         `Float`
boolean       ``bool``                    double        ``float``
ubyte         `UByte`                     decimal32     `Decimal32`: its 4 bytes
ushort        `UShort`                    decimal64     `Decimal64`: its 8 bytes
uint          `UInt`                      decimal128    `Decimal128`: its 16 bytes
ulong         `ULong`                     char          `Char`
byte          `Byte`                      timestamp     `Timestamp`: milliseconds
short         `Short`                     uuid          ``uuid.UUID``
int           `Int`                       binary        ``bytes``
long          ``int``                     string        ``str``
list          ``list``                    symbol        `Symbol`
map           ``dict``, rarely `Pairs`    array         `Array`
described     `Described`
============  ==========================  ============  ==========================

The classes differ from the Python type that they extend in nothing but their name, so that they compare,
hash and compute like it: ``UInt(1) == 1``, and ``annotations["x-opt-jms-dest"]`` finds a symbol. What tells
the types apart is the class. Ranges are checked when a value is encoded, not when it is made.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final, Self

import msgspec

MAX_DEPTH: Final = 64
"""How deep values may be nested: far beyond any real message, and far from the end of the stack."""

MAX_VALUES: Final = 32_768
"""How many values the lists, maps and arrays of a message may have together, one byte each as they may be: to
read them, and to write them as JSON, takes some 2 µs each, and a server has other clients. What is not looked
into does not count. Each further section of a body counts as `SECTION_VALUES`."""
SECTION_VALUES: Final = 2

MAX_NUMERIC_KEYS: Final = 64
"""How many numbers may be keys of a ``dict``. Whoever sends them knows the hash that Python has for each, and
could choose all of them to collide: the work would be quadratic. Those of text and bytes nobody knows."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class _Integer(int):
    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({int(self)})"

    __str__ = int.__repr__


class UByte(_Integer):
    """ubyte: 0 to 2⁸-1."""

    __slots__ = ()


class UShort(_Integer):
    """ushort: 0 to 2¹⁶-1."""

    __slots__ = ()


class UInt(_Integer):
    """uint: 0 to 2³²-1."""

    __slots__ = ()


class ULong(_Integer):
    """ulong: 0 to 2⁶⁴-1."""

    __slots__ = ()


class Byte(_Integer):
    """byte: -2⁷ to 2⁷-1."""

    __slots__ = ()


class Short(_Integer):
    """short: -2¹⁵ to 2¹⁵-1."""

    __slots__ = ()


class Int(_Integer):
    """int: -2³¹ to 2³¹-1."""

    __slots__ = ()


class Timestamp(_Integer):
    """timestamp: milliseconds since 1970 in UTC, as a signed 64-bit number."""

    __slots__ = ()

    @classmethod
    def from_datetime(cls, moment: datetime) -> Self:
        """The timestamp of a moment, which must know its time zone; less than a millisecond is dropped."""
        return cls((moment - _EPOCH) // timedelta(milliseconds=1))

    def to_datetime(self) -> datetime:
        """The moment in UTC; ``OverflowError`` outside the years 1 to 9999."""
        return _EPOCH + timedelta(milliseconds=int(self))


class Float(float):
    """float: 32 bits wide. Made from a Python float, it is rounded when it is encoded."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Float({float.__repr__(self)})"

    __str__ = float.__repr__


class Char(str):
    """char: one Unicode character."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Char({str.__repr__(self)})"


class Symbol(str):
    """symbol: ASCII text from a constrained domain, such as the name of an annotation."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Symbol({str.__repr__(self)})"


class _Decimal(bytes):
    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({bytes.__repr__(self)})"


class Decimal32(_Decimal):
    """decimal32: the 4 bytes of an IEEE 754-2008 number, kept as they are."""

    __slots__ = ()


class Decimal64(_Decimal):
    """decimal64: the 8 bytes of an IEEE 754-2008 number, kept as they are."""

    __slots__ = ()


class Decimal128(_Decimal):
    """decimal128: the 16 bytes of an IEEE 754-2008 number, kept as they are."""

    __slots__ = ()


class Pairs(list[tuple[object, object]]):
    """A map that no ``dict`` holds: its keys are uuids, compound, equal to Python only, or many numbers.

    ``uint 1`` and ``long 1`` are two keys of one map, and so are a symbol and a string of the same text.
    """

    __slots__ = ()


class Described(msgspec.Struct, frozen=True):
    """A value with a descriptor: a symbol or `ULong` that says what the value stands for."""

    descriptor: object
    value: object


class Array(msgspec.Struct, frozen=True):
    """Values of one type. ``type`` is its name in the specification, such as ``"int"`` or ``"symbol"``.

    ``descriptors`` are those that all elements share, the outermost first; nearly always none.
    """

    type: str
    items: list[object]
    descriptors: tuple[object, ...] = ()
