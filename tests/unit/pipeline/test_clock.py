"""When the ledger's clock ticks, and that it goes on with another client when its own is useless."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError

from isthmus.journal.wake_ledger import LOOK_RECORDS
from isthmus.kafka.options import Kafka
from isthmus.pipeline import clock
from isthmus.pipeline.clock import Clock


class Producers:
    """Stands for Kafka's producers: counts them, and what they were given."""

    def __init__(self) -> None:
        self.made = self.records = 0
        self.error: KafkaError | None = None
        self._told: list[Callable[[KafkaError | None, object], None]] = []

    def __call__(self, *_: object) -> Producers:
        self.made += 1
        return self

    def produce(
        self, _: str, *, on_delivery: Callable[[KafkaError | None, object], None] | None = None
    ) -> None:
        self.records += 1
        if on_delivery is not None:
            self._told.append(on_delivery)

    @property
    def ticks(self) -> float:
        return self.records / LOOK_RECORDS

    def __len__(self) -> int:
        return len(self._told)

    def poll(self, _: float) -> None:
        for told in self._told:
            told(self.error, None)
        self._told.clear()


@pytest.fixture
def producers(monkeypatch: pytest.MonkeyPatch) -> Producers:
    made = Producers()
    monkeypatch.setattr(clock, "producer", made)
    return made


class Ticking:
    """A clock, and the time."""

    def __init__(self) -> None:
        self.seconds = 1_000.0
        self.clock = Clock(Kafka("h:1"), "clock", now=lambda: self.seconds)

    def go_on(self, seconds: float) -> None:
        for _ in range(int(seconds * 4)):
            self.clock.poll()
            self.seconds += 0.25


def test_a_clock_that_nobody_waits_for_ticks_at_the_start_alone(producers: Producers) -> None:
    ticking = Ticking()
    ticking.go_on(600)
    assert producers.ticks == 1


def test_it_ticks_when_the_ledger_has_something_to_do(producers: Producers) -> None:
    ticking = Ticking()
    ticking.go_on(1)
    ticking.clock.wake_at(1_100_000)
    ticking.clock.wake_at(1_050_000)
    ticking.go_on(48.75)
    assert producers.ticks == 1
    ticking.go_on(1)
    assert producers.ticks == 2
    ticking.go_on(100)  # whoever waits for more says so again
    assert producers.ticks == 2


def test_it_tells_how_long_there_is_nothing_to_do(producers: Producers) -> None:
    ticking = Ticking()
    assert ticking.clock.due_in_s == 0
    ticking.go_on(1)
    assert ticking.clock.due_in_s > 3_000
    ticking.clock.wake_at(1_004_000)
    assert ticking.clock.due_in_s == 3
    ticking.go_on(2)
    assert ticking.clock.due_in_s == 1


def test_what_a_ledger_did_not_tell_is_found_out_in_the_end(producers: Producers) -> None:
    ticking = Ticking()
    ticking.go_on(clock.LONGEST_SLEEP_S + 1)
    assert producers.ticks == 2


def test_a_tick_that_kafka_did_not_get_is_made_up_for_with_another_client(producers: Producers) -> None:
    ticking = Ticking()
    producers.error = KafkaError(KafkaError._MSG_TIMED_OUT)
    ticking.go_on(0.5)
    producers.error = None
    ticking.go_on(10)
    assert (producers.made, producers.ticks) == (2, 2)
