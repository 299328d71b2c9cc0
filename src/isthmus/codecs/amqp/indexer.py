"""What the journal's headers need of a message. Compiled with mypyc where there is a C compiler.

In come the bytes of a message; out comes an `Index`: its header, message annotations and properties decoded,
its application properties as the texts and types of headers, and where its body lies. The body itself, the
delivery annotations and the footer are skipped: only a full decode finds what is wrong inside them. A body
that is a text is checked to be UTF-8, since it is handed on as such.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast
from uuid import UUID

from isthmus.codecs.amqp.boundary import next_section
from isthmus.codecs.amqp.constructors import type_name
from isthmus.codecs.amqp.decoder import (
    Annotations,
    read_annotations,
    read_application_properties,
    read_header,
    read_properties,
)
from isthmus.codecs.amqp.reader import Reader, malformed
from isthmus.codecs.amqp.sections import Index, MessageHeader, MessageProperties
from isthmus.codecs.amqp.values import (
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Float,
    Int,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)
from isthmus.message import Header, HeaderType, Span

if TYPE_CHECKING:
    from mypy_extensions import i64  # a machine word in the compiled form; never imported

_NO_HEADER: Final = MessageHeader()
_NO_PROPERTIES: Final = MessageProperties()

_make: Final = cast(Any, tuple.__new__)
"""Makes a named tuple faster than its class does."""

_HEADER_TYPES: Final[dict[type, HeaderType]] = {
    str: HeaderType.STRING,
    bool: HeaderType.BOOLEAN,
    Byte: HeaderType.BYTE,
    Short: HeaderType.SHORT,
    Int: HeaderType.INT,
    int: HeaderType.LONG,
    Float: HeaderType.FLOAT,
    float: HeaderType.DOUBLE,
    bytes: HeaderType.BINARY,
    type(None): HeaderType.NULL,
    UByte: HeaderType.UBYTE,
    UShort: HeaderType.USHORT,
    UInt: HeaderType.UINT,
    ULong: HeaderType.ULONG,
    Char: HeaderType.CHAR,
    Timestamp: HeaderType.TIMESTAMP,
    UUID: HeaderType.UUID,
    Symbol: HeaderType.SYMBOL,
    Decimal32: HeaderType.DECIMAL32,
    Decimal64: HeaderType.DECIMAL64,
    Decimal128: HeaderType.DECIMAL128,
}


def index(data: bytes) -> Index:
    """The index over a message. Raises `DecodeError` for bytes whose sections are not a message's."""
    reader = Reader(data)
    header = _NO_HEADER
    annotations: Annotations = {}
    properties = _NO_PROPERTIES
    application_properties: dict[str, Any] = {}
    types: dict[str, HeaderType] = {}
    body_section: i64 = 0
    body_type = ""
    spans: list[Span] = []
    code: i64 = 0
    size: i64 = len(data)
    try:
        while reader.pos < size:
            code = next_section(reader, code)
            if code == 0x70:
                header = read_header(reader)
            elif code == 0x72:
                annotations = read_annotations(reader)
            elif code == 0x73:
                properties = read_properties(reader)
            elif code == 0x74:
                application_properties = read_application_properties(reader)
                types = _make_texts(application_properties)
            elif 0x75 <= code <= 0x77:
                body_section = code
                body_type = type_name(data[reader.pos])
                spans.append(_span(reader))
            else:
                reader.skip()
    except (IndexError, UnicodeDecodeError) as error:
        raise malformed(error, reader) from None
    return Index(
        header, annotations, properties, application_properties, types, body_section, body_type, tuple(spans)
    )


def _make_texts(properties: dict[str, Any]) -> dict[str, HeaderType]:
    """Put the text of a header in place of every value; return the types of those that were no strings."""
    types: dict[str, HeaderType] = {}
    for name, value in properties.items():
        if type(value) is not str:
            properties[name], types[name] = header_of_value(value)
    return types


def header_of_value(value: object) -> tuple[str, HeaderType]:
    """The text that a header has for a value, and its type."""
    header_type = _HEADER_TYPES[type(value)]
    return _text(value, header_type), header_type


def _text(value: object, header_type: HeaderType) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | str | UUID):
        return str(value)
    return Header.of(cast(Any, value), header_type).text


def check_text(text: bytes) -> None:
    """Raises ``UnicodeDecodeError`` for text that is not UTF-8."""
    if not text.isascii():
        text.decode()


def _span(reader: Reader) -> Span:
    """Skip one section of the body and say where its content lies.

    Of a binary or a string that is the content itself, without constructor and size; of all else it is the
    encoded value.
    """
    start = reader.pos
    code: i64 = reader.buf[start]
    reader.skip()
    if code == 0xA0 or code == 0xA1:
        start += 2
    elif code == 0xB0 or code == 0xB1:
        start += 5
    if code == 0xA1 or code == 0xB1:
        check_text(reader.buf[start : reader.pos])
    return cast(Span, _make(Span, (start, reader.pos - start)))
