"""JMS destinations keep their messages: Qpid JMS subscribes, and a Kafka consumer gets what is routed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from tests.support.commands import Running
from tests.support.jms.qpid import QpidJms
from tests.support.polling import eventually

# The file that the design of Confluent's JMS bridge has for an example.
CONFIGURATION = """
routing.dead-letter.topic=jms-bridge-to-kafka-dead-letter-topic

routes.foo-route.name=foo-route
routes.foo-route.predicate=msg.address==foo-topic
routes.foo-route.dest.topic=foobar-topic
routes.foo-route.conv.key=msg.header.CorrelationId

routes.bar-route.name=bar-route
routes.bar-route.predicate=msg.address==bar-topic
routes.bar-route.dest.topic=foobar-topic
routes.bar-route.conv.key=msg.header.CorrelationId
"""
LARGE = 3000
"""More than fit into one batch of the journal."""


@pytest.fixture(scope="module")
def bridge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("bridge")
    file = folder / "jms-bridge.properties"
    file.write_text(CONFIGURATION)
    with Running(folder, file, environ={"ISTHMUS_AMQP_PORT": "0"}) as running:
        running.wait_until_ready()
        yield running
        assert running.stop() == 0, running.printed()


@pytest.fixture(scope="module")
def url(bridge: Running) -> str:
    found = re.search(r"amqp 127\.0\.0\.1:(\d+)", bridge.printed())
    assert found, bridge.printed()
    return f"amqp://127.0.0.1:{found[1]}"


def received_by_two(qpid: QpidJms, url: str, how: str, address: str, count: int) -> list[list[str]]:
    """What two subscribers of a topic print while so many messages are published to it."""
    with ExitStack() as stack:
        subscribers = [
            stack.enter_context(qpid.start(url, "topic", address, count, program="Receives"))
            for _ in range(2)
        ]
        for each in subscribers:
            assert each.stdout is not None
            assert each.stdout.readline() == "ready\n"
        assert qpid.run(url, how, address, count) == ["done"]
        return [(each.stdout.read() if each.stdout else "").splitlines() for each in subscribers]


def test_two_jms_subscribers_and_a_kafka_consumer_get_every_message_once(
    bridge: Running, qpid: QpidJms, url: str
) -> None:
    sent = [f"message {n}" for n in range(100)]
    for lines in received_by_two(qpid, url, "topic", "foo-topic", len(sent)):
        assert sorted(lines) == sorted([*sent, "done"])
    eventually(lambda: len(bridge.bodies("foobar-topic")) >= len(sent))
    assert sorted(bridge.bodies("foobar-topic")) == sorted(text.encode() for text in sent)
    assert sorted(bridge.bodies("foo-topic")) == sorted(text.encode() for text in sent)


def test_a_large_transaction_reaches_its_destination_and_its_route_once(
    bridge: Running, qpid: QpidJms, url: str
) -> None:
    before = len(bridge.bodies("foobar-topic"))
    assert qpid.run(url, "topic-commit", "bar-topic", LARGE) == ["done"]
    eventually(lambda: len(bridge.bodies("foobar-topic")) >= before + LARGE)
    eventually(lambda: len(bridge.bodies("bar-topic")) >= LARGE)
    assert sorted(bridge.bodies("bar-topic")) == sorted(f"message {n}".encode() for n in range(LARGE))
    assert len(bridge.bodies("foobar-topic")) == before + LARGE


def test_an_address_without_a_route_works_like_any_broker_s(qpid: QpidJms, url: str) -> None:
    assert qpid.run(url, "sync", "some-queue", 20)[-1] == "done"
    received = qpid.run(url, "queue", "some-queue", 20, program="Receives")
    assert received == ["ready", *(f"message {n}" for n in range(20)), "done"]


def test_a_destination_keeps_every_kind_of_message(qpid: QpidJms, url: str) -> None:
    assert qpid.run(url, "send", "walk", program="Walk") == ["done"]
    trusting = f"{url}?jms.deserializationPolicy.allowList=java.util"
    received = qpid.run(trusting, "receive", "walk", 7, program="Walk")
    assert [line for line in received if line.startswith(("text", "bytes", "map", "stream", "object"))] == [
        "text Grüße",
        "bytes [0, 1, -1]",
        "bytes [65, 66]",
        "map 5 x [9] ü",
        "stream 1 two 3.0",
        "object [an, object]",
    ]
    assert received[-2:] == ["message", "done"]


def test_addresses_of_the_bridge_s_own_topics_are_refused(qpid: QpidJms, url: str) -> None:
    for own in ("isthmus.isthmus.journal", "__consumer_offsets", "jms-bridge-to-kafka-dead-letter-topic"):
        [said] = qpid.run(url, "sync", own, 1)
        assert "amqp:unauthorized-access" in said
