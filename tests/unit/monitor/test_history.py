"""Rates of now, and the last hour."""

from __future__ import annotations

from typing import Any

from isthmus.monitor.history import BIN_S, HOUR, RATE_S, History
from isthmus.telemetry.events import Event


class Clock:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


def document(published: int, failed: int = 0, records: int = 0, taken: int = 0) -> dict[str, Any]:
    part = {"name": "in", "messages_in": taken, "messages_out": 0}
    return {
        "router": {
            "records": records,
            "outcomes": {"published": published} if published else {},
            "routes": [{"name": "eu", "published": published, "failed": failed}],
        },
        "connectors": [],
        "intakes": [part],
        "routes": [],
    }


def measured(latency_ms: int, route: str | None = "eu") -> Event:
    return Event(
        position="j:0:0",
        outcome="published",
        route=route,
        age_ms=1,
        taken_ms=1_000,
        published_ms=1_000 + latency_ms,
    )


def test_rates_are_over_the_last_seconds() -> None:
    clock = Clock()
    history = History(clock)
    history.add(document(0))
    for second in range(1, 21):
        clock.now += 1
        now = document(100 * second, records=200 * second, taken=10 * second)
        history.add(now)
    [route] = now["router"]["routes"]
    assert (route["per_s"], route["failed_per_s"], now["router"]["per_s"]) == (100, 0, 200)
    assert now["router"]["published_per_s"] == 100
    assert now["intakes"][0]["in_per_s"] == 10
    clock.now += RATE_S
    still = document(2_000, records=4_000, taken=200)
    history.add(still)
    assert still["router"]["routes"][0]["per_s"] == 0


def test_a_first_look_has_no_rates_and_a_route_that_is_new_has_none_either() -> None:
    clock = Clock()
    history = History(clock)
    first = document(7)
    history.add(first)
    assert "per_s" not in first["router"]["routes"][0]
    clock.now += 1
    second = document(9)
    second["router"]["routes"][0]["name"] = "new"
    history.add(second)
    assert second["router"]["routes"][0]["per_s"] == 0


def test_each_bin_has_what_was_done_and_how_long_it_took() -> None:
    clock = Clock()
    history = History(clock)
    history.add(document(1_000))
    for latency_ms in range(1, 101):
        history.told(measured(latency_ms))
    history.told(measured(9_999, "another"))
    history.told(Event(position="j:0:0", outcome="skipped", route="eu", code="key", reason="no"))
    clock.now += BIN_S
    history.add(document(1_500, failed=20))
    clock.now += BIN_S
    last = document(1_500, failed=20)
    history.add(last)
    assert (last["router"]["routes"][0]["p50_ms"], last["router"]["routes"][0]["p99_ms"]) == (50, 99)
    first, second = history.points("eu")
    assert first == (1_010.0, 50.0, 2.0, 50, 99)
    assert second == (1_020.0, 0.0, 0.0, None, None)
    assert history.points("another") == []


def test_it_keeps_an_hour() -> None:
    clock = Clock()
    history = History(clock)
    for number in range(HOUR + 50):
        history.add(document(number))
        clock.now += BIN_S
    points = history.points("eu")
    assert len(points) == HOUR
    assert points[-1].time_s - points[0].time_s == (HOUR - 1) * BIN_S


def test_what_is_told_without_end_is_bounded() -> None:
    history = History(Clock())
    for _ in range(10_000):
        history.told(measured(1))
    assert len(history._measured["eu"]) < 10_000
