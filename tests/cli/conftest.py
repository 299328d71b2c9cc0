"""A bridge that runs as a user runs it: in a process of its own, on an embedded Kafka."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.polling import eventually

QUICKSTART = Path(__file__).parents[2] / "examples" / "quickstart.properties"


def isthmus(*arguments: object, folder: Path, given: bytes = b"") -> subprocess.CompletedProcess[str]:
    """Run a command to its end, in the folder whose ``.isthmus`` is the bridge's state."""
    done = subprocess.run(
        [sys.executable, "-m", "isthmus", *map(str, arguments)],
        cwd=folder,
        input=given,
        capture_output=True,
        check=False,
        timeout=120,
        env=os.environ | {"ISTHMUS_MONITOR_PORT": "0", "NO_COLOR": "1"},
    )
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


class Running:
    """``isthmus run``, with what it printed."""

    def __init__(self, folder: Path, *arguments: object) -> None:
        self.folder = folder
        self.log = folder / "run.log"
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "isthmus", "run", *map(str, arguments)],
                cwd=folder,
                stdout=output,
                stderr=output,
                env=os.environ | {"ISTHMUS_MONITOR_PORT": "0"},
            )

    def printed(self) -> str:
        return self.log.read_text()

    def wait_until_ready(self) -> None:
        eventually(
            lambda: "ready:" in self.printed() or self.process.poll() is not None,
            timeout_s=120,
            what=self.printed(),
        )
        assert self.process.poll() is None, self.printed()

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


@pytest.fixture(scope="module")
def bridge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    running = Running(tmp_path_factory.mktemp("bridge"), QUICKSTART)
    try:
        running.wait_until_ready()
        yield running
    finally:
        running.process.kill()
        running.process.wait()
