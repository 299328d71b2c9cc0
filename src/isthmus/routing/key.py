"""The Kafka key of a routed message: a header of text or numeric type, or the message id.

A key has at least one letter or digit, in any script: ``customer-7`` and ``Grüße`` are keys, ``!!! ***`` is
none. A number has to be finite. A route may ask for more, by a pattern that the whole key has to match.

The reference form; `isthmus.routing.columns` and the router have the same in Spark.
"""

from __future__ import annotations

import unicodedata

from isthmus.errors import KeyFailure
from isthmus.message import OPAQUE_TYPES, Header, HeaderType, Message
from isthmus.routing.pattern import finder

NOT_FINITE = ("NaN", "Infinity", "-Infinity")
"""The texts of numbers that are no keys."""
FLOATING_TYPES = (HeaderType.FLOAT, HeaderType.DOUBLE)


def select_key(message: Message, header_name: str | None, pattern: str | None = None) -> bytes:
    """The key for the message: the header of that name, or the message id when no header is named.

    Raises `KeyFailure` when the header is missing, empty, neither text nor a finite number, without a letter
    or digit, or not what the pattern asks for.
    """
    if header_name is None:
        return message.id.encode()
    header = message.headers.get(header_name)
    if header is None:
        raise KeyFailure(f"no header {header_name}")
    if reason := _reason_against(header, pattern):
        raise KeyFailure(f"header {header_name} {reason}")
    return header.text.encode()


def _reason_against(header: Header, pattern: str | None) -> str | None:
    if header.type in OPAQUE_TYPES:
        return "is neither text nor a number"
    if not header.text:
        return "is empty"
    if header.type in FLOATING_TYPES and header.text in NOT_FINITE:
        return "is not a finite number"
    if not any(map(is_letter_or_digit, header.text)):
        return "has no letter or digit"
    if pattern is not None and not finder(pattern, whole=True)(header.text):
        return "does not match conv.key.pattern"
    return None


def is_letter_or_digit(character: str) -> bool:
    """Whether Unicode counts the character as a letter of any script, or as a decimal digit."""
    category = unicodedata.category(character)
    return category[0] == "L" or category == "Nd"
