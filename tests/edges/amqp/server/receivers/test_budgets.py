"""A receiver that has credit for everything, and settles when it likes."""

from __future__ import annotations

import pytest
from tests.support.amqp.kafka_server import receiving_server
from tests.support.amqp.wire import Wire
from tests.support.kafka.topics import new_topic, publish

from isthmus.edges.amqp.protocol import Delivery
from isthmus.edges.amqp.protocol.terms import ACCEPTED, Source, Target


@pytest.mark.parametrize("kind", ["queue", "group"])
def test_a_receiver_has_no_more_than_its_budget_whatever_its_credit(kafka_servers: str, kind: str) -> None:
    topic = new_topic(kafka_servers)
    publish(kafka_servers, topic, [str(number % 10) * 100_000 for number in range(100)])
    source = (
        Source(topic, capabilities=("queue",)) if kind == "queue" else Source(f"{topic}/group.id/{topic}")
    )
    with receiving_server(kafka_servers, link_bytes=1_000_000) as server, Wire(server.port) as wire:
        link = wire.open().engine.begin().receiver("in")
        link.attach(source=source, target=Target())
        link.grant(100_000)
        received = 0
        while received < 100:
            wire.wait(lambda: any(isinstance(event, Delivery) for event in wire.events))
            held = [event for event in wire.events if isinstance(event, Delivery)]
            assert len(held) <= 40
            received += len(held)
            wire.events = [event for event in wire.events if not isinstance(event, Delivery)]
            for delivery in held:
                delivery.settle(ACCEPTED)
