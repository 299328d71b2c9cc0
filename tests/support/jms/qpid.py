"""Qpid JMS, the client that most JMS applications have: the programs of this folder, as processes.

The jars come by the conf ``jms``, or from the class path in ISTHMUS_QPID_JMS_CLASSPATH. Without them, or
without a Java compiler, the tests are skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from threading import Timer

import pytest
from tests.support.polling import PATIENCE_S

from isthmus.embedded import jars
from isthmus.errors import HardFailure

HERE = Path(__file__).parent
CLASSPATH_VARIABLE = "ISTHMUS_QPID_JMS_CLASSPATH"
JARS_CONF = "jms"


class QpidJms:
    """The compiled programs."""

    def __init__(self, folder: Path) -> None:
        self._classpath = os.pathsep.join([str(folder), classpath()])
        if shutil.which("javac") is None:
            pytest.skip("there is no javac")
        command = ["javac", "-cp", self._classpath, "-d", str(folder), *map(str, HERE.glob("*.java"))]
        subprocess.run(command, check=True, timeout=PATIENCE_S)

    def start(
        self, url: str, what: str, address: str, count: int = 0, *login: str, program: str = "Sends"
    ) -> subprocess.Popen[str]:
        command = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", self._classpath, program]
        return subprocess.Popen(
            [*command, url, what, address, str(count), *login],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def run(
        self, url: str, what: str, address: str, count: int = 0, *login: str, program: str = "Sends"
    ) -> list[str]:
        """The lines that the program prints."""
        with self.start(url, what, address, count, *login, program=program) as process:
            try:
                output, _ = process.communicate(timeout=PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
            return output.splitlines()

    def shell(self, url: str) -> subprocess.Popen[str]:
        """A process of ``Shell.java``: use `JmsShell`."""
        command = [
            "java",
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            "-cp",
            self._classpath,
            "Shell",
            url,
        ]
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )


def classpath() -> str:
    if given := os.environ.get(CLASSPATH_VARIABLE):
        return given
    if JARS_CONF not in jars.confs():
        pytest.skip(f"ivy.xml has no conf {JARS_CONF}, and {CLASSPATH_VARIABLE} is not set")
    try:
        return jars.classpath(JARS_CONF)
    except HardFailure as failure:
        pytest.skip(str(failure))


class JmsShell:
    """A JMS application that does what it is told, step by step: see ``Shell.java``."""

    def __init__(self, qpid: QpidJms, url: str) -> None:
        self._process = qpid.shell(url)

    def __enter__(self) -> JmsShell:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def __call__(self, *words: object) -> str:
        """Do one thing. Returns ``ok``, what came of it, or ``!`` and the exception."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\t".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        patience = Timer(PATIENCE_S, self._process.kill)
        patience.start()
        try:
            return self._process.stdout.readline().rstrip("\n")
        finally:
            patience.cancel()

    def do(self, *words: object) -> None:
        """Do one thing that must go well."""
        answer = self(*words)
        assert answer == "ok", f"{words}: {answer}"

    def receive(self, consumer: str, count: int, patience_ms: int = 100_000) -> list[str]:
        return [self("receive", consumer, patience_ms) for _ in range(count)]

    def nothing(self, consumer: str, patience_ms: int = 500) -> bool:
        return self("receive", consumer, patience_ms) == "nothing"
