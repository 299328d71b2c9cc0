"""How much CPU a bridge takes that has nothing to do.

``python -m benches.idle [--seconds N] [--settle N]``: ``isthmus run`` as users have it, with an embedded
Kafka, a port for AMQP clients, and so with router and ledger. When it is ready and has settled, the CPU time
of all its processes together is measured: ``idle_cpu_percent`` is of one core; ``kafka_percent``,
``spark_percent`` and ``python_percent`` are its parts. Linux only. The last line is JSON.
"""

from __future__ import annotations

import argparse
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from benches.harness import cpu_s, ending_in_good_order, finish, machine, options_of, say

CONFIG = """
bridge.id=idle
state.dir={folder}/state
amqp.port=0
monitor.port=0
routes.orders.predicate=msg.address==orders
routes.orders.dest.topic=orders
"""
START_S = 300.0


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60, help="how long to measure")
    parser.add_argument("--settle", type=float, default=150, help="how long to wait before that")
    options = options_of(parser, arguments, seconds=2, settle=0)
    say(f"[bold]idle[/]: {options.seconds:g} s on {machine()}")
    with ExitStack() as ends:
        ends.enter_context(ending_in_good_order())
        folder = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="isthmus-idle-")))
        bridge = _start(folder)
        ends.callback(_stop, bridge)
        time.sleep(options.settle)
        before, began = _cpu(bridge.pid), time.monotonic()
        time.sleep(options.seconds)
        after, took_s = _cpu(bridge.pid), time.monotonic() - began
    used = {kind: (after[kind] - before[kind]) / took_s * 100 for kind in before}
    for kind, percent in used.items():
        say(f"{kind:<8}{percent:6.1f} % of a core")
    finish(
        "idle",
        {
            "idle_cpu_percent": round(sum(used.values()), 1),
            **{f"{kind}_percent": round(percent, 1) for kind, percent in used.items()},
            "seconds": options.seconds,
        },
    )


def _start(folder: Path) -> subprocess.Popen[bytes]:
    file, log = folder / "idle.properties", folder / "bridge.log"
    file.write_text(CONFIG.format(folder=folder))
    with log.open("wb") as output:
        bridge = subprocess.Popen(
            [sys.executable, "-m", "isthmus", "run", str(file)], stdout=output, stderr=output
        )
    deadline = time.monotonic() + START_S
    while not re.search(r"^ready:", log.read_text(), re.MULTILINE):
        if bridge.poll() is not None or time.monotonic() > deadline:
            bridge.kill()
            raise SystemExit(f"the bridge does not start:\n{log.read_text()}")
        time.sleep(0.1)
    return bridge


def _stop(bridge: subprocess.Popen[bytes]) -> None:
    bridge.send_signal(signal.SIGTERM)
    bridge.wait()


def _cpu(pid: int) -> dict[str, float]:
    """The CPU time that a process and all that it has started have used so far, by what they are."""
    used = dict.fromkeys(("kafka", "spark", "python"), 0.0)
    processes = [pid]
    for each in processes:
        used[_kind(each)] += cpu_s(each) or 0.0
        for children in Path(f"/proc/{each}/task").glob("*/children"):
            try:
                processes += [int(child) for child in children.read_text().split()]
            except OSError:  # it has ended
                continue
    return used


def _kind(pid: int) -> str:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return "python"
    if not command[0].endswith(b"java"):
        return "python"
    return "kafka" if b"kafka.Kafka" in command else "spark"


if __name__ == "__main__":
    main()
