"""Reads messages in the dialects of other writers. Whatever cannot be read raises `DecodeError`.

The bridge's Go helper (with the options its codec has), its Java helper and plain msgpack libraries differ in
what they write for the same message. Understood here are

- unknown keys, which are ignored, and keys in any order or twice (the last one counts);
- nil in any place: an empty header, map or body, a field at its zero;
- strings where bytes are meant, as writers from before msgpack had ``bin`` send them, and bytes where a
  string is meant;
- integers in any width, a float32 as float64, ``type: 0`` spelled out;
- ``appl_orig``, as the Java helper calls ``appl_orig_data``.

msgspec takes the maps apart and leaves their values encoded (`msgspec.Raw`), so that no value is built before
it is known what it should be: no nesting, count or key in the input costs more than its bytes.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw

from isthmus.codecs.bridge_message.header import FIELDS, BridgeHeader
from isthmus.codecs.bridge_message.properties import Properties, received
from isthmus.errors import DecodeError

_ABSENT: Final = (b"", b"\xc0")  # not in the map, or there as nil
_ALIASES: Final = {"appl_orig": "appl_orig_data"}

_TEXT_OFFSETS: Final = {**dict.fromkeys(range(0xA0, 0xC0), 1), 0xD9: 2, 0xDA: 3, 0xDB: 5}
"""The first bytes of strings, and where the text begins after each."""
_BINARY: Final = range(0xC4, 0xC7)
_NO_SCALARS: Final = frozenset(
    {*range(0x80, 0xA0), *range(0xC7, 0xCA), *range(0xD4, 0xD9), *range(0xDC, 0xE0)}
)


class _Envelope(msgspec.Struct):
    body: Raw = Raw()
    header: Raw = Raw()
    props: Raw = Raw()


class _Property(msgspec.Struct):
    type: int | None = None
    value: Raw = Raw()


_HEADER_KINDS: Final[dict[str, type]] = {
    **dict.fromkeys(_ALIASES, str),  # first, so that the proper name wins
    **{field.encode_name: type(field.default) for field in FIELDS},
}
_Header = msgspec.defstruct(
    "_Header",
    [
        (name, int | None, None) if kind is int else (name, Raw, Raw())  # integers come in one dialect only
        for name, kind in _HEADER_KINDS.items()
    ],
)


def read(data: bytes) -> tuple[bytes, BridgeHeader, Properties]:
    """The body, header and properties of a message. Raises `DecodeError` if it is none."""
    try:
        envelope = _ENVELOPE.decode(data)
        return _bytes(bytes(envelope.body)), _header(envelope.header), _properties(envelope.props)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DecodeError(f"not a bridge message: {error}") from error


def read_properties(wire: Raw) -> Properties:
    """The properties of a message whose other parts have been read. Raises `DecodeError`."""
    try:
        return _properties(wire)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DecodeError(f"not the properties of a bridge message: {error}") from error


def _header(wire: Raw) -> BridgeHeader:
    if bytes(wire) in _ABSENT:
        return BridgeHeader()
    loose = _HEADER.decode(wire)
    fields: dict[str, int | str | bytes] = {}
    for name, kind in _HEADER_KINDS.items():
        field = getattr(loose, name)
        if kind is not int:
            octets = _bytes(bytes(field))
            field = octets.decode() if kind is str else octets
        if field:
            fields[_ALIASES.get(name, name)] = field
    return msgspec.convert(fields, BridgeHeader)


def _properties(wire: Raw) -> Properties:
    properties: Properties = {}
    if bytes(wire) in _ABSENT:
        return properties
    for name, property in _PROPERTIES.decode(wire).items():
        loose = property or _Property()
        properties[name] = received(name, loose.type or 0, _scalar(bytes(loose.value)))
    return properties


def _scalar(wire: bytes) -> object:
    """A property's value. Text stays bytes, for it may not be any; what cannot be a value is not built."""
    if wire in _ABSENT:
        return None
    code = wire[0]
    if code in _TEXT_OFFSETS or code in _BINARY:
        return _bytes(wire)
    if code in _NO_SCALARS:
        raise msgspec.DecodeError("a property's value is a map, an array or an extension")
    scalar: object = _ANY.decode(wire)
    return scalar


def _bytes(wire: bytes) -> bytes:
    """The bytes of a ``bin`` or of a string, valid UTF-8 or not."""
    if wire in _ABSENT:
        return b""
    offset = _TEXT_OFFSETS.get(wire[0])
    return _BYTES.decode(wire) if offset is None else wire[offset:]


_ENVELOPE: Final = msgspec.msgpack.Decoder(_Envelope)
_HEADER: Final = msgspec.msgpack.Decoder(_Header)
_PROPERTIES: Final = msgspec.msgpack.Decoder(dict[str, _Property | None])
_BYTES: Final = msgspec.msgpack.Decoder(bytes)
_ANY: Final = msgspec.msgpack.Decoder()
