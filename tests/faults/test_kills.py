"""kill -9 in mid-stream: nothing is lost, what is repeated has the same id, and order holds."""

from __future__ import annotations

import os
import signal
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from threading import Event, Thread

import pytest
from confluent_kafka import Message
from tests.support.commands import Running
from tests.support.kafka.topics import Topic, followed
from tests.support.pipeline.bridge import text_message
from tests.support.polling import eventually
from tests.support.processes import is_running

from isthmus.config.model.settings import JournalSettings
from isthmus.journal.layout import Entry, Op
from isthmus.journal.writer import JournalWriter
from isthmus.kafka.blocking import create_topics
from isthmus.kafka.options import Kafka

MESSAGES = 20_000
SESSIONS = 10
A_SECOND = 1_000

CONFIG = """
bridge.id=kills
kafka.bootstrap.servers={servers}
state.dir={folder}/state
journal.partitions=3
monitor.port=0
pipeline.real-time.batch=5s
routes.r.predicate=msg.address==numbers
routes.r.dest.topic=kills-out
routes.r.conv.key=msg.header.number
"""


@pytest.fixture
def published(kafka_servers: str) -> Iterator[Topic]:
    create_topics(Kafka(kafka_servers), ["kills-out"], 3)
    with followed(Kafka(kafka_servers), "kills-out") as topic:
        yield topic


def test_two_kills_in_mid_stream_lose_nothing_and_keep_order(
    kafka_servers: str, published: Topic, tmp_path: Path
) -> None:
    kafka = Kafka(kafka_servers)
    create_topics(kafka, ["isthmus.kills.journal"], 4)
    config = tmp_path / "kills.properties"
    config.write_text(CONFIG.format(servers=kafka_servers, folder=tmp_path))

    def pipeline() -> Running:
        return Running(tmp_path, config, command="pipeline")

    def send() -> None:
        with JournalWriter(kafka, JournalSettings(topic="isthmus.kills.journal")) as writer:
            for number in range(MESSAGES):
                message = text_message("numbers", str(number), session=f"s{number % SESSIONS}", number=number)
                writer.write(Entry(Op.ADD, message))
                if number % 100 == 99:
                    paced.wait(100 / A_SECOND)

    def arrived() -> int:
        return len(published.records())

    def different() -> dict[int, set[bytes]]:
        ids: dict[int, set[bytes]] = defaultdict(set)
        for record in published.records():
            ids[int(record.value() or b"")].add(_identity(record))
        return ids

    paced = Event()  # set when the kills are over: what is left goes at once
    sender = Thread(target=send, daemon=True)
    with pipeline() as first:
        sender.start()
        eventually(lambda: arrived() > 500, timeout_s=120, what=first.printed)
        jvm = first.jvm()
        assert jvm is not None
        os.kill(jvm, signal.SIGKILL)
        assert first.process.wait(30) == 3
        assert "Spark's driver is gone" in first.printed()
    with pipeline() as second:
        before = arrived()
        eventually(lambda: arrived() > before + 500, timeout_s=120, what=second.printed)
        jvm = second.jvm()
        assert jvm is not None
        second.process.kill()
        eventually(lambda: not is_running(jvm), timeout_s=30, what="Spark's driver outlived its owner")
    paced.set()
    with pipeline() as third:
        sender.join(120)
        assert not sender.is_alive()
        eventually(lambda: len(different()) == MESSAGES, timeout_s=120, what=third.printed)

    numbers = different()
    assert set(numbers) == set(range(MESSAGES))
    repeated = {number: ids for number, ids in numbers.items() if len(ids) > 1}
    assert repeated == {}, "a message was published under more than one isthmus.id"
    assert arrived() > MESSAGES, "the kills repeated nothing: they did not hit a batch"
    _assert_order(published.records())


def _identity(record: Message) -> bytes:
    return bytes(dict(record.headers() or [])["isthmus.id"] or b"")


def _assert_order(published: Iterable[Message]) -> None:
    """In a partition, the first arrivals of one session's messages are in the order sent."""
    seen: set[bytes] = set()
    last: dict[tuple[int | None, int], int] = {}
    for record in published:
        identity = _identity(record)
        if identity not in seen:
            seen.add(identity)
            number = int(record.value() or b"")
            place = (record.partition(), number % SESSIONS)
            assert last.get(place, -1) < number
            last[place] = number
