"""How fast the AMQP codec is beside Qpid Proton's and azure-eventhub's: ``python -m benches.codec``.

The message is a text message of Qpid JMS with ten string properties. In every round each of our functions is
timed next to the baseline that it is compared with, in turns first and second, by the time of the processor;
a ratio is the median over the rounds. Above 1 we are faster. The last line is JSON.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

try:
    import proton
    from azure.eventhub._pyamqp._decode import decode_payload
except ImportError as error:
    sys.exit(f"this benchmark compares with python-qpid-proton and azure-eventhub: {error}")

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


def codec(*, plain: bool) -> ModuleType:
    """A copy of the codec in the form that is asked for, beside any other copy in this process."""
    for name in [name for name in sys.modules if name.startswith("isthmus.codecs")]:
        del sys.modules[name]
    os.environ["ISTHMUS_PURE_PYTHON"] = "1" if plain else ""
    sys.path_importer_cache.clear()
    return importlib.import_module("isthmus.codecs.amqp")


def comparisons(form: str, amqp: ModuleType, data: bytes) -> list[Comparison]:
    """What one form of the codec is compared with."""
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
    return [Comparison(f"{form}{name}", *pair, [], []) for name, pair in pairs.items()]


def microseconds(action: Action, count: int) -> float:
    """The time of one call."""
    start = time.process_time_ns()
    for _ in range(count):
        action()
    return (time.process_time_ns() - start) / count / 1000


def main() -> None:
    """Measure and print."""
    data = MESSAGE.read_bytes()
    plain = codec(plain=True)
    compiled = codec(plain=False)
    if not compiled.COMPILED:
        sys.exit("the codec is not compiled here: run make setup on a machine with a C compiler")
    found = comparisons("", compiled, data) + comparisons("plain_", plain, data)
    counts = {}
    for comparison in found:
        for action in (comparison.baseline, comparison.candidate):
            counts[action] = max(1, round(SECONDS_PER_TIMING * 1e6 / microseconds(action, 300)))
    gc.disable()
    for number in range(ROUNDS):
        for comparison in found:
            timings = [
                (comparison.baseline, comparison.baseline_us),
                (comparison.candidate, comparison.candidate_us),
            ]
            for action, times in timings if number % 2 else reversed(timings):
                times.append(microseconds(action, counts[action]))
        gc.collect()
        if number % 10 == 9:
            print(f"round {number + 1} of {ROUNDS}", flush=True)
    print(f"\n{'':<18}{'baseline µs':>12}{'ours µs':>10}{'ratio':>9}")
    for c in found:
        baseline, ours = statistics.median(c.baseline_us), statistics.median(c.candidate_us)
        print(f"{c.name:<18}{baseline:>12.2f}{ours:>10.2f}{c.ratio():>9.1f}")
    ratios = {f"{c.name}_ratio": round(c.ratio(), 2) for c in found}
    print(json.dumps({"name": "codec", "bytes": len(data), **ratios}))


if __name__ == "__main__":
    main()
