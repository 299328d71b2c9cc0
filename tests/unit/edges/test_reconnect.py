"""The one backoff of the edges: how long it waits, and what it says."""

from __future__ import annotations

import asyncio
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus.edges.reconnect import Backoff


@given(failures=st.integers(1, 100), longest=st.floats(0.1, 60))
def test_a_wait_is_at_least_half_of_the_doubled_one_and_never_above_the_limit(
    failures: int, longest: float
) -> None:
    backoff = Backoff("it", first_wait_s=0.1, longest_wait_s=longest)
    backoff.failures = failures
    doubled = min(longest, 0.1 * 2 ** min(failures - 1, 16))
    assert doubled / 2 <= backoff.next_wait_s() <= doubled


def test_waits_are_jittered() -> None:
    backoff = Backoff("it")
    backoff.failed("no answer")
    assert len({backoff.next_wait_s() for _ in range(20)}) > 1


def test_the_first_attempt_does_not_wait() -> None:
    backoff = Backoff("it", first_wait_s=3600, longest_wait_s=3600)
    assert backoff.next_wait_s() == 0
    asyncio.run(asyncio.wait_for(backoff.wait(), 60))


def test_a_success_begins_the_waits_anew() -> None:
    backoff = Backoff("it")
    for _ in range(10):
        backoff.failed("no answer")
    backoff.succeeded()
    assert backoff.failures == 0
    backoff.failed("no answer")
    assert backoff.failures == 1


def test_each_change_of_state_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "isthmus.edges")
    backoff = Backoff("the broker")
    backoff.succeeded()
    for why in ("refused", "refused", "no route"):
        backoff.failed(why)
        assert backoff.unavailable
    backoff.succeeded()
    backoff.succeeded()
    assert not backoff.unavailable
    backoff.failed("gone")
    assert [(each.levelname, each.message) for each in caplog.records] == [
        ("WARNING", "the broker is unavailable: refused"),
        ("INFO", "the broker is available again"),
        ("WARNING", "the broker is unavailable: gone"),
    ]


def test_what_takes_connections_and_drops_them_is_not_taken_for_steady() -> None:
    now = 0.0
    backoff = Backoff("it", steady_s=5, clock=lambda: now)
    backoff.failed("refused")
    for _ in range(3):
        backoff.succeeded()
        now += 1
        backoff.failed("dropped")
    assert backoff.failures == 4
    backoff.succeeded()
    now += 5
    backoff.failed("dropped")
    assert backoff.failures == 1
