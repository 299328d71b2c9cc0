"""What a selector sees of a message: its properties, and those headers that JMS lets it ask for."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final
from uuid import UUID

from isthmus.codecs.amqp import AmqpMessage, MessageHeader, MessageProperties

Value = str | int | float | bool | None

_NO_HEADER: Final = MessageHeader()
_NO_PROPERTIES: Final = MessageProperties()
DEFAULT_PRIORITY: Final = 4


def _header(message: AmqpMessage) -> MessageHeader:
    return message.header or _NO_HEADER


def _properties(message: AmqpMessage) -> MessageProperties:
    return message.properties or _NO_PROPERTIES


def _priority(message: AmqpMessage) -> int:
    priority = _header(message).priority
    return DEFAULT_PRIORITY if priority is None else priority


_HEADERS: Final[dict[str, Callable[[AmqpMessage], object]]] = {
    "JMSDeliveryMode": lambda message: "PERSISTENT" if _header(message).durable else "NON_PERSISTENT",
    "JMSPriority": _priority,
    "JMSMessageID": lambda message: _id(_properties(message).message_id),
    "JMSTimestamp": lambda message: _properties(message).creation_time,
    "JMSCorrelationID": lambda message: _id(_properties(message).correlation_id),
    "JMSType": lambda message: _properties(message).subject,
    "JMSXGroupID": lambda message: _properties(message).group_id,
    "JMSXGroupSeq": lambda message: _properties(message).group_sequence,
    "JMSXDeliveryCount": lambda message: (_header(message).delivery_count or 0) + 1,
}


def value_of(name: str, message: AmqpMessage) -> Value:
    """A header or property of a message; None if it is not there, or nothing that a selector can use."""
    find = _HEADERS.get(name)
    value = (message.application_properties or {}).get(name) if find is None else find(message)
    return _plain(value)


def has_expired(message: AmqpMessage) -> bool:
    """Whether the time that its sender gave it has passed."""
    expiry_ms = None if message.properties is None else message.properties.absolute_expiry_time
    return expiry_ms is not None and 0 < expiry_ms < time.time() * 1000


def _plain(value: object) -> Value:
    match value:
        case bool():
            return bool(value)
        case int():
            return int(value)
        case float():
            return float(value)
        case str():
            return str(value)
        case _:
            return None


def _id(id: object) -> str | None:
    match id:
        case str():
            return id if id.startswith("ID:") else f"ID:{id}"
        case int():
            return f"ID:AMQP_ULONG:{id}"
        case UUID():
            return f"ID:AMQP_UUID:{id}"
        case bytes():
            return f"ID:AMQP_BINARY:{id.hex().upper()}"
        case _:
            return None
