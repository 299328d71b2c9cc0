"""The types of the values under ``nats.``: text in, the typed value out.

As in `isthmus.config.model.values`: `ValueError` with what was expected, and never with the text that was
refused.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

from isthmus.config.model import values
from isthmus.config.syntax.hidden import Hidden, alike

_SUBJECT = re.compile(r"[^\s.*>]+(?:\.[^\s.*>]+)*")
_PATTERN = re.compile(r"(?:(?:\*|[^\s.*>]+)\.)*(?:\*|>|[^\s.*>]+)")
_NAME = re.compile(r"[^\s.*>/\\]+")
SEED = re.compile(r"SU[A-Z2-7]{56}")
"""An nkey seed of a user."""

JETSTREAM = "jetstream:"
CORE = "core:"
"""What a destination may begin with that says how it is published there."""
INBOX = "_INBOX"
"""The destination that stands for the inbox of whoever asked."""

_START = re.compile(r"sequence:(?P<sequence>[0-9]{1,18})|time:(?P<time>.+)")


class Start(NamedTuple):
    """Where a durable consumer begins in its stream, the first time."""

    at: Literal["first", "last", "new", "sequence", "time"]
    sequence: int | None = None
    time: datetime | None = None

    def __str__(self) -> str:
        match self.at:
            case "sequence":
                return f"sequence:{self.sequence}"
            case "time":
                return f"time:{self.time.isoformat() if self.time else ''}"
            case _:
                return self.at


def servers(value: object) -> tuple[str, ...]:
    """URLs of NATS servers; ``embedded`` alone stands for one that the bridge starts itself."""
    written = [value] if isinstance(value, str) else value if isinstance(value, tuple | list) else []
    urls = [alike(text, each.strip()) for text in written for each in text.split(",")]
    if urls == [values.EMBEDDED]:
        return (values.EMBEDDED,)
    if urls and values.EMBEDDED not in urls and all(map(_is_url, urls)):
        return tuple(url if "://" in url else alike(url, f"nats://{url}") for url in urls)
    raise ValueError("expected embedded, or nats://host:port, several of them separated by commas")


def _is_url(value: str) -> bool:
    if re.search(r"\s", value):
        return False
    try:
        parts = urlsplit(value if "://" in value else f"nats://{value}")
        return parts.scheme in ("nats", "tls", "ws", "wss") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is none
        return False


def subject(value: object) -> str:
    """A subject that a message can be published to."""
    if isinstance(value, str) and _SUBJECT.fullmatch(value):
        return value
    raise ValueError("expected a NATS subject without wildcards, such as orders.new")


def pattern(value: object) -> str:
    """A subject that can be subscribed to: ``*`` and a last ``>`` are wildcards."""
    if isinstance(value, str) and _PATTERN.fullmatch(value):
        return value
    raise ValueError("expected a NATS subject, such as orders.new, orders.* or orders.>")


def name(value: object) -> str:
    """The name of a stream, a durable consumer or a queue group."""
    if isinstance(value, str) and _NAME.fullmatch(value):
        return value
    raise ValueError("expected a name without blanks, '.', '*', '>' and slashes")


def start(value: object) -> Start:
    """``first``, ``last``, ``new``, ``sequence:42`` or ``time:2026-01-31T12:00:00Z``."""
    if isinstance(value, Start):
        return value
    if isinstance(value, str):
        if value in ("first", "last", "new"):
            return Start(value)  # type: ignore[arg-type]  # one of the three
        if found := _START.fullmatch(value):
            if found["sequence"]:
                return Start("sequence", sequence=int(found["sequence"]))
            try:
                moment = datetime.fromisoformat(found["time"])
            except ValueError:
                moment = None
            if moment is not None:
                return Start("time", time=moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    raise ValueError("expected first, last, new, sequence:<number> or time:<ISO 8601>")


def seed(value: object) -> str:
    """A file, or the seed itself, which nobody shall see."""
    written = values.text(value)
    return Hidden(written) if SEED.fullmatch(written) and not isinstance(written, Hidden) else written


def secret(value: object) -> str:
    """Text that nobody shall see."""
    written = values.text(value)
    return written if isinstance(written, Hidden) else Hidden(written)


def flag(value: object) -> bool:
    """``true`` or ``false``."""
    if isinstance(value, bool):
        return value
    return values.choice("true", "false")(value) == "true"
