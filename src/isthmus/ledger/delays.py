"""Messages with a delivery delay: what is held until its time.

In: DELAY records of the sessions of one shard. Out: the same messages as plain ADD records, when their time
has come: in the order of their times, and of one time in the order of the journal. Then a tombstone for each.

A batch takes its time until it writes something. So it also gives out what is due soon after its beginning,
and each update says when it may be written. All of a batch is seen when the last of it is.

What is held lies in chunks, a few for each step of time, so that a batch reads those alone that are due.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from isthmus.journal.partitions import JournalPartitions
from isthmus.ledger.events import CHUNK_BYTES, Event, Update, pack
from isthmus.ledger.state import Chunks

STEP_MS = 1_000
"""What is due within such a time lies together."""
AHEAD_MS = 1_500
"""So long before its time a message is given out at the earliest: a batch can write it by then, as a rule."""
TOGETHER_MS = 500
"""What is due so soon after a batch's first goes with it."""

_DELAYED = "delayed"


class Delayed(msgspec.Struct, array_like=True, gc=False):
    """A message that is held."""

    due_ms: int
    partition: int
    key: bytes
    session: str
    record: bytes
    """The plain record that it becomes, packed."""


class Summary(msgspec.Struct, array_like=True):
    """What is kept of a shard's delayed messages, but for the messages."""

    steps: dict[int, list[int]] = {}
    """By step of time: the chunks of messages that are due in it."""
    next_chunk: int = 0
    next_due_ms: int = 0
    """When something is due next; 0 if nothing is held."""
    first_due_ms: dict[int, int] = {}
    """By step of time: when the first of its messages is due. States of long ago have none."""


_decoder = msgspec.msgpack.Decoder(list[Delayed])


class Delays:
    """The delayed messages of one shard, during one batch."""

    def __init__(self, summary: Summary, chunks: Chunks, places: JournalPartitions, *, now_ms: int) -> None:
        self._steps = summary.steps
        self._first_due_ms = summary.first_due_ms
        self._next_chunk = summary.next_chunk
        self._next_due_ms = summary.next_due_ms
        self._chunks = chunks
        self._places = places
        self._now_ms = now_ms
        self._fresh: list[Delayed] = []

    def take(self, event: Event) -> None:
        """Hold a message."""
        self._fresh.append(Delayed(event.due_ms, event.partition, event.key, event.session, event.record))

    def release(self) -> Iterator[Update]:
        """What is due by now, or will be when it can be written."""
        until_ms = self._now_ms + AHEAD_MS
        held: list[Delayed] = []
        for step in sorted(step for step in self._steps if step * STEP_MS <= until_ms):
            self._first_due_ms.pop(step, None)
            for number in self._steps.pop(step):
                held += _decoder.decode(self._chunks.get(_DELAYED, number) or _NOTHING)
                self._chunks.remove(_DELAYED, number)
        held += self._fresh
        first_ms = min((each.due_ms for each in held), default=0)
        last_ms = min(until_ms, max(self._now_ms, first_ms) + TOGETHER_MS)
        due = [each for each in held if each.due_ms <= last_ms]
        self._fresh = [each for each in held if each.due_ms > last_ms]
        for each in sorted(due, key=lambda held: held.due_ms):
            yield Update(self._places.of_committed(each.session), record=each.record, due_ms=each.due_ms)
            yield Update(each.partition, each.key)

    def save(self) -> Summary:
        """Keep what is held, and say where."""
        by_step: dict[int, list[Delayed]] = {}
        for each in self._fresh:
            by_step.setdefault(each.due_ms // STEP_MS, []).append(each)
        for step, held in by_step.items():
            first_ms = min(each.due_ms for each in held)
            # In a step that has messages already, one of those may be due before.
            begun_ms = self._first_due_ms.get(step, step * STEP_MS if step in self._steps else first_ms)
            self._first_due_ms[step] = min(first_ms, begun_ms)
            for chunk in _pieces(held):
                self._chunks.put(_DELAYED, self._next_chunk, pack(chunk))
                self._steps.setdefault(step, []).append(self._next_chunk)
                self._next_chunk += 1
        next_step = min(self._steps, default=0)
        self._next_due_ms = self._first_due_ms.get(next_step, next_step * STEP_MS)
        self._fresh = []
        return Summary(self._steps, self._next_chunk, self._next_due_ms, self._first_due_ms)

    @property
    def next_due_ms(self) -> int | None:
        """When the next batch is to begin: known after `save`. None if nothing is held."""
        return max(1, self._next_due_ms - AHEAD_MS) if self._next_due_ms else None


def _pieces(held: list[Delayed]) -> Iterator[list[Delayed]]:
    piece: list[Delayed] = []
    size = 0
    for each in held:
        piece.append(each)
        size += len(each.record)
        if size >= CHUNK_BYTES:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


_NOTHING = pack([])
