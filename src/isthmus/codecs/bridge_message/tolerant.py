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

from typing import Final, TypeVar

import msgspec
from msgspec import Raw

from isthmus.codecs.bridge_message.header import FIELDS, BridgeHeader
from isthmus.codecs.bridge_message.properties import Properties, received
from isthmus.errors import DecodeError

T = TypeVar("T")

_ABSENT: Final = (b"", b"\xc0")  # not in the map, or there as nil
_ALIASES: Final = {"appl_orig": "appl_orig_data"}


class _Envelope(msgspec.Struct):
    body: Raw = Raw()
    header: Raw = Raw()
    props: Raw = Raw()


class _Property(msgspec.Struct):
    type: Raw = Raw()
    value: Raw = Raw()


_HEADER_KINDS: Final = {field.encode_name: type(field.default) for field in FIELDS}
_Header = msgspec.defstruct("_Header", [(name, Raw, Raw()) for name in (*_HEADER_KINDS, *_ALIASES)])


def read(data: bytes) -> tuple[bytes, BridgeHeader, Properties]:
    """The body, header and properties of a message. Raises `DecodeError` if it is none."""
    try:
        envelope = msgspec.msgpack.decode(data, type=_Envelope)
        return _bytes(envelope.body), _header(envelope.header), _properties(envelope.props)
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
    loose = msgspec.msgpack.decode(wire, type=_Header)
    fields: dict[str, int | str | bytes] = {}
    for name in (*_ALIASES, *_HEADER_KINDS):  # aliases first: the proper name wins
        field: Raw = getattr(loose, name)
        if bytes(field) not in _ABSENT:
            proper = _ALIASES.get(name, name)
            fields[proper] = _field(field, _HEADER_KINDS[proper])
    return msgspec.convert(fields, BridgeHeader)


def _field(wire: Raw, kind: type) -> int | str | bytes:
    if kind is int:
        return msgspec.msgpack.decode(wire, type=int)
    return _bytes(wire).decode() if kind is str else _bytes(wire)


def _properties(wire: Raw) -> Properties:
    properties = Properties()
    for name, encoded in _or(wire, dict[str, Raw], {}).items():
        loose = _or(encoded, _Property, _Property())
        properties[name] = received(name, _or(loose.type, int, 0), _scalar(loose.value))
    return properties


def _or(wire: Raw, type: type[T], absent: T) -> T:
    return absent if bytes(wire) in _ABSENT else msgspec.msgpack.decode(wire, type=type)


def _scalar(wire: Raw) -> object:
    """A property's value. Text stays bytes, for it may not be any; what cannot be a value is not built."""
    encoded = bytes(wire)
    if encoded in _ABSENT:
        return None
    code = encoded[0]
    if _is_text(code) or 0xC4 <= code <= 0xC6:
        return _bytes(wire)
    if 0x80 <= code <= 0x9F or 0xC7 <= code <= 0xC9 or 0xD4 <= code <= 0xD8 or 0xDC <= code <= 0xDF:
        raise msgspec.DecodeError("a property's value is a map, an array or an extension")
    scalar: object = msgspec.msgpack.decode(wire)
    return scalar


def _bytes(wire: Raw) -> bytes:
    """The bytes of a ``bin`` or of a string, valid UTF-8 or not."""
    encoded = bytes(wire)
    if encoded in _ABSENT:
        return b""
    if _is_text(encoded[0]):
        return encoded[{0xD9: 2, 0xDA: 3, 0xDB: 5}.get(encoded[0], 1) :]
    return msgspec.msgpack.decode(wire, type=bytes)


def _is_text(code: int) -> bool:
    return 0xA0 <= code <= 0xBF or 0xD9 <= code <= 0xDB
