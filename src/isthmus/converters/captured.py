"""A record that somebody captured: a line of ``isthmus receive --json``."""

from __future__ import annotations

import base64

import msgspec

from isthmus.converters.contract import ReceivedRecord
from isthmus.errors import DecodeError


class _Line(msgspec.Struct):
    """What ``isthmus receive --json`` prints of a record, and we of one that has headers."""

    value: str | dict[str, str] | None
    place: str = "topic:0:0"
    key: str | dict[str, str] | None = None
    headers: list[tuple[str, str | dict[str, str] | None]] = []


def line_record(data: bytes) -> ReceivedRecord:
    """The record of a line of ``isthmus receive --json``. Raises `DecodeError` for any other text."""
    try:
        line = msgspec.json.decode(data, type=_Line)
        topic, partition, offset = line.place.rsplit(":", 2)
        return ReceivedRecord(
            topic,
            int(partition),
            int(offset),
            _octets(line.key),
            _octets(line.value),
            [(name, _octets(value)) for name, value in line.headers],
        )
    except (msgspec.MsgspecError, ValueError, KeyError) as error:
        raise DecodeError(f"not a line of `isthmus receive --json`: {error}") from None


def _octets(shown: str | dict[str, str] | None) -> bytes | None:
    if isinstance(shown, dict):
        return base64.b64decode(shown["base64"], validate=True)
    return None if shown is None else shown.encode()
