"""What a bridge shows of itself: a live panel on a terminal, plain lines elsewhere.

Both are drawn from the document of `isthmus.telemetry.overview`, so that ``isthmus top`` shows the same of a
bridge that runs elsewhere.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.live import Live
from rich.table import Table
from rich.text import Text

Show = Callable[[], None]
"""Brings what is shown up to date."""
Document = Mapping[str, Any]
"""An overview, and perhaps ``problems``: what is wrong, by part."""

_BETWEEN = "   "
LINE_EVERY_S = 60.0
"""Where lines are printed, and nothing moves, one that often is enough."""


def has_panel(console: Console) -> bool:
    """Whether there is a terminal with a cursor that moves, which a panel needs."""
    return console.is_terminal and not console.is_dumb_terminal


@contextmanager
def status(console: Console, document: Callable[[], Document]) -> Iterator[Show]:
    """Shows the bridge of this process for as long as it is entered."""
    if has_panel(console):
        with Live(console=console, auto_refresh=False, transient=True) as live:
            yield lambda: live.update(panel(document(), "Ctrl-C stops it"), refresh=True)
    else:
        facts = document()["facts"]
        console.print("ready: " + ", ".join(f"{name} {value}" for name, value in facts.items()))
        yield _Lines(console, document).show


class _Lines:
    def __init__(self, console: Console, document: Callable[[], Document]) -> None:
        self._console, self._document = console, document
        self._said = ""
        self._due = 0.0

    def show(self) -> None:
        if time.monotonic() >= self._due and (summary := _summary(self._document())) != self._said:
            self._console.print(f"records so far: {summary}")
            self._said = summary
            self._due = time.monotonic() + LINE_EVERY_S


def _summary(document: Document) -> str:
    return ", ".join(f"{outcome} {count}" for outcome, count in document["router"]["outcomes"].items())


def panel(document: Document, hint: str) -> Group:
    """A bridge at a glance. ``hint`` says how to be rid of the panel."""
    up_s = document["uptime_s"]
    problems: Mapping[str, str] = document.get("problems", {})
    style = "bold red" if problems else "bold green"
    head = Text.assemble(("isthmus ", style), f"up {up_s // 60}:{up_s % 60:02}, {hint}")
    about = _Facts([f"{name} {value}" for name, value in document["facts"].items()])
    wrong = [Text(f"{part}: {why}", style="red") for part, why in problems.items()]
    wrong += [Text(line, style="yellow") for line in _incidents(document)]
    router = document["router"]
    outcomes = _summary(document) or "nothing yet"
    said = Text(
        f"{router['journal']} has {router['records']} records, lag {router['lag']}; routed: {outcomes}"
        if router["records"] is not None
        else "",
        no_wrap=False,
        overflow="fold",
    )
    parts = [*_parts(document)]
    tables = [_routes(document), *([_table_of_parts(parts)] if parts else [])]
    return Group(
        head, about, *wrong, *(each for table in tables for each in (Text(""), table)), Text(""), said
    )


class _Facts:
    """As many to a line as fit; a long one takes no room from the others."""

    def __init__(self, facts: list[str]) -> None:
        self._facts = facts

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        line = ""
        for fact in self._facts:
            if line and cell_len(line) + len(_BETWEEN) + cell_len(fact) > options.max_width:
                yield Text(line, style="dim")
                line = ""
            line += f"{_BETWEEN}{fact}" if line else fact
        yield Text(line, style="dim")


def _incidents(document: Document) -> Iterator[str]:
    """What waits for somebody, and what has happened since the start that is over by now."""
    if (held := document.get("ledger")) and held["transactions"]:
        prepared = f", {held['prepared']} of them prepared" if held["prepared"] else ""
        oldest = f"the oldest for {held['oldest_transaction_s']:.0f} s"
        yield f"the ledger holds {held['transactions']} transactions{prepared}, {oldest}"
    for title in ("restarts", "refused"):
        if counts := document.get(title):
            yield f"{title} so far: " + ", ".join(f"{what} {count}" for what, count in counts.items())


def _routes(document: Document) -> Table:
    table = Table(box=None, padding=(0, 3, 0, 0))
    for title in ("route", "topic", "in topic", "published", "failed", "routing", "age"):
        is_name = title in ("route", "topic")
        table.add_column(title, justify="left" if is_name else "right", no_wrap=not is_name)
    for route in document["router"]["routes"]:
        routing, age, in_topic = route["routing_ms"], route["age_ms"], route["in_topic"]
        table.add_row(
            route["name"],
            route["topic"],
            "" if in_topic is None else str(in_topic),
            str(route["published"]),
            str(route["failed"]),
            "" if routing is None else f"{routing:.3f} ms",
            "" if age is None else f"{age:.1f} ms",
        )
    return table


def _parts(document: Document) -> Iterator[tuple[str, Document]]:
    for kind in ("connector", "intake", "route"):
        for each in document[f"{kind}s"]:
            yield kind, each


def _table_of_parts(parts: list[tuple[str, Document]]) -> Table:
    table = Table(box=None, padding=(0, 3, 0, 0))
    for title in ("part", "system", "state", "in", "out", "dead letters"):
        table.add_column(title, justify="left" if title in ("part", "system", "state") else "right")
    for kind, each in parts:
        state = "connected" if each["connected"] else "unavailable"
        counts = (each["messages_in"], each["messages_out"], each["dead_letters"])
        table.add_row(f"{kind} {each['name']}", each["system"], state, *map(str, counts))
    return table
