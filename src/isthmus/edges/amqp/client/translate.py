"""Messages of a broker ↔ entries of the journal and records of an outbox.

In, a message is an `Entry` as from any client of AMQP; its address is the one that it was taken from, and
where it was sent is its header ``Destination``.

Out, the converter of the route makes the message, as for a receiver of a topic; where the record lies is left
out of it, since an outbox is nobody's concern. ``to`` is the destination; a message for `ANYWHERE` goes where
its header ``Destination`` says, as the answer to a request does. The stable id goes into the application
property ``_AMQ_DUPL_ID``: Artemis drops a message whose id it has seen at that address, and says accepted all
the same.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Final

from msgspec import structs

from isthmus.codecs.amqp import Byte, MessageProperties
from isthmus.codecs.jms import to_message
from isthmus.codecs.jms.names import DESTINATION_TYPE, DESTINATION_TYPES
from isthmus.config.model.brokers import Node
from isthmus.converters import MessageConverter, ReceivedRecord, jms
from isthmus.converters.annotations import KEY, OFFSET, PARTITION, PLAIN, TOPIC
from isthmus.edges.amqp.entry import entry_of
from isthmus.edges.contract import OutboundMessage
from isthmus.errors import ConversionFailure, OversizeFailure
from isthmus.journal import layout
from isthmus.journal.layout import Entry
from isthmus.message import Body, BodyKind, Message

ANYWHERE: Final = Node("")
"""The destination of messages that say themselves where they go."""
DUPLICATE_ID: Final = "_AMQ_DUPL_ID"
_RECORD_POSITION: Final = frozenset({KEY, OFFSET, PARTITION, TOPIC, *PLAIN})
_INDEX_BYTES: Final = 1024
"""More than the journal's index takes in a record."""
_HEADER_BYTES: Final = 16
"""More than Kafka and the types take for a header, beside its name and text."""


def from_amqp(
    data: bytes, address: str, *, session: str, own_id: str, max_message_size: int, as_json: bool
) -> Entry:
    """The entry of a message that was taken from an address. ``own_id`` is its id unless it brings one.

    Raises `OversizeFailure` for what neither the journal nor any dead letter could carry, and other kinds of
    `SoftFailure` for what cannot be read.
    """
    message = to_message(
        data,
        target=address,
        fallback_id=own_id,
        session=session,
        received_ms=int(time.time() * 1000),
    )
    message = replace(message, address=address)
    _check_size(message, max_message_size)
    return entry_of(message, data, as_json=as_json)


def unread(data: bytes, address: str, *, session: str, own_id: str) -> Message:
    """The message that cannot be read, for a dead letter: its bytes, and where it was taken from."""
    body = Body(BodyKind.BYTES)
    return Message(id=own_id, address=address, protocol="amqp", value=data, body=body, session=session)


def to_amqp(
    outbound: OutboundMessage, node: Node, converter: MessageConverter, *, duplicate_id: bool
) -> bytes:
    """The encoded message. Raises a `SoftFailure` for a record that the converter cannot read."""
    record = ReceivedRecord("", 0, 0, outbound.record.key, outbound.record.value, outbound.record.headers)
    convert = jms.without_place if converter is jms else converter.to_amqp_message
    address = node.address or _own_destination(outbound)
    message = convert(address, record)
    annotations = {
        name: value
        for name, value in (message.message_annotations or {}).items()
        if name not in _RECORD_POSITION
    }
    if DESTINATION_TYPE in annotations and node != ANYWHERE:
        annotations[DESTINATION_TYPE] = Byte(DESTINATION_TYPES.index(node.capability))
    properties = message.application_properties
    if duplicate_id:
        properties = {**(properties or {}), DUPLICATE_ID: outbound.id}
    return message.replace(
        message_annotations=annotations or None,
        properties=structs.replace(message.properties or MessageProperties(), to=address),
        application_properties=properties,
    ).encode()


def _check_size(message: Message, limit: int) -> None:
    size = len(message.value or b"")
    if size > limit >> 1:  # headers are in the record twice, but hardly ever of that size
        texts = sum(len(name) + len(each.text) for name, each in message.headers.items())
        size += _INDEX_BYTES + _HEADER_BYTES * len(message.headers) + 4 * texts
        if size > limit:
            raise OversizeFailure(
                f"a record of up to {size} bytes; the journal takes {limit}", size=size, limit=limit
            )


def _own_destination(outbound: OutboundMessage) -> str:
    header = layout.decode_headers(outbound.record.headers).get("Destination")
    if header is None or not header.text:
        raise ConversionFailure("a message without the address that it goes to in its header Destination")
    return header.text
