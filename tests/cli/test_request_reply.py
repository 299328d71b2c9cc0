"""Requests and answers between JMS and Kafka applications, through a bridge that runs as a user runs it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

import pytest
from confluent_kafka import Consumer, Message
from tests.support.commands import Running
from tests.support.jms.qpid import QpidJms
from tests.support.kafka.topics import produce, publish
from tests.support.polling import PATIENCE_S

from isthmus.embedded.kafka import find_running
from isthmus.journal.layout import Record
from isthmus.kafka.blocking import QUIET
from isthmus.kafka.options import Kafka

CONFIGURATION = """
bridge.id=asked
amqp.port=0
routing.source.topics=answers
routing.on-error=skip
routes.questions.predicate=msg.address==questions
routes.questions.dest.topic=questions
routes.work.predicate=msg.address==work
routes.work.dest.topic=work
routes.results.predicate=msg.address==results
routes.results.dest.topic=results
"""


@pytest.fixture(scope="module")
def bridge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("bridge")
    file = folder / "bridge.properties"
    file.write_text(CONFIGURATION)
    with Running(folder, file) as running:
        running.wait_until_ready()
        yield running
        assert running.stop() == 0, running.printed()


@pytest.fixture(scope="module")
def url(bridge: Running) -> str:
    found = re.search(r"amqp 127\.0\.0\.1:(\d+)", bridge.printed())
    assert found, bridge.printed()
    return f"amqp://127.0.0.1:{found[1]}"


@pytest.fixture(scope="module")
def kafka(bridge: Running) -> Kafka:
    found = find_running(bridge.folder / ".isthmus" / "kafka")
    assert found is not None
    return found


@contextmanager
def kafka_application(kafka: Kafka, topic: str, answer: Callable[[Message], None]) -> Iterator[None]:
    """Handles every record of a topic."""
    consumer = Consumer(
        {**kafka.python_options(), "group.id": f"app-{topic}", "auto.offset.reset": "earliest"},
        logger=QUIET,
    )
    ended = Event()

    def run() -> None:
        consumer.subscribe([topic])
        while not ended.is_set():
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                answer(message)

    thread = Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        consumer.close()


def headers_of(message: Message) -> dict[str, bytes]:
    return {name: value or b"" for name, value in message.headers() or []}


def test_a_kafka_application_answers_a_jms_request(qpid: QpidJms, url: str, kafka: Kafka) -> None:
    def answer(message: Message) -> None:
        asked = headers_of(message)
        headers = {"jms.Destination": asked["jms.ReplyTo"], "jms.CorrelationId": asked["jms.CorrelationId"]}
        produce(kafka, "answers", Record(None, b"to " + (message.value() or b""), list(headers.items())))

    with kafka_application(kafka, "questions", answer):
        assert qpid.run(url, "request", "questions", 3, program="Requests") == [
            "c-0 to request 0", "c-1 to request 1", "c-2 to request 2", "done",
        ]  # fmt: skip


def test_a_jms_application_answers_a_jms_request_with_any_kind_of_message(qpid: QpidJms, url: str) -> None:
    with qpid.start(url, "answer", "work", 2, program="Requests") as answering:
        assert qpid.run(url, "request", "work", 2, program="Requests") == [
            "c-0 map request 0", "c-1 map request 1", "done",
        ]  # fmt: skip
        assert answering.stdout is not None
        assert answering.stdout.read().split() == ["ready", "done"]


def test_a_jms_application_answers_a_kafka_request(qpid: QpidJms, url: str, kafka: Kafka) -> None:
    got: list[tuple[bytes, bytes | None]] = []
    arrived = Event()

    def take(message: Message) -> None:
        got.append((headers_of(message)["jms.CorrelationId"], message.value()))
        arrived.set()

    headers = {"jms.ReplyTo": "results", "jms.CorrelationId": "k-1", "plain": "yes"}
    with (
        kafka_application(kafka, "results", take),
        qpid.start(url, "answer", "work", 1, program="Requests") as answering,
    ):
        publish(kafka, "work", [b"question"], headers=headers)
        assert arrived.wait(PATIENCE_S)
        assert answering.wait(PATIENCE_S) == 0
        assert answering.stdout is not None
        assert answering.stdout.read().split() == ["ready", "done"]
    assert got == [(b"k-1", b"to question")]
