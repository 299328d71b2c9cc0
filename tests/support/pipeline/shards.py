"""A shard of the ledger in memory, batch after batch, as Spark would run it."""

from __future__ import annotations

import copy
from collections.abc import Iterable

from isthmus.journal.layout import Op
from isthmus.journal.partitions import JournalPartitions
from isthmus.ledger.events import Event, Update, unpack_updates
from isthmus.ledger.events import in_chunks as packed_updates
from isthmus.ledger.machine import Shard
from isthmus.ledger.state import MemoryChunks

TIMEOUT_MS = 300_000
PLACES = JournalPartitions(partitions=3, ledger_partitions=1)
COMMITTED = 2
"""The partition that only the ledger writes."""


class MemoryShard:
    """Shard 0, with its state."""

    def __init__(self) -> None:
        self.saved: bytes | None = None
        self.chunks = MemoryChunks()
        self.wake_ms: int | None = None
        self.due_ms: int | None = None
        self.offset = 0

    def run(self, *events: Event, now_ms: int = 0) -> list[Update]:
        for event in events:
            event.offset = self.offset
            self.offset += 1
        shard = Shard(0, self.saved, self.chunks, PLACES, now_ms=now_ms, timeout_ms=TIMEOUT_MS)
        updates = list(shard.run(events))
        self.saved, wake_ms = shard.save()
        self.wake_ms = wake_ms if wake_ms is not None else self.wake_ms
        self.due_ms = shard.next_due_ms
        return [update for chunk in packed_updates(updates) for update in unpack_updates(chunk)]

    def copy(self) -> MemoryShard:
        return copy.deepcopy(self)


def add(place: int, transaction: str = "t", session: str = "s", time_ms: int = 0) -> Event:
    name = f"{session}-{transaction}-{place}".encode()
    return Event(Op.ADD_TX, 0, 0, time_ms, name, session, transaction, place, b"plain " + name)


def outcome(op: Op, count: int, transaction: str = "t", session: str = "s", time_ms: int = 0) -> Event:
    return Event(op, 0, 0, time_ms, transaction.encode(), session, transaction, count)


def written(updates: Iterable[Update]) -> list[str]:
    """The plain records among the updates, in short."""
    return [update.record.decode().removeprefix("plain ") for update in updates if update.record is not None]


def removed(updates: Iterable[Update]) -> list[str]:
    return [update.key.decode() for update in updates if update.record is None]
