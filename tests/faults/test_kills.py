"""The router ends in mid-stream, in every way it can: each message is published once, and in order."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Event, Thread

import pytest
from confluent_kafka import Message
from tests.support.commands import Running
from tests.support.kafka.topics import Topic, followed
from tests.support.pipeline.bridge import text_message
from tests.support.polling import PATIENCE_S, eventually

from isthmus.config.model.settings import JournalSettings
from isthmus.journal.layout import Entry, Op
from isthmus.journal.writer import JournalWriter
from isthmus.kafka.blocking import create_topics
from isthmus.kafka.options import Kafka

SESSIONS = 10
A_SECOND = 500
SOME = 500
"""How many are published before the router ends, and again after that."""
DEAD = 50
"""One message in so many has no key; if its route wants one, it is a dead letter."""

CONFIG = """
bridge.id={bridge}
kafka.bootstrap.servers={servers}
state.dir={folder}/state
journal.partitions=3
monitor.port=0
amqp.enabled=false
pipeline.mode={mode}
pipeline.real-time.batch=5s
routing.on-error=dead-letter
routing.dead-letter.topic={bridge}-dead
routes.even.predicate=msg.address==even
routes.even.dest.topic={bridge}-even
routes.even.conv.key=msg.header.number
message.convert=default
"""


def kill_driver(running: Running) -> None:
    jvm = running.jvm()
    assert jvm is not None
    os.kill(jvm, signal.SIGKILL)
    assert running.process.wait(PATIENCE_S) == 3
    assert "Spark's driver is gone" in running.printed()


def kill_bridge(running: Running) -> None:
    """The next one may start while this one's driver still ends."""
    running.process.kill()
    running.process.wait()


def stop(running: Running) -> None:
    assert running.stop() == 0, running.printed()


class Destinations:
    """What is in the topics of a bridge."""

    def __init__(self, topics: Iterable[Topic]) -> None:
        self._topics = list(topics)

    def records(self) -> list[Message]:
        return [record for topic in self._topics for record in topic.records()]

    def numbers(self) -> Counter[int]:
        return Counter(_number(record) for record in self.records())


@pytest.fixture
def bridge(request: pytest.FixtureRequest) -> str:
    return "kills-" + request.node.callspec.id


@pytest.fixture
def destinations(kafka_servers: str, bridge: str) -> Iterator[Destinations]:
    kafka, names = Kafka(kafka_servers), [f"{bridge}-{topic}" for topic in ("even", "odd", "dead")]
    create_topics(kafka, names, 3)
    with ExitStack() as open_topics:
        yield Destinations([open_topics.enter_context(followed(kafka, name)) for name in names])


@pytest.mark.parametrize(
    ("mode", "ends"),
    [
        pytest.param("real-time", [kill_driver, kill_bridge], id="two-kills"),
        pytest.param("micro-batch", [kill_driver], id="in-micro-batches"),
        pytest.param("real-time", [stop], id="stop"),
    ],
)
def test_every_message_is_published_once_and_in_order_across(
    mode: str,
    ends: list[Callable[[Running], None]],
    bridge: str,
    kafka_servers: str,
    destinations: Destinations,
    tmp_path: Path,
) -> None:
    kafka, journal = Kafka(kafka_servers), f"isthmus.{bridge}.journal"
    create_topics(kafka, [journal], 4)
    config = tmp_path / "kills.properties"
    config.write_text(CONFIG.format(servers=kafka_servers, folder=tmp_path, mode=mode, bridge=bridge))

    sent, over = 0, Event()

    def send() -> None:
        nonlocal sent
        with JournalWriter(kafka, JournalSettings(topic=journal)) as writer:
            while not over.wait(SESSIONS / A_SECOND):
                for _ in range(SESSIONS):
                    address, key = (
                        ("even", f"{bridge}-odd")[sent % 2],
                        {"number": sent} if sent % DEAD else {},
                    )
                    message = text_message(address, str(sent), session=f"s{sent % SESSIONS}", **key)
                    writer.write(Entry(Op.ADD, message))
                    sent += 1

    def wait_for_some(running: Running) -> None:
        enough = len(destinations.records()) + SOME
        eventually(lambda: len(destinations.records()) > enough, what=running.printed)

    sender = Thread(target=send, daemon=True)
    sender.start()
    for end in ends:
        with Running(tmp_path, config, command="pipeline") as running:
            wait_for_some(running)
            end(running)
    with Running(tmp_path, config, command="pipeline") as last:
        wait_for_some(last)
        over.set()
        sender.join(60)
        assert not sender.is_alive()
        eventually(lambda: len(destinations.numbers()) == sent, what=last.printed)
        said = last.printed()
        stop(last)

    numbers = destinations.numbers()
    assert set(numbers) == set(range(sent))
    assert {number for number, count in numbers.items() if count > 1} == set(), said
    assert "are published (searched for" in said, (
        "there was nothing to leave out: the end did not hit a batch"
    )
    _assert_order(destinations.records())


def _number(record: Message) -> int:
    return int(record.value() or b"")


def _assert_order(published: Iterable[Message]) -> None:
    """In a partition, one session's messages are in the order sent."""
    last: dict[tuple[str | None, int | None, int], int] = {}
    for record in published:
        number = _number(record)
        place = (record.topic(), record.partition(), number % SESSIONS)
        assert last.get(place, -1) < number
        last[place] = number
