"""``isthmus pipeline`` in a process of its own, to be killed."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Driver:
    """``isthmus pipeline`` in a process of its own."""

    def __init__(self, config: Path, log: Path) -> None:
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "isthmus", "pipeline", str(config)], stdout=output, stderr=output
            )
        self.log = log

    def jvm(self) -> int | None:
        """The process of Spark's driver, once it runs."""
        listed = subprocess.run(
            ["ps", "-o", "pid=,comm=", "--ppid", str(self.process.pid)],
            capture_output=True,
            text=True,
            check=False,
        )
        found = re.search(r"(\d+) java", listed.stdout)
        return int(found[1]) if found else None


@contextmanager
def driver(config: Path, log: Path) -> Iterator[Driver]:
    running = Driver(config, log)
    try:
        yield running
    finally:
        running.process.kill()
        running.process.wait()
