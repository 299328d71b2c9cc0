"""A dead letter: what was wrong, and the record as it was before.

In: a record of the dead-letter topic, whoever wrote it there. Out: the record without what was added to it
when it was dead-lettered, and what that says. What is replayed carries how often that was, and why each time.
No Kafka is needed.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from isthmus.errors import DecodeError
from isthmus.journal import layout
from isthmus.journal.layout import Entry, Record

_REPORT = (layout.ERROR_ROUTE, layout.ERROR_MESSAGE, layout.ERROR_CODE)
_MARKS = frozenset({*_REPORT, layout.ORIGIN, layout.STABLE_ID, layout.DESTINATION})


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record of the dead-letter topic."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    record: Record
    original: Record
    """Without what was added when it was dead-lettered."""
    code: str
    reason: str
    route: str
    """Empty if it failed on no route: on its way in, or with a receiver."""
    id: str | None
    """The position of the record that failed; None if it never was in Kafka."""
    destination: str | None
    """Where an edge was to deliver it."""
    of_outbox: bool
    """Whether an edge read it in an outbox: then it is what the router made of a message."""

    @property
    def position(self) -> str:
        """Where it lies."""
        return layout.stable_id(self.topic, self.partition, self.offset)

    @property
    def source(self) -> tuple[str, int, int] | None:
        """Topic, partition and offset of the record that failed."""
        parsed = re.fullmatch(r"([^:]+):([0-9]{1,9}):([0-9]{1,18})", self.id or "")
        return None if parsed is None else (parsed[1], int(parsed[2]), int(parsed[3]))

    @property
    def entry(self) -> Entry | None:
        """The message, if the record is one of the journal's."""
        try:
            return layout.decode(self.original)
        except DecodeError:
            return None

    @property
    def address(self) -> str | None:
        """Where the message was sent, if that is known."""
        entry = self.entry
        if entry is not None:
            return entry.message.address
        found = dict(self.original.headers).get(layout.HEADER_PREFIX + "Destination")
        return None if found is None else found.decode(errors="replace")

    @property
    def replays(self) -> int:
        """How often the message was replayed before."""
        return replays_of(self.original)


def read_dead_letter(
    topic: str, partition: int, offset: int, timestamp_ms: int, record: Record
) -> DeadLetter | None:
    """The dead letter of a record; None if it does not say what went wrong."""
    kept = list(record.headers)
    marks: dict[str, str] = {}
    # They stand at the end, each once. What stands before may have the same names, of an earlier failure.
    while kept and kept[-1][0] in _MARKS and kept[-1][0] not in marks:
        name, value = kept.pop()
        marks[name] = (value or b"").decode(errors="replace")
    if not all(name in marks for name in _REPORT):
        return None
    # An edge says where a record goes before it says whose it is; the router does so after that.
    way = [name for name in marks if name in (layout.ORIGIN, layout.DESTINATION)]
    return DeadLetter(
        topic,
        partition,
        offset,
        timestamp_ms,
        record,
        record._replace(headers=kept),
        code=marks[layout.ERROR_CODE],
        reason=marks[layout.ERROR_MESSAGE],
        route=marks[layout.ERROR_ROUTE],
        id=marks.get(layout.STABLE_ID),
        destination=marks.get(layout.DESTINATION),
        of_outbox=way == [layout.ORIGIN, layout.DESTINATION],
    )


def replays_of(record: Record) -> int:
    """How often a record's message was replayed."""
    text = (dict(record.headers).get(layout.REPLAYS) or b"").decode(errors="replace")
    return int(text) if re.fullmatch("[0-9]{1,9}", text) else 0


def history_of(record: Record) -> list[str]:
    """Why it was dead-lettered, each time before: JSON objects, the oldest first."""
    return [
        (value or b"").decode(errors="replace") for name, value in record.headers if name == layout.HISTORY
    ]


def with_history(record: Record, dead: DeadLetter, now_ms: int) -> Record:
    """The record of a dead letter's message, with one more replay."""
    past = {
        "dead_letter": dead.position,
        "id": dead.id,
        "route": dead.route,
        "code": dead.code,
        "reason": dead.reason,
        "dead_lettered_ms": dead.timestamp_ms,
        "replayed_ms": now_ms,
    }
    headers = [header for header in record.headers if header[0] != layout.REPLAYS]
    headers.append((layout.HISTORY, json.dumps(past, ensure_ascii=False).encode(errors="replace")))
    headers.append((layout.REPLAYS, str(replays_of(record) + 1).encode()))
    return record._replace(headers=headers)
