"""Names of headers as names of MQ properties, and back.

MQ takes names that Java takes, with dots between folders; it keeps some folders, and all that begins with
``JMS``, for itself. Any other name travels as ``isthmus_<name>``, in which everything but letters, digits,
dots and ``$`` is ``_`` and two hexadecimal digits for each of its bytes: ``x-opt`` is ``isthmus_x_2dopt``.
That is also how the standard headers travel that an MQMD has no field for.
"""

from __future__ import annotations

import re
from typing import Final

from isthmus.errors import EncodeError
from isthmus.message import STANDARD_HEADERS, property_header_name

PREFIX: Final = "isthmus_"

FIELD_PREFIX: Final = "mq."
"""Headers with the fields of an MQMD begin with this."""

STABLE_ID: Final = "isthmus_id"
"""The property with the stable id: the same however often the message is put."""

ORIGINAL_ID: Final = "isthmus_MessageId"
"""The property with a message id that is not MQ's. It stays a property: in MQ, MQ's own id counts."""

_OURS: Final = frozenset({STABLE_ID, ORIGINAL_ID})

_WORD: Final = "[A-Za-z_$][A-Za-z0-9_$]*"
_PLAIN: Final = re.compile(rf"{_WORD}(?:\.{_WORD})*", re.ASCII)
_RESERVED_FOLDERS: Final = (
    "mq",
    "jms",
    "mcd",
    "usr",
    "sib",
    "sibusr",
    "wmq",
    "mqext",
    "mqps",
    "mq_usr",
    "mqema",
)
_RESERVED_WORDS: Final = frozenset(
    ["NULL", "TRUE", "FALSE", "NOT", "AND", "OR", "BETWEEN", "LIKE", "IN", "IS", "ESCAPE"]
)  # of the language that MQ selects messages by
MAX_BYTES: Final = 4095

_ESCAPED: Final = re.compile(r"_([0-9a-f]{2})")


def property_name(name: str) -> str:
    """The MQ property that carries an application's property of this name."""
    return name if name in _OURS or _is_allowed(name) else _escape(name)


def original_name(property: str) -> str:
    """The name that `property_name` made this one of: usually the same."""
    name = _unescape(property)
    return property if name is None or _is_allowed(name) else name


def property_of_header(name: str) -> str:
    """The MQ property that carries a header of this name, standard headers included."""
    if name in STANDARD_HEADERS:
        return _escape(name)
    return property_name(name.removeprefix("property."))


def header_of_property(property: str) -> str:
    """The header that a property becomes: the one that it was made of, or one of its own name."""
    name = _unescape(property)
    if name in STANDARD_HEADERS:
        return name
    original = original_name(property)
    if original.startswith(FIELD_PREFIX):
        return f"property.{original}"
    return property_header_name(original)


def _is_allowed(name: str) -> bool:
    folder, dot, _ = name.partition(".")
    return (
        _PLAIN.fullmatch(name) is not None
        and len(name) <= MAX_BYTES
        and not name.startswith(("JMS", PREFIX))
        and name.upper() not in _RESERVED_WORDS
        and not (dot and folder.lower() in _RESERVED_FOLDERS)
    )


def _escape(name: str) -> str:
    return PREFIX + re.sub(r"[^A-Za-z0-9.$]", lambda found: _hex(found[0]), name)


def _unescape(property: str) -> str | None:
    """What was escaped; None if nothing was, or not by us."""
    if not property.startswith(PREFIX) or property in _OURS:
        return None
    octets = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), property.removeprefix(PREFIX))
    try:
        name = octets.encode("latin-1").decode()
    except UnicodeError:
        return None
    return name if _escape(name) == property else None


def _hex(character: str) -> str:
    try:
        return "".join(f"_{byte:02x}" for byte in character.encode())
    except UnicodeEncodeError:
        raise EncodeError(f"not text that UTF-8 can carry: {character!r}") from None
