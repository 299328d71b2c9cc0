"""Message ids: of four types in AMQP, always text in JMS. The OASIS mapping keeps the type in the text::

    string "ID:abc"   ID:abc                     string "abc"   ID:AMQP_NO_PREFIX:abc, as correlation-id abc
    uuid              ID:AMQP_UUID:<text>        ulong          ID:AMQP_ULONG:<number>
    binary            ID:AMQP_BINARY:<hex>       a string that looks like one of these   ID:AMQP_STRING:<text>

For every id, ``parse_id`` of its text is the id again.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from isthmus.codecs.amqp import ULong
from isthmus.errors import EncodeError

_MARKED: Final = (
    "ID:AMQP_UUID:",
    "ID:AMQP_ULONG:",
    "ID:AMQP_BINARY:",
    "ID:AMQP_STRING:",
    "ID:AMQP_NO_PREFIX:",
)


def message_id_text(value: str | UUID | int | bytes) -> str:
    """The JMSMessageID of an AMQP message-id: it always begins with ``ID:``."""
    if isinstance(value, str) and not value.startswith("ID:"):
        return f"ID:AMQP_NO_PREFIX:{value}"
    return correlation_id_text(value)


def correlation_id_text(value: str | UUID | int | bytes) -> str:
    """The JMSCorrelationID of an AMQP correlation-id: an application's own text stays as it is."""
    match value:
        case str():
            return f"ID:AMQP_STRING:{value}" if value.startswith(_MARKED) else str(value)
        case UUID():
            return f"ID:AMQP_UUID:{value}"
        case bytes():
            return f"ID:AMQP_BINARY:{value.hex().upper()}"
        case _:
            return f"ID:AMQP_ULONG:{value}"


def parse_id(text: str) -> str | UUID | ULong | bytes:
    """The AMQP id that a text of either function stands for. Raises `EncodeError` for one of a wrong form."""
    if not text.startswith(_MARKED):
        return text
    _, mark, rest = text.split(":", 2)
    try:
        match mark:
            case "AMQP_UUID":
                return UUID(rest)
            case "AMQP_ULONG":
                return ULong(rest)
            case "AMQP_BINARY":
                return bytes.fromhex(rest)
            case _:
                return rest
    except ValueError:
        raise EncodeError(f"{text!r} is not a message id of the type that it names") from None
