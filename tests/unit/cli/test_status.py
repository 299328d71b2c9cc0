"""The panel of a running bridge."""

from __future__ import annotations

import io
from collections.abc import Mapping

import pytest
from rich.console import Console

from isthmus.cli.status import status
from isthmus.config import Settings
from isthmus.kafka import blocking as kafka_module
from isthmus.kafka.options import Kafka
from isthmus.routing.predicate import parse
from isthmus.routing.route import Route
from isthmus.telemetry.metrics import RouterMetrics
from isthmus.telemetry.parts import Flow, PartReport

SETTINGS = Settings(bridge_id="b", routes=(Route("orders", parse("msg.address==a"), "t"),))
FACTS = {"bridge": "b"}
PARTS = [
    PartReport(name="in", kind="intake", system="nats", connected=True, taken=Flow(7, 70)),
    PartReport(name="c", kind="connector", system="mq→nats", connected=False, dead_letters=3),
]


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_module, "count_records", lambda _, topics: dict.fromkeys(topics, 5))


def shown(
    metrics: RouterMetrics,
    parts: list[PartReport],
    *,
    terminal: bool,
    facts: Mapping[str, str] = FACTS,
    width: int = 120,
    kind: str = "xterm",
) -> str:
    output = io.StringIO()
    console = Console(
        file=output,
        force_terminal=terminal,
        width=width,
        no_color=True,
        soft_wrap=True,
        _environ={"TERM": kind},  # and not that of whoever runs the test
    )
    with status(console, SETTINGS, Kafka("h:1"), metrics, facts, lambda: parts) as show:
        show()
        return output.getvalue()


def test_the_panel_shows_every_part_with_its_state() -> None:
    lines = shown(RouterMetrics("b", ["orders"]), PARTS, terminal=True).splitlines()
    [intake] = [line for line in lines if line.startswith("intake in")]
    [connector] = [line for line in lines if line.startswith("connector c")]
    assert intake.split() == ["intake", "in", "nats", "connected", "7", "0", "0"]
    assert connector.split() == ["connector", "c", "mq→nats", "away", "0", "0", "3"]


def test_the_panel_shows_all_facts_however_many_there_are() -> None:
    facts = {f"fact{number}": "x" * 20 for number in range(8)}
    panel = shown(RouterMetrics("b", ["orders"]), PARTS, terminal=True, facts=facts)
    assert [name for name, value in facts.items() if f"{name} {value}" in panel] == list(facts)


def test_the_panel_fits_a_narrow_terminal() -> None:
    panel = shown(RouterMetrics("b", ["orders"]), PARTS, terminal=True, width=40)
    assert "nothing yet" in " ".join(panel.split())


def test_the_panel_of_a_bridge_without_edges_has_no_parts() -> None:
    assert "system" not in shown(RouterMetrics("b", ["orders"]), [], terminal=True)


def test_the_panel_of_edges_alone_shows_no_counts_of_a_router() -> None:
    panel = shown(RouterMetrics("b", []), PARTS, terminal=True)
    assert "intake in" in panel
    assert "orders" not in panel


@pytest.mark.parametrize(("terminal", "kind"), [(False, "xterm"), (True, "dumb")])
def test_elsewhere_a_line_says_that_it_is_ready(terminal: bool, kind: str) -> None:
    lines = shown(RouterMetrics("b", ["orders"]), PARTS, terminal=terminal, kind=kind)
    assert lines.startswith("ready: bridge b\n")
