"""Qpid JMS as a load: compiles a program of this folder and keeps it running, warm, for many requests."""

from __future__ import annotations

import itertools
import os
import shlex
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import msgspec

from isthmus.embedded import jars
from isthmus.embedded.java import java_command

_HERE = Path(__file__).parent
_END_TIMEOUT_S = 20


class JmsProgram:
    """A running program. It ends when its stdin closes, so also with its owner.

    What it complains of is in the folder, and so are its classes, unless they are in another's already.
    """

    def __init__(self, name: str, folder: Path, *arguments: str, classes: Path | None = None) -> None:
        folder.mkdir()
        self.classes = classes or folder
        classpath = os.pathsep.join([str(self.classes), jars.classpath("jms")])
        if classes is None:
            if (javac := shutil.which("javac")) is None:
                raise RuntimeError("no javac: a load with Qpid JMS needs a JDK")
            source = str(_HERE / f"{name}.java")
            subprocess.run([javac, "-cp", classpath, "-d", str(folder), source], check=True)
        java = [
            str(java_command()),
            "-XX:+UseParallelGC",
            "-Xmx2g",
            *shlex.split(os.environ.get("JAVA_ARGS", "")),
        ]
        self.complaints = folder / "jms.log"
        with self.complaints.open("wb") as complaints:
            self._process = subprocess.Popen(
                [*java, "-cp", classpath, name, *arguments],
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

    def kill(self) -> str:
        """End it at once, as a crash would; return what it had still said."""
        self._process.kill()
        return self._process.stdout.read() if self._process.stdout is not None else ""

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


class Event(NamedTuple):
    """What an application saw or did: see `JmsQueue.java` for the kinds."""

    at_ns: int
    """Of the system's monotonic clock."""
    what: str
    receiver: int
    number: int = -1
    """Of the message, among those of its sender; of ``joined`` and ``browsed``, the time taken in ns."""
    deliveries: int = 0
    redelivered: bool = False


class Reply(NamedTuple):
    """What became of a request."""

    problem: str
    """Empty when all went well."""
    events: list[Any]


class JmsQueue(JmsProgram):
    """Applications that use queues."""

    def __init__(self, folder: Path, *, classes: Path | None = None) -> None:
        super().__init__("JmsQueue", folder, classes=classes)
        self._ids = itertools.count()
        self._replies: dict[int, Reply] = {}

    def request(self, what: str, url: str, queue: str, **options: int | str) -> int:
        """Begin something, and return its id. Requests run beside each other."""
        id = next(self._ids)
        self.ask(
            " ".join([str(id), what, url, queue, *(f"{name}={value}" for name, value in options.items())])
        )
        return id

    def expect(self, id: int, count: int) -> None:
        """Tell receivers how many messages they are to acknowledge before they end."""
        self.ask(f"{id} expect - - count={count}")

    def reply(self, id: int) -> Reply:
        """Wait for what became of a request."""
        while id not in self._replies:
            answer = msgspec.json.decode(self.answer())
            self._replies[answer["id"]] = Reply(answer["problem"], answer["events"])
        return self._replies.pop(id)

    def run(self, what: str, url: str, queue: str, **options: int | str) -> Reply:
        """Do something, and wait for it."""
        return self.reply(self.request(what, url, queue, **options))
