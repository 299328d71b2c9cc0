from __future__ import annotations

import pytest
from tests.support.pipeline.shards import COMMITTED, TIMEOUT_MS, MemoryShard, add, outcome, removed, written

from isthmus.errors import HardFailure
from isthmus.journal.layout import Op
from isthmus.ledger.events import CHUNK_BYTES, CLOCK, Event
from isthmus.ledger.machine import ENDS_A_TIMEOUT
from isthmus.ledger.pages import READ_PAGES

IDS = ["s-t-0", "s-t-1", "s-t-2"]


def test_a_commit_writes_what_was_held_in_order_to_the_ledgers_partition() -> None:
    updates = MemoryShard().run(add(0), add(1), add(2), outcome(Op.COMMIT, 3))
    assert written(updates) == IDS
    assert {update.partition for update in updates if update.record} == {COMMITTED}


def test_a_decided_transaction_leaves_a_tombstone_for_each_of_its_records() -> None:
    for op in (Op.COMMIT, Op.ROLLBACK):
        updates = MemoryShard().run(add(0), add(1), outcome(op, 2))
        assert removed(updates) == ["s-t-0", "s-t-1", "t"]
        assert {update.partition for update in updates if update.record is None} == {0}


def test_a_rollback_writes_nothing() -> None:
    assert written(MemoryShard().run(add(0), add(1), outcome(Op.ROLLBACK, 2))) == []


def test_nothing_is_written_before_the_commit() -> None:
    shard = MemoryShard()
    assert shard.run(add(0), add(1)) == []
    assert shard.run(add(2)) == []
    assert written(shard.run(outcome(Op.COMMIT, 3))) == IDS
    assert shard.chunks.pieces == {}


def test_a_commit_that_comes_twice_takes_effect_once() -> None:
    shard = MemoryShard()
    assert written(shard.run(add(0), outcome(Op.COMMIT, 1), outcome(Op.COMMIT, 1))) == ["s-t-0"]
    assert written(shard.run(outcome(Op.COMMIT, 1))) == []


def test_a_transaction_that_comes_twice_takes_effect_once() -> None:
    shard = MemoryShard()
    shard.run(add(0), outcome(Op.COMMIT, 1))
    assert written(shard.run(add(0), outcome(Op.COMMIT, 1))) == []


def test_a_record_that_comes_twice_is_written_once() -> None:
    assert written(MemoryShard().run(add(0), add(0), add(1), add(0), outcome(Op.COMMIT, 2))) == IDS[:2]


def test_a_commit_before_its_records_waits_for_all_of_them() -> None:
    shard = MemoryShard()
    assert shard.run(outcome(Op.COMMIT, 3), add(0)) == []
    assert written(shard.run(add(2), add(1))) == IDS


def test_an_outcome_of_an_unknown_transaction_does_nothing() -> None:
    for op in (Op.COMMIT, Op.ROLLBACK, Op.PREPARE):
        assert written(MemoryShard().run(outcome(op, 0))) == []


def test_records_after_a_rollback_are_dropped() -> None:
    shard = MemoryShard()
    updates = shard.run(outcome(Op.ROLLBACK, 1), add(0), outcome(Op.COMMIT, 1))
    assert written(updates) == []
    assert removed(updates) == ["t", "s-t-0", "t"]


def test_a_transaction_with_a_gap_never_takes_effect_in_part() -> None:
    shard = MemoryShard()
    assert written(shard.run(add(0), add(2), outcome(Op.COMMIT, 3))) == []
    assert written(shard.run(now_ms=TIMEOUT_MS + 1)) == []
    assert shard.chunks.pieces == {}


def test_a_transaction_of_another_session_with_the_same_id_is_another_one() -> None:
    shard = MemoryShard()
    updates = shard.run(add(0), add(0, session="other"), outcome(Op.COMMIT, 1, session="other"))
    assert written(updates) == ["other-t-0"]


def test_a_transaction_without_outcome_is_rolled_back_when_the_journal_is_past_its_time() -> None:
    shard = MemoryShard()
    shard.run(add(0, time_ms=1_000), now_ms=1_000)
    late_ms = 1_001 + TIMEOUT_MS
    updates = shard.run(Event(CLOCK, 0, 0, late_ms), now_ms=late_ms)
    assert removed(updates) == ["s-t-0", "t"]
    assert written(shard.run(outcome(Op.COMMIT, 1, time_ms=late_ms), now_ms=late_ms)) == []


def test_a_transaction_without_outcome_is_rolled_back_by_a_timer_when_nothing_happens() -> None:
    shard = MemoryShard()
    shard.run(add(0, time_ms=1_000), now_ms=1_500)
    assert shard.due_ms is not None
    assert 1_501 + TIMEOUT_MS <= shard.due_ms < 1_501 + TIMEOUT_MS + TIMEOUT_MS // ENDS_A_TIMEOUT
    assert shard.run(now_ms=shard.due_ms - TIMEOUT_MS // ENDS_A_TIMEOUT) == []
    assert shard.due_ms is not None
    assert removed(shard.run(now_ms=shard.due_ms)) == ["s-t-0", "t"]
    assert shard.due_ms is None


def test_a_shard_that_waits_for_something_takes_part_in_every_batch() -> None:
    shard = MemoryShard()
    shard.run(add(0, time_ms=1_000), now_ms=1_500)
    assert shard.wake_ms == 1_501
    shard.run(now_ms=9_000)
    assert shard.wake_ms == 9_001
    shard.run(outcome(Op.ROLLBACK, 1, time_ms=9_500), now_ms=9_500)
    assert shard.wake_ms == 9_001


def test_a_prepared_transaction_is_told_of_and_not_waited_for() -> None:
    shard = MemoryShard()
    shard.run(add(0), outcome(Op.PREPARE, 1), now_ms=100)
    assert (shard.wake_ms, shard.due_ms) == (101, None)


def test_a_backlog_that_is_worked_off_late_is_judged_by_the_journals_time() -> None:
    shard = MemoryShard()
    day_ms = 86_400_000
    shard.run(add(0, time_ms=1_000), now_ms=day_ms)
    assert written(shard.run(outcome(Op.COMMIT, 1, time_ms=2_000), now_ms=day_ms + TIMEOUT_MS)) == ["s-t-0"]


def test_a_sender_whose_clock_is_ahead_does_not_end_the_transactions_of_others() -> None:
    shard = MemoryShard()
    shard.run(add(0), add(0, session="ahead", time_ms=10 * TIMEOUT_MS), now_ms=1_000)
    assert written(shard.run(outcome(Op.COMMIT, 1, time_ms=2_000), now_ms=2_000)) == ["s-t-0"]


def test_a_commit_after_the_time_out_comes_too_late() -> None:
    updates = MemoryShard().run(add(0), outcome(Op.COMMIT, 1, time_ms=TIMEOUT_MS + 1))
    assert written(updates) == []
    assert removed(updates) == ["s-t-0", "t"]


def test_a_prepared_transaction_is_held_for_ever() -> None:
    shard = MemoryShard()
    shard.run(add(0), outcome(Op.PREPARE, 1))
    year_ms = 365 * 86_400_000
    assert shard.run(now_ms=year_ms) == []
    assert written(shard.run(outcome(Op.COMMIT, 1, time_ms=year_ms), now_ms=year_ms)) == ["s-t-0"]


def test_a_prepared_transaction_can_be_rolled_back() -> None:
    shard = MemoryShard()
    shard.run(add(0), outcome(Op.PREPARE, 1))
    assert removed(shard.run(outcome(Op.ROLLBACK, 1))) == ["s-t-0", "t"]


def test_a_large_transaction_streams_from_state() -> None:
    shard = MemoryShard()
    size, count = 1024, 2_000

    def large(place: int) -> Event:
        event = add(place)
        event.record = f"plain {place}".encode().ljust(size)
        return event

    shard.run(*map(large, range(count)))
    assert len(shard.saved or b"") < 10_000
    assert len(shard.chunks.pieces) > count * size // CHUNK_BYTES - 1
    assert max(map(len, shard.chunks.pieces.values())) < CHUNK_BYTES * 1.1
    updates = shard.run(outcome(Op.COMMIT, count))
    assert [int(text) for text in written(updates)] == list(range(count))
    assert shard.chunks.pieces == {}


def test_open_transactions_share_pages_until_the_last_is_decided() -> None:
    shard = MemoryShard()
    names = [f"t{number:03d}" for number in range(500)]
    shard.run(*(add(0, name) for name in names))
    shard.run(*(add(1, name) for name in names))
    assert len(shard.chunks.pieces) < 10
    for name in reversed(names):
        assert shard.chunks.pieces
        updates = shard.run(outcome(Op.COMMIT, 2, name))
        assert written(updates) == [f"s-{name}-0", f"s-{name}-1"]
    assert shard.chunks.pieces == {}


def test_pages_that_are_asked_for_in_turn_are_read_again() -> None:
    shard = MemoryShard()
    names = [f"t{number}" for number in range(2 * READ_PAGES)]
    for name in names:
        shard.run(add(0, name), add(0, name + "'"))  # a batch has its own page
    decided = [outcome(Op.COMMIT, 1, name) for name in names]
    decided += [outcome(Op.ROLLBACK, 1, name + "'") for name in names]
    assert written(shard.run(*decided)) == [f"s-{name}-0" for name in names]
    assert shard.chunks.pieces == {}


def test_the_tombstone_of_a_rolled_back_delete_does_not_remove_the_message() -> None:
    bare = Event(Op.DELETE_TX, 0, 0, 0, b"ID:1", "s", "t", 0, b"plain")
    told_apart = Event(Op.DELETE_TX, 0, 0, 0, b"ID:2\0t/1", "s", "t", 1, b"plain")
    assert removed(MemoryShard().run(bare, told_apart, outcome(Op.ROLLBACK, 2))) == ["ID:2\0t/1", "t"]


def test_a_batch_that_lost_its_order_is_refused() -> None:
    shard = MemoryShard()
    first, second = add(0), add(1)
    shard.run(first, second)
    with pytest.raises(HardFailure, match="lost its order"):
        _run_as_they_are(shard, second, first)


def test_state_that_lost_a_chunk_is_refused() -> None:
    shard = MemoryShard()
    shard.run(add(0))
    shard.chunks.pieces.clear()
    with pytest.raises(HardFailure, match="lost records of transaction t"):
        shard.run(outcome(Op.COMMIT, 1))


def _run_as_they_are(shard: MemoryShard, *events: Event) -> None:
    from tests.support.pipeline.shards import PLACES

    from isthmus.ledger.machine import Shard

    list(Shard(0, shard.saved, shard.chunks, PLACES, now_ms=0, timeout_ms=TIMEOUT_MS).run(events))
