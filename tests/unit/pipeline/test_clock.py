"""How often the ledger's clock ticks, and that it goes on with another client when its own is useless."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError

from isthmus.kafka.options import Kafka
from isthmus.pipeline import clock
from isthmus.pipeline.clock import Clock


class Producers:
    """Stands for Kafka's producers: counts them, and what they were given."""

    def __init__(self) -> None:
        self.made = self.ticks = 0
        self.error: KafkaError | None = None
        self._told: list[Callable[[KafkaError | None, object], None]] = []

    def __call__(self, *_: object) -> Producers:
        self.made += 1
        return self

    def produce(
        self, _: str, *, on_delivery: Callable[[KafkaError | None, object], None], **__: object
    ) -> None:
        self.ticks += 1
        self._told.append(on_delivery)

    def poll(self, _: float) -> None:
        for told in self._told:
            told(self.error, None)
        self._told.clear()


@pytest.fixture
def producers(monkeypatch: pytest.MonkeyPatch) -> Producers:
    made = Producers()
    monkeypatch.setattr(clock, "producer", made)
    return made


@pytest.mark.parametrize(("timeout_s", "ticks_a_minute"), [(300, 4), (86_400, 4), (60, 20), (2, 120)])
def test_ticks_come_as_often_as_the_time_out_needs_them(
    producers: Producers, timeout_s: int, ticks_a_minute: int
) -> None:
    seconds = 0.0
    ticking = Clock(Kafka("h:1"), "clock", timeout_s * 1000, now=lambda: seconds)
    while seconds < 60:
        ticking.poll()
        seconds += 0.25
    assert producers.ticks == ticks_a_minute


def test_a_client_whose_tick_kafka_did_not_get_is_replaced(producers: Producers) -> None:
    seconds = 0.0
    ticking = Clock(Kafka("h:1"), "clock", 1000, now=lambda: seconds)
    ticking.poll()
    seconds = 1.0
    ticking.poll()
    assert (producers.made, producers.ticks) == (1, 2)
    producers.error = KafkaError(KafkaError._MSG_TIMED_OUT)
    ticking.poll()
    seconds = 2.0
    ticking.poll()
    assert (producers.made, producers.ticks) == (2, 3)
