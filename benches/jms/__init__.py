"""Qpid JMS as a load: compiles a program of this folder and keeps it running, warm, for many requests."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from isthmus.embedded import jars
from isthmus.embedded.java import java_command

_HERE = Path(__file__).parent
_END_TIMEOUT_S = 20


class JmsProgram:
    """A running program. It ends when its stdin closes, so also with its owner."""

    def __init__(self, name: str, folder: Path, *arguments: str) -> None:
        folder.mkdir()
        classpath = os.pathsep.join([str(folder), jars.classpath("jms")])
        if (javac := shutil.which("javac")) is None:
            raise RuntimeError("no javac: a load with Qpid JMS needs a JDK")
        subprocess.run([javac, "-cp", classpath, "-d", str(folder), str(_HERE / f"{name}.java")], check=True)
        self.complaints = folder / "jms.log"
        with self.complaints.open("wb") as complaints:
            self._process = subprocess.Popen(
                [str(java_command()), "-XX:+UseParallelGC", "-Xmx2g", "-cp", classpath, name, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=complaints,
                text=True,
                start_new_session=True,  # Ctrl-C is for the benchmark, which then ends this one
            )

    def ask(self, request: str) -> None:
        """Give it a line."""
        if self._process.stdin is None:
            raise RuntimeError("started without pipes")
        self._process.stdin.write(f"{request}\n")
        self._process.stdin.flush()

    def answer(self) -> str:
        """Wait for a line of its own. Raises `RuntimeError` if it has ended."""
        if self._process.stdout is None:
            raise RuntimeError("started without pipes")
        if not (line := self._process.stdout.readline()):
            raise RuntimeError(f"the JMS program has ended: {self.complaints.read_text()[-2000:]}")
        return line.strip()

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


class JmsLoad(JmsProgram):
    """Sends or receives as fast as it can."""

    def __init__(self, folder: Path) -> None:
        super().__init__("JmsLoad", folder)

    def run(self, what: str, url: str, queue: str, count: int, connections: int = 1) -> float:
        """Send or receive so many messages over some connections; return how many there were in a second."""
        self.ask(f"{what} {url} {queue} {count} {connections}")
        answer = self.answer()
        try:
            return count / float(answer)
        except ValueError:
            raise RuntimeError(f"{what} {url} {queue}: {answer}") from None
