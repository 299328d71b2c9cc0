"""The ledger against a description of it in a few lines, over random journals, batches and repetitions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.support.pipeline.shards import TIMEOUT_MS, MemoryShard, add, outcome, removed, written

from isthmus.journal.layout import Op
from isthmus.ledger.events import Event

SESSIONS, TRANSACTIONS, RECORDS = "ab", "12", 4


@st.composite
def events(draw: st.DrawFn) -> list[Event]:
    """A partition of the journal: what a good edge writes, shuffled, doubled and delayed."""
    taken = []
    for session in SESSIONS:
        for transaction in TRANSACTIONS:
            count = draw(st.integers(0, RECORDS))
            records = [add(place, transaction, session) for place in range(count)]
            ends = [
                outcome(op, count, transaction, session)
                for op in draw(st.lists(st.sampled_from([Op.COMMIT, Op.ROLLBACK, Op.PREPARE]), max_size=2))
            ]
            taken += (
                records + ends + draw(st.lists(st.sampled_from(records + ends), max_size=2))
                if count
                else ends
            )
    mixed = draw(st.permutations(taken)) if draw(st.booleans()) else _interleaved(draw, taken)
    time_ms = 0
    journal = []
    for each in mixed:
        time_ms += draw(st.sampled_from([0, 1, 1, 1, TIMEOUT_MS // 2]))
        journal.append(
            Event(each.op, 0, 0, time_ms, each.key, each.session, each.transaction, each.place, each.record)
        )
    return journal


def _interleaved(draw: st.DrawFn, taken: list[Event]) -> list[Event]:
    """Sessions at random, each in its own order."""
    queues = [[each for each in taken if each.session == session] for session in SESSIONS]
    mixed = []
    while any(queues):
        queue = draw(st.sampled_from([queue for queue in queues if queue]))
        mixed.append(queue.pop(0))
    return mixed


batches = st.lists(st.integers(1, 6), min_size=1, max_size=20)


def _split(journal: list[Event], sizes: list[int]) -> list[list[Event]]:
    split, rest = [], list(journal)
    for size in sizes:
        split.append(rest[:size])
        rest = rest[size:]
    return [*split, rest]


def expected(journal: list[Event]) -> list[str]:
    """What a journal comes to, by the rules, one transaction at a time."""
    committed: list[tuple[int, int, str]] = []
    for name in {(event.session, event.transaction) for event in journal}:
        own = [(at, event) for at, event in enumerate(journal) if (event.session, event.transaction) == name]
        since_ms, records, count, ends = own[0][1].time_ms, {}, 0, set()
        for at, event in own:
            late = event.time_ms - since_ms > TIMEOUT_MS
            if event.op == Op.ROLLBACK or (late and Op.PREPARE not in ends):
                break
            if event.op == Op.ADD_TX:
                records[event.place] = event
            else:
                ends.add(event.op)
                count = max(count, event.place)
            if Op.COMMIT in ends and len(records) >= count and set(records) == set(range(len(records))):
                committed += [(at, place, f"{name[0]}-{name[1]}-{place}") for place in sorted(records)]
                break
    return [text for _, _, text in sorted(committed)]


@given(events(), batches)
def test_what_is_written_follows_from_the_journal_alone(journal: list[Event], sizes: list[int]) -> None:
    shard = MemoryShard()
    updates = []
    for batch in _split(journal, sizes):
        updates += shard.run(*batch, now_ms=batch[-1].time_ms if batch else 0)
    assert written(updates) == expected(journal)


@given(events(), batches, st.data())
def test_a_batch_that_is_repeated_says_the_same(
    journal: list[Event], sizes: list[int], data: st.DataObject
) -> None:
    shard = MemoryShard()
    for batch in _split(journal, sizes):
        now_ms = batch[-1].time_ms if batch else 0
        if data.draw(st.booleans()):
            crashed = shard.copy()
            assert crashed.run(*batch, now_ms=now_ms) == shard.copy().run(*batch, now_ms=now_ms)
        shard.run(*batch, now_ms=now_ms)


@given(events(), batches)
def test_time_ends_all_that_is_not_prepared(journal: list[Event], sizes: list[int]) -> None:
    shard = MemoryShard()
    updates = []
    for batch in _split(journal, sizes):
        updates += shard.run(*batch, now_ms=batch[-1].time_ms if batch else 0)
    updates += shard.run(now_ms=10**12)
    prepared = {(event.session, event.transaction) for event in journal if event.op == Op.PREPARE}
    assert prepared or not shard.chunks.pieces
    gone = set(removed(updates))
    for event in journal:
        if (event.session, event.transaction) not in prepared:
            assert event.key.decode() in gone, "a record of a decided transaction stays in the journal"
