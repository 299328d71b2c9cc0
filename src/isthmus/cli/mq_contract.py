"""``isthmus doctor --mq-contract``: put a queue manager to the checks of `isthmus.testing.mq_contract`.

Exit 0 if none is broken. The report is for us as much as for the user: it has what one must know to tell
whether the same is true elsewhere.
"""

from __future__ import annotations

import json
import platform
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

from isthmus.config import Settings
from isthmus.errors import ConfigError
from isthmus.testing.mq_contract import Result, Site, run

_STYLES = {"ok": "green", "not tried": "yellow", "broken": "bold red"}


def mq_contract(settings: Settings, queue: str, model_queue: str, topic: str, report: Path | None) -> None:
    """Check every queue manager that the settings name, and print and write what was found."""
    from isthmus.edges.mq.client import queue_manager
    from isthmus.edges.needs import queue_managers

    console = Console(highlight=False, soft_wrap=True)
    reports = []
    for manager in queue_managers(settings) or [settings.mq]:
        if manager.client == "memory":
            raise ConfigError(
                "mq.client=memory stands in for a queue manager: with --mq-contract name a real one"
            )
        site = Site(queue_manager(manager), queue, model_queue, topic)
        console.print(site.manager.description, markup=False)
        results = list(_printed(console, run(site)))
        console.print(_summary(results), markup=False)
        reports.append(_report(site, results))
    if report is not None:
        try:
            report.write_text(json.dumps(reports, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"{report} cannot be written: {error.strerror}") from None
    if any(each["counts"].get("broken") for each in reports):
        raise typer.Exit(1)


def _printed(console: Console, results: Iterator[Result]) -> Iterator[Result]:
    """The results, each printed as soon as it is there."""
    for each in results:
        said = f": {each.said}" if each.said else ""
        console.print(Text.assemble((f"{each.state:<10}", _STYLES[each.state]), each.name, said))
        yield each


def _summary(results: Sequence[Result]) -> str:
    counts: Counter[str] = Counter(each.state for each in results)
    return f"{len(results)} checks: " + ", ".join(f"{counts[state]} {state}" for state in _STYLES)


def _report(site: Site, results: Sequence[Result]) -> dict[str, Any]:
    return {
        "queue_manager": site.manager.description,
        "queue": site.queue,
        "model_queue": site.model_queue,
        "topic": site.topic,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {
            "isthmus": _version("isthmus"),
            "ibmmq": _version("ibmmq"),
            "python": platform.python_version(),
        },
        "counts": Counter(each.state for each in results),
        "checks": [each._asdict() for each in results],
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
