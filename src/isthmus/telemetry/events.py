"""What the router tells while it runs: the records of the topic ``isthmus.<bridge.id>.events``.

In real-time mode Spark reports when a batch ends, minutes late. So each soft failure, and one message in
`SAMPLE`, also gives a small record, with JSON as its value::

    {"position": "isthmus.b.journal:0:17", "route": "orders", "outcome": "skipped",
     "code": "key", "reason": "no header CorrelationId"}
    {"position": "isthmus.b.journal:0:100", "route": "orders", "outcome": "published",
     "age_ms": 3, "routing_ns": 41500, "taken_ms": 1767225600000, "bytes": 230}

A bridge that exports spans tells likewise of every message that somebody samples, with its ``traceparent``.

Like all that the router publishes, each is written once, whatever happens in between.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec.structs import replace

from isthmus.routing.plan import Outcome

SAMPLE: Final = 100
"""Of each partition that the router reads, one record in so many is measured: those at multiples of it."""


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of one record."""

    position: str
    """The topic, partition and offset that the router read it from, as `layout.stable_id` has it."""
    outcome: str
    """An `isthmus.routing.plan.Outcome`."""
    route: str | None = None
    code: str | None = None
    reason: str | None = None
    """Both are there if, and only if, it failed."""
    age_ms: int | None = None
    """From the record's timestamp until it was routed."""
    routing_ns: int | None = None
    """How long it took to route and to convert it."""
    taken_ms: int | None = None
    """The record's timestamp: when the journal, or another source, got it."""
    bytes: int | None = None
    """Of the value that was published. All of these are there if it was measured; the last if it has one."""
    traceparent: str | None = None
    """Of a message that is sampled, where spans are exported. `taken_ms` is there, too."""
    published_ms: int | None = None
    """The timestamp of the event's own record, which goes out with what it tells of. No part of the JSON."""

    @property
    def place(self) -> tuple[str, int, int] | None:
        """Topic, partition and offset; None if the position says none."""
        match self.position.rsplit(":", 2):
            case topic, partition, offset if partition.isdecimal() and offset.isdecimal():
                return topic, int(partition), int(offset)
        return None

    @property
    def latency_s(self) -> float | None:
        """From intake to publication; None if it was not measured, or not published."""
        if self.outcome != Outcome.PUBLISHED or self.taken_ms is None or self.published_ms is None:
            return None
        return (self.published_ms - self.taken_ms) / 1000

    def __str__(self) -> str:
        by = f" by route {self.route}" if self.route else ""
        return f"{self.outcome}: the message at {self.position}{by}: {self.reason} ({self.code})"


_decoder = msgspec.json.Decoder(Event)


def read_event(value: bytes | None, published_ms: int | None = None) -> Event | None:
    """The event that a record's value is, with the record's timestamp; None if it is none."""
    try:
        return replace(_decoder.decode(value or b""), published_ms=published_ms)
    except msgspec.DecodeError:
        return None
