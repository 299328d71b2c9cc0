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
    from isthmus.kafka.options import Kafka
    from isthmus.telemetry.metrics import RouterMetrics
    from isthmus.telemetry.parts import Reports

Show = Callable[[], None]
"""Brings what is shown up to date."""

COUNT_EVERY_S = 1.0


@contextmanager
def status(
    console: Console,
    settings: Settings,
    kafka: Kafka,
    metrics: RouterMetrics,
    facts: Mapping[str, str],
    reports: Reports = list,
) -> Iterator[Show]:
    """Shows the bridge for as long as it is entered."""
    if console.is_terminal and not console.is_dumb_terminal:  # a panel needs a cursor that moves
        panel = _Panel(settings, kafka, metrics, facts, reports)
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

    def show(self) -> None:
        if (summary := _summary(self._metrics)) != self._said:
            self._console.print(f"records so far: {summary}")
            self._said = summary


class _Panel:
    """What is in the topics is counted every second; what the router did is known when a batch ends."""

    def __init__(
        self,
        settings: Settings,
        kafka: Kafka,
        metrics: RouterMetrics,
        facts: Mapping[str, str],
        reports: Reports,
    ) -> None:
        self._settings, self._kafka, self._metrics, self._facts = settings, kafka, metrics, facts
        self._reports = reports
        self._started = time.monotonic()
        self._counted = 0.0
        self._records: dict[str, int] = {}

    def render(self) -> Group:
        self._count()
        up_s = int(time.monotonic() - self._started)
        head = Text.assemble(("isthmus ", "bold green"), f"up {up_s // 60}:{up_s % 60:02}, Ctrl-C stops it")
        facts = [Text(f"{name} {value}", style="dim") for name, value in self._facts.items()]
        about = Columns(facts, padding=(0, 2))  # as many to a line as fit
        journal = self._settings.journal.topic
        outcomes = _summary(self._metrics) or "nothing yet"
        said = Text(
            f"{journal} has {self._records.get(journal, 0)} records; routed until the last batch: {outcomes}",
            no_wrap=False,
            overflow="fold",
        )
        tables = [self._routes(), *([self._parts()] if self._reports() else [])]
        return Group(head, about, *(each for table in tables for each in (Text(""), table)), Text(""), said)

    def _count(self) -> None:
        from isthmus.kafka.blocking import count_records

        if time.monotonic() - self._counted >= COUNT_EVERY_S:
            topics = {self._settings.journal.topic, *(route.topic for route in self._settings.routes)}
            self._records = count_records(self._kafka, topics) or self._records
            self._counted = time.monotonic()

    def _routes(self) -> Table:
        table = Table(box=None, padding=(0, 3, 0, 0))
        for title in ("route", "topic", "in topic", "published", "failed", "latency"):
            table.add_column(title, justify="left" if title in ("route", "topic") else "right")
        for route in self._settings.routes:
            counts = self._metrics.routes.get(route.name)
            if counts is None:  # the router runs elsewhere
                continue
            average = counts.latency_avg_ms
            latency = "" if average is None else f"{average:.1f} ms"
            in_topic = str(self._records.get(route.topic, ""))
            table.add_row(
                route.name, route.topic, in_topic, str(counts.success), str(counts.failure), latency
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
