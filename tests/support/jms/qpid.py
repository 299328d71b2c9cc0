"""Qpid JMS, the client that most JMS applications have: the programs of this folder, as processes.

The jars come by the conf ``jms``, or from the class path in ISTHMUS_QPID_JMS_CLASSPATH. Without them, or
without a Java compiler, the tests are skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

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
        self._classpath = os.pathsep.join([str(folder), _classpath()])
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


def _classpath() -> str:
    if given := os.environ.get(CLASSPATH_VARIABLE):
        return given
    if JARS_CONF not in jars.confs():
        pytest.skip(f"ivy.xml has no conf {JARS_CONF}, and {CLASSPATH_VARIABLE} is not set")
    try:
        return jars.classpath(JARS_CONF)
    except HardFailure as failure:
        pytest.skip(str(failure))
