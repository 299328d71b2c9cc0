"""An AMQP message as an entry of the journal: what holds for each, from a client or from a broker."""

from __future__ import annotations

from typing import Final

from isthmus.converters.conversion_headers import conversion_headers
from isthmus.errors import ConversionFailure
from isthmus.journal.layout import Entry, Op, is_reserved
from isthmus.message import BodyKind, Message

_PLAIN_BODIES: Final = frozenset({BodyKind.TEXT, BodyKind.BYTES, BodyKind.EMPTY})
_ANNOTATIONS: Final = (b"x-opt-bridge.", b"\x09partition", b"\x03key")
"""What is in the bytes of a message that asks for a partition or key: a symbol has its length before it."""

_NAMES_KEPT: Final = 4096
_allowed_names: set[str] = set()
"""Names of headers that were seen and are not reserved: the same few come with every message."""


def entry_of(message: Message, data: bytes, *, as_json: bool) -> Entry:
    """The ADD of a message that came as ``data``, with what converters need beyond the journal's index.

    Raises `ConversionFailure` for a header that only the bridge may set, and for a partition or key that
    cannot be one.
    """
    if (name := _reserved_name(message)) is not None:
        raise ConversionFailure(f"{name[:100]!r} is a name of the bridge's own")
    asks = _ANNOTATIONS[0] in data or _ANNOTATIONS[1] in data or _ANNOTATIONS[2] in data
    if as_json or message.body.kind not in _PLAIN_BODIES or asks:
        return Entry(Op.ADD, message, conversion=tuple(conversion_headers(message, json=as_json)))
    return Entry(Op.ADD, message)


def _reserved_name(message: Message) -> str | None:
    if _allowed_names.issuperset(message.headers):
        return None
    for name in message.headers:
        if is_reserved(name.removeprefix("property.")):
            return name
        if len(_allowed_names) < _NAMES_KEPT and len(name) <= 100:
            _allowed_names.add(name)
    return None
