"""What the journal's headers need of a message. Compiled with mypyc where there is a C compiler.

In come the bytes of a message; out comes an `Index`: its header, message annotations and properties decoded,
its application properties as the texts and types of headers, and where its body lies. The body itself, the
delivery annotations and the footer are skipped: a large body costs no more than a small one, and only a full
decode finds what is wrong inside them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast
from uuid import UUID

from isthmus.codecs.amqp.boundary import next_section
from isthmus.codecs.amqp.constructors import TYPES, type_name
from isthmus.codecs.amqp.decoder import (
    Annotations,
    check_simple,
    check_unique,
    open_map,
    read_annotations,
    read_header,
    read_properties,
)
from isthmus.codecs.amqp.reader import Reader, malformed
from isthmus.codecs.amqp.sections import Index, MessageHeader, MessageProperties
from isthmus.message import Header, HeaderType, Span

if TYPE_CHECKING:
    from mypy_extensions import i64  # a machine word in the compiled form; never imported

_NO_HEADER: Final = MessageHeader()
_NO_PROPERTIES: Final = MessageProperties()

_HEADER_TYPES: Final = {
    # an AMQP type as its widest constructor: the type of the header that carries it
    code: HeaderType(type_name(code))
    for code in set(TYPES)
    if type_name(code) in set(HeaderType)
}


def index(data: bytes) -> Index:
    """The index over a message. Raises `DecodeError` for bytes whose sections are not a message's."""
    reader = Reader(data)
    header = _NO_HEADER
    annotations: Annotations = {}
    properties = _NO_PROPERTIES
    texts: dict[str, str] = {}
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
                _read_application_properties(reader, texts, types)
            elif 0x75 <= code <= 0x77:
                body_section = code
                body_type = type_name(data[reader.pos])
                spans.append(_span(reader))
            else:
                reader.skip()
    except (IndexError, UnicodeDecodeError) as error:
        raise malformed(error, reader) from None
    return Index(header, annotations, properties, texts, types, body_section, body_type, tuple(spans))


def _read_application_properties(reader: Reader, texts: dict[str, str], types: dict[str, HeaderType]) -> None:
    outer = reader.end
    count = open_map(reader)
    for _ in range(count):
        name = reader.text()
        code: i64 = reader.buf[reader.pos]
        if code == 0xA1:
            texts[name] = reader.text()
        else:
            check_simple(code, reader.pos)
            type = _HEADER_TYPES[TYPES[code]]
            texts[name] = _text(reader.value(), type)
            if type != HeaderType.STRING:
                types[name] = type
    reader.close(outer)
    check_unique(reader, texts, count)


def _text(value: object, type: HeaderType) -> str:
    """The text of the header that carries a simple value."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | UUID):
        return str(value)
    return Header.of(cast(Any, value), type).text


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
    return Span(start, reader.pos - start)
