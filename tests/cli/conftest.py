"""A bridge that runs as a user runs it: in a process of its own, on an embedded Kafka."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import pytest
from tests.polling import eventually

from isthmus.embedded.kafka import find_running
from isthmus.kafka.blocking import read_topic
from isthmus.kafka.options import Kafka

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
    """``isthmus run``, or another command that goes on, with what it printed."""

    def __init__(self, folder: Path, *arguments: object, command: str = "run") -> None:
        self.folder = folder
        self.log = folder / "run.log"
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "isthmus", command, *map(str, arguments)],
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

    def monitor(self, path: str) -> tuple[int, str]:
        """What the monitor answers: status and text."""
        found = re.search(r"monitor http://(\S+)", self.printed())
        assert found
        with closing(HTTPConnection(found[1], timeout=10)) as connection:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def bodies(self, topic: str) -> list[bytes | str | None]:
        """What is in a topic by now, without the process that a command takes."""
        servers = find_running(self.folder / ".isthmus" / "kafka")
        assert servers
        return [record.value() for record in read_topic(Kafka(servers), topic)]

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
