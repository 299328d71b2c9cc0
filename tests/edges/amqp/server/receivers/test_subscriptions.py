"""JMS subscriptions: what makes another of them, who may receive, and whose they are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.amqp.kafka_server import ServerOnKafka, receiving_server
from tests.support.jms.qpid import JmsShell, QpidJms
from tests.support.kafka.topics import new_topic, publish
from tests.support.names import unique
from tests.support.polling import PATIENCE_S, eventually

from isthmus.edges.amqp.server.receivers import KafkaOutgoingLinks
from isthmus.edges.amqp.server.users import Users, set_user
from isthmus.kafka.client import ResilientClient
from isthmus.kafka.name_locks import NameLocks
from isthmus.kafka.options import Kafka
from isthmus.telemetry.parts import QueueReport


@pytest.fixture(scope="module")
def server(kafka_servers: str) -> Iterator[ServerOnKafka]:
    with receiving_server(kafka_servers, "jms") as server:
        yield server


@pytest.fixture
def topic(kafka_servers: str) -> str:
    return new_topic(kafka_servers)


@pytest.fixture
def jms(qpid: QpidJms, server: ServerOnKafka, topic: str) -> Iterator[JmsShell]:
    with JmsShell(qpid, server.url) as shell:
        shell.do("connect", "c", unique("client"))
        shell.do("session", "s", "c", "auto")
        shell.do("topic", "t", "s", topic)
        yield shell


@contextmanager
def bridge_part(servers: str, group: str) -> Iterator[str]:
    """The URL of a server that shares subscriptions with others."""
    client = ResilientClient(Kafka(servers), connect_timeout_s=PATIENCE_S)
    locks = NameLocks(client, group, patience_s=PATIENCE_S)
    with receiving_server(servers, "jms", subscription_locks=locks) as server:
        yield server.url
        server.run(locks.close())
        server.run(client.close())


@contextmanager
def subscriber(qpid: QpidJms, url: str, client_id: str, topic: str) -> Iterator[JmsShell]:
    with JmsShell(qpid, url) as shell:
        shell.do("connect", "c", client_id)
        shell.do("session", "s", "c", "auto")
        shell.do("topic", "t", "s", topic)
        yield shell


@pytest.mark.parametrize("changed", [("t", "", "true"), ("t", "JMS_kafka_offset >= 0"), ("other", "")])
def test_another_topic_selector_or_no_local_is_another_subscription_without_the_backlog(
    jms: JmsShell, kafka_servers: str, topic: str, changed: tuple[str, ...]
) -> None:
    other = new_topic(kafka_servers)
    jms.do("topic", "other", "s", other)
    jms.do("durable", "d", "s", "t", "news")
    jms.do("close", "d")
    publish(kafka_servers, topic, ["backlog"])
    name, *terms = changed
    jms.do("durable", "d", "s", name, "news", *terms)
    publish(kafka_servers, other if name == "other" else topic, ["new"])
    assert jms.receive("d", 1) == ["new"]
    jms.do("close", "d")
    publish(kafka_servers, other if name == "other" else topic, ["while away"])
    jms.do("durable", "d", "s", name, "news", *terms)
    assert jms.receive("d", 1) == ["while away"]
    jms.do("close", "d")
    jms.do("unsubscribe", "s", "news")


def test_what_a_subscription_is_yet_to_receive_is_told(
    jms: JmsShell, server: ServerOnKafka, kafka_servers: str, topic: str
) -> None:
    def told() -> list[QueueReport]:
        links = server.amqp.outgoing_links
        assert isinstance(links, KafkaOutgoingLinks)
        return [each for each in server.run(links.queues()) if each.name.endswith(":told")]

    jms.do("session", "held", "c", "client")
    jms.do("topic", "u", "held", topic)
    jms.do("durable", "d", "held", "u", "told")
    publish(kafka_servers, topic, ["one", "two", "three"])
    assert jms.receive("d", 3) == ["one", "two", "three"]
    [subscription] = told()
    assert (subscription.kind, subscription.receivers, subscription.depth) == ("subscription", 1, 3)
    jms.do("close", "held")
    eventually(lambda: told() == [])


def test_an_unshared_subscription_has_one_active_consumer(jms: JmsShell) -> None:
    jms.do("durable", "d", "s", "t", "news")
    assert jms("durable", "e", "s", "t", "news").startswith("!")
    jms.do("close", "d")
    jms.do("durable", "e", "s", "t", "news")


def test_processes_of_one_bridge_have_one_active_consumer_of_it(qpid: QpidJms, kafka_servers: str) -> None:
    topic, client_id, group = new_topic(kafka_servers), unique("client"), unique("subscriptions")
    with (
        bridge_part(kafka_servers, group) as one,
        bridge_part(kafka_servers, group) as other,
        subscriber(qpid, one, client_id, topic) as here,
        subscriber(qpid, other, client_id, topic) as there,
    ):
        here.do("durable", "d", "s", "t", "news")
        assert "somebody receives" in there("durable", "d", "s", "t", "news")
        publish(kafka_servers, topic, ["one"])
        assert here.receive("d", 1) == ["one"]
        here.do("close", "d")
        there.do("durable", "d", "s", "t", "news")
        assert "somebody receives" in here("durable", "d", "s", "t", "news")
        publish(kafka_servers, topic, ["two"])
        assert there.receive("d", 1) == ["two"]
        there.do("close", "d")
        here.do("unsubscribe", "s", "news")


@pytest.mark.parametrize("kind", ["shared", "shared-durable"])
def test_a_shared_subscription_refuses_another_selector_while_it_is_in_use(
    jms: JmsShell, kafka_servers: str, topic: str, kind: str
) -> None:
    jms.do(kind, "one", "s", "t", "news", "JMS_kafka_offset > 0")
    assert jms(kind, "two", "s", "t", "news", "JMS_kafka_offset > 1").startswith("!")
    assert jms(kind, "two", "s", "t", "news").startswith("!")
    jms.do(kind, "two", "s", "t", "news", "JMS_kafka_offset > 0")
    jms.do("close", "one")
    jms.do("close", "two")
    jms.do(kind, "two", "s", "t", "news", "JMS_kafka_offset > 1")
    publish(kafka_servers, topic, ["0", "1", "2"])
    assert jms.receive("two", 1) == ["2"]


@pytest.mark.parametrize("kind", ["shared", "shared-durable"])
def test_those_who_share_a_subscription_take_turns(
    jms: JmsShell, kafka_servers: str, topic: str, kind: str
) -> None:
    jms.do("session", "r", "c", "auto")
    jms.do(kind, "one", "s", "t", "news")
    jms.do(kind, "two", "r", "t", "news")
    publish(kafka_servers, topic, ["a", "b", "c", "d"])
    got = [jms.receive("one", 2), jms.receive("two", 2)]
    assert sorted(text for each in got for text in each) == ["a", "b", "c", "d"]
    assert got == [sorted(each) for each in got]


def test_what_one_gives_back_goes_to_another_who_shares_the_subscription(
    jms: JmsShell, kafka_servers: str, topic: str
) -> None:
    jms.do("session", "held", "c", "client")
    jms.do("shared-durable", "one", "held", "t", "news")
    publish(kafka_servers, topic, ["a", "b"])
    assert jms.receive("one", 2) == ["a", "b"]
    jms.do("shared-durable", "two", "s", "t", "news")
    jms.do("close", "held")
    assert [text.split()[0] for text in jms.receive("two", 2)] == ["a", "b"]
    publish(kafka_servers, topic, ["c"])
    assert jms.receive("two", 1) == ["c"]
    jms.do("close", "two")
    jms.do("shared-durable", "one", "s", "t", "news")
    assert jms.nothing("one")


def test_a_shared_and_an_unshared_subscription_have_different_names(jms: JmsShell) -> None:
    jms.do("durable", "d", "s", "t", "news")
    jms.do("close", "d")
    assert jms("shared-durable", "e", "s", "t", "news").startswith("!")


def test_a_subscription_cannot_be_ended_while_somebody_receives(jms: JmsShell) -> None:
    jms.do("shared-durable", "d", "s", "t", "news")
    assert jms("unsubscribe", "s", "news").startswith("!")
    jms.do("close", "d")
    jms.do("unsubscribe", "s", "news")
    assert jms("unsubscribe", "s", "news").startswith("! InvalidDestinationException")


def test_a_subscription_belongs_to_its_user(qpid: QpidJms, kafka_servers: str, tmp_path: Path) -> None:
    topic, client = new_topic(kafka_servers), unique("client")
    for name in ("alice", "bob"):
        set_user(tmp_path / "users", name, "secret")
    with (
        receiving_server(
            kafka_servers, "jms", users=Users.read(tmp_path / "users"), users_file="x"
        ) as server,
        JmsShell(qpid, server.url) as jms,
    ):
        jms.do("connect", "alice", client, "alice", "secret")
        jms.do("session", "s", "alice", "auto")
        jms.do("topic", "t", "s", topic)
        jms.do("durable", "d", "s", "t", "news")
        jms.do("close", "alice")
        publish(kafka_servers, topic, ["for alice"])
        jms.do("connect", "bob", client, "bob", "secret")
        jms.do("session", "b", "bob", "auto")
        assert jms("durable", "d", "b", "t", "news").startswith("! JMSSecurityException")
        assert jms("durable", "d", "b", "t", "news", "JMS_kafka_offset > 0").startswith("!")
        assert jms("unsubscribe", "b", "news").startswith("! JMSSecurityException")
        jms.do("close", "bob")
        jms.do("connect", "alice", client, "alice", "secret")
        jms.do("session", "s", "alice", "auto")
        jms.do("durable", "d", "s", "t", "news")
        assert jms.receive("d", 1) == ["for alice"]
