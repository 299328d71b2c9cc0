"""How fast the AMQP codec is beside Qpid Proton's and azure-eventhub's: ``python -m benches.codec``.

The message is a text message of Qpid JMS with ten string properties. The codec's two forms, compiled and
plain, have a process each: they cannot be mixed. In every round each of our functions is timed next to the
baseline that it is compared with, in turns first and second, by the time of the processor; a ratio is the
median over the rounds. Above 1 we are faster. The last line is JSON.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from benches.harness import finish, options_of, say
from isthmus.codecs import amqp

MESSAGE = Path(__file__).parents[1] / "tests" / "golden" / "amqp" / "text_ten_properties.amqp"
ROUNDS = 60
SECONDS_PER_TIMING = 0.004

Action = Callable[[], object]


class Comparison(NamedTuple):
    """Two ways to do the same, and the ratios of their times that were measured."""

    name: str
    baseline: Action
    candidate: Action
    baseline_us: list[float]
    candidate_us: list[float]

    def ratio(self) -> float:
        """How many times as fast as the baseline the candidate is."""
        return statistics.median(b / c for b, c in zip(self.baseline_us, self.candidate_us, strict=True))


def comparisons(data: bytes) -> list[Comparison]:
    """What the codec is compared with."""
    try:
        import proton
        from azure.eventhub._pyamqp._decode import decode_payload
    except ImportError as error:
        sys.exit(f"this benchmark compares with python-qpid-proton and azure-eventhub: {error}")
    ours = amqp.AmqpMessage.decode(data)
    theirs = proton.Message()
    theirs.decode(data)
    view = memoryview(data)
    decode: Action = lambda: proton.Message().decode(data)  # noqa: E731
    full: Action = lambda: amqp.AmqpMessage.decode(data)  # noqa: E731
    pairs: dict[str, tuple[Action, Action]] = {
        "boundaries": (decode, lambda: amqp.boundaries(data)),
        "index": (decode, lambda: amqp.index(data)),
        "full": (decode, full),
        "encode": (theirs.encode, ours.encode),
        "pyamqp": (lambda: decode_payload(view), full),
    }
    return [Comparison(name, *pair, [], []) for name, pair in pairs.items()]


def microseconds(action: Action, count: int) -> float:
    """The time of one call."""
    start = time.process_time_ns()
    for _ in range(count):
        action()
    return (time.process_time_ns() - start) / count / 1000


def measure(rounds: int) -> dict[str, list[float]]:
    """The form that this process has: the baseline's and our µs, and the ratio, by what was compared."""
    data = MESSAGE.read_bytes()
    found = comparisons(data)
    counts = {}
    for comparison in found:
        for action in (comparison.baseline, comparison.candidate):
            counts[action] = max(1, round(SECONDS_PER_TIMING * 1e6 / microseconds(action, 300)))
    gc.disable()
    for number in range(rounds):
        for comparison in found:
            timings = [
                (comparison.baseline, comparison.baseline_us),
                (comparison.candidate, comparison.candidate_us),
            ]
            for action, times in timings if number % 2 else reversed(timings):
                times.append(microseconds(action, counts[action]))
        gc.collect()
    return {
        c.name: [statistics.median(c.baseline_us), statistics.median(c.candidate_us), c.ratio()]
        for c in found
    }


def in_a_process(*, plain: bool, rounds: int) -> dict[str, list[float]]:
    """What `measure` finds in a process whose codec has the form that is asked for."""
    form = "plain" if plain else "compiled"
    say(f"{form}: {rounds} rounds …")
    done = subprocess.run(
        [sys.executable, "-m", "benches.codec", "--form", form, "--rounds", str(rounds)],
        env={**os.environ, "ISTHMUS_PURE_PYTHON": "1" if plain else ""},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(done.returncode)  # it has said why
    found: dict[str, list[float]] = json.loads(done.stdout)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benches.codec", description="the AMQP codec's speed")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--form", choices=("compiled", "plain"), help=argparse.SUPPRESS)
    options = options_of(parser, arguments, rounds=1)
    if options.form:
        if (options.form == "compiled") != amqp.COMPILED:
            sys.exit("the codec is not compiled here: run make setup on a machine with a C compiler")
        print(json.dumps(measure(options.rounds)))
        return
    forms = {
        "": in_a_process(plain=False, rounds=options.rounds),
        "plain_": in_a_process(plain=True, rounds=options.rounds),
    }
    print(f"\n{'':<18}{'baseline µs':>12}{'ours µs':>10}{'ratio':>9}")
    ratios: dict[str, float] = {}
    for prefix, found in forms.items():
        for name, (baseline_us, ours_us, ratio) in found.items():
            print(f"{prefix + name:<18}{baseline_us:>12.2f}{ours_us:>10.2f}{ratio:>9.1f}")
            ratios[f"{prefix}{name}_ratio"] = round(ratio, 2)
    finish("codec", {"bytes": MESSAGE.stat().st_size, **ratios})


if __name__ == "__main__":
    main()
