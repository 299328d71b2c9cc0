"""The document of the ``json`` form: an AMQP message as one JSON object, and back.

::

    {"properties":{"messageId":…,"to":…},"applicationProperties":{…},"messageAnnotations":{…},
     "types":{"/applicationProperties/count":"long"},"body":{"type":"amqpValue","section":…}}

Compact, members in this order, those that are absent left out. The text is a contract: Spark puts the same
document together from a head that was written when the message came in, and the section.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import astuple

from isthmus.codecs.amqp import (
    AmqpMessage,
    AmqpSequence,
    AmqpValue,
    Data,
    MessageProperties,
    Symbol,
    ULong,
)
from isthmus.codecs.amqp.sections import Body
from isthmus.converters.json_pointer import Place, TypeTree, malformed, type_tree
from isthmus.converters.json_reading import SIMPLE, octets, read_list, read_map, read_value
from isthmus.converters.json_writing import JsonWriter, quote, quote_bytes
from isthmus.errors import DecodeError

_ID: Final = "string"
PROPERTIES: Final = {
    "messageId": _ID,
    "userId": "binary",
    "to": "string",
    "subject": "string",
    "replyTo": "string",
    "correlationId": _ID,
    "contentType": "symbol",
    "contentEncoding": "symbol",
    "absoluteExpiryTime": "timestamp",
    "creationTime": "timestamp",
    "groupId": "string",
    "groupSequence": "uint",
    "replyToGroupId": "string",
}
"""The properties in the order of the specification, each with its type; ids may have another."""

_IDS: Final = ("messageId", "correlationId")
_ID_TYPES: Final = ("string", "uuid", "ulong", "binary")

SEQUENCES: Final = "sequences"
"""The type of a section that holds several amqp-sequences, a list each; one alone is the list itself."""

_SECTION: Final[Place] = ((None, "body"), "section")
_NAMES: Final = {Data: "data", AmqpValue: "amqpValue", AmqpSequence: "amqpSequence"}


class Document(NamedTuple):
    """A document in the parts that Spark puts together."""

    head: str
    """The text up to the section; all of it if there is no body."""
    value: str | None
    """The section, if the body is structured."""


def is_structured(body: Body | None) -> bool:
    """Whether a body is neither text nor bytes nor null, so that its only text is JSON."""
    if isinstance(body, AmqpValue):
        return type(body.value) not in (str, bytes, type(None))
    return isinstance(body, AmqpSequence)


def plain_json(body: AmqpValue | AmqpSequence) -> str:
    """A structured body as JSON, without types."""
    return _section(body, JsonWriter(with_types=False))


def write_document(message: AmqpMessage) -> str:
    """The document of a message as the codec decodes it."""
    head, value = split_document(message)
    match message.body:
        case None:
            return head
        case Data() as data:
            value = quote_bytes(data.content)
        case AmqpValue(str() as text) if value is None:
            value = quote(text)
        case AmqpValue(bytes() as content) if value is None:
            value = quote_bytes(content)
    return f"{head}{'null' if value is None else value}}}}}"


def split_document(message: AmqpMessage) -> Document:
    """The document without the section of a body that is text, bytes or null."""
    writer = JsonWriter()
    members = []
    if message.properties is not None:
        members.append(f'"properties":{_properties(message.properties, writer)}')
    if message.application_properties is not None:
        text = writer.object(message.application_properties, (None, "applicationProperties"))
        members.append(f'"applicationProperties":{text}')
    if message.message_annotations is not None:
        members.append(f'"messageAnnotations":{_annotations(message.message_annotations, writer)}')
    body, value = message.body, None
    if isinstance(body, AmqpValue | AmqpSequence):
        if is_structured(body):
            value = _section(body, writer)
        elif isinstance(body, AmqpValue) and isinstance(body.value, bytes):
            writer.note(_SECTION, "binary")
    if writer.types:
        members.append(f'"types":{writer.types}')
    if body is not None:
        members.append(f'"body":{{"type":"{_NAMES[type(body)]}","section":')
    head = "{" + ",".join(members)
    return Document(head if body is not None else head + "}", value)


def _properties(properties: MessageProperties, writer: JsonWriter) -> str:
    texts = []
    for (name, type), value in zip(PROPERTIES.items(), astuple(properties), strict=True):
        if value is None:
            continue
        if name in _IDS:
            text = writer.value(value, ((None, "properties"), name), type)
        elif type == "binary":
            text = quote_bytes(value)
        else:
            text = quote(value) if isinstance(value, str) else str(value)
        texts.append(f'"{name}":{text}')
    return f"{{{','.join(texts)}}}"


def _annotations(annotations: dict[Any, Any], writer: JsonWriter) -> str:
    """An object, since keys are symbols; the reserved ones of type ulong make it a map like any other."""
    place: Place = (None, "messageAnnotations")
    if all(isinstance(key, str) for key in annotations):
        return writer.object(annotations, place)
    return writer.value(annotations, place)


def _section(body: AmqpValue | AmqpSequence, writer: JsonWriter) -> str:
    if isinstance(body, AmqpValue):
        return writer.value(body.value, _SECTION)
    if len(body.lists) == 1:
        return writer.value(body.lists[0], _SECTION)
    writer.note(_SECTION, SEQUENCES)
    return writer.value(list(body.lists), _SECTION)


def read_document(value: bytes, *, compat: bool = False) -> AmqpMessage:
    """The message of a document. Raises `DecodeError`, with the place, for what is not one.

    ``compat`` reads a data section that is Base64 of Base64, as an earlier bridge wrote it, too.
    """
    try:
        document = msgspec.json.decode(value)
    except RecursionError:
        raise DecodeError("the document is nested too deep") from None
    except (msgspec.MsgspecError, ValueError) as error:
        raise DecodeError(f"the document is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise malformed(None, "must be an object")
    types = type_tree(document.get("types"))
    return AmqpMessage(
        properties=_read_properties(document.get("properties"), types.at("properties")),
        application_properties=_read_application_properties(
            document.get("applicationProperties"), types.at("applicationProperties")
        ),
        message_annotations=_read_annotations(
            document.get("messageAnnotations"), types.at("messageAnnotations")
        ),
        body=_read_body(document.get("body"), types.at("body"), compat),
    )


def _read_properties(plain: object, types: TypeTree) -> MessageProperties | None:
    place: Place = (None, "properties")
    if plain is None:
        return None
    if not isinstance(plain, dict):
        raise malformed(place, "must be an object")
    values: list[Any] = []
    for name, type in PROPERTIES.items():
        value = plain.get(name)
        if value is not None:
            due = type
            if name in _IDS:
                due = types.at(name).name or ("ulong" if isinstance(value, int) else type)
                if due not in _ID_TYPES:
                    raise malformed((place, name), f"must be one of {', '.join(_ID_TYPES)}")
            value = _read_simple(value, due, (place, name))
        values.append(value)
    return MessageProperties(*values)


def _read_simple(plain: object, type: str, place: Place) -> Any:
    try:
        return SIMPLE[type](plain)
    except ValueError as error:
        raise malformed(place, str(error)) from None


def _read_application_properties(plain: object, types: TypeTree) -> dict[str, object] | None:
    place: Place = (None, "applicationProperties")
    if plain is None:
        return None
    if not isinstance(plain, dict):
        raise malformed(place, "must be an object")
    for name, value in plain.items():
        if isinstance(value, list | dict):
            raise malformed((place, name), "must be a simple value: no list, no object")
    return {name: read_value(value, types.at(name), (place, name)) for name, value in plain.items()}


def _read_annotations(plain: object, types: TypeTree) -> dict[Any, object] | None:
    place: Place = (None, "messageAnnotations")
    if plain is None:
        return None
    annotations = read_map(plain, types, place, 1)
    result: dict[Any, object] = {}
    for key, value in annotations.items() if isinstance(annotations, dict) else annotations:
        if type(key) not in (str, Symbol, ULong) or not str(key).isascii():
            raise malformed(place, f"has a key that is no symbol: {str(key)[:50]!r}")
        if key in result:
            raise malformed(place, f"has a key twice: {str(key)[:50]!r}")
        result[Symbol(key) if type(key) is str else key] = value
    return result


def _read_body(plain: object, types: TypeTree, compat: bool) -> Body | None:
    place: Place = (None, "body")
    if plain is None:
        return None
    if not isinstance(plain, dict):
        raise malformed(place, "must be an object")
    section, section_types = plain.get("section", msgspec.UNSET), types.at("section")
    if section is msgspec.UNSET:
        raise malformed(place, "must have a section")
    match plain.get("type"):
        case "data":
            return Data((_read_data(section, compat),))
        case "amqpValue":
            return AmqpValue(read_value(section, section_types, _SECTION))
        case "amqpSequence":
            return _read_sequences(section, section_types)
    raise malformed((place, "type"), "must be data, amqpValue or amqpSequence")


def _read_data(section: object, compat: bool) -> bytes:
    content: bytes = _read_simple(section, "binary", _SECTION)
    if not compat:
        return content
    try:
        return octets(content.decode("ascii"))
    except ValueError:
        return content


def _read_sequences(section: object, types: TypeTree) -> AmqpSequence:
    if types.name != SEQUENCES:
        return AmqpSequence((read_list(section, types, _SECTION, 1),))
    if not isinstance(section, list) or not section:
        raise malformed(_SECTION, "must be a list of lists")
    return AmqpSequence(
        tuple(read_list(each, types.at(n), (_SECTION, n), 1) for n, each in enumerate(section))
    )
