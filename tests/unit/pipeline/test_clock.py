"""How often the ledger's clock ticks, and that it goes on with another client when its own is useless."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError

from isthmus.kafka.blocking import BrokersLost
from isthmus.kafka.options import Kafka
from isthmus.pipeline import clock
from isthmus.pipeline.clock import Clock


class Producers:
    """Stands for Kafka's producers: counts them, and what they were given."""

    def __init__(self) -> None:
        self.made = self.ticks = 0
        self.lost = False

    def __call__(self, _: dict[str, Any], **__: object) -> Producers:
        self.made += 1
        return self

    def produce(self, _: str, **__: object) -> None:
        self.ticks += 1

    def poll(self, _: float) -> None:
        if self.lost:
            self.lost = False
            raise BrokersLost(KafkaError(KafkaError._ALL_BROKERS_DOWN))


@pytest.fixture
def producers(monkeypatch: pytest.MonkeyPatch) -> Producers:
    made = Producers()
    monkeypatch.setattr(clock, "Producer", made)
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


def test_a_client_that_is_lost_is_replaced(producers: Producers) -> None:
    ticking = Clock(Kafka("h:1"), "clock", 1000, now=lambda: 0.0)
    producers.lost = True
    ticking.poll()
    assert (producers.made, producers.ticks) == (2, 1)
