from __future__ import annotations

import pytest

from isthmus import events
from isthmus.events import LineLimit
from isthmus.events.amqp import LoginRefused
from isthmus.events.edges import MessageSkipped


def test_an_event_is_logged_a_few_times_in_a_period_and_then_says_what_was_left_out(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(events, "_limit", LineLimit(lines=2, period_s=10, clock=lambda: now[0]))
    for number in range(5):
        MessageSkipped(f"q{number}", "key", "no key").emit()
    LoginRefused("10.0.0.1").emit()
    now[0] = 10
    MessageSkipped("q5", "key", "no key").emit()
    MessageSkipped("q6", "key", "no key").emit()
    assert caplog.messages == [
        "q0: a message was skipped: no key",
        "q1: a message was skipped: no key",
        "a login from 10.0.0.1 was refused",
        "q5: a message was skipped: no key (and 3 more like it, which were left out)",
        "q6: a message was skipped: no key",
    ]


def test_what_is_not_logged_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "_limit", LineLimit(lines=0))
    events.take_counts()
    MessageSkipped("q", "key", "no key").emit()
    MessageSkipped("q", "key", "no key").emit(quietly=True)
    assert events.counts() == {"edges.message_skipped": 2}


def test_what_another_process_counted_is_added_once() -> None:
    events.take_counts()
    LoginRefused("10.0.0.1").emit(quietly=True)
    told = events.take_counts()
    assert events.counts() == {}
    events.add_counts(told)
    LoginRefused("10.0.0.1").emit(quietly=True)
    assert events.counts() == {"amqp.login_refused": 2}
