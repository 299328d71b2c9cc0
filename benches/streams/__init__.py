"""The router's job in Kafka Streams: compiles `StreamsRouter.java` and keeps it running, warm, for many runs.

It has the collector and the memory that Spark has, and as many threads as the machine has cores.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from isthmus.embedded import jars
from isthmus.embedded.java import java_command

_SOURCE = Path(__file__).with_name("StreamsRouter.java")
_END_TIMEOUT_S = 20


class StreamsRun(NamedTuple):
    """What one run took, from its first record to its last."""

    seconds: float
    cpu_s: float


class StreamsRouter:
    """A running program. It ends when its stdin closes, so also with its owner."""

    def __init__(
        self, servers: str, journal: str, records: int, *, bridge_id: str, key_header: str, folder: Path
    ) -> None:
        folder.mkdir()
        classpath = os.pathsep.join([str(folder), jars.classpath("streams")])
        javac = _compiler()
        subprocess.run([javac, "-cp", classpath, "-d", str(folder), str(_SOURCE)], check=True)
        self._complaints = folder / "streams.log"
        with self._complaints.open("wb") as complaints:
            self._process = subprocess.Popen(
                [
                    *(str(java_command()), "-XX:+UseParallelGC", "-Xmx2g", "-cp", classpath, "StreamsRouter"),
                    *(servers, journal, str(records), str(os.cpu_count()), str(folder / "state")),
                    *(bridge_id, key_header),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=complaints,
                text=True,
                start_new_session=True,  # Ctrl-C is for the benchmark, which then ends this one
            )

    def run(self, name: str, routes: Iterable[tuple[str, str]]) -> StreamsRun:
        """Route the whole journal once, by (address, topic) pairs, as an application of that name."""
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("started without pipes")
        request = " ".join([name, *(f"{address}={topic}" for address, topic in routes)])
        self._process.stdin.write(request + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().split()
        if not answer:
            raise RuntimeError(f"Kafka Streams has ended: {self._complaints.read_text()[-2000:]}")
        return StreamsRun(*map(float, answer))

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


def _compiler() -> str:
    beside_java = java_command().resolve().with_name("javac")
    found = str(beside_java) if beside_java.exists() else shutil.which("javac")
    if found is None:
        raise RuntimeError("no javac: the comparison with Kafka Streams needs a JDK, or --without-streams")
    return found
