"""``isthmus explain`` with a real Kafka: a message that the journal has, and topics as they are."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.kafka.topics import produce
from tests.support.names import unique
from tests.support.routing import journaled, message
from typer.testing import CliRunner, Result

from isthmus.cli import app
from isthmus.config import load
from isthmus.errors import ConfigError
from isthmus.kafka.blocking import create_topics
from isthmus.kafka.options import Kafka
from isthmus.kafka.own_topics import make_own_topics


@pytest.fixture
def file(kafka_servers: str, write: Callable[[str], Path]) -> Path:
    bridge = unique("b")
    create_topics(Kafka(kafka_servers), [f"{bridge}-small"], 1, {"max.message.bytes": "300"})
    return write(
        f"bridge.id={bridge}\nkafka.bootstrap.servers={kafka_servers}\nrouting.on-error=skip\n"
        f"message.convert=default\nroutes.s.predicate=msg.address==small\nroutes.s.dest.topic={bridge}-small\n"
    )


def explained(file: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["explain", str(file), "--json", *arguments])


def test_a_message_that_the_journal_has(file: Path, kafka_servers: str) -> None:
    settings = load(file, {})
    make_own_topics(settings, Kafka(kafka_servers))
    records = [journaled(message("small", text=text)) for text in ("hello", "x" * 300)]
    produce(kafka_servers, settings.journal.topic, *records, partition=1)
    for position in ("1:0", f"{settings.journal.topic}:1:0"):
        explanation = json.loads(explained(file, "--position", position).output)
        assert explanation["position"] == f"{settings.journal.topic}:1:0"
        assert explanation["results"][0]["value"] == "hello"
        assert explanation["assumed"] == []
    large = explained(file, "--position", "1:1")
    assert large.exit_code == 1
    assert json.loads(large.output)["results"][0]["code"] == "oversize"
    for nothing in ("1:2", "0:0", "99:0"):
        missing = explained(file, "--position", nothing)
        assert isinstance(missing.exception, ConfigError), missing.output
        assert "there is no record at" in str(missing.exception)


def test_topics_are_asked_for_if_that_is_wanted(file: Path) -> None:
    body = ["--body", "x" * 300]
    assert explained(file, "--address", "small", *body).exit_code == 0
    asked = json.loads(explained(file, "--address", "small", *body, "--connect").output)
    assert asked["results"][0]["code"] == "oversize"
    assert explained(file, "--address", "nowhere", *body).exit_code == 0
    nowhere = json.loads(explained(file, "--address", "nowhere", *body, "--connect").output)
    assert nowhere["results"][0]["code"] == "destination"
