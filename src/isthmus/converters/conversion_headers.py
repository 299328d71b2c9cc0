"""Headers that intake adds to a journal record, so that Spark converts the message without decoding AMQP.

In this order, each only if it applies:

=====================  =======================================================================================
``isthmus.partition``  the partition that an AMQP message's annotations ask for, as text
``isthmus.key``        the key that they ask for
``isthmus.value``      a body that is neither text nor bytes nor null, as JSON: what `default` publishes
``isthmus.json``       the document of `json` up to where its section begins; all of it without a body
=====================  =======================================================================================

The document is ``isthmus.json``, the section and ``}}``. The section is the text as a JSON string for an
amqp-value of type string, the body's bytes as quoted Base64 for data and for binary, ``null`` for null, and
``isthmus.value`` for all else.
"""

from __future__ import annotations

from typing import Final

from isthmus.codecs.amqp import AMQP_SEQUENCE, AMQP_VALUE, AmqpMessage, AmqpSequence, AmqpValue, Index, index
from isthmus.codecs.jms import to_amqp
from isthmus.converters.annotations import chosen
from isthmus.converters.canonical import canonical
from isthmus.converters.json_document import is_structured, plain_json, split_document
from isthmus.journal import layout
from isthmus.message import BodyKind, Message

_UNSTRUCTURED: Final = frozenset({"string", "binary", "null"})
_AS_IT_IS: Final = frozenset({BodyKind.TEXT, BodyKind.BYTES, BodyKind.EMPTY})


def conversion_headers(
    message: Message, *, json: bool, index_of_value: Index | None = None
) -> list[tuple[str, bytes]]:
    """The headers for a message; none, and quickly, for most.

    ``json`` is whether any route needs the document. ``index_of_value`` is the index over an AMQP message's
    value, if there is one already. Raises `ConversionFailure` for annotations of the wrong type, and
    `DecodeError` for a message that is malformed where it had to be looked into.
    """
    if message.protocol == "amqp" and message.value is not None:
        return _of_amqp(message.value, index_of_value or index(message.value), json)
    if not json and message.body.kind in _AS_IT_IS:
        return []
    content = message.body.slice(message.value)
    made = to_amqp(message.headers, message.body.kind, content, address=message.address)
    return _of_body(canonical(made), json)


def _of_amqp(value: bytes, found: Index, json: bool) -> list[tuple[str, bytes]]:
    headers: list[tuple[str, bytes]] = []
    if found.annotations:
        partition, key = chosen(found.annotations)
        if partition is not None:
            headers.append((layout.PARTITION, str(partition).encode()))
        if key is not None:
            headers.append((layout.KEY, key.encode()))
    section = found.body_section
    structured = section == AMQP_SEQUENCE or (section == AMQP_VALUE and found.body_type not in _UNSTRUCTURED)
    if json or structured:
        headers += _of_body(AmqpMessage.decode(value), json)
    return headers


def _of_body(message: AmqpMessage, json: bool) -> list[tuple[str, bytes]]:
    if json:
        head, value = split_document(message)
        document = [(layout.JSON_DOCUMENT, head.encode())]
        return document if value is None else [(layout.JSON_VALUE, value.encode()), *document]
    body = message.body
    if isinstance(body, AmqpValue | AmqpSequence) and is_structured(body):
        return [(layout.JSON_VALUE, plain_json(body).encode())]
    return []
