"""Runs the cases on the servers, and prints the last line."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benches import queue
from benches.harness import ending_in_good_order, finish, machine, say
from benches.jms import JmsQueue
from benches.queue.cases import EXIT_S, browse, copies, cycle, exit_, join, kill, order, rollback, speed
from benches.queue.servers import ArtemisBroker, Isthmus, Server
from benches.queue.trial import SMALL, Sizes, Trial

BARS = {
    "lost": 0,
    "duplicates": 0,
    "inversions": 0,
    "join_p50_ms": 100,
    "browse_p50_ms": 100,
    "memory_growth_percent": 5,
    "exit_s": EXIT_S,
}


def one_by_one(case: Callable[[Trial], None]) -> Callable[[Sequence[Trial]], None]:
    def run(trials: Sequence[Trial]) -> None:
        for trial in trials:
            with timed(f"  {case.__name__.strip('_')}, {trial.server.name}"):
                case(trial)

    return run


CASES: dict[str, Callable[[Sequence[Trial]], None]] = {
    "rollback": one_by_one(rollback),
    "order": one_by_one(order),
    "copies": copies,
    "cycle": one_by_one(cycle),
    "join": one_by_one(join),
    "browse": one_by_one(browse),
    "kill": one_by_one(kill),
    "speed": speed,
    "exit": one_by_one(exit_),
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=queue.__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--small", action="store_true", help="a little of everything, for a test")
    parser.add_argument("--only", choices=CASES, action="append", help="this case alone; may be repeated")
    parser.add_argument("--server", choices=("isthmus", "artemis"), help="this server alone")
    options = parser.parse_args()
    sizes = SMALL if options.small else Sizes()
    say(machine())
    with (
        ending_in_good_order(),
        tempfile.TemporaryDirectory() as name,
        JmsQueue(Path(name) / "jms") as jms,
        ExitStack() as stack,
    ):
        servers: list[Server] = []
        if options.server != "isthmus":
            servers.append(stack.enter_context(ArtemisBroker.running(Path(name), jms)))
        if options.server != "artemis":
            servers.append(stack.enter_context(Isthmus.running(Path(name))))
        trials = [Trial(server, jms, sizes, Path(name)) for server in servers]
        for trial in trials:  # on a new Kafka, the first receiver of all waits for topics of Kafka's own
            trial.server.fill(["warm-up"], 1)
            jms.run("receive", trial.url(1), "warm-up", quiet_ms=sizes.patience_ms)
        for case in options.only or CASES:
            with timed(case):
                CASES[case](trials)
    finish("queue", summary(trials))


@contextmanager
def timed(what: str) -> Iterator[None]:
    say(f"{what} …")
    began = time.monotonic()
    yield
    say(f"{what}: {time.monotonic() - began:.1f} s")


def summary(trials: Sequence[Trial]) -> dict[str, object]:
    """The last line: Artemis' figures with its name before them, and what was broken."""
    results: dict[str, object] = {}
    for trial in trials:
        prefix = "" if trial.server.name == "isthmus" else f"{trial.server.name}_"
        results |= {f"{prefix}{name}": figure for name, figure in (trial.counts | trial.figures).items()}
    match results:
        case {"receive_per_s": float() | int() as ours, "artemis_receive_per_s": float() | int() as theirs}:
            results["receive_ratio"] = round(ours / theirs, 2)
    return {**results, "bars": BARS, "broken": [line for trial in trials for line in trial.broken]}


if __name__ == "__main__":
    main()
