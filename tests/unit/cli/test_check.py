"""``isthmus check``: what it prints, and how it ends."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from types import ModuleType

import pytest
import typer
from typer.testing import CliRunner, Result

from isthmus.cli.check import check
from isthmus.config import KafkaSettings, TopicFacts

GOOD = "bridge.id=b\nkafka.sasl.password=s3cret\nroutes.r.predicate=msg.address==a\nroutes.r.dest.topic=t\n"
REMOTE = f"kafka.bootstrap.servers=h:1\n{GOOD}"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "60")
    app = typer.Typer()
    app.command()(check)

    def run_on(content: str, *options: str) -> Result:
        path = tmp_path / "b.properties"
        path.write_text(content)
        return CliRunner().invoke(app, [str(path), *options])

    return run_on


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> list[set[str]]:
    """A Kafka that has no topics; what it was asked for."""
    asked: list[set[str]] = []

    def probe(settings: KafkaSettings):
        assert settings.bootstrap_servers == "h:1"

        def answer(names: Collection[str]) -> Mapping[str, TopicFacts]:
            asked.append(set(names))
            return {}

        return answer

    module = ModuleType("isthmus.kafka.blocking")
    module.probe = probe
    monkeypatch.setitem(sys.modules, "isthmus.kafka.blocking", module)
    return asked


def test_a_good_file_ends_with_0(run):
    result = run(GOOD)
    assert result.exit_code == 0
    assert "b.properties: ok" in result.stdout


def test_it_says_what_is_taken_and_what_becomes_of_a_message_without_a_route(run):
    shown = run(GOOD).stdout
    assert "takes: AMQP and JMS clients at 127.0.0.1, port 5672" in shown
    assert "without a route: an AMQP client's message goes to its JMS destination" in shown
    assert json.loads(run(GOOD, "--json").stdout)["outline"]["takes"].startswith("AMQP and JMS clients")


def test_notes_and_warnings_end_with_0(run):
    result = run("bridge.id=a\nbridge.id=b\n")
    assert result.exit_code == 0
    assert "2: note: bridge.id: overrides line 1" in result.stdout
    assert "(1 warning, 1 note)" in result.stdout


def test_errors_end_with_1_and_are_printed_with_line_caret_and_hint(run):
    result = run(f"{GOOD}\nroutes.r.predicate=msg.address==\nrouting.on-eror=skip\n")
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    (at,) = (number for number, line in enumerate(lines) if "6: error: routes.r.predicate" in line)
    assert lines[at + 1 : at + 3] == ["    msg.address==", "                 ^"]
    assert "  hint: did you mean routing.on-error?" in lines
    assert "not usable (2 errors" in lines[-1]


def test_brackets_in_a_problem_are_not_taken_for_markup(run):
    assert "not '[bold]x'" in run(f"{GOOD}monitor.port=[bold]x").stdout


def test_json_is_one_object_and_nothing_else(run):
    result = run(f"{GOOD}monitor.port=x\n", "--json")
    assert result.exit_code == 1
    report = json.loads(result.stdout)
    assert report["file"].endswith("b.properties")
    assert report["ok"] is False
    (error,) = (each for each in report["problems"] if each["severity"] == "error")
    assert (error["line"], error["key"]) == (5, "monitor.port")
    assert "expected a whole number" in error["message"]
    assert result.stderr == ""


def test_json_of_a_good_file_is_ok(run):
    result = run(GOOD, "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["ok"] is True


def test_show_prints_the_settings_in_effect_without_secrets(run):
    result = run(GOOD, "--show")
    assert "bridge.id=b" in result.stdout.splitlines()
    assert "monitor.port=9464" in result.stdout.splitlines()
    assert "kafka.sasl.password=********" in result.stdout.splitlines()
    assert "s3cret" not in result.stdout


def test_show_and_json_go_together(run):
    settings = json.loads(run(GOOD, "--show", "--json").stdout)["settings"]
    assert settings["routes.r.dest.topic"] == "t"
    assert "s3cret" not in str(settings)


def test_a_real_kafka_is_asked_about_topics(run, kafka):
    result = run(REMOTE)
    assert kafka == [{"a", "t", "isthmus.b.journal"}]  # a is a JMS destination, if it has a topic
    assert result.exit_code == 1
    assert "topic 't' does not exist" in result.stdout


def test_offline_asks_no_kafka(run, kafka):
    result = run(REMOTE, "--offline")
    assert kafka == []
    assert result.exit_code == 0
    assert "topics are not checked: Kafka was not asked" in result.stdout


def test_a_kafka_whose_settings_are_wrong_is_not_asked(run, kafka):
    assert run(f"{REMOTE}kafka.sasl.username=${{env:NO_SUCH_VARIABLE}}").exit_code == 1
    assert kafka == []


def test_the_embedded_kafka_is_not_asked(run, kafka):
    assert run(GOOD).exit_code == 0
    assert kafka == []


def test_a_missing_kafka_client_is_an_error_with_a_remedy(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "isthmus.kafka.blocking", None)
    result = run(REMOTE)
    assert result.exit_code == 1
    assert "no Kafka client" in result.stdout
    assert "isthmus[bridge]" in result.stdout


def test_a_file_that_is_not_there_ends_with_1(run, tmp_path):
    app = typer.Typer()
    app.command()(check)
    result = CliRunner().invoke(app, [str(tmp_path / "none")])
    assert result.exit_code == 1
    assert "cannot be read: No such file" in result.stdout
