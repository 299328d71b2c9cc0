"""``isthmus edge``: the edges of a bridge alone, beside a Kafka and a NATS that run already."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.commands import Running
from tests.support.names import unique
from tests.support.polling import PATIENCE_S, eventually

import nats
from isthmus.embedded.nats import EmbeddedNats
from isthmus.journal import layout
from isthmus.journal.layout import Record
from isthmus.kafka.blocking import create_topics, read_topic
from isthmus.kafka.options import Kafka


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedNats]:
    with EmbeddedNats(tmp_path_factory.mktemp("nats")) as running:
        yield running


Start = Callable[..., Running]


@pytest.fixture
def edge(tmp_path: Path, kafka_servers: str, server: EmbeddedNats) -> Iterator[Start]:
    """Starts ``isthmus edge`` with a configuration; it is killed in the end."""
    started: list[Running] = []

    def start(configuration: str, *, url: str | None = None) -> Running:
        file = tmp_path / "bridge.properties"
        file.write_text(
            f"bridge.id=b-{uuid.uuid4().hex[:8]}\nkafka.bootstrap.servers={kafka_servers}\n"
            f"nats.servers={url or server.url}\nmq.client=memory\n{configuration}"
        )
        started.append(Running(tmp_path, file, command="edge"))
        return started[-1]

    yield start
    for each in started:
        each.kill()


def publish(url: str, subject: str, payload: bytes) -> None:
    async def scenario() -> None:
        client = await nats.connect(url)
        await client.publish(subject, payload)
        await client.flush()
        await client.close()

    asyncio.run(scenario())


def records(kafka_servers: str, topic: str) -> list[Record]:
    return [
        Record(each.key(), each.value(), each.headers() or [])  # type: ignore[arg-type]
        for each in read_topic(Kafka(kafka_servers), topic)
    ]


def health(running: Running) -> tuple[int, dict[str, object]]:
    status, said = running.monitor("/healthz")
    return status, json.loads(said)


def journal_of(running: Running) -> str:
    return f"isthmus.{running.printed().partition('bridge ')[2].partition(',')[0]}.journal"


def test_messages_are_in_the_journal_and_a_signal_ends_it_in_good_order(
    edge: Start, server: EmbeddedNats, kafka_servers: str
) -> None:
    running = edge("nats.intake.in.subject=edge.in")
    running.wait_until_ready()
    publish(server.url, "edge.in", b"hello")
    eventually(lambda: len(records(kafka_servers, journal_of(running))) == 1, timeout_s=30)
    [record] = records(kafka_servers, journal_of(running))
    assert layout.decode(record).message.address == "edge.in"
    status, varz = running.monitor("/varz")
    [intake] = json.loads(varz)["intakes"]
    assert (status, intake["name"], intake["messages_in"], intake["bytes_in"]) == (200, "in", 1, 5)
    assert "isthmus_part_messages_total{" in running.monitor("/metrics")[1]
    assert running.stop() == 0
    assert running.printed().endswith("stopping\nstopped\n")


def test_what_stands_in_for_mq_is_called_that(edge: Start) -> None:
    running = edge("mq.intake.q.queue=Q")
    running.wait_until_ready()
    assert "stands in for IBM MQ" in running.printed()


def test_health_tells_that_nats_is_away_and_that_it_is_back(edge: Start, tmp_path: Path) -> None:
    with EmbeddedNats(tmp_path / "nats") as own:
        running = edge("nats.intake.in.subject=s\nnats.reconnect.max-wait=500ms", url=own.url)
        running.wait_until_ready()
        up = (200, {"status": "up", "problems": {}})
        eventually(lambda: health(running) == up, what=running.printed)
        own.stop()
        eventually(lambda: running.monitor("/healthz")[0] == 503, timeout_s=30)
        assert json.loads(running.monitor("/healthz")[1])["problems"] == {"nats": "not connected"}
        own.start()
        eventually(lambda: running.monitor("/healthz")[0] == 200, timeout_s=30)
        assert running.stop() == 0


def test_a_nats_that_refuses_the_bridge_ends_it_with_3_and_says_why(edge: Start, tmp_path: Path) -> None:
    with EmbeddedNats(tmp_path / "nats", config="authorization { user: u, password: right }") as own:
        running = edge("nats.intake.in.subject=s\nnats.user=u\nnats.password=wrong", url=own.url)
        assert running.process.wait(PATIENCE_S) == 3
    assert "refuses the bridge" in running.printed()
    assert "what to do: check nats.user" in running.printed()
    assert "wrong" not in running.printed()


@contextmanager
def dead_letter_topic(kafka_servers: str) -> Iterator[str]:
    name = unique("dead")
    create_topics(Kafka(kafka_servers), [name], 1)
    yield name


def test_a_message_that_cannot_be_read_is_a_dead_letter(
    edge: Start, server: EmbeddedNats, kafka_servers: str
) -> None:
    with dead_letter_topic(kafka_servers) as topic:
        running = edge(
            f"nats.intake.in.subject=edge.poison\nnats.intake.in.form=nats-mq\n"
            f"routing.on-error=dead-letter\nrouting.dead-letter.topic={topic}"
        )
        running.wait_until_ready()
        publish(server.url, "edge.poison", b"poison")
        eventually(lambda: len(records(kafka_servers, topic)) == 1, timeout_s=30)
        [record] = records(kafka_servers, topic)
        headers = dict(record.headers)
        assert record.value == b"poison"
        assert headers[layout.ERROR_CODE] == b"malformed"
        assert headers[layout.ADDRESS] == b"edge.poison"
        assert layout.ORIGIN in headers


def test_under_stop_such_a_message_ends_the_bridge_with_3(edge: Start, server: EmbeddedNats) -> None:
    running = edge("nats.intake.in.subject=edge.stop\nnats.intake.in.form=nats-mq")
    running.wait_until_ready()
    publish(server.url, "edge.stop", b"poison")
    assert running.process.wait(PATIENCE_S) == 3
    assert "edge.stop: a message cannot be handled" in running.printed()


def test_under_skip_it_is_passed_over(edge: Start, server: EmbeddedNats, kafka_servers: str) -> None:
    running = edge(
        "nats.intake.in.subject=edge.skip\nnats.intake.in.form=nats-mq\nnats.intake.plain.subject=edge.next\n"
        "routing.on-error=skip"
    )
    running.wait_until_ready()
    publish(server.url, "edge.skip", b"poison")
    publish(server.url, "edge.next", b"next")
    eventually(lambda: len(records(kafka_servers, journal_of(running))) == 1, timeout_s=30)
    assert "a message was skipped" in running.printed()


def test_a_bridge_without_edges_has_nothing_to_run(edge: Start) -> None:
    running = edge("")
    assert running.process.wait(PATIENCE_S) == 1
    assert "no edges" in running.printed()
