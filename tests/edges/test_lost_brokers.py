"""A client of Kafka that has lost its brokers for ever is replaced, and nothing is lost with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError
from tests.edges.test_outbox import Fixture, numbers
from tests.support.asynchronous import eventually, running

from isthmus.edges import outbox
from isthmus.kafka.blocking import BrokersLost

LOST = 3
"""How many clients are lost, one after the other."""


class Losses:
    """Clients that lose their brokers soon after they were made."""

    def __init__(self) -> None:
        self.clients = 0

    def options(self) -> dict[str, Any]:
        self.clients += 1

        def look(_: str) -> None:
            raise BrokersLost(KafkaError(KafkaError._ALL_BROKERS_DOWN))

        return {"statistics.interval.ms": 200, "stats_cb": look} if self.clients <= LOST else {}


@pytest.fixture
def lose(monkeypatch: pytest.MonkeyPatch) -> Callable[[ModuleType], Losses]:
    def lose(owner: ModuleType) -> Losses:
        losses = Losses()
        monkeypatch.setattr(owner, "watching_brokers", losses.options)
        return losses

    return lose


def test_an_outbox_goes_on_with_another_client(
    kafka_servers: str, lose: Callable[[ModuleType], Losses], monkeypatch: pytest.MonkeyPatch
) -> None:
    losses = lose(outbox)
    # These have brokers: left alone they would stay in the group.
    monkeypatch.setattr(outbox, "abandon", Consumer.close)
    letters = Fixture(kafka_servers)

    async def scenario() -> None:
        letters.post(*numbers(0, 5))
        async with running(letters.outbox()):
            await eventually(lambda: losses.clients > LOST, timeout_s=60)
            await asyncio.to_thread(letters.post, *numbers(5, 10))
            await eventually(lambda: set(letters.doormat.bodies) >= set(numbers(0, 10)), timeout_s=60)

    asyncio.run(scenario())
    assert letters.committed() == 10
