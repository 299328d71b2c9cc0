"""How far a partition may be committed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as some

from isthmus.edges.amqp.server.receivers.prefix import ContiguousPrefix


def prefix(*offsets: int) -> ContiguousPrefix:
    made = ContiguousPrefix()
    for offset in offsets:
        made.take(offset)
    return made


def test_nothing_is_due_before_anything_is_settled() -> None:
    assert prefix(0, 1).due is None


def test_what_is_settled_behind_a_gap_waits_for_it() -> None:
    taken = prefix(0, 1, 2, 3)
    taken.settle(2)
    taken.settle(3)
    assert taken.due is None
    taken.settle(0)
    assert taken.due == 1
    taken.settle(1)
    assert taken.due == 4


def test_it_goes_on_after_everything_was_settled() -> None:
    taken = prefix(5)
    taken.settle(5)
    taken.committed(6)
    assert taken.due is None
    taken.take(6)
    taken.settle(6)
    assert taken.due == 7


def test_offsets_may_have_gaps() -> None:
    taken = prefix(3, 8)
    taken.settle(3)
    assert taken.due == 4
    taken.settle(8)
    assert taken.due == 9


def test_an_unknown_offset_changes_nothing() -> None:
    taken = prefix(3, 4)
    taken.settle(4)
    taken.settle(100)
    taken.settle(4)
    assert taken.due is None


@given(some.permutations(range(20)))
def test_it_is_always_the_first_that_is_not_settled(order: list[int]) -> None:
    taken = prefix(*range(20))
    settled = set()
    for offset in order:
        taken.settle(offset)
        settled.add(offset)
        first = next((each for each in range(20) if each not in settled), 20)
        assert taken.due == (first or None)
