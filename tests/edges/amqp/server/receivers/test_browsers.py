"""Queue browsers show what is still to be received, with Qpid JMS and a real Kafka."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence

import pytest
from tests.support.amqp.kafka_server import ServerOnKafka, receiving_server
from tests.support.jms.qpid import JmsShell, QpidJms
from tests.support.kafka.topics import new_topic, publish
from tests.support.polling import PATIENCE_S

from isthmus.edges.amqp.server.receivers.browser import BrowserSource
from isthmus.edges.amqp.server.receivers.group import SentFrom
from isthmus.kafka.options import Kafka
from isthmus.kafka.records import PolledRecord
from isthmus.kafka.share_state import PartitionState

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


class Seen:
    """Takes what a browser shows."""

    def __init__(self) -> None:
        self.texts: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.idle = asyncio.Event()

    def on_records(self, records: Sequence[PolledRecord], *, redelivered: bool = False) -> None:
        for each in records:
            self.texts.put_nowait(each.read.value)

    def on_idle(self) -> None:
        self.idle.set()

    def on_revoked(self, partitions: Collection[int]) -> None:
        raise AssertionError

    def on_failed(self, condition: str, description: str) -> None:
        raise AssertionError(description)


async def browse(
    servers: str, topic: str, since: SentFrom, late_s: float, count: int
) -> tuple[list[bytes | None], bool]:
    """So many records that a browser shows which came to an empty topic, and whether it says that is all."""
    states: defaultdict[int, PartitionState] = defaultdict(PartitionState)
    seen, browser = Seen(), BrowserSource(Kafka(servers), topic, states, {0: 0}, since, late_s=late_s)
    async with asyncio.timeout(PATIENCE_S):
        browser.start(seen)
        browser.request(10)
        try:
            found = [await seen.texts.get() for _ in range(count)]
            if not count:
                await seen.idle.wait()
            return found, seen.idle.is_set()
        finally:
            await browser.close()


def test_a_browser_waits_for_what_was_sent_before_it_came_and_is_published_later(kafka_servers: str) -> None:
    topic = new_topic(kafka_servers)
    for place in ("journal:0:5", "journal:0:4", "other:0:1", "journal:1:0", "journal:0:3"):
        publish(kafka_servers, topic, [place], headers={"isthmus.id": place})
    since = SentFrom("journal", {0: 5, 1: 0})
    found, _ = asyncio.run(browse(kafka_servers, topic, since, 2 * PATIENCE_S, 2))
    assert found == [b"journal:0:4", b"journal:0:3"]


def test_a_browser_does_not_wait_for_long(kafka_servers: str) -> None:
    since = SentFrom("journal", {0: 5})
    assert asyncio.run(browse(kafka_servers, new_topic(kafka_servers), since, 0.1, 0)) == ([], True)
