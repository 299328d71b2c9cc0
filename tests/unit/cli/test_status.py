"""The panel of a running bridge."""

from __future__ import annotations

import io
from collections.abc import Mapping

import pytest
from rich.console import Console

from isthmus.cli.status import status
from isthmus.config import Settings
from isthmus.routing.predicate import parse
from isthmus.routing.route import Route
from isthmus.telemetry.events import Event
from isthmus.telemetry.metrics import RouterMetrics
from isthmus.telemetry.parts import Flow, PartReport

SETTINGS = Settings(bridge_id="b", routes=(Route("orders", parse("msg.address==a"), "t"),))
FACTS = {"bridge": "b"}
PARTS = [
    PartReport(name="in", kind="intake", system="nats", connected=True, taken=Flow(7, 70)),
    PartReport(name="c", kind="connector", system="mq→nats", connected=False, dead_letters=3),
]


def metrics(*routes: str) -> RouterMetrics:
    made = RouterMetrics("b", dict.fromkeys(routes, "t"))
    if routes:
        made.see_sources({("isthmus.b.journal", 0): 5})
        made.see_topics({"t": 5})
    return made


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
    with status(console, SETTINGS, metrics, facts, lambda: parts) as show:
        show()
        return output.getvalue()


def test_the_panel_shows_every_part_with_its_state() -> None:
    lines = shown(metrics("orders"), PARTS, terminal=True).splitlines()
    [intake] = [line for line in lines if line.startswith("intake in")]
    [connector] = [line for line in lines if line.startswith("connector c")]
    assert intake.split() == ["intake", "in", "nats", "connected", "7", "0", "0"]
    assert connector.split() == ["connector", "c", "mq→nats", "away", "0", "0", "3"]


def test_the_panel_shows_all_facts_however_many_there_are() -> None:
    facts = {f"fact{number}": "x" * 20 for number in range(8)}
    panel = shown(metrics("orders"), PARTS, terminal=True, facts=facts)
    assert [name for name, value in facts.items() if f"{name} {value}" in panel] == list(facts)


def test_the_panel_shows_each_route_with_its_counts() -> None:
    counted = metrics("orders")
    counted.told(Event(position="isthmus.b.journal:0:4", outcome="skipped", route="orders", code="key"))
    counted.told(
        Event(
            position="isthmus.b.journal:0:0", outcome="published", route="orders", age_ms=3, routing_ns=41_500
        )
    )
    counted.see_topics({"t": 7})
    lines = shown(counted, [], terminal=True).splitlines()
    [route] = [line for line in lines if line.startswith("orders")]
    assert route.split() == ["orders", "t", "7", "2", "1", "0.042", "ms", "3.0", "ms"]
    assert "isthmus.b.journal has 5 records, lag 0; routed: published 2, skipped 1" in lines[-1]


def test_the_panel_fits_a_narrow_terminal() -> None:
    panel = shown(metrics("orders"), PARTS, terminal=True, width=40)
    assert "nothing yet" in " ".join(panel.split())


def test_the_panel_of_a_bridge_without_edges_has_no_parts() -> None:
    assert "system" not in shown(metrics("orders"), [], terminal=True)


def test_the_panel_of_edges_alone_shows_no_counts_of_a_router() -> None:
    panel = shown(metrics(), PARTS, terminal=True)
    assert "intake in" in panel
    assert "orders" not in panel


@pytest.mark.parametrize(("terminal", "kind"), [(False, "xterm"), (True, "dumb")])
def test_elsewhere_a_line_says_that_it_is_ready(terminal: bool, kind: str) -> None:
    lines = shown(metrics("orders"), PARTS, terminal=terminal, kind=kind)
    assert lines.startswith("ready: bridge b\n")
