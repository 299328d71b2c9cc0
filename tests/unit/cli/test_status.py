"""The panel of a running bridge."""

from __future__ import annotations

import io
import time
from collections.abc import Mapping
from dataclasses import replace

import pytest
from rich.console import Console

from isthmus.cli.status import panel, status
from isthmus.config import Settings
from isthmus.events import take_counts
from isthmus.events.amqp import LoginRefused, MessageRejected, WorkerEnded
from isthmus.events.bridge import ReloadRefused
from isthmus.routing.predicate import parse
from isthmus.routing.route import Route
from isthmus.telemetry.events import Event
from isthmus.telemetry.held import HeldTransactions
from isthmus.telemetry.metrics import RouterMetrics
from isthmus.telemetry.overview import Overview
from isthmus.telemetry.parts import Flow, PartMetrics, PartReport

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


def overview(metrics: RouterMetrics, parts: list[PartReport], facts: Mapping[str, str] = FACTS) -> Overview:
    journal = SETTINGS.journal.topic
    return Overview(metrics, PartMetrics("b", lambda: parts), journal, lambda: SETTINGS.routes, facts)


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
    with status(console, overview(metrics, parts, facts).document) as show:
        show()
        return output.getvalue()


def test_the_panel_shows_every_part_with_its_state() -> None:
    lines = shown(metrics("orders"), PARTS, terminal=True).splitlines()
    [intake] = [line for line in lines if line.startswith("intake in")]
    [connector] = [line for line in lines if line.startswith("connector c")]
    assert intake.split() == ["intake", "in", "nats", "connected", "7", "0", "0"]
    assert connector.split() == ["connector", "c", "mq→nats", "unavailable", "0", "0", "3"]


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


def test_the_panel_tells_of_every_restart_and_refusal() -> None:
    take_counts()
    counted = metrics("orders")
    assert "so far" not in shown(counted, PARTS, terminal=True)
    counted.restarted("router")
    counted.restarted("router")
    WorkerEnded(1).emit()
    LoginRefused("10.0.0.1").emit()
    MessageRejected("orders", "amqp:not-allowed", "no").emit()
    ReloadRefused("bridge.properties:3: error").emit()
    lines = shown(counted, PARTS, terminal=True).splitlines()
    take_counts()
    assert "restarts so far: router 2, AMQP workers 1" in lines
    assert "refused so far: logins 1, messages 1, reloads 1" in lines


def test_the_panel_tells_of_transactions_that_the_ledger_holds() -> None:
    made = overview(metrics("orders"), PARTS)
    held = HeldTransactions(3, 1, int(time.time() * 1000) - 90_001)
    console = Console(file=io.StringIO(), width=120)
    console.print(panel(replace(made, held=lambda: held).document(), "q ends it"))
    assert isinstance(console.file, io.StringIO)
    assert "the ledger holds 3 transactions, 1 of them prepared, the oldest for 9" in console.file.getvalue()


def test_the_panel_fits_a_narrow_terminal() -> None:
    panel = shown(metrics("orders"), PARTS, terminal=True, width=40)
    assert "nothing yet" in " ".join(panel.split())


def test_one_long_fact_leaves_the_others_beside_each_other() -> None:
    facts = {**{f"fact-{n}": "x" for n in range(6)}, "without a route": "a message goes nowhere " * 3}
    printed = shown(metrics(), [], terminal=True, facts=facts, width=80)
    assert any(all(f"fact-{n} x" in line for n in range(6)) for line in printed.splitlines())


def test_a_figure_and_its_unit_stay_in_one_line() -> None:
    made = overview(metrics("orders"), PARTS).document()
    (route,) = made["router"]["routes"]
    busy = {**route, "name": "a-long-name-of-a-route", "topic": "isthmus.quickstart.outbox.nats"}
    busy |= {"published": 1234567, "in_topic": 1234567, "routing_ms": 175.705, "age_ms": 10324.2}
    console = Console(file=io.StringIO(), width=80, no_color=True)
    console.print(panel({**made, "router": {**made["router"], "routes": [busy]}}, "q ends it"))
    assert isinstance(console.file, io.StringIO)
    assert "175.705 ms" in console.file.getvalue()
    assert "10324.2 ms" in console.file.getvalue()


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
