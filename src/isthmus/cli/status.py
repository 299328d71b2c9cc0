"""What a running bridge shows: a live panel on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.columns import Columns
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from isthmus.config import Settings

if TYPE_CHECKING:
    from isthmus.telemetry.metrics import RouterMetrics
    from isthmus.telemetry.parts import Reports

Show = Callable[[], None]
"""Brings what is shown up to date."""

LINE_EVERY_S = 60.0
"""Where lines are printed, and nothing moves, one that often is enough."""


@contextmanager
def status(
    console: Console,
    settings: Settings,
    metrics: RouterMetrics,
    facts: Mapping[str, str],
    reports: Reports = list,
) -> Iterator[Show]:
    """Shows the bridge for as long as it is entered."""
    if console.is_terminal and not console.is_dumb_terminal:  # a panel needs a cursor that moves
        panel = _Panel(settings, metrics, facts, reports)
        with Live(console=console, auto_refresh=False, transient=True) as live:
            yield lambda: live.update(panel.render(), refresh=True)
    else:
        console.print("ready: " + ", ".join(f"{name} {value}" for name, value in facts.items()))
        yield _Lines(console, metrics).show


def _summary(metrics: RouterMetrics) -> str:
    return ", ".join(f"{outcome} {count}" for outcome, count in metrics.outcomes.items() if count)


class _Lines:
    def __init__(self, console: Console, metrics: RouterMetrics) -> None:
        self._console, self._metrics = console, metrics
        self._said = ""
        self._due = 0.0

    def show(self) -> None:
        if time.monotonic() >= self._due and (summary := _summary(self._metrics)) != self._said:
            self._console.print(f"records so far: {summary}")
            self._said = summary
            self._due = time.monotonic() + LINE_EVERY_S


class _Panel:
    def __init__(
        self,
        settings: Settings,
        metrics: RouterMetrics,
        facts: Mapping[str, str],
        reports: Reports,
    ) -> None:
        self._settings, self._metrics, self._facts = settings, metrics, facts
        self._reports = reports
        self._started = time.monotonic()

    def render(self) -> Group:
        up_s = int(time.monotonic() - self._started)
        head = Text.assemble(("isthmus ", "bold green"), f"up {up_s // 60}:{up_s % 60:02}, Ctrl-C stops it")
        facts = [Text(f"{name} {value}", style="dim") for name, value in self._facts.items()]
        about = Columns(facts, padding=(0, 2))  # as many to a line as fit
        journal = self._settings.journal.topic
        outcomes = _summary(self._metrics) or "nothing yet"
        records = self._metrics.written(journal)  # not known where the router runs elsewhere
        said = Text(
            f"{journal} has {records} records, lag {self._metrics.lag}; routed: {outcomes}"
            if records is not None
            else "",
            no_wrap=False,
            overflow="fold",
        )
        tables = [self._routes(), *([self._parts()] if self._reports() else [])]
        return Group(head, about, *(each for table in tables for each in (Text(""), table)), Text(""), said)

    def _routes(self) -> Table:
        table = Table(box=None, padding=(0, 3, 0, 0))
        for title in ("route", "topic", "in topic", "published", "failed", "routing", "age"):
            table.add_column(title, justify="left" if title in ("route", "topic") else "right")
        for route in self._settings.routes:
            counts = self._metrics.routes.get(route.name)
            if counts is None:  # the router runs elsewhere
                continue
            routing, age = counts.routing_avg_ms, counts.age_avg_ms
            in_topic = self._metrics.written(route.topic)
            table.add_row(
                route.name,
                route.topic,
                "" if in_topic is None else str(in_topic),
                str(counts.success),
                str(counts.failure),
                "" if routing is None else f"{routing:.3f} ms",
                "" if age is None else f"{age:.1f} ms",
            )
        return table

    def _parts(self) -> Table:
        table = Table(box=None, padding=(0, 3, 0, 0))
        for title in ("part", "system", "state", "in", "out", "dead letters"):
            table.add_column(title, justify="left" if title in ("part", "system", "state") else "right")
        for each in self._reports():
            state = "connected" if each.connected else "away"
            counts = (each.taken.messages, each.delivered.messages, each.dead_letters)
            table.add_row(f"{each.kind} {each.name}", each.system, state, *map(str, counts))
        return table
