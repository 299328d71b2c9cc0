"""Processes of the machine."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def is_running(pid: int) -> bool:
    """Whether the process exists and is not just waiting to be reaped."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return state.stdout.strip() != "" and not state.stdout.startswith("Z")


def children_of(pid: int) -> list[int]:
    listing = subprocess.run(["ps", "-o", "pid=,ppid=", "-A"], capture_output=True, text=True, check=True)
    pairs = (line.split() for line in listing.stdout.splitlines())
    return [int(child) for child, parent in pairs if int(parent) == pid]


@contextmanager
def owner(script: str, *arguments: str | Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A Python process of its own that runs a script; with it, the first line that the script printed."""
    with subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().strip()
        finally:
            process.send_signal(signal.SIGKILL)
