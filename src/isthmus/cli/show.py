"""Kafka records for people: readable on a terminal, or one JSON object a line."""

from __future__ import annotations

import base64
import codecs
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from rich.console import Console
from rich.text import Text

from isthmus.journal import layout
from isthmus.journal.layout import KafkaHeaders, Record, decode_types

if TYPE_CHECKING:
    from confluent_kafka import Message

MAX_SHOWN_BYTES = 2000
"""How much of a body a terminal gets; ``--json`` shows all."""


def print_record(
    console: Console,
    title: Sequence[tuple[str, str]],
    record: Record,
    body: bytes | None,
) -> None:
    """A record, with the type of every header that has one, and the body that its value holds."""
    parts: list[tuple[str, str]] = [(_printable(text) + "  ", style) for text, style in title]
    console.print(Text.assemble(*parts, ("key ", "dim"), _shown(record.key)))
    types = decode_types((dict(record.headers).get(layout.TYPES) or b"").decode(errors="replace"))
    for name, value in record.headers:
        if name != layout.TYPES:
            type = types.get(name.removeprefix(layout.HEADER_PREFIX))
            suffix = (f"  {type}", "dim") if type else ""
            console.print(Text.assemble("  ", (_printable(name), "cyan"), " ", _shown(value), suffix))
    console.print(Text.assemble("  ", _shown(body)))


def _shown(data: bytes | None) -> str:
    if data is None:
        return "null"
    cut = "" if len(data) <= MAX_SHOWN_BYTES else f" … ({len(data)} bytes)"
    try:
        # Only the last character may be cut in two.
        text, _ = codecs.utf_8_decode(data[:MAX_SHOWN_BYTES], "strict", not cut)
    except UnicodeDecodeError:
        return data[: MAX_SHOWN_BYTES // 4].hex(" ") + cut
    return _printable(text) + cut


def _printable(text: str) -> str:
    """Text that cannot steer a terminal."""
    return "".join(each if each.isprintable() or each in "\n\t" else "�" for each in text)


def as_json(**fields: Any) -> str:
    """One line of JSON. Bytes are text where they are UTF-8, and ``{"base64": …}`` where they are not."""
    return json.dumps(fields, default=_plain, ensure_ascii=False)


def _plain(value: Any) -> Any:
    if not isinstance(value, bytes):
        raise TypeError(f"{value!r} has no JSON form")
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def record_of(message: Message) -> Record:
    """The record that Kafka's client read; it leaves the headers out when there are none."""
    return Record(message.key(), message.value(), cast("KafkaHeaders", message.headers() or []))
