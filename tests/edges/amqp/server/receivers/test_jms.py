"""Qpid JMS receives through the AMQP server, from a real Kafka."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.support.amqp.kafka_server import ServerOnKafka, answer, receiving_server
from tests.support.jms.qpid import QpidJms
from tests.support.kafka.topics import new_topic, publish

WORDS = ["a", "b", "c"]


@pytest.fixture(scope="module")
def server(kafka_servers: str) -> Iterator[ServerOnKafka]:
    with receiving_server(kafka_servers, "jms") as server:
        yield server


class Jms:
    """Qpid JMS at the AMQP server."""

    def __init__(self, qpid: QpidJms, server: ServerOnKafka) -> None:
        self._qpid = qpid
        self._url = server.url

    def run(
        self, what: str, address: str, count: int = 0, client_id: str = "", prefetch: int = 100
    ) -> list[str]:
        url = f"{self._url}?jms.prefetchPolicy.all={prefetch}"
        return self._qpid.run(url, what, address, count, *filter(None, [client_id]), program="Receives")

    @contextmanager
    def started(
        self, what: str, address: str, count: int = 0, *client_id: str
    ) -> Iterator[subprocess.Popen[str]]:
        with self._qpid.start(self._url, what, address, count, *client_id, program="Receives") as program:
            try:
                yield program
            finally:
                program.kill()


@pytest.fixture(scope="module")
def jms(qpid: QpidJms, server: ServerOnKafka) -> Jms:
    return Jms(qpid, server)


def line(program: subprocess.Popen[str]) -> str:
    assert program.stdout is not None
    return program.stdout.readline().strip()


def test_a_queue_has_what_was_sent_before_anybody_received(jms: Jms, kafka_servers: str) -> None:
    topic = new_topic(kafka_servers)
    publish(kafka_servers, topic, WORDS)
    assert jms.run("queue", topic, 3) == ["ready", *WORDS, "done"]
    publish(kafka_servers, topic, ["d"])
    assert jms.run("queue", topic, 1) == ["ready", "d", "done"]


def test_messages_that_come_one_by_one_are_acknowledged_together(jms: Jms, kafka_servers: str) -> None:
    topic = new_topic(kafka_servers)
    with jms.started("client-ack", topic, 3) as program:
        assert line(program) == "ready"
        for word in WORDS:
            publish(kafka_servers, topic, [word])
            assert line(program) == word
        assert line(program) == "done"
    publish(kafka_servers, topic, ["d"])
    assert jms.run("queue", topic, 1) == ["ready", "d", "done"]


def test_a_queue_of_several_partitions_gives_what_comes_to_any_of_them(jms: Jms, kafka_servers: str) -> None:
    topic = new_topic(kafka_servers, 4)
    with jms.started("client-ack", topic, 8) as program:
        assert line(program) == "ready"
        for number in range(8):
            publish(kafka_servers, topic, [str(number)], partition=number % 4)
            assert line(program) == str(number)
        assert line(program) == "done"


def test_a_session_that_recovers_gets_its_message_again(jms: Jms, kafka_servers: str) -> None:
    topic = new_topic(kafka_servers)
    publish(kafka_servers, topic, ["a"])
    assert jms.run("recover", topic) == ["a 1", "a 2 again", "done"]


def test_a_transaction_that_is_rolled_back_gets_its_message_again(jms: Jms, kafka_servers: str) -> None:
    topic = new_topic(kafka_servers)
    publish(kafka_servers, topic, ["a"])
    assert jms.run("rollback", topic) == ["a 1", "a 2 again", "done"]
    publish(kafka_servers, topic, ["b"])
    assert jms.run("queue", topic, 1) == ["ready", "b", "done"]


def test_an_empty_queue_says_that_there_is_nothing(jms: Jms, kafka_servers: str) -> None:
    assert jms.run("no-wait", new_topic(kafka_servers)) == ["nothing", "done"]


def test_a_browser_sees_all_and_takes_nothing(jms: Jms, kafka_servers: str) -> None:
    topic = new_topic(kafka_servers)
    publish(kafka_servers, topic, WORDS)
    assert jms.run("browse", topic) == [*WORDS, "done"]
    assert jms.run("queue", topic, 3) == ["ready", *WORDS, "done"]


def test_a_topic_gives_what_comes_after_the_subscription(jms: Jms, kafka_servers: str) -> None:
    topic = new_topic(kafka_servers)
    publish(kafka_servers, topic, ["before"])
    with jms.started("topic", topic, 1) as one, jms.started("topic", topic, 1) as two:
        assert [line(one), line(two)] == ["ready", "ready"]
        publish(kafka_servers, topic, ["after"])
        assert [line(one), line(two)] == ["after", "after"]


@pytest.mark.parametrize(("kind", "client"), [("topic", []), ("durable", ["late"])])
def test_a_subscription_leaves_out_what_was_sent_before_and_is_published_later(
    qpid: QpidJms, kafka_servers: str, kind: str, client: list[str]
) -> None:
    topic, journal = new_topic(kafka_servers), new_topic(kafka_servers, 2)
    publish(kafka_servers, journal, ["sent"] * 3, partition=1)
    with receiving_server(kafka_servers, "jms", journal_topic=journal) as server:
        program = qpid.start(server.url, kind, topic, 3, *client, program="Receives")
        with program:
            assert line(program) == "ready"
            places = [(journal, 1, 2), (journal, 1, 3), (journal, 0, 0), ("other", 1, 0)]
            for place in places:
                headers = {"isthmus.id": ":".join(map(str, place))}
                publish(kafka_servers, topic, ["after" if place[2] != 2 else "before"], headers=headers)
            assert [line(program) for _ in range(4)] == ["after", "after", "after", "done"]


def test_a_durable_subscription_has_what_came_while_its_client_was_away(jms: Jms, kafka_servers: str) -> None:
    topic = new_topic(kafka_servers)
    publish(kafka_servers, topic, ["before"])
    assert jms.run("durable", topic, 0, "shop") == ["ready", "done"]
    publish(kafka_servers, topic, ["while away"])
    assert jms.run("durable", topic, 1, "shop") == ["ready", "while away", "done"]
    assert jms.run("unsubscribe", "news", 0, "shop") == ["done"]
    publish(kafka_servers, topic, ["after"])
    assert jms.run("durable", topic, 0, "shop") == ["ready", "done"]
    publish(kafka_servers, topic, ["new"])
    assert jms.run("durable", topic, 1, "shop") == ["ready", "new", "done"]


def test_a_subscription_that_is_not_there_cannot_be_ended(jms: Jms) -> None:
    [said] = jms.run("unsubscribe", "nothing", 0, "nobody")
    assert said.startswith("InvalidDestinationException")


def test_a_shared_subscription_goes_on_where_others_left_off(jms: Jms, kafka_servers: str) -> None:
    topic = new_topic(kafka_servers)
    assert jms.run("shared", topic, 0) == ["ready", "done"]
    publish(kafka_servers, topic, WORDS)
    assert jms.run("shared", topic, 2) == ["ready", "a", "b", "done"]
    assert jms.run("shared", topic, 1) == ["ready", "c", "done"]


def test_a_temporary_queue_gets_what_is_sent_to_its_address(
    jms: Jms, server: ServerOnKafka, kafka_servers: str
) -> None:
    with jms.started("temporary", "-") as program:
        answer(kafka_servers, server.temporary_topic, "isthmus.temporary.other", "not for us")
        answer(kafka_servers, server.temporary_topic, line(program), "answer")
        assert line(program) == "answer"
        assert line(program) == "done"


def test_a_selector_leaves_out_what_it_is_not_true_for(jms: Jms, kafka_servers: str) -> None:
    topic = new_topic(kafka_servers)
    with jms.started("selected", topic, 1) as program:
        assert line(program) == "ready"
        publish(kafka_servers, topic, WORDS)
        assert line(program) == "c"


def test_many_messages_of_a_queue_come_once_each(jms: Jms, kafka_servers: str) -> None:
    topic = new_topic(kafka_servers)
    publish(kafka_servers, topic, [str(n) for n in range(5000)])
    lines = jms.run("queue", topic, 5000, prefetch=1000)
    assert lines == ["ready", *(str(n) for n in range(5000)), "done"]
