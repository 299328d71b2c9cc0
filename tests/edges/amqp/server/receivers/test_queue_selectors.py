"""Selectors, priorities and message groups on queues as JMS has them, with Qpid JMS and a real Kafka."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.amqp.kafka_server import ServerOnKafka, receiving_server
from tests.support.jms.qpid import JmsShell, QpidJms
from tests.support.kafka.topics import new_topic, produce

from isthmus.journal.layout import Record


@pytest.fixture(scope="module")
def server(kafka_servers: str) -> Iterator[ServerOnKafka]:
    with receiving_server(kafka_servers, "jms") as server:
        yield server


@pytest.fixture
def jms(qpid: QpidJms, server: ServerOnKafka) -> Iterator[JmsShell]:
    with JmsShell(qpid, server.url) as shell:
        shell.do("connect", "c")
        shell.do("session", "s", "c", "auto")
        yield shell


def fill(servers: str, topic: str, *colours: str) -> None:
    records = (
        Record(None, f"{colour} {n}".encode(), [("jms.colour", colour.encode())])
        for n, colour in enumerate(colours)
    )
    produce(servers, topic, *records, partition=0)


def test_each_message_goes_to_one_consumer_that_wants_it(jms: JmsShell, kafka_servers: str) -> None:
    topic = new_topic(kafka_servers)
    jms.do("queue", "q", "s", topic)
    jms.do("consumer", "red", "s", "q", "colour = 'red'")
    jms.do("consumer", "blue", "s", "q", "colour = 'blue'")
    fill(kafka_servers, topic, "red", "blue", "green", "red", "blue", "green")
    assert jms.receive("blue", 2) == ["blue 1", "blue 4"]
    assert jms.receive("red", 2) == ["red 0", "red 3"]
    assert jms.nothing("red")
    jms.do("consumer", "all", "s", "q")
    assert jms.receive("all", 2) == ["green 2", "green 5"]
    assert jms.nothing("all")


def test_what_one_consumer_leaves_is_there_for_the_next(jms: JmsShell, kafka_servers: str) -> None:
    topic = new_topic(kafka_servers)
    fill(kafka_servers, topic, "red", "red", "blue", "red")
    jms.do("queue", "q", "s", topic)
    for _ in range(12):  # more often than Kafka hands a record out
        jms.do("consumer", "green", "s", "q", "colour = 'green'")
        assert jms("receive", "green", 0) == "nothing"
        jms.do("close", "green")
    jms.do("consumer", "blue", "s", "q", "colour = 'blue'")
    assert jms.receive("blue", 1) == ["blue 2"]
    jms.do("close", "blue")
    jms.do("consumer", "all", "s", "q")
    assert jms.receive("all", 3) == ["red 0", "red 1", "red 3"]


def test_a_rollback_gives_a_selector_its_messages_again_in_order(jms: JmsShell, kafka_servers: str) -> None:
    topic = new_topic(kafka_servers)
    fill(kafka_servers, topic, "red", "blue", "red", "red")
    jms.do("queue", "q", "s", topic)
    jms.do("session", "t", "c", "transacted")
    jms.do("consumer", "red", "t", "q", "colour = 'red'")
    assert jms.receive("red", 2) == ["red 0", "red 2"]
    jms.do("rollback", "t")
    assert jms.receive("red", 3) == ["red 0 again 2", "red 2 again 2", "red 3"]
    jms.do("commit", "t")
    assert jms.nothing("red")
    jms.do("consumer", "all", "s", "q")
    assert jms.receive("all", 1) == ["blue 1"]
    assert jms.nothing("all")


def test_a_message_is_found_behind_many_that_nobody_wants(jms: JmsShell, kafka_servers: str) -> None:
    topic = new_topic(kafka_servers)
    fill(kafka_servers, topic, *["red"] * 1500, "blue", "red")
    jms.do("queue", "q", "s", topic)
    jms.do("consumer", "blue", "s", "q", "colour = 'blue'")
    assert jms.receive("blue", 1) == ["blue 1500"]
    jms.do("consumer", "all", "s", "q")
    assert jms.receive("all", 1501) == [f"red {n}" for n in range(1502) if n != 1500]


def test_a_message_finds_the_process_whose_receiver_wants_it(
    jms: JmsShell, qpid: QpidJms, kafka_servers: str
) -> None:
    topic = new_topic(kafka_servers)
    jms.do("queue", "q", "s", topic)
    jms.do("consumer", "red", "s", "q", "colour = 'red'")
    with receiving_server(kafka_servers, "jms") as another, JmsShell(qpid, another.url) as there:
        there.do("connect", "c")
        there.do("session", "s", "c", "auto")
        there.do("queue", "q", "s", topic)
        there.do("consumer", "blue", "s", "q", "colour = 'blue'")
        fill(kafka_servers, topic, "red", "blue", "red", "blue")
        red, blue = jms.receive("red", 2), there.receive("blue", 2)
        assert sorted(text.partition(" again")[0] for text in red) == ["red 0", "red 2"]
        assert sorted(text.partition(" again")[0] for text in blue) == ["blue 1", "blue 3"]


def test_what_has_a_higher_priority_is_received_first(jms: JmsShell, kafka_servers: str) -> None:
    topic = new_topic(kafka_servers)
    records = (
        Record(None, str(n).encode(), [("jms.Priority", str(n).encode()), ("jms.types", b"Priority=int;")])
        for n in range(10)
    )
    produce(kafka_servers, topic, *records, partition=0)
    jms.do("queue", "q", "s", topic)
    jms.do("consumer", "all", "s", "q")
    assert jms.receive("all", 10) == [str(n) for n in reversed(range(10))]


def test_each_message_group_goes_to_one_consumer_and_on_to_another_when_that_is_gone(
    jms: JmsShell, kafka_servers: str
) -> None:
    topic = new_topic(kafka_servers)

    def send(*groups: str) -> None:
        records = (
            Record(None, f"{group} {n}".encode(), [("jms.JMSXGroupID", group.encode())])
            for n, group in enumerate(groups)
        )
        produce(kafka_servers, topic, *records, partition=0)

    jms.do("queue", "q", "s", topic)
    for name in ("one", "two"):
        jms.do("session", name, "c", "auto")
        jms.do("consumer", f"of {name}", name, "q")
    send("a", "b", "a", "a", "b", "b")
    received = {name: jms.receive(f"of {name}", 3) for name in ("one", "two")}
    assert sorted(received.values()) == [["a 0", "a 2", "a 3"], ["b 1", "b 4", "b 5"]]
    jms.do("close", "of one")
    send("a", "b")
    assert jms.receive("of two", 2) == ["a 0", "b 1"]


@pytest.mark.parametrize("what", ["close\ts", "close\tc"])
def test_only_what_the_application_was_given_is_marked_as_redelivered(
    jms: JmsShell, kafka_servers: str, what: str
) -> None:
    topic = new_topic(kafka_servers)
    fill(kafka_servers, topic, "red", "red", "red")
    jms.do("queue", "q", "s", topic)
    jms.do("consumer", "all", "s", "q")
    assert jms.receive("all", 1) == ["red 0"]
    jms.do(*what.split("\t"))  # with two messages that lie in the prefetch buffer
    jms.do("connect", "again")
    jms.do("session", "t", "again", "transacted")
    jms.do("consumer", "all", "t", "q")
    assert jms.receive("all", 2) == ["red 1", "red 2"]
    jms.do("rollback", "t")
    assert jms.receive("all", 2) == ["red 1 again 2", "red 2 again 2"]
    jms.do("commit", "t")
