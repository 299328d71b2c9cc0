"""From a letter to the bytes that a broker is sent.

The converter of the letter's route makes the message, as for a receiver of a topic; what it says of the
record's place is left out, since an outbox is nobody's concern. ``to`` is the destination; a letter for
`ANYWHERE` goes where its header ``Destination`` says, as the answer to a request does. The stable id goes
into the application property ``_AMQ_DUPL_ID``: Artemis drops a message whose id it has seen at that address,
and says accepted all the same.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from isthmus.codecs.amqp import Byte, MessageProperties
from isthmus.codecs.jms.names import DESTINATION_TYPE, DESTINATION_TYPES
from isthmus.config.model.brokers import Node
from isthmus.converters import MessageConverter, ReceivedRecord, jms
from isthmus.converters.annotations import KEY, OFFSET, PARTITION, TOPIC
from isthmus.edges.contract import OutboundMessage
from isthmus.errors import ConversionFailure
from isthmus.journal import layout

ANYWHERE: Final = Node("")
"""The destination of letters that say themselves where they go."""
DUPLICATE_ID: Final = "_AMQ_DUPL_ID"
_PLACE: Final = frozenset({KEY, OFFSET, PARTITION, TOPIC})


def encode(letter: OutboundMessage, node: Node, converter: MessageConverter, *, duplicate_id: bool) -> bytes:
    """The encoded message. Raises a `SoftFailure` for a letter that the converter cannot read."""
    record = ReceivedRecord("", 0, 0, letter.record.key, letter.record.value, letter.record.headers)
    convert = jms.without_place if converter is jms else converter.to_amqp_message
    address = node.address or _asked_for(letter)
    message = convert(address, record)
    annotations = {
        name: value for name, value in (message.message_annotations or {}).items() if name not in _PLACE
    }
    if DESTINATION_TYPE in annotations and node != ANYWHERE:
        annotations[DESTINATION_TYPE] = Byte(DESTINATION_TYPES.index(node.capability))
    properties = message.application_properties
    if duplicate_id:
        properties = {**(properties or {}), DUPLICATE_ID: letter.id}
    return message.replace(
        message_annotations=annotations or None,
        properties=replace(message.properties or MessageProperties(), to=address),
        application_properties=properties,
    ).encode()


def _asked_for(letter: OutboundMessage) -> str:
    header = layout.decode_headers(letter.record.headers).get("Destination")
    if header is None or not header.text:
        raise ConversionFailure("a letter without the address that it goes to in its header Destination")
    return header.text
