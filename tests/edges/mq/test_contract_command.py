"""``isthmus doctor --mq-contract``, through IBM's binding."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.mq.backends import StandIn
from typer.testing import CliRunner, Result

from isthmus.cli import app
from isthmus.testing.mq_contract import CHECKS
from isthmus.testing.mq_contract.site import put


@pytest.fixture
def file(tmp_path: Path, stand_in: StandIn, mqi_library: Path) -> Path:
    file = tmp_path / "real.properties"
    file.write_text(f"mq.client=ibm\nmq.queue-manager=STANDIN\nmq.library={mqi_library}\n")
    return file


def doctor(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["doctor", "--mq-contract", *map(str, arguments)])


def test_every_check_is_printed_and_reported(stand_in: StandIn, file: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    names = ("--mq-queue", stand_in.queue(1), "--mq-model-queue", stand_in.model_queue())
    result = doctor(file, *names, "--report", report)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].startswith("IBM MQ STANDIN at")
    assert lines[1] == "ok        a message comes back with its body descriptor and properties"
    assert lines[-1] == f"{len(CHECKS)} checks: {len(CHECKS)} ok, 0 not tried, 0 broken"
    [told] = json.loads(report.read_text())
    assert told["queue_manager"] == lines[0]
    assert told["counts"] == {"ok": len(CHECKS)}
    assert told["versions"]["ibmmq"]


def test_what_is_otherwise_is_told_and_is_the_exit_code(stand_in: StandIn, file: Path) -> None:
    result = doctor(file, "--mq-queue", stand_in.queue(1), "--mq-model-queue", "NO.MODEL")
    assert result.exit_code == 1
    assert "broken    of a model queue a queue is made: " in result.stdout
    assert result.stdout.splitlines()[-1].endswith("0 not tried, 2 broken")


def test_a_queue_with_messages_is_left_alone(stand_in: StandIn, file: Path) -> None:
    queue, connection = stand_in.queue(1), stand_in.queue_manager.connect()
    put(connection, queue, b"somebody's")
    result = doctor(file, "--mq-queue", queue)
    assert "the queue TEST.1 has messages" in str(result.exception)
    assert connection.open_queue(queue).get() is not None
    connection.disconnect()


def test_a_stand_in_in_memory_is_not_put_to_the_checks(tmp_path: Path) -> None:
    file = tmp_path / "bridge.properties"
    file.write_text("mq.client=memory\n")
    assert "name a real one" in str(doctor(file).exception)


@pytest.mark.parametrize("option", ["--mq-queue", "--mq-model-queue", "--mq-topic", "--report"])
def test_the_options_of_the_checks_are_wrong_usage_without_them(option: str) -> None:
    result = CliRunner().invoke(app, ["doctor", option, "x"])
    assert result.exit_code == 2
    assert "with --mq-contract only" in result.output
