"""What the ledger holds until its time."""

from __future__ import annotations

from isthmus.journal.layout import Op
from isthmus.journal.partitions import JournalPartitions
from isthmus.ledger.delays import AHEAD_MS
from isthmus.ledger.events import Event, Update
from isthmus.ledger.machine import Shard
from isthmus.ledger.state import MemoryChunks

PLACES = JournalPartitions(6, 2)


class Ledger:
    """One shard, batch after batch."""

    def __init__(self) -> None:
        self.chunks = MemoryChunks()
        self.saved: bytes | None = None
        self.wake_ms: int | None = None
        self.due_ms: int | None = None

    def run(self, now_ms: int, *events: Event) -> list[Update]:
        shard = Shard(0, self.saved, self.chunks, PLACES, now_ms=now_ms, timeout_ms=1000)
        updates = list(shard.run(events))
        self.saved, self.wake_ms = shard.save()
        self.due_ms = shard.next_due_ms
        return updates


def delay(name: str, due_ms: int, session: str = "s") -> Event:
    return Event(Op.DELAY, 1, 7, 0, f"{name}\0delay".encode(), session, record=name.encode(), due_ms=due_ms)


def released(updates: list[Update]) -> list[bytes | None]:
    return [each.record for each in updates if each.record is not None]


def test_a_message_is_given_out_a_batch_before_its_time_to_be_written_then() -> None:
    ledger = Ledger()
    begin_ms = 12_345 - AHEAD_MS
    assert ledger.run(10_000, delay("a", 12_345)) == []
    assert (ledger.due_ms, ledger.wake_ms) == (begin_ms, 10_001)
    assert ledger.run(begin_ms - 1) == []
    assert ledger.due_ms == begin_ms
    assert ledger.run(begin_ms) == [
        Update(PLACES.of_committed("s"), record=b"a", due_ms=12_345),
        Update(1, b"a\0delay"),
    ]
    assert ledger.due_ms is None
    assert not ledger.chunks.pieces
    assert ledger.run(20_000) == []


def test_messages_are_released_by_their_times_and_then_as_they_came() -> None:
    ledger = Ledger()
    ledger.run(0, delay("c", 5_100), delay("a", 5_000), delay("d", 5_100))
    ledger.run(100, delay("b", 5_000), delay("e", 5_100), delay("f", 99_000))
    assert ledger.due_ms == 5_000 - AHEAD_MS
    assert released(ledger.run(5_099 - AHEAD_MS)) == [b"a", b"b"]
    assert ledger.due_ms == 5_100 - AHEAD_MS
    assert released(ledger.run(6_000, delay("late", 10))) == [b"late", b"c", b"d", b"e"]
    assert ledger.due_ms == 99_000 - AHEAD_MS


def test_one_that_is_due_before_those_that_wait_is_known_to_be() -> None:
    ledger = Ledger()
    ledger.run(0, delay("a", 5_900))
    ledger.run(10, delay("b", 5_800))
    assert ledger.due_ms == 5_800 - AHEAD_MS
    assert released(ledger.run(5_850 - AHEAD_MS)) == [b"b"]
    assert released(ledger.run(5_900 - AHEAD_MS)) == [b"a"]
