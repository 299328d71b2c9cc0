"""Writes a message, each value in its most compact encoding. Compiled with mypyc where there is a C compiler.

In come the sections of a message; out come its bytes. A section that is None is left out, and so are the
fields at the end of a section that are None. A field is written with the type that the specification gives
it, a key of an annotation as a symbol: `EncodeError` is raised for a value that does not fit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from msgspec.structs import astuple

from isthmus.codecs.amqp.constructors import type_name
from isthmus.codecs.amqp.sections import (
    HEADER_TYPES,
    PROPERTIES_TYPES,
    AmqpValue,
    Body,
    Data,
    MessageHeader,
    MessageProperties,
)
from isthmus.codecs.amqp.values import ULong
from isthmus.codecs.amqp.writer import (
    fill,
    type_of,
    unencodable,
    write,
    write_binary,
    write_integer,
    write_list,
    write_symbol,
    write_text,
)
from isthmus.errors import EncodeError

if TYPE_CHECKING:
    from mypy_extensions import i64  # a machine word in the compiled form; never imported

    from isthmus.codecs.amqp.decoder import Annotations


def encode_sections(
    header: MessageHeader | None,
    delivery_annotations: Annotations | None,
    message_annotations: Annotations | None,
    properties: MessageProperties | None,
    application_properties: dict[str, object] | None,
    body: Body | None,
    footer: Annotations | None,
) -> bytes:
    """The bytes of a message."""
    parts: list[bytes] = []
    try:
        if header is not None:
            _write_fields(parts, b"\x00\x53\x70", astuple(header), HEADER_TYPES)
        if delivery_annotations is not None:
            _write_annotations(parts, b"\x00\x53\x71", delivery_annotations)
        if message_annotations is not None:
            _write_annotations(parts, b"\x00\x53\x72", message_annotations)
        if properties is not None:
            _write_fields(parts, b"\x00\x53\x73", astuple(properties), PROPERTIES_TYPES)
        if application_properties is not None:
            _write_application_properties(parts, application_properties)
        if body is not None:
            _write_body(parts, body)
        if footer is not None:
            _write_annotations(parts, b"\x00\x53\x78", footer)
    except UnicodeEncodeError as error:
        raise unencodable(error) from None
    return b"".join(parts)


def _write_fields(parts: list[bytes], descriptor: bytes, fields: tuple[object, ...], types: bytes) -> None:
    parts.append(descriptor)
    count = len(fields)
    while count and fields[count - 1] is None:
        count -= 1
    if count == 0:
        parts.append(b"\x45")
        return
    slot = len(parts)
    parts.append(b"")
    size: i64 = 0
    for place in range(count):
        value = fields[place]
        if value is None:
            parts.append(b"\x40")
            size += 1
        else:
            size += _write_field(parts, types[place], value)
    fill(parts, slot, 0xC0, size, count)


def _write_field(parts: list[bytes], type: i64, value: object) -> i64:
    """Write a value as the type that is due, given as its widest constructor or as `ANY_ID`."""
    if isinstance(value, str):
        if type in (0xB1, 0xFF):
            return write_text(parts, value)
        if type == 0xB3:
            return write_symbol(parts, value)
    elif isinstance(value, bool):
        if type == 0x56:
            return write(parts, value, 0)
    elif isinstance(value, int):
        if type == 0xFF:
            return write_integer(parts, 0x80, value)
        if type in (0x70, 0x83, 0x50):
            return write_integer(parts, type, value)
    elif isinstance(value, bytes):
        if type in (0xB0, 0xFF):
            return write_binary(parts, value)
    elif isinstance(value, UUID) and type == 0xFF:
        return write(parts, value, 0)
    name = "message-id" if type == 0xFF else type_name(type)
    raise EncodeError(f"{value!r} cannot stand in a field of type {name}")


def _write_annotations(parts: list[bytes], descriptor: bytes, annotations: dict[Any, Any]) -> None:
    parts.append(descriptor)
    slot = len(parts)
    parts.append(b"")
    size: i64 = 0
    for key, value in annotations.items():
        if isinstance(key, str):
            size += write_symbol(parts, key)
        elif isinstance(key, ULong):
            size += write(parts, key, 0)
        else:
            raise EncodeError(f"{key!r} cannot be the key of an annotation")
        size += write(parts, value, 0)
    fill(parts, slot, 0xC1, size, 2 * len(annotations))


def _write_application_properties(parts: list[bytes], properties: dict[Any, Any]) -> None:
    parts.append(b"\x00\x53\x74")
    slot = len(parts)
    parts.append(b"")
    size: i64 = 0
    for name, value in properties.items():
        if not isinstance(name, str):
            raise EncodeError(f"{name!r} cannot be the name of a property")
        size += write_text(parts, name)
        if isinstance(value, str) and type(value) is str:
            size += write_text(parts, value)
            continue
        kind = type_of(value)
        if kind == 0 or kind >= 0xD0:
            raise EncodeError(f"property {name!r} has a value of type {type_name(kind)}")
        size += write(parts, value, 0)
    fill(parts, slot, 0xC1, size, 2 * len(properties))


def _write_body(parts: list[bytes], body: Body) -> None:
    if isinstance(body, AmqpValue):
        parts.append(b"\x00\x53\x77")
        write(parts, body.value, 0)
        return
    sections: tuple[Any, ...] = body.chunks if isinstance(body, Data) else body.lists
    for section in sections:
        if isinstance(section, bytes) and isinstance(body, Data):
            parts.append(b"\x00\x53\x75")
            write_binary(parts, section)
        elif isinstance(section, list) and not isinstance(body, Data):
            parts.append(b"\x00\x53\x76")
            write_list(parts, section, 1)
        else:
            raise EncodeError(f"{section!r} cannot be a section of the body")
