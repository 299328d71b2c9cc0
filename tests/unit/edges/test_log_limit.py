from __future__ import annotations

import logging

import pytest

from isthmus.edges.log_limit import LogLimit


def test_a_line_is_logged_a_few_times_in_a_period_and_then_says_what_was_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = [0.0]
    log = logging.getLogger("a noisy part")
    limit = LogLimit(lines=2, period_s=10, clock=lambda: now[0])
    log.addFilter(limit)
    try:
        for number in range(5):
            log.warning("rubbish from %d", number)
        log.warning("something else")
        now[0] = 10
        log.warning("rubbish from %d", 5)
        log.warning("rubbish from %d", 6)
    finally:
        log.removeFilter(limit)
    assert caplog.messages == [
        "rubbish from 0",
        "rubbish from 1",
        "something else",
        "rubbish from 5 (and 3 more like it, which were left out)",
        "rubbish from 6",
    ]
