"""``isthmus`` as a user runs it: in a process of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Self

from tests.support.polling import PATIENCE_S, eventually

from isthmus.embedded.kafka import find_running
from isthmus.kafka.blocking import read_topic

ROOT = Path(__file__).parents[2]
QUICKSTART = ROOT / "examples" / "quickstart.properties"
_ISTHMUS = [sys.executable, "-m", "isthmus"]
_ANY_PORT = {"ISTHMUS_MONITOR_PORT": "0"}


def isthmus(
    *arguments: object, folder: Path, given: bytes = b"", environ: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, in the folder whose ``.isthmus`` is the bridge's state."""
    done = subprocess.run(
        [*_ISTHMUS, *map(str, arguments)],
        cwd=folder,
        input=given,
        capture_output=True,
        check=False,
        timeout=300,
        env={**os.environ, **_ANY_PORT, "NO_COLOR": "1", **(environ or {})},
    )
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


class Running:
    """A command that goes on, with what it printed. It is killed at the end of a ``with`` block."""

    def __init__(
        self,
        folder: Path,
        *arguments: object,
        command: str = "run",
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.log = folder / f"{command}.log"
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                [*_ISTHMUS, command, *map(str, arguments)],
                cwd=folder,
                stdout=output,
                stderr=output,
                env={**os.environ, **_ANY_PORT, **(environ or {})},
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def printed(self) -> str:
        return self.log.read_text()

    def wait_until_ready(self) -> None:
        eventually(
            lambda: "ready:" in self.printed() or self.process.poll() is not None,
            what=self.printed,
        )
        assert self.process.poll() is None, self.printed()

    def monitor(self, path: str) -> tuple[int, str]:
        """What the monitor answers: status and text."""
        found = re.search(r"monitor http://(\S+)", self.printed())
        assert found
        with closing(HTTPConnection(found[1], timeout=60)) as connection:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def bodies(self, topic: str) -> list[bytes | str | None]:
        """What is in a topic of the embedded Kafka by now, without the process that a command takes."""
        kafka = find_running(self.folder / ".isthmus" / "kafka")
        assert kafka
        return [record.value() for record in read_topic(kafka, topic)]

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

    def stop(self) -> int:
        """Ask it to end; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_S)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
