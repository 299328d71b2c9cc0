"""``isthmus top``: the panel of a bridge behind a real monitor."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.monitor import NO_MONITOR, answering
from tests.unit.cli.test_status import FACTS, PARTS, metrics, overview
from typer.testing import CliRunner

from isthmus.cli import app
from isthmus.errors import HardFailure, Unreachable
from isthmus.monitor.app import Watched
from isthmus.monitor.server import Monitor

TOKEN = "a token of 16 or more"
PROBLEMS: dict[str, str] = {}


@pytest.fixture
def monitor() -> Iterator[Monitor]:
    shown = Watched(overview(metrics("orders"), PARTS, FACTS), lambda: PROBLEMS)
    with Monitor("127.0.0.1", 0, shown, token=TOKEN) as it:
        yield it
    PROBLEMS.clear()


def test_it_shows_what_the_bridge_shows_of_itself(monitor: Monitor) -> None:
    done = CliRunner().invoke(app, ["top", monitor.url, "--token", TOKEN])
    assert done.exit_code == 0
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["orders", "t", "5", "0", "0"] in lines
    assert ["connector", "c", "mq→nats", "unavailable", "0", "0", "3"] in lines
    assert "isthmus.b.journal has 5 records" in done.stdout


def test_it_shows_what_is_wrong(monitor: Monitor) -> None:
    PROBLEMS["nats"] = "not connected"
    done = CliRunner().invoke(app, ["top", monitor.url, "--once"], env={"ISTHMUS_MONITOR_TOKEN": TOKEN})
    assert "nats: not connected" in done.stdout


def test_a_wrong_token_is_told(monitor: Monitor) -> None:
    done = CliRunner().invoke(app, ["top", monitor.url])
    assert isinstance(done.exception, HardFailure)
    assert "asks for another token" in str(done.exception)


def test_a_monitor_that_does_not_answer_is_told() -> None:
    done = CliRunner().invoke(app, ["top", "http://127.0.0.1:1"])
    assert isinstance(done.exception, Unreachable)
    assert "http://127.0.0.1:1/varz does not answer" in str(done.exception)


@pytest.mark.parametrize("octets", NO_MONITOR.values(), ids=NO_MONITOR)
def test_what_is_no_monitor_is_told_with_what_to_give(octets: bytes) -> None:
    with answering(octets) as url:
        done = CliRunner().invoke(app, ["top", url])
    assert isinstance(done.exception, HardFailure | Unreachable)
    said = f"{done.exception} {getattr(done.exception, 'remedy', '')}"
    assert "monitor.host and monitor.port" in said
    assert "\0" not in said


@pytest.mark.parametrize("url", ["http://127.0.0.1:amqp", "http://[::1", "edge:9464"])
def test_what_is_no_address_is_told(url: str) -> None:
    done = CliRunner().invoke(app, ["top", url])
    assert isinstance(done.exception, HardFailure)
    assert "no address of a monitor" in str(done.exception)
    assert "http://host:9464" in done.exception.remedy
