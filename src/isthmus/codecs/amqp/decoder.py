"""Reads the sections of a message as objects. Compiled with mypyc where there is a C compiler.

In come the bytes of a message; out come its sections, every value in them decoded. The index uses the same
functions for the sections that it needs.

Beyond what `isthmus.codecs.amqp.boundary` checks, `DecodeError` is raised for a field of the wrong type (a
string passes for a symbol, which some peers mix up), for more fields than the section has, for the same key
twice, for application properties that are not simple values under a string, and for annotations with more
keys that are numbers than a ``dict`` may hold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from isthmus.codecs.amqp.boundary import next_section
from isthmus.codecs.amqp.constructors import TYPES, type_name
from isthmus.codecs.amqp.reader import Reader, malformed
from isthmus.codecs.amqp.sections import (
    HEADER_TYPES,
    PROPERTIES_TYPES,
    AmqpSequence,
    AmqpValue,
    Body,
    Data,
    MessageHeader,
    MessageProperties,
)
from isthmus.codecs.amqp.values import MAX_NUMERIC_KEYS
from isthmus.errors import DecodeError

if TYPE_CHECKING:
    from mypy_extensions import i64  # a machine word in the compiled form; never imported

Annotations = dict[str, object]
"""Annotations by name. Keys of type ulong, which the specification reserves, are kept as `ULong`."""

Sections = tuple[
    MessageHeader | None,
    Annotations | None,
    Annotations | None,
    MessageProperties | None,
    dict[str, object] | None,
    Body | None,
    Annotations | None,
]


def decode_sections(data: bytes) -> Sections:
    """Every section of a message, decoded, in the order of the specification; several of a body as one."""
    reader = Reader(data)
    header: MessageHeader | None = None
    delivery_annotations: Annotations | None = None
    message_annotations: Annotations | None = None
    properties: MessageProperties | None = None
    application_properties: dict[str, object] | None = None
    content: list[object] = []
    content_code: i64 = 0
    footer: Annotations | None = None
    code: i64 = 0
    size: i64 = len(data)
    try:
        while reader.pos < size:
            code = next_section(reader, code)
            if code == 0x70:
                header = read_header(reader)
            elif code == 0x71:
                delivery_annotations = read_annotations(reader)
            elif code == 0x72:
                message_annotations = read_annotations(reader)
            elif code == 0x73:
                properties = read_properties(reader)
            elif code == 0x74:
                application_properties = read_application_properties(reader)
            elif code == 0x78:
                footer = read_annotations(reader)
            else:
                content.append(reader.value())
                content_code = code
    except (IndexError, UnicodeDecodeError) as error:
        raise malformed(error, reader) from None
    return (
        header,
        delivery_annotations,
        message_annotations,
        properties,
        application_properties,
        _body(content_code, content),
        footer,
    )


def read_header(reader: Reader) -> MessageHeader:
    """The fields of the header that the reader stands at."""
    return MessageHeader(*_read_fields(reader, HEADER_TYPES))


def read_properties(reader: Reader) -> MessageProperties:
    """The fields of the properties that the reader stands at."""
    return MessageProperties(*_read_fields(reader, PROPERTIES_TYPES))


def _read_fields(reader: Reader, types: bytes) -> list[Any]:
    """The fields of a section, checked for their types. Short strings are read in place: see below."""
    buf = reader.buf
    fields: list[Any] = []
    code: i64 = buf[reader.pos]
    reader.pos += 1
    if code == 0x45:
        return fields
    outer = reader.end
    count = reader.open(code)
    if count > len(types):
        raise DecodeError(f"a section of {len(types)} fields has {count}", reader.pos)
    pos = reader.pos
    for place in range(count):
        code = buf[pos]
        if code == 0x40:
            pos += 1
            fields.append(None)
            continue
        due: i64 = types[place]
        if code == 0xA1 and due >= 0xB1:
            start = pos + 2
            pos = start + buf[pos + 1]
            fields.append(buf[start:pos].decode("utf-8"))
            continue
        if TYPES[code] != due and not _passes_for(TYPES[code], due):
            raise DecodeError(f"field {place} of a section is of type {type_name(code)}", pos)
        reader.pos = pos
        fields.append(reader.value())
        pos = reader.pos
    reader.pos = pos
    reader.close(outer)
    return fields


def _passes_for(type: i64, due: i64) -> bool:
    """Whether a value of one type may stand where another is due, which is text or any id."""
    if due == 0xFF:
        return type in (0xB1, 0x98, 0x80, 0xB0)
    return type in (0xB1, 0xB3) and due in (0xB1, 0xB3)


def read_annotations(reader: Reader) -> Annotations:
    """The map of annotations that the reader stands at."""
    result: dict[object, object] = {}
    numbers: i64 = 0
    buf = reader.buf
    outer = reader.end
    reader.pos += 1
    count = reader.open(buf[reader.pos - 1]) >> 1
    for _ in range(count):
        kind: i64 = TYPES[buf[reader.pos]]
        if kind == 0x80:
            numbers += 1
        elif kind != 0xB3 and kind != 0xB1:
            raise DecodeError("the key of an annotation is not a symbol", reader.pos)
        if numbers > MAX_NUMERIC_KEYS:
            raise DecodeError(f"more than {MAX_NUMERIC_KEYS} annotations have numbers for keys", reader.pos)
        key = reader.value()
        result[key] = reader.value()
    reader.close(outer)
    if len(result) != count:
        raise DecodeError("an annotation is there twice", reader.pos)
    return cast(Annotations, result)


def read_application_properties(reader: Reader) -> dict[str, Any]:
    """The application properties that the reader stands at.

    Short strings, as nearly all of them are, are read in place. That one is too long shows when the map does
    not end where it should.
    """
    result: dict[str, Any] = {}
    buf = reader.buf
    outer = reader.end
    reader.pos += 1
    count = reader.open(buf[reader.pos - 1]) >> 1
    pos = reader.pos
    for _ in range(count):
        start = pos + 2
        if buf[pos] == 0xA1:
            pos = start + buf[pos + 1]
            name = buf[start:pos].decode("utf-8")
        else:
            reader.pos = pos
            name = reader.text()
            pos = reader.pos
        code: i64 = buf[pos]
        if code == 0xA1:
            start = pos + 2
            pos = start + buf[pos + 1]
            result[name] = buf[start:pos].decode("utf-8")
            continue
        if code >= 0xC0 or code == 0x45 or TYPES[code] == 0:
            raise DecodeError(f"a property has a value of type {type_name(code)}", pos)
        reader.pos = pos
        result[name] = reader.value()
        pos = reader.pos
    reader.pos = pos
    reader.close(outer)
    if len(result) != count:
        raise DecodeError("a property is there twice", pos)
    return result


def _body(code: i64, content: list[object]) -> Body | None:
    if code == 0x77:
        return AmqpValue(content[0])
    if code == 0x75:
        return Data(cast(tuple[bytes, ...], tuple(content)))
    if code == 0x76:
        return AmqpSequence(cast(tuple[list[object], ...], tuple(content)))
    return None
