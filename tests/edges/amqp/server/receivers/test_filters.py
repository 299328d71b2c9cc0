"""What receivers do not get: what has expired, what a selector leaves out, and what is their own."""

from __future__ import annotations

import time

import pytest

proton = pytest.importorskip("proton", reason="python-qpid-proton is not installed")

from proton.utils import BlockingConnection  # noqa: E402
from tests.support.amqp.kafka_server import receiving_server  # noqa: E402
from tests.support.amqp.proton_queue import take  # noqa: E402
from tests.support.jms.qpid import JmsShell, QpidJms  # noqa: E402
from tests.support.kafka.topics import new_topic, produce, publish  # noqa: E402

from isthmus.codecs.amqp import AmqpMessage, AmqpValue  # noqa: E402
from isthmus.converters import converter  # noqa: E402
from isthmus.journal.layout import Record  # noqa: E402
from isthmus.message import Header  # noqa: E402


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


@pytest.mark.parametrize("form", ["raw", "json", "default"])
def test_a_subscriber_does_not_get_its_own_messages_in_any_form(
    qpid: QpidJms, kafka_servers: str, form: str
) -> None:
    topic = new_topic(kafka_servers)
    with receiving_server(kafka_servers, form) as server, JmsShell(qpid, server.url) as jms:
        jms.do("connect", "c", "shop")
        jms.do("session", "s", "c", "auto")
        jms.do("topic", "t", "s", topic)
        jms.do("consumer", "d", "s", "t", "", "no-local")
        for name in ("shop", "other"):
            message = AmqpMessage(body=AmqpValue(f"{name}'s"))
            record = converter(form).to_kafka_record(message)
            headers = [*record.headers, ("isthmus.client", name.encode())]
            produce(kafka_servers, topic, Record(None, record.value, headers), partition=0)
        assert jms.receive("d", 1) == ["other's"]


def test_a_plain_receiver_on_a_bare_address_gets_a_queue_where_that_is_wanted(kafka_servers: str) -> None:
    topic = new_topic(kafka_servers)
    publish(kafka_servers, topic, ["a", "b"])
    with receiving_server(kafka_servers, bare_is_queue=True) as server:
        connection = BlockingConnection(server.url, timeout=60)
        one = connection.create_receiver(topic, credit=1, name="one")
        other = connection.create_receiver(topic, credit=1, name="other")
        assert {take(one), take(other)} == {"a", "b"}
        connection.close()
