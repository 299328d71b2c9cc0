"""What receivers do not get: what has expired, what a selector leaves out, and what is their own."""

from __future__ import annotations

import time

from tests.support.amqp.kafka_server import receiving_server
from tests.support.jms.qpid import QpidJms
from tests.support.kafka.topics import new_topic, publish

from isthmus.message import Header


def expiring(at_s: float) -> dict[str, str]:
    return {"jms.Expiration": str(round(at_s * 1000)), "jms.types": "Expiration=long;"}


def test_a_message_that_has_expired_is_not_delivered(qpid: QpidJms, kafka_servers: str) -> None:
    topic = new_topic(kafka_servers)
    publish(kafka_servers, topic, ["old"], headers=expiring(time.time() - 1))
    publish(kafka_servers, topic, ["new"], headers=expiring(time.time() + 600))
    with receiving_server(kafka_servers, "jms") as server:
        url = f"{server.url}?jms.localMessageExpiry=false"  # else the client would leave it out itself
        assert qpid.run(url, "queue", topic, 1, program="Receives") == ["ready", "new", "done"]


def test_every_selector_is_a_view_of_the_queue(qpid: QpidJms, kafka_servers: str) -> None:
    topic = new_topic(kafka_servers)
    for number, colour in enumerate(["red", "blue", "red", "blue"]):
        publish(kafka_servers, topic, [f"{colour} {number}"], headers={"jms.colour": colour})
    with receiving_server(kafka_servers, "jms", queue_views=True) as server:

        def receive(what: str, count: int) -> list[str]:
            return qpid.run(server.url, what, topic, count, program="Receives")

        assert receive("red", 1) == ["ready", "red 0", "done"]
        assert receive("blue", 2) == ["ready", "blue 1", "blue 3", "done"]
        assert receive("red", 1) == ["ready", "red 2", "done"]


def test_a_subscriber_does_not_get_its_own_messages(qpid: QpidJms, kafka_servers: str) -> None:
    topic = new_topic(kafka_servers)
    with (
        receiving_server(kafka_servers, "jms") as server,
        qpid.start(server.url, "no-local", topic, 1, "shop", program="Receives") as program,
    ):
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        [own] = server.entries()
        assert own.message.headers["isthmus.client"] == Header("shop")
        publish(kafka_servers, topic, ["own"], headers={"jms.isthmus.client": "shop"})
        publish(kafka_servers, topic, ["another's"], headers={"jms.isthmus.client": "other"})
        assert program.stdout.read().splitlines() == ["another's", "done"]
