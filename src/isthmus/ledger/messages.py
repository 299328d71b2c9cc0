"""Messages: what is deleted, annotated and expired.

In: plain records about messages of one shard, from any partition and in any order. Out: tombstones.

- DELETE removes the message, wherever it lies, and every annotation that it has or will have.
- ANNOTATE is kept with its message: it is left alone until that goes.
- A message that has expired is deleted.

A plain message that does not expire is none of the ledger's business: it does not even come here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from isthmus.journal.layout import Op
from isthmus.ledger.events import EVERYWHERE, SEPARATOR, Event, Update, message_key, pack
from isthmus.ledger.state import Chunks, Remembered

DELETED = 10_000
"""How many deleted messages a shard remembers, for annotations of theirs that come late."""

EXPIRY_STEP_MS = 10_000
"""How exactly messages are deleted when they expire. The router does not route them from the very moment."""

_ANNOTATIONS = "annotations of "
_EXPIRING = "expiring"

Place = tuple[bytes, int]
"""A key, and its partition."""


class Summary(msgspec.Struct, array_like=True):
    """What is kept of a shard's messages, but for their keys."""

    deleted: bytes = b""
    annotated: int = 0
    """How many messages have annotations."""
    expiring: dict[int, list[int]] = {}
    """By step of time: the chunks of messages that expire in it."""
    next_chunk: int = 0


_places_decoder = msgspec.msgpack.Decoder(list[Place])


class Messages:
    """The messages of one shard, during one batch."""

    def __init__(self, summary: Summary, chunks: Chunks, *, now_ms: int) -> None:
        self._deleted = Remembered(DELETED, summary.deleted)
        self._annotated = summary.annotated
        self._expiring = summary.expiring
        self._next_chunk = summary.next_chunk
        self._chunks = chunks
        self._now_ms = now_ms
        self._fresh: dict[int, list[Place]] = {}

    def take(self, event: Event) -> Iterable[Update]:
        """What follows from an event. The updates are made while they are taken: take all of them."""
        match event.op:
            case Op.ADD if event.expires_ms:
                return self._expect(event)
            case Op.ANNOTATE:
                return self._annotate(event)
            case Op.DELETE:
                return self._delete((event.key, EVERYWHERE))
            case _:
                return ()

    def expire(self) -> Iterator[Update]:
        """Delete what has expired."""
        for step in [step for step in self._expiring if _end_ms(step) <= self._now_ms]:
            for number in self._expiring.pop(step):
                piece = self._chunks.get(_EXPIRING, number)
                self._chunks.remove(_EXPIRING, number)
                for place in _places_decoder.decode(piece or _NOTHING):
                    yield from self._delete(place)

    def next_deadline_ms(self) -> int | None:
        """When `expire` is worth calling even if nothing happens until then."""
        return min(map(_end_ms, [*self._expiring, *self._fresh]), default=None)

    def save(self) -> Summary:
        """Keep what was learnt, and say the rest."""
        for step, places in self._fresh.items():
            self._chunks.put(_EXPIRING, self._next_chunk, pack(places))
            self._expiring.setdefault(step, []).append(self._next_chunk)
            self._next_chunk += 1
        self._fresh = {}
        return Summary(self._deleted.save(), self._annotated, self._expiring, self._next_chunk)

    def _expect(self, event: Event) -> Iterable[Update]:
        place = event.key, event.partition
        if event.expires_ms <= self._now_ms:
            return self._delete(place)
        self._fresh.setdefault(event.expires_ms // EXPIRY_STEP_MS, []).append(place)
        return ()

    def _annotate(self, event: Event) -> Iterable[Update]:
        if SEPARATOR not in event.key:
            return ()  # its key is the message's: what removes that one removes it too
        message = message_key(event.key)
        if message in self._deleted:
            return [Update(event.partition, event.key)]
        name = _name(message)
        known = self._chunks.get(name, 0)
        places = _places_decoder.decode(known) if known else []
        if (event.key, event.partition) not in places:
            self._chunks.put(name, 0, pack([*places, (event.key, event.partition)]))
            self._annotated += not places
        return ()

    def _delete(self, place: Place) -> Iterator[Update]:
        key, partition = place
        message = message_key(key)
        self._deleted.add(message)
        yield Update(partition, message)
        annotations = self._chunks.get(_name(message), 0) if self._annotated else None
        if annotations:
            self._annotated -= 1
            self._chunks.remove(_name(message), 0)
            for annotation, its_partition in _places_decoder.decode(annotations):
                yield Update(its_partition, annotation)


_NOTHING = pack([])


def _name(message: bytes) -> str:
    return _ANNOTATIONS + message.decode(errors="backslashreplace")


def _end_ms(step: int) -> int:
    return (step + 1) * EXPIRY_STEP_MS
