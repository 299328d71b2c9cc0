"""What kind of JMS message a body makes, and the body that a kind of JMS message has.

The bytes of a body are, by kind: the UTF-8 of a text, the bytes of a bytes message or of a serialized object,
and for everything else the encoded AMQP values, which `decode_values` reads. An object is never deserialized.
"""

from __future__ import annotations

from typing import Final

from isthmus.codecs.amqp import (
    DATA,
    AmqpSequence,
    AmqpValue,
    Data,
    Index,
    decode_values,
)
from isthmus.codecs.jms.names import MESSAGE_TYPE
from isthmus.errors import EncodeError
from isthmus.message import Body, BodyKind

MESSAGE_TYPES: Final = {
    BodyKind.EMPTY: 0,
    BodyKind.OBJECT: 1,
    BodyKind.MAP: 2,
    BodyKind.BYTES: 3,
    BodyKind.STREAM: 4,
    BodyKind.TEXT: 5,
}
"""The number of each kind in the annotation x-opt-jms-msg-type."""

IMPLIED_CONTENT_TYPES: Final = {
    BodyKind.BYTES: "application/octet-stream",
    BodyKind.OBJECT: "application/x-java-serialized-object",
}

_KINDS: Final = {number: kind for kind, number in MESSAGE_TYPES.items()}

_TYPES: Final = {
    # the AMQP type that the body of a kind has, in whatever section
    BodyKind.MAP: "map",
    BodyKind.BYTES: "binary",
    BodyKind.STREAM: "list",
    BodyKind.TEXT: "string",
}

# An enumeration's members are found slowly, and every body asks for these.
_EMPTY: Final = BodyKind.EMPTY
_TEXT: Final = BodyKind.TEXT
_BYTES: Final = BodyKind.BYTES

_TEXTUAL: Final = frozenset({"json", "xml", "javascript", "ecmascript", "xml-dtd"})
_JAVA_SERIALIZED: Final = b"\xac\xed"  # no AMQP value begins with 0xAC: this tells the two forms apart


def body_of(index: Index) -> Body:
    """The kind of an indexed message's body, and where it lies."""
    if index.body_section == 0 or index.body_type == "null":
        return Body(BodyKind.EMPTY)
    return Body(_kind(index), index.spans)


def _kind(index: Index) -> BodyKind:
    section, type = index.body_section, index.body_type
    number = index.annotations.get(MESSAGE_TYPE)
    said = _KINDS.get(number) if isinstance(number, int) else None
    if said is not None and (
        said is BodyKind.OBJECT or _TYPES.get(said) == type or (said is BodyKind.TEXT and section == DATA)
    ):
        return said
    if section == DATA:
        return _kind_of_data(index.properties.content_type or "")
    if type == "string":
        return BodyKind.TEXT
    return BodyKind.BYTES if type == "binary" else BodyKind.OTHER


def _kind_of_data(content_type: str) -> BodyKind:
    """Text counts as such where its bytes are UTF-8."""
    media, _, parameters = content_type.lower().replace(" ", "").partition(";")
    if media == IMPLIED_CONTENT_TYPES[BodyKind.OBJECT]:
        return BodyKind.OBJECT
    family, _, subtype = media.partition("/")
    textual = family == "text" or (family == "application" and subtype.rpartition("+")[2] in _TEXTUAL)
    charset = dict(p.partition("=")[::2] for p in parameters.split(";")).get("charset", "utf-8").strip('"')
    return BodyKind.TEXT if textual and charset in ("utf-8", "us-ascii") else BodyKind.BYTES


def body_for(kind: BodyKind, content: bytes | None) -> Data | AmqpSequence | AmqpValue:
    """The AMQP body of a kind of JMS message. Raises a soft failure for content that it cannot have."""
    if content is None or kind is _EMPTY:
        return AmqpValue(None)
    if kind is _TEXT:
        try:
            return AmqpValue(content.decode())
        except UnicodeDecodeError as error:
            raise EncodeError(f"the text is not UTF-8: {error.reason} at byte {error.start}") from None
    if kind is _BYTES or (kind is BodyKind.OBJECT and content.startswith(_JAVA_SERIALIZED)):
        return Data((content,))
    values = decode_values(content)
    lists = tuple(value for value in values if isinstance(value, list))
    if len(lists) == len(values) and (kind is BodyKind.STREAM or len(values) > 1):
        return AmqpSequence(lists)
    if len(values) == 1 and kind is not BodyKind.STREAM:
        return AmqpValue(values[0])
    raise EncodeError(f"a {kind} message cannot have {len(values)} AMQP values as its body")
