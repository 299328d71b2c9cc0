"""A client of Kafka that has lost its brokers for ever is replaced, and nothing is lost with it."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError
from tests.edges.asynchronous import eventually, running
from tests.edges.test_outbox import Fixture, numbers

from isthmus.config.settings import JournalSettings
from isthmus.edges import outbox
from isthmus.journal import writer
from isthmus.journal.layout import Entry, Op
from isthmus.journal.writer import JournalWriter
from isthmus.kafka import BrokersLost, Kafka, create_topics, read_topic
from isthmus.message import Body, BodyKind, Header, Message

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


def test_what_a_lost_client_holds_is_written_by_the_next_in_order(
    kafka_servers: str, lose: Callable[[ModuleType], Losses]
) -> None:
    losses = lose(writer)
    kafka, topic = Kafka(kafka_servers), f"journal-{uuid.uuid4().hex[:8]}"
    create_topics(kafka, [topic], 2)
    written = []
    with JournalWriter(kafka, JournalSettings(topic=topic)) as journal:
        while losses.clients <= LOST or len(written) < 1_000:
            written.append(journal.write(_entry(len(written))))
            time.sleep(0.0005)
        journal.flush()
        assert all(future.result(10).topic == topic for future in written)
    arrived = [(record.value(), record.headers()) for record in read_topic(kafka, topic)]
    first_times = list(dict.fromkeys(int(value or b"") for value, _ in arrived))
    assert first_times == list(range(len(written)))
    assert all(("jms.h", b"v") in (headers or []) for _, headers in arrived)


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


def _entry(number: int) -> Entry:
    body = str(number).encode()
    return Entry(
        Op.ADD,
        Message(
            id=f"{number}",
            address="a",
            protocol="amqp",
            value=body,
            body=Body(BodyKind.TEXT),
            headers={"h": Header("v")},
            session="s",
        ),
    )
