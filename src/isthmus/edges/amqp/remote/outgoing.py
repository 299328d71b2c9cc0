"""From a letter to the bytes that a broker is sent.

The converter of the letter's route makes the message, as for a receiver of a topic; what it says of the
record's place is left out, since an outbox is nobody's concern. ``to`` is the destination. The stable id goes
into the application property ``_AMQ_DUPL_ID``: Artemis drops a message whose id it has seen at that address,
and says accepted all the same.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from isthmus.codecs.amqp import Byte, MessageProperties
from isthmus.codecs.jms.names import DESTINATION_TYPE, DESTINATION_TYPES
from isthmus.config.brokers import Node
from isthmus.converters import MessageConverter, ReceivedRecord, jms
from isthmus.converters.annotations import KEY, OFFSET, PARTITION, TOPIC
from isthmus.edges.contract import Letter

DUPLICATE_ID: Final = "_AMQ_DUPL_ID"
_PLACE: Final = frozenset({KEY, OFFSET, PARTITION, TOPIC})


def encode(letter: Letter, node: Node, converter: MessageConverter, *, duplicate_id: bool) -> bytes:
    """The encoded message. Raises a `SoftFailure` for a letter that the converter cannot read."""
    record = ReceivedRecord("", 0, 0, letter.record.key, letter.record.value, letter.record.headers)
    convert = jms.without_place if converter is jms else converter.to_amqp_message
    message = convert(node.address, record)
    annotations = {
        name: value for name, value in (message.message_annotations or {}).items() if name not in _PLACE
    }
    if DESTINATION_TYPE in annotations:
        annotations[DESTINATION_TYPE] = Byte(DESTINATION_TYPES.index(node.capability))
    properties = message.application_properties
    if duplicate_id:
        properties = {**(properties or {}), DUPLICATE_ID: letter.id}
    return message.replace(
        message_annotations=annotations or None,
        properties=replace(message.properties or MessageProperties(), to=node.address),
        application_properties=properties,
    ).encode()
