"""One line for each failure, and no more than anybody can read."""

from __future__ import annotations

import pytest

from isthmus.telemetry.events import Event, read_event
from isthmus.telemetry.live import LINES_AT_ONCE, FailureLog

FAILURE = Event(
    position="isthmus.b.journal:0:17", outcome="skipped", route="orders", code="key", reason="no header k"
)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_line_has_position_route_reason_and_code(caplog: pytest.LogCaptureFixture) -> None:
    FailureLog(clock=Clock()).tell(FAILURE)
    assert caplog.messages == [
        "skipped: the message at isthmus.b.journal:0:17 by route orders: no header k (key)"
    ]


def test_a_flood_becomes_a_few_lines_and_a_number(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    log = FailureLog(clock)
    for _ in range(1_000):
        log.tell(FAILURE)
    assert len(caplog.messages) == LINES_AT_ONCE
    clock.now = 1.0
    log.tell_rest()
    assert (
        caplog.messages[-1]
        == f"{1_000 - LINES_AT_ONCE:.0f} more messages failed; the topic of events has each"
    )
    log.tell_rest()
    assert len(caplog.messages) == LINES_AT_ONCE + 1


@pytest.mark.parametrize("value", [None, b"", b"{}", b"[]", b"\xff", b'{"position": 1, "outcome": "x"}'])
def test_what_is_no_event_is_none(value: bytes | None) -> None:
    assert read_event(value) is None


def test_an_event_says_where_it_was_read() -> None:
    event = read_event(b'{"position": "a:b:3:14", "outcome": "published", "age_ms": 1, "later": true}')
    assert event is not None
    assert event.place == ("a:b", 3, 14)
    assert Event(position="elsewhere", outcome="x").place is None
