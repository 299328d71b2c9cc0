"""Kafka records for people: readable on a terminal, or one JSON object a line."""

from __future__ import annotations

import base64
import codecs
import json
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from isthmus.journal import layout
from isthmus.journal.layout import Record, decode_types
from isthmus.kafka.received import record_of as record_of

MAX_SHOWN_BYTES = 2000
"""How much of a body a terminal gets; ``--json`` shows all."""


def print_record(
    console: Console,
    title: Sequence[tuple[str, str]],
    record: Record,
    body: bytes | None,
) -> None:
    """A record, with the type of every header that has one, and the body that its value holds."""
    parts: list[tuple[str, str]] = [(printable(text) + "  ", style) for text, style in title]
    console.print(Text.assemble(*parts, ("key ", "dim"), _shown(record.key)))
    _print_content(console, record, body)


def print_message(console: Console, address: str, record: Record) -> None:
    """A message of AMQP as a record: its id, if it has one, is the key, and its body the value."""
    title = Text(printable(address), style="bold green")
    if record.key:
        title = Text.assemble(title, ("  id ", "dim"), _shown(record.key))
    console.print(title)
    _print_content(console, record, record.value)


def _print_content(console: Console, record: Record, body: bytes | None) -> None:
    types = decode_types((dict(record.headers).get(layout.TYPES) or b"").decode(errors="replace"))
    for name, value in record.headers:
        if name != layout.TYPES:
            type = types.get(name.removeprefix(layout.HEADER_PREFIX))
            suffix = (f"  {type}", "dim") if type else ""
            console.print(Text.assemble("  ", (printable(name), "cyan"), " ", _shown(value), suffix))
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
    return printable(text) + cut


def printable(text: str) -> str:
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
