"""An MQ message as the bridge message of NATS clients, and back.

Out of MQ everything goes over. Into MQ goes what a client may say of a message; the rest is the queue
manager's.
"""

from __future__ import annotations

import re
from typing import Final

from isthmus.codecs.bridge_message import BridgeHeader, BridgeMessage
from isthmus.edges.mq.descriptor import FIELDS, Mqmd, MqMessage
from isthmus.edges.mq.names import original_name, property_name

NOT_PUT: Final = frozenset(
    {"Version", "MsgType", "Expiry", "BackoutCount", "Persistence", "PutDate", "PutTime"}
)
"""The fields of a bridge message that a client cannot set, or that are the queue manager's to decide."""

BRIDGE_FIELDS: Final = {name: re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower() for name in FIELDS}
"""The field of a `BridgeHeader` for each field of the MQMD."""


def to_bridge(mq: MqMessage, *, reply_to_channel: str = "") -> BridgeMessage:
    """The bridge message of an MQ message: all 28 fields of the MQMD, and the channel to reply to."""
    values = {attribute: getattr(mq.descriptor, name) for name, attribute in BRIDGE_FIELDS.items()}
    message = BridgeMessage(mq.body, BridgeHeader(**values, reply_to_channel=reply_to_channel))
    for name, property in mq.properties.items():
        message.set_property(original_name(name), property.value, property.type)
    return message


def from_bridge(message: BridgeMessage) -> MqMessage:
    """The MQ message to put for a bridge message.

    A field that is absent has MQ's default; what a client cannot set (`NOT_PUT`) is ignored. Raises
    `EncodeError` for a value that its field of the MQMD has no room for.
    """
    fields = {
        name: value
        for name, attribute in BRIDGE_FIELDS.items()
        if name not in NOT_PUT and (value := getattr(message.header, attribute))
    }
    properties = {property_name(name): property for name, property in message.properties.items()}
    return MqMessage(descriptor=Mqmd(**fields), body=message.body, properties=properties)
