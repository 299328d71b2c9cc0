"""`BridgeMessage`: a body, a header and typed properties, to and from bytes. Compiled with a C compiler.

`BridgeMessage.decode` reads the body and the header, and makes sure that the properties are in order. Where
the compiled `canonical` finds that they are, they stay encoded: a getter reads the one that it is asked for.
Otherwise they are read at once. Either way, a message that was decoded is whole: nothing can turn out to be
malformed later.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from isthmus.codecs.bridge_message import canonical, tolerant
from isthmus.codecs.bridge_message.canonical import (
    bool_at,
    bytes_at,
    find,
    float_at,
    integer_at,
    is_canonical,
    text_at,
    value_end,
)
from isthmus.codecs.bridge_message.header import BridgeHeader
from isthmus.codecs.bridge_message.properties import (
    BOOL,
    BYTES,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    TYPES,
    Properties,
    Property,
    PropertyValue,
    WireProperty,
    from_canonical,
    handed_out,
    natural_type,
    single_value,
    wire_property,
)
from isthmus.codecs.bridge_message.wire import Wire, read, write, write_into, write_sorted
from isthmus.errors import EncodeError, NoSuchProperty, WrongPropertyType

if TYPE_CHECKING:
    from mypy_extensions import i64  # a machine word in the compiled form; never imported

COMPILED: Final = not canonical.__file__.endswith(".py")
"""Whether the compiled form is running. Otherwise the scan would take longer than reading the properties."""

_LONGEST_BODY_SHOWN: Final = 64
_READ: Final = b""
"""In place of encoded properties: they were read, or there are none."""

_read: Final = read  # the compiled form finds what is the module's own without looking it up
_write: Final = write
_write_into: Final = write_into
_LONGEST_COPIED: Final = 2048
"""Bodies up to here are copied once more, which takes less than what it saves."""
_LONGEST_KEPT: Final = 64 * 1024
_buffers: Final[list[bytearray]] = []
"""Those that nobody is writing into."""


def _written(wire: Wire) -> bytes:
    """The encoded message, by way of a buffer that is kept: a new one would grow several times on the way."""
    try:
        buffer = _buffers.pop()
    except IndexError:  # the first time, and when another thread has it
        buffer = bytearray()
    _write_into(wire, buffer)
    octets = b"" + buffer
    if len(octets) <= _LONGEST_KEPT:
        _buffers.append(buffer)
    return octets


def _body(body: Any) -> bytes:
    if not isinstance(body, bytes | bytearray | memoryview):
        raise EncodeError(f"a body is bytes, not {body.__class__.__name__}")
    return bytes(body) or b""  # of what is empty, msgspec leaves out only the very default


def _header(header: Any) -> BridgeHeader:
    if not isinstance(header, BridgeHeader):
        raise EncodeError(f"a header is a BridgeHeader, not {header.__class__.__name__}")
    return header


class BridgeMessage:
    """One message: it is changed by its body, its header's fields, `set_property` and `delete_property`."""

    def __init__(
        self,
        body: Any = b"",
        header: Any = None,
        *,
        _wire: Wire | None = None,
        _encoded: bytes = _READ,
    ) -> None:
        """A message with this body (bytes) and header (a `BridgeHeader`), or an `EncodeError`.

        What begins with an underscore is for `decode`.
        """
        self._encoded = _encoded
        self._is_short = False
        self._next: i64 = 1 if len(_encoded) > 0 else 0
        if _wire is not None:
            self._wire = _wire
            return
        octets = _body(body)
        self._wire = Wire(octets)
        self._is_short = len(octets) <= _LONGEST_COPIED
        if header is not None:
            self._wire.header = _header(header)

    @staticmethod
    def decode(data: bytes | bytearray | memoryview) -> BridgeMessage:
        """The message that these bytes are. Raises `DecodeError` if they are none, and nothing else."""
        # Properties that stay encoded must not change with their buffer.
        octets = data if isinstance(data, bytes) else bytes(memoryview(data))
        try:
            wire = _read(octets)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return BridgeMessage(_wire=Wire(*tolerant.read(octets)))
        props = wire.props
        if not isinstance(props, dict):
            if COMPILED:
                encoded = b"" + props  # bytes(props) takes twice as long
                if is_canonical(encoded):
                    return BridgeMessage(_wire=wire, _encoded=encoded)
            wire.props = tolerant.read_properties(props)
        return BridgeMessage(_wire=wire)

    def encode(self) -> bytes:
        """The message as bytes. Raises `EncodeError` if it has text that is not Unicode or too long."""
        if self._next > 0:
            self._properties()
        try:
            return _written(self._wire) if self._is_short else _write(self._wire)
        except (ValueError, OverflowError, msgspec.EncodeError) as error:
            raise EncodeError(f"a message that cannot be written: {error}") from error

    @property
    def body(self) -> bytes:
        """The body. Any bytes can be set; what is no bytes is an `EncodeError`."""
        return self._wire.body

    @body.setter
    def body(self, body: Any) -> None:
        octets = _body(body)
        self._wire.body = octets
        self._is_short = len(octets) <= _LONGEST_COPIED

    @property
    def header(self) -> BridgeHeader:
        """The header. What is no `BridgeHeader` is an `EncodeError`."""
        return self._wire.header

    @header.setter
    def header(self, header: Any) -> None:
        self._wire.header = _header(header)

    @property
    def properties(self) -> Mapping[str, Property]:
        """All properties with their types, as they are now."""
        return MappingProxyType({name: handed_out(wire) for name, wire in self._properties().items()})

    def set_property(self, name: Any, value: Any, type: Any = None) -> None:
        """Set a property, with the given type or the natural one: an int is an int64, a float a float64.

        Raises `EncodeError` where the name is no str, or the value is not of the type or out of its range. A
        float32 is rounded.
        """
        if not isinstance(name, str):
            raise EncodeError(f"a property's name is a str, not {name.__class__.__name__}")
        if type is None:
            type = natural_type(value)
        elif not isinstance(type, int) or type not in TYPES:
            raise EncodeError(f"{type!r} is not a property type")
        self._properties()[str(name)] = wire_property(int(type), value)

    def has_property(self, name: str) -> bool:
        """Whether there is such a property; one that is null is there."""
        return name in self._properties()

    def delete_property(self, name: str) -> Property | None:
        """Remove a property and return what it was; None if there was none."""
        wire = self._properties().pop(name, None)
        return None if wire is None else handed_out(wire)

    def get_string_property(self, name: str) -> str:
        """The value of a string. Like all getters it raises `NoSuchProperty` or `WrongPropertyType`."""
        at = self._find(name, STRING)
        if at > 0:
            return text_at(self._encoded, at)
        return cast(str, self._get(name, STRING))

    def get_int8_property(self, name: str) -> int:
        """The value of an int8."""
        at = self._find(name, INT8)
        if at > 0:
            return integer_at(self._encoded, at)
        return cast(int, self._get(name, INT8))

    def get_int16_property(self, name: str) -> int:
        """The value of an int16."""
        at = self._find(name, INT16)
        if at > 0:
            return integer_at(self._encoded, at)
        return cast(int, self._get(name, INT16))

    def get_int32_property(self, name: str) -> int:
        """The value of an int32."""
        at = self._find(name, INT32)
        if at > 0:
            return integer_at(self._encoded, at)
        return cast(int, self._get(name, INT32))

    def get_int64_property(self, name: str) -> int:
        """The value of an int64."""
        at = self._find(name, INT64)
        if at > 0:
            return integer_at(self._encoded, at)
        return cast(int, self._get(name, INT64))

    def get_float32_property(self, name: str) -> float:
        """The value of a float32."""
        at = self._find(name, FLOAT32)
        if at > 0:
            return float_at(self._encoded, at)
        return cast(float, self._get(name, FLOAT32))

    def get_float64_property(self, name: str) -> float:
        """The value of a float64."""
        at = self._find(name, FLOAT64)
        if at > 0:
            return float_at(self._encoded, at)
        return cast(float, self._get(name, FLOAT64))

    def get_bool_property(self, name: str) -> bool:
        """The value of a boolean."""
        at = self._find(name, BOOL)
        if at > 0:
            return bool_at(self._encoded, at)
        return cast(bool, self._get(name, BOOL))

    def get_bytes_property(self, name: str) -> bytes:
        """The value of a property of bytes."""
        at = self._find(name, BYTES)
        if at > 0:
            return bytes_at(self._encoded, at)
        return cast(bytes, self._get(name, BYTES))

    def _find(self, name: str, type: i64) -> i64:
        """Where the value of a property begins, or 0: it is for `_get` to find it or to say why not."""
        if self._next == 0:
            return 0
        at: i64 = find(self._encoded, name, type, self._next)
        if at > 0:
            self._next = value_end(self._encoded, at)
        return at

    def _get(self, name: str, asked: int) -> PropertyValue:
        wire: WireProperty | None = self._properties().get(name)
        if wire is None:
            raise NoSuchProperty(name)
        if wire.type != asked:
            raise WrongPropertyType(name, TYPES[asked], TYPES[wire.type])
        return single_value(wire) if asked == FLOAT32 else wire.value

    def _properties(self) -> Properties:
        if self._next > 0:
            self._wire.props = from_canonical(self._encoded)
            self._encoded = _READ
            self._next = 0
        return cast(Properties, self._wire.props)

    def __eq__(self, other: object) -> bool:
        """Equal messages have the same encoding but for the order of properties. A NaN equals itself here."""
        if not isinstance(other, BridgeMessage):
            return NotImplemented
        self._properties()
        other._properties()
        return write_sorted(self._wire) == write_sorted(other._wire)

    def __hash__(self) -> int:
        """It can change, so it has none."""
        raise TypeError("unhashable type: 'BridgeMessage'")

    def __repr__(self) -> str:
        body = repr(self.body[:_LONGEST_BODY_SHOWN])
        if len(self.body) > _LONGEST_BODY_SHOWN:
            body += f"… ({len(self.body)} bytes)"
        properties = ", ".join(
            f"{name!r}: {property.type.name.lower()} {property.value!r}"
            for name, property in self.properties.items()
        )
        return f"BridgeMessage(body={body}, header={self.header!r}, properties={{{properties}}})"
