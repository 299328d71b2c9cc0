"""What the benchmarks share: progress on the terminal, candidates in turn, medians, and the last line.

A benchmark prints for people, on stderr while it runs and on stdout at its end. The last line of stdout is
one JSON object for machines.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

T = TypeVar("T")

console = Console(highlight=False)


def in_turn(candidates: Mapping[str, Callable[[], T]], *, rounds: int) -> dict[str, list[T]]:
    """Run every candidate in turn, round after round, so that a busy minute hits all of them alike.

    One more round goes before and is not among the results: it is the JIT's.
    """
    results: dict[str, list[T]] = {name: [] for name in candidates}
    with progress() as bar:
        task = bar.add_task("", total=len(candidates) * (rounds + 1))
        for number in range(rounds + 1):
            for name, run in candidates.items():
                kind = f"round {number} of {rounds}" if number else "warm-up"
                bar.update(task, description=f"{kind}: {name}")
                result = run()
                if number:
                    results[name].append(result)
                bar.advance(task)
    return results


def middle(values: Sequence[float]) -> float:
    """The median."""
    return statistics.median(values)


def percentile(ordered: Sequence[float], share: float) -> float:
    """The value that this share of the values (in ascending order) does not exceed."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def progress() -> Progress:
    """A progress bar on stderr; nothing at all where that is not a terminal."""
    columns = (TextColumn("{task.description:<40}"), BarColumn(), TimeElapsedColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty())


def machine() -> str:
    """What it was measured on, and how busy that was with other things."""
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{os.cpu_count()} cores ({platform.machine()}), {memory_gib:.0f} GiB, "
        f"load {os.getloadavg()[0]:.1f} at the start"
    )


def cpu_s(pid: int) -> float | None:
    """The CPU time that a process has used: a figure that other processes disturb little. Linux only."""
    stat = Path(f"/proc/{pid}/stat")
    if not stat.exists():
        return None
    times = stat.read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, times)) / os.sysconf("SC_CLK_TCK")


def say(text: str) -> None:
    """One line about what is going on."""
    console.print(text, soft_wrap=True)


def finish(name: str, results: Mapping[str, Any]) -> None:
    """The last line."""
    print(json.dumps({"name": name, **results}), flush=True)


@contextmanager
def ending_in_good_order() -> Iterator[None]:
    """SIGTERM ends the benchmark like Ctrl-C does: whatever it has started and written goes with it."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(130)
