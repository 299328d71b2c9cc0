"""The benchmark of queues: what it calls wrong, and that its small form runs."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from benches.jms import Event
from benches.queue.trace import inversions, judge


class Trace:
    """Events one after another."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def seen(self, *numbers: int, receiver: int = 0, redelivered: bool = False) -> Trace:
        for number in numbers:
            self._add("seen", receiver, number, 1 + redelivered, redelivered)
        return self

    def took(self, *numbers: int, receiver: int = 0, redelivered: bool = False) -> Trace:
        for number in numbers:
            self._add("took", receiver, number, 1 + redelivered, redelivered)
        return self

    def tries(self, receiver: int = 0) -> Trace:
        return self._add("tries", receiver)

    def acked(self, receiver: int = 0) -> Trace:
        return self._add("acked", receiver)

    def back(self, receiver: int = 0) -> Trace:
        return self._add("back", receiver)

    def died(self, receiver: int = 0) -> Trace:
        return self._add("died", receiver)

    def _add(self, what: str, *more: int) -> Trace:
        self.events.append(Event(len(self.events), what, *more))
        return self


def test_a_queue_that_is_read_once_in_order_has_no_faults():
    judgement = judge(3, Trace().seen(0, 1).acked().took(2).events, ordered=True)
    assert judgement.faults == ""
    assert judgement.marked_unread == []


def test_what_was_never_acknowledged_is_lost():
    assert judge(4, Trace().took(0).seen(1).acked().seen(2).back().events).lost == [2, 3]


def test_dead_letters_are_not_lost():
    assert judge(2, Trace().seen(0).back().took(1).events, dead={0}).lost == []


def test_a_dead_letter_of_what_was_acknowledged_is_a_duplicate():
    assert judge(1, Trace().took(0).events, dead={0}).duplicates == ["0 is acknowledged and dead"]


def test_a_copy_of_what_was_acknowledged_is_a_duplicate_even_when_it_is_marked():
    judgement = judge(1, Trace().took(0).took(0, receiver=1, redelivered=True).events)
    assert judgement.duplicates == ["0 is acknowledged"]
    assert judgement.unmarked == []


def test_a_copy_of_what_another_receiver_holds_is_a_duplicate():
    trace = Trace().seen(0).seen(0, receiver=1, redelivered=True).acked(1).acked(0)
    assert judge(1, trace.events).duplicates == ["0 is held"]


def test_a_redelivery_must_be_marked():
    assert judge(1, Trace().seen(0).back().seen(0).acked().events).unmarked == [0]
    assert judge(1, Trace().seen(0).back().seen(0, redelivered=True).acked().events).faults == ""


def test_a_first_delivery_that_is_marked_was_unread():
    assert judge(1, Trace().took(0, redelivered=True).events).marked_unread == [0]


def test_what_a_dead_receiver_held_must_come_again():
    trace = Trace().seen(0, 1, receiver=-1).died(-1).took(0, redelivered=True)
    assert judge(2, trace.events).faults == "1 lost (1)"


def test_what_a_receiver_was_committing_when_it_died_may_come_again_or_not():
    trace = Trace().seen(0, 1, receiver=-1).tries(-1).died(-1)
    assert judge(2, trace.events).faults == ""
    assert judge(2, trace.took(0, 1, redelivered=True).events).faults == ""


def test_what_was_committed_before_a_receiver_died_must_not_come_again():
    trace = Trace().seen(0, receiver=-1).tries(-1).acked(-1).died(-1).took(0, redelivered=True)
    assert judge(1, trace.events).duplicates == ["0 is acknowledged"]


def test_swapped_blocks_are_inversions():
    assert inversions(6, Trace().took(3, 4, 5, 0, 1, 2).events) == [3, 4, 5]


def test_a_gap_is_no_inversion_unless_what_is_missing_comes_later():
    assert inversions(3, Trace().took(0, 2).events) == []
    assert inversions(3, Trace().took(0, 2, 1).events) == [2]


def test_delivery_restarts_at_the_first_unacknowledged_message():
    again = Trace().seen(0, 1).acked().seen(2, 3).back().seen(2, 3, 4, redelivered=True).acked()
    assert inversions(5, again.events) == []
    behind = Trace().seen(0, 1).back().seen(2, 3).acked().seen(0, 1, redelivered=True).acked()
    assert inversions(4, behind.events) == [2, 3]


@pytest.mark.skipif(shutil.which("javac") is None, reason="there is no javac")
def test_the_small_form_runs_and_finds_nothing_wrong_with_artemis():
    run = subprocess.run(
        [sys.executable, "-m", "benches.queue", "--small"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    figures = json.loads(run.stdout.splitlines()[-1])
    assert [line for line in figures["broken"] if "artemis" in line and "not marked" not in line] == []
    assert figures["artemis_lost"] == figures["artemis_inversions"] == 0
    assert figures["artemis_duplicates"] == figures["artemis_unmarked"]
    assert figures.keys() >= {
        "lost",
        "duplicates",
        "inversions",
        "join_p50_ms",
        "browse_p50_ms",
        "threads_before",
        "threads_after",
        "memory_growth_percent",
        "exit_s",
        "receive_ratio",
    }
