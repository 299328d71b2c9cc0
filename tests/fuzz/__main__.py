"""Fuzzes every door: ``python -m tests.fuzz [--count 200000] [--only DOOR]…``.

A door takes inputs that others choose. Each is fed with that many, made of sound ones with damage and of
bytes that mean something, on an event loop whose turns are timed. What must hold of each:

- an input is taken, or refused with a typed error, or the connection ends; anything else is a fault;
- no turn of the loop takes more than 100 ms of CPU time (``longest_turn_ms``): other processes do not count;
- memory does not grow with the number of inputs (``growth_mib``).

Prints one line of JSON for each door, and one of all at the end. A fault ends the run with the input and what
finds it again. Exit 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import os
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.fuzz.connections import connection_doors
from tests.fuzz.door import Door
from tests.fuzz.texts import text_doors
from tests.fuzz.turns import MeasuredLoop

TURN_BAR_MS = 100.0
GROWTH_BAR_MIB = 64.0


class Result(NamedTuple):
    """What one door has borne."""

    door: str
    inputs: int
    refused: int
    longest_turn_ms: float
    growth_mib: float
    seconds: float

    @property
    def holds(self) -> bool:
        return self.longest_turn_ms <= TURN_BAR_MS and self.growth_mib <= GROWTH_BAR_MIB


class _Faults(logging.Handler):
    """Errors that the server logs, since it survives them."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


def resident_mib() -> float:
    """How much memory this process has."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


async def attack(door: Door, count: int, seed: int, loop: MeasuredLoop) -> Result:
    """Feed a door with inputs. Raises `AssertionError` for the first that it does not bear."""
    faults = _Faults()
    logging.getLogger("isthmus").addHandler(faults)
    refused, settled_at, began, settled = 0, max(1, count // 5), time.monotonic(), 0.0
    for number in range(count):
        loop.counting = False
        data = door.make(Random(f"{seed}/{door.name}/{number}"))
        if number == settled_at:
            settled = resident_mib()
        await asyncio.sleep(0)  # making it is no part of a turn that counts
        loop.counting = True
        try:
            refused += not await door.take(data)
            await asyncio.sleep(0)
        except Exception as error:
            raise AssertionError(f"{door.name}: seed {seed}, input {number}, {data!r}") from error
        if faults.records:
            record = faults.records[0]
            error = record.exc_info[1] if record.exc_info else None
            raise AssertionError(
                f"{door.name}: seed {seed}, input {number}, {record.getMessage()}, {data!r}"
            ) from error
    logging.getLogger("isthmus").removeHandler(faults)
    gc.collect()
    growth = max(0.0, resident_mib() - settled) if settled else 0.0
    seconds = time.monotonic() - began
    return Result(
        door.name, count, refused, round(loop.longest_s * 1000, 1), round(growth, 1), round(seconds, 1)
    )


def run(count: int, seed: int = 0, only: list[str] | None = None) -> list[Result]:
    """Feed the doors, each on a loop of its own."""
    gc.collect()
    gc.freeze()  # as the server does: what the process began with is not looked through again
    results = []
    with tempfile.TemporaryDirectory(prefix="isthmus-fuzz-") as name:
        for name_of_door, open_door in {**text_doors(Path(name)), **connection_doors(Path(name))}.items():
            if only and name_of_door not in only:
                continue

            async def fed() -> Result:
                async with open_door() as door:  # noqa: B023 - awaited before the next one
                    return await attack(door, count, seed, loop)  # noqa: B023

            loop = MeasuredLoop()
            with asyncio.Runner(loop_factory=lambda: loop) as runner:  # noqa: B023
                results.append(runner.run(fed()))
            print(json.dumps(results[-1]._asdict()), flush=True)
    return results


def main() -> int:
    """Run, and say whether all holds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=200_000, help="inputs for each door")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", action="append", metavar="DOOR")
    options = parser.parse_args()
    logging.getLogger("isthmus").propagate = False
    results = run(options.count, options.seed, options.only)
    print(
        json.dumps(
            {
                "name": "fuzz",
                "doors": len(results),
                "inputs": sum(each.inputs for each in results),
                "longest_turn_ms": max(each.longest_turn_ms for each in results),
                "growth_mib": max(each.growth_mib for each in results),
                "missed": [each.door for each in results if not each.holds],
            }
        )
    )
    return 0 if all(each.holds for each in results) else 1


if __name__ == "__main__":
    sys.exit(main())
