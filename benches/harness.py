"""What the benchmarks share: progress on the terminal, candidates in turn, medians, and the last line.

A benchmark prints for people, on stderr while it runs and on stdout at its end. The last line of stdout is
one JSON object for machines. Its ``--small`` form takes seconds, and shows that it works but not how fast
anything is; the tests run it.
"""

from __future__ import annotations

import argparse
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

from isthmus.embedded.kafka import EmbeddedKafka
from isthmus.kafka.options import Kafka

T = TypeVar("T")

console = Console(highlight=False)


def options_of(
    parser: argparse.ArgumentParser, arguments: Sequence[str] | None, **small: Any
) -> argparse.Namespace:
    """What the command line says; with ``--small``, the defaults are those that are given here."""
    parser.add_argument("--small", action="store_true", help="seconds: to see that it works")
    options = parser.parse_args(arguments)
    if options.small:
        parser.set_defaults(**small)
        options = parser.parse_args(arguments)
    return options


_shared: EmbeddedKafka | None = None


@contextmanager
def embedded_kafka(folder: Path) -> Iterator[Kafka]:
    """A Kafka of the benchmark's own. Several in a row in one process have one together."""
    if _shared is not None:
        yield Kafka(_shared.bootstrap_servers)
        return
    # Topics of past runs must not fill the disk.
    with EmbeddedKafka(folder, overrides={"log.segment.delete.delay.ms": "1000"}) as broker:
        yield Kafka(broker.bootstrap_servers)


@contextmanager
def one_kafka_for_all(folder: Path) -> Iterator[None]:
    """Has what `embedded_kafka` gives until the end of the block."""
    global _shared
    with EmbeddedKafka(folder) as _shared:
        try:
            yield
        finally:
            _shared = None


def in_turn(
    candidates: Mapping[str, Callable[[], T]], *, rounds: int, warm_up: bool = True
) -> dict[str, list[T]]:
    """Run every candidate in turn, round after round, so that a busy minute hits all of them alike.

    One more round goes before to warm up, and is not among the results: it is the JIT's.
    """
    results: dict[str, list[T]] = {name: [] for name in candidates}
    with progress() as bar:
        task = bar.add_task("", total=len(candidates) * (rounds + warm_up))
        for number in range(not warm_up, rounds + 1):
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
