"""The message format of the NATS-MQ bridge: an MQ message as NATS clients write and read it.

In come a body, the fields of an MQMD and typed properties; out come the bytes of one msgpack map, and the
other way round. Neither Spark nor NATS nor MQ is needed. The layout::

    { "body":   bin,
      "header": { "version": int32, …, "format": str, …, "msg_id": bin, … }    29 fields, those at their zero
                                                                               left out
      "props":  { name: { "type": 0…9, "value": … }, … } }                     type 0 (string) left out,
                                                                               value left out for null

Writing is strict: an integer beyond the range of its type is an `EncodeError`, never a smaller number.
Reading takes what the bridge's Go and Java helpers write, in all their dialects (`tolerant`). Malformed bytes
are a `DecodeError`, found by `BridgeMessage.decode` itself, in time linear in their number.
"""

from isthmus.codecs.bridge_message.header import BridgeHeader
from isthmus.codecs.bridge_message.message import COMPILED, BridgeMessage
from isthmus.codecs.bridge_message.properties import (
    Property,
    PropertyType,
    PropertyValue,
)
from isthmus.errors import NoSuchProperty, WrongPropertyType

__all__ = [
    "COMPILED",
    "BridgeHeader",
    "BridgeMessage",
    "NoSuchProperty",
    "Property",
    "PropertyType",
    "PropertyValue",
    "WrongPropertyType",
]
