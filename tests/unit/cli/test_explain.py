"""``isthmus explain``: a message by its options, or out of a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.commands import QUICKSTART
from typer.testing import CliRunner, Result

from isthmus import AmqpMessage, AmqpValue
from isthmus.cli import app
from isthmus.cli.show import as_json
from isthmus.codecs.amqp import MessageProperties
from isthmus.errors import ConfigError
from isthmus.routing.explain import sample


def explained(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["explain", str(QUICKSTART), *map(str, arguments)])


def test_the_terminal_shows_which_term_keeps_a_route_from_it() -> None:
    done = explained("-a", "orders", "-H", "region=US", "-p", "amount:int=2000", "-H", "CorrelationId=c-7")
    assert done.exit_code == 0, done.output
    assert "✗ eu-orders does not take it" in done.output
    assert "✗ msg.header.region==EU   region is 'US'" in done.output
    assert "✓ large-orders takes it" in done.output
    assert (
        "published by large-orders to orders-large, with the key from msg.header.CorrelationId" in done.output
    )


def test_a_soft_failure_ends_with_1_and_has_its_code() -> None:
    done = explained("-a", "orders", "-H", "region=EU", "--json")
    assert done.exit_code == 1
    result = json.loads(done.output)["results"][0]
    assert (result["route"], result["outcome"], result["code"]) == ("eu-orders", "dead-lettered", "key")


def test_a_captured_amqp_message_is_explained(tmp_path: Path) -> None:
    captured = tmp_path / "order.amqp"
    properties = MessageProperties(to="orders", correlation_id="c-7")
    made = AmqpMessage(
        properties=properties, application_properties={"region": "EU"}, body=AmqpValue("hello")
    )
    captured.write_bytes(made.encode())
    done = explained("--file", captured, "--json")
    assert done.exit_code == 0, done.output
    result = json.loads(done.output)["results"][0]
    assert (result["topic"], result["key"], result["value"]) == ("orders-eu", "c-7", "hello")


def test_a_line_of_receive_on_the_journal_is_explained(tmp_path: Path) -> None:
    line = tmp_path / "line.json"
    record = sample("orders/eu", {}, b"hello", json=False)
    line.write_text(as_json(place="isthmus.quickstart.journal:1:17", **record._asdict()))
    done = explained("--file", line, "--json")
    assert done.exit_code == 0, done.output
    explanation = json.loads(done.output)
    assert explanation["position"] == "isthmus.quickstart.journal:1:17"
    assert explanation["results"][0]["route"] == "other-orders"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "which message"),
        (("-a", "x", "--body", "y", "--position", "0:1"), "exclude each other"),
        (("--position", "17"), "partition:offset"),
    ],
)
def test_what_names_no_message_is_refused(arguments: tuple[str, ...], said: str, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("ISTHMUS_KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    done = explained(*arguments)
    assert done.exit_code == 2
    assert said in done.output


def test_a_position_of_a_topic_that_the_router_does_not_read_is_refused(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setenv("ISTHMUS_KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    done = explained("--position", "orders-eu:0:1")
    assert isinstance(done.exception, ConfigError)
    assert "the router does not read orders-eu" in str(done.exception)
