"""`BridgeMessage`: a body, a header and typed properties, to and from bytes.

`BridgeMessage.decode` reads the body and the header, and makes sure that the properties are in order. Where
the compiled `canonical` finds that they are, they stay encoded until one is asked for; otherwise they are
read at once. Either way, a message that was decoded is whole: nothing can turn out to be malformed later.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Raw

from isthmus.codecs.bridge_message import canonical, tolerant
from isthmus.codecs.bridge_message.canonical import is_canonical
from isthmus.codecs.bridge_message.checked import CheckedStruct
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
    PropertyType,
    PropertyValue,
    WireProperty,
    from_canonical,
    handed_out,
    natural_type,
    single_value,
    wire_property,
)
from isthmus.errors import EncodeError, NoSuchProperty, WrongPropertyType

if TYPE_CHECKING:
    Held = Raw | Properties
else:
    Held = Raw  # what the decoder is to put there

COMPILED: Final = not canonical.__file__.endswith(".py")
"""Whether the compiled form is running. Otherwise the scan would take longer than reading the properties."""

_LONGEST_BODY_SHOWN: Final = 64


class BridgeMessage(
    CheckedStruct,
    omit_defaults=True,
    forbid_unknown_fields=True,
    eq=False,
    gc=False,
):
    """One message. It is changed through its header's fields, `set_property` and `delete_property`."""

    body: bytes = b""
    header: BridgeHeader = msgspec.field(default_factory=BridgeHeader)
    _held: Held = msgspec.field(default_factory=dict, name="props")

    @staticmethod
    def decode(data: bytes) -> BridgeMessage:
        """The message that these bytes are. Raises `DecodeError` if they are none, and nothing else."""
        if type(data) is not bytes:
            data = bytes(memoryview(data))  # properties that stay encoded must not change with their buffer
        try:
            message = _DECODE(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return BridgeMessage(*tolerant.read(data))
        held = message._held
        if type(held) is Raw and not (COMPILED and is_canonical(bytes(held))):
            message._held = tolerant.read_properties(held)
        return message

    def encode(self) -> bytes:
        """The message as bytes. Raises `EncodeError` if it has text that is not Unicode or too long."""
        if type(self._held) is Raw:
            self._properties()
        try:
            return _ENCODE(self)
        except (ValueError, OverflowError, msgspec.EncodeError) as error:
            raise EncodeError(f"a message that cannot be written: {error}") from error

    @property
    def properties(self) -> Mapping[str, Property]:
        """All properties with their types, as they are now."""
        return MappingProxyType({name: handed_out(wire) for name, wire in self._properties().items()})

    def set_property(self, name: str, value: PropertyValue, type: PropertyType | int | None = None) -> None:
        """Set a property, with the given type or the natural one: an int is an int64, a float a float64.

        Raises `EncodeError` where the value is not of the type or out of its range. A float32 is rounded.
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
        return self._get(name, STRING).value  # type: ignore[no-any-return]

    def get_int8_property(self, name: str) -> int:
        """The value of an int8."""
        return self._get(name, INT8).value  # type: ignore[no-any-return]

    def get_int16_property(self, name: str) -> int:
        """The value of an int16."""
        return self._get(name, INT16).value  # type: ignore[no-any-return]

    def get_int32_property(self, name: str) -> int:
        """The value of an int32."""
        return self._get(name, INT32).value  # type: ignore[no-any-return]

    def get_int64_property(self, name: str) -> int:
        """The value of an int64."""
        return self._get(name, INT64).value  # type: ignore[no-any-return]

    def get_float32_property(self, name: str) -> float:
        """The value of a float32."""
        return single_value(self._get(name, FLOAT32))

    def get_float64_property(self, name: str) -> float:
        """The value of a float64."""
        return self._get(name, FLOAT64).value  # type: ignore[no-any-return]

    def get_bool_property(self, name: str) -> bool:
        """The value of a boolean."""
        return self._get(name, BOOL).value  # type: ignore[no-any-return]

    def get_bytes_property(self, name: str) -> bytes:
        """The value of a property of bytes."""
        return self._get(name, BYTES).value  # type: ignore[no-any-return]

    def _get(self, name: str, asked: int) -> WireProperty:
        held = self._held
        wire = (held if type(held) is dict else self._properties()).get(name)
        if wire is None:
            raise NoSuchProperty(name)
        if wire.type != asked:
            raise WrongPropertyType(name, TYPES[asked], TYPES[wire.type])
        return wire

    def _properties(self) -> Properties:
        held = self._held
        if type(held) is Raw:
            held = from_canonical(bytes(held))
            msgspec.Struct.__setattr__(self, "_held", held)  # which needs no check
        return held

    @staticmethod
    def fit(name: str, value: Any) -> Any:
        """The value as the field of that name holds it. Raises `EncodeError` if it cannot be written."""
        if name == "_held" and type(value) not in (Raw, dict):
            raise EncodeError("properties are set with set_property")
        if name == "header" and type(value) is not BridgeHeader:
            raise EncodeError(f"a header is a BridgeHeader, not {type(value).__name__}")
        if name == "body":
            if not isinstance(value, bytes | bytearray | memoryview):
                raise EncodeError(f"a body is bytes, not {type(value).__name__}")
            return bytes(value) or b""  # of what is empty, msgspec leaves out only the very default
        return value

    def __eq__(self, other: object) -> bool:
        """Equal messages have the same encoding but for the order of properties. A NaN equals itself here."""
        if not isinstance(other, BridgeMessage):
            return NotImplemented
        self._properties(), other._properties()
        return _ENCODE_SORTED(self) == _ENCODE_SORTED(other)

    __hash__ = None  # type: ignore[assignment]  # it can change

    def __repr__(self) -> str:
        body = repr(self.body[:_LONGEST_BODY_SHOWN])
        if len(self.body) > _LONGEST_BODY_SHOWN:
            body += f"… ({len(self.body)} bytes)"
        properties = ", ".join(
            f"{name!r}: {property.type.name.lower()} {property.value!r}"
            for name, property in self.properties.items()
        )
        return f"BridgeMessage(body={body}, header={self.header!r}, properties={{{properties}}})"


_DECODE: Final = msgspec.msgpack.Decoder(BridgeMessage).decode
_ENCODE: Final = msgspec.msgpack.Encoder().encode
_ENCODE_SORTED: Final = msgspec.msgpack.Encoder(order="deterministic").encode
