"""What holds for every AMQP message on its way to the journal, from a client or from a broker."""

from __future__ import annotations

from typing import Final

from isthmus.converters.conversion_headers import conversion_headers
from isthmus.journal.layout import is_reserved
from isthmus.message import BodyKind, Message

_PLAIN_BODIES: Final = frozenset({BodyKind.TEXT, BodyKind.BYTES, BodyKind.EMPTY})
_ANNOTATION: Final = b"x-opt-bridge."

_NAMES_KEPT: Final = 4096
_allowed_names: set[str] = set()
"""Names of headers that were seen and are not reserved: the same few come with every message."""


def conversion_of(message: Message, data: bytes, *, as_json: bool) -> tuple[tuple[str, bytes | None], ...]:
    """What converters need of a message beyond the journal's index; most need nothing.

    Raises `ConversionFailure` for a partition or key that cannot be one.
    """
    if as_json or message.body.kind not in _PLAIN_BODIES or _ANNOTATION in data:
        return tuple(conversion_headers(message, json=as_json))
    return ()


def reserved_name(message: Message) -> str | None:
    """The name of a header that only the bridge may set, if there is one."""
    if _allowed_names.issuperset(message.headers):
        return None
    for name in message.headers:
        if is_reserved(name.removeprefix("property.")):
            return name
        if len(_allowed_names) < _NAMES_KEPT and len(name) <= 100:
            _allowed_names.add(name)
    return None
