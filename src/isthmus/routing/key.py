"""The Kafka key of a routed message: a header of text or numeric type, or the message id.

The reference form; `isthmus.routing.columns` and the router have the same in Spark.
"""

from __future__ import annotations

from isthmus.errors import KeyFailure
from isthmus.message import OPAQUE_TYPES, Message


def select_key(message: Message, header_name: str | None) -> bytes:
    """The key for the message: the header of that name, or the message id when no header is named.

    Raises `KeyFailure` when the header is missing, empty, or neither text nor a number.
    """
    if header_name is None:
        return message.id.encode()
    header = message.headers.get(header_name)
    if header is None:
        raise KeyFailure(f"no header {header_name}")
    if header.type in OPAQUE_TYPES:
        raise KeyFailure(f"header {header_name} is neither text nor a number")
    if not header.text:
        raise KeyFailure(f"header {header_name} is empty")
    return header.text.encode()
