"""Queue browsers show what is still to be received, with Qpid JMS and a real Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.support.amqp.kafka_server import ServerOnKafka, receiving_server
from tests.support.jms.qpid import JmsShell, QpidJms
from tests.support.kafka.topics import new_topic, produce, publish
from tests.support.polling import eventually
from tests.support.routing import message

from isthmus.edges.amqp.server.receivers import unpublished
from isthmus.journal import layout
from isthmus.journal.layout import AddressTopic, Entry, Op

WORDS = ["a", "b", "c", "d", "e"]


@pytest.fixture(scope="module")
def server(kafka_servers: str) -> Iterator[ServerOnKafka]:
    with receiving_server(kafka_servers, "jms") as server:
        yield server


@pytest.fixture
def jms(qpid: QpidJms, server: ServerOnKafka) -> Iterator[JmsShell]:
    with JmsShell(qpid, server.url) as shell:
        shell.do("connect", "c")
        shell.do("session", "s", "c", "auto")
        shell.do("session", "t", "c", "transacted")
        yield shell


def test_a_browser_shows_what_was_not_received_in_order(
    jms: JmsShell, qpid: QpidJms, kafka_servers: str
) -> None:
    topic = new_topic(kafka_servers)
    jms.do("queue", "q", "s", topic)
    assert jms("browse", "s", "q") == ""
    publish(kafka_servers, topic, WORDS)
    assert jms("browse", "s", "q") == "a b c d e"
    jms.do("consumer", "some", "s", "q")
    assert jms.receive("some", 2) == ["a", "b"]
    assert jms("browse", "s", "q") == "c d e"
    jms.do("close", "some")
    jms.do("consumer", "fourth", "s", "q", "JMS_kafka_offset = 3")
    assert jms.receive("fourth", 1) == ["d"]
    assert jms("browse", "s", "q") == "c e"
    assert jms("browse", "s", "q", "JMS_kafka_offset > 3") == "e"
    with receiving_server(kafka_servers, "jms") as another, JmsShell(qpid, another.url) as elsewhere:
        elsewhere.do("connect", "c")
        elsewhere.do("session", "s", "c", "auto")
        elsewhere.do("queue", "q", "s", topic)
        assert elsewhere("browse", "s", "q") == "c e"
    jms.do("close", "fourth")
    jms.do("consumer", "rest", "s", "q")
    assert jms.receive("rest", 2) == ["c", "e"]
    assert jms("browse", "s", "q") == ""


def test_a_browser_shows_what_was_rolled_back_and_what_is_not_acknowledged(
    jms: JmsShell, kafka_servers: str
) -> None:
    topic = new_topic(kafka_servers)
    publish(kafka_servers, topic, WORDS)
    jms.do("queue", "q", "t", topic)
    jms.do("consumer", "all", "t", "q")
    assert jms.receive("all", 3) == ["a", "b", "c"]
    assert jms("browse", "s", "q") == "a b c d e"
    jms.do("rollback", "t")
    assert jms("browse", "s", "q") == "a b c d e"
    assert jms.receive("all", 2) == ["a again 2", "b again 2"]
    jms.do("commit", "t")
    assert jms("browse", "s", "q") == "c d e"


def test_a_browser_shows_what_was_accepted_before_it_came_and_is_published_later(
    qpid: QpidJms, kafka_servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpublished, "WINDOW_S", 3_600.0)
    monkeypatch.setattr(unpublished, "PATIENCE_S", 3_600.0)
    topic, journal = new_topic(kafka_servers), new_topic(kafka_servers, 2)

    def accept(to: str) -> None:
        entry = Entry(Op.ADD, message(to), topic=AddressTopic(to, 1, 1_000_000, is_destination=True))
        produce(kafka_servers, journal, layout.encode(entry), partition=1)

    def router_publishes(text: str, place: int) -> None:
        publish(kafka_servers, topic, [text], headers={"isthmus.id": f"{journal}:1:{place}"})

    for to in (topic, topic, "another"):
        accept(to)
    with (
        receiving_server(kafka_servers, "jms", journal_topic=journal) as server,
        JmsShell(qpid, server.url) as jms,
        ThreadPoolExecutor() as threads,
    ):
        jms.do("connect", "c")
        jms.do("session", "s", "c", "auto")
        jms.do("queue", "q", "s", topic)
        router_publishes("a", 0)
        browsing = threads.submit(jms, "browse", "s", "q")
        eventually(lambda: [link for client in server.amqp.clients(10).shown for link in client.links])
        router_publishes("b", 1)
        assert browsing.result() == "a b"
        assert jms("browse", "s", "q") == "a b"
