"""Qpid JMS as a load: compiles `JmsLoad.java` and keeps it running, warm, for many runs."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from isthmus.embedded import jars
from isthmus.embedded.java import java_command

_SOURCE = Path(__file__).with_name("JmsLoad.java")
_END_TIMEOUT_S = 20


class JmsLoad:
    """A running program. It ends when its stdin closes, so also with its owner."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        classpath = os.pathsep.join([str(folder), jars.classpath("jms")])
        if (javac := shutil.which("javac")) is None:
            raise RuntimeError("no javac: a load with Qpid JMS needs a JDK")
        subprocess.run([javac, "-cp", classpath, "-d", str(folder), str(_SOURCE)], check=True)
        self._complaints = folder / "jms.log"
        with self._complaints.open("wb") as complaints:
            self._process = subprocess.Popen(
                [str(java_command()), "-XX:+UseParallelGC", "-Xmx1g", "-cp", classpath, "JmsLoad"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=complaints,
                text=True,
                start_new_session=True,  # Ctrl-C is for the benchmark, which then ends this one
            )

    def run(self, what: str, url: str, queue: str, count: int) -> float:
        """Send or receive so many messages, and return how many there were in a second."""
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("started without pipes")
        self._process.stdin.write(f"{what} {url} {queue} {count}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().strip()
        try:
            return count / float(answer)
        except ValueError:
            said = answer or self._complaints.read_text()[-2000:]
            raise RuntimeError(f"{what} {url} {queue}: {said}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._process.kill()
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
