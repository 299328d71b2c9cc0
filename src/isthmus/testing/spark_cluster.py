"""A real standalone Spark cluster on this machine: a master and a few workers, each a process of its own.

::

    with SparkCluster(tmp_path, workers=2, cores=4) as cluster:
        settings = PipelineSettings(master=cluster.url)
        cluster.kill(0)

What it guarantees:

- it ends with its owner, even after kill -9 of the owner, and its executors end with it;
- a worker that was killed can be started again, and joins again.

It is the Spark that PySpark brings. In the folder: `master.log`, `worker-<n>.log`, and `work/`, with what
executors print. The workers know nothing of this package, and have no jar but Spark's own.
"""

from __future__ import annotations

import os
import signal
import sys
import sysconfig
import time
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Self

from isthmus.embedded.claim import answers
from isthmus.embedded.guarded import Guarded
from isthmus.embedded.ports import HOST, free_port
from isthmus.errors import HardFailure

_DEPLOY = "org.apache.spark.deploy"
_JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
_START_TIMEOUT_S = 180.0
_POLL_S = 0.05


class SparkCluster:
    """``workers`` workers with ``cores`` task slots each, whatever the machine has."""

    def __init__(self, folder: Path, *, workers: int = 2, cores: int = 4, memory: str = "2g") -> None:
        self._folder = folder.absolute()
        self._workers: list[Guarded | None] = [None] * workers
        self._cores = cores
        self._memory = memory
        self._master: Guarded | None = None
        self._port: int | None = None

    @property
    def url(self) -> str:
        """The address of the master, as ``pipeline.master`` takes it."""
        if self._port is None:
            raise RuntimeError("the Spark cluster has not been started")
        return f"spark://{HOST}:{self._port}"

    @property
    def python(self) -> Path:
        """A Python for the executors: it has the packages that this one has, but for this package itself."""
        command = self._folder / "python"
        packages = sysconfig.get_path("platlib")
        # Without `site` there are no .pth files, and so no package that is installed to be edited.
        lines = ("#!/bin/sh", f'PYTHONPATH="{packages}:$PYTHONPATH" exec "{sys.executable}" -S "$@"', "")
        command.write_text("\n".join(lines))
        command.chmod(0o755)
        return command

    def start(self) -> None:
        """Start the master and the workers, and wait until all have joined. `HardFailure` if they do not."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._port = free_port()
        options = ["--host", HOST, "--port", str(self._port), "--webui-port", "0"]
        self._master = self._run("master", f"{_DEPLOY}.master.Master", *options)
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not answers(f"{HOST}:{self._port}"):
            self._wait("master", self._master, deadline)
        for number in range(len(self._workers)):
            self.start_worker(number)

    def start_worker(self, number: int) -> None:
        """Start a worker and wait until it has joined."""
        name = f"worker-{number}"
        options = ["--host", HOST, "--webui-port", "0", "--cores", str(self._cores), "--memory", self._memory]
        folder = ["--work-dir", str(self._folder / "work")]
        worker = self._run(name, f"{_DEPLOY}.worker.Worker", *options, *folder, self.url)
        self._workers[number] = worker
        deadline = time.monotonic() + _START_TIMEOUT_S
        while "Successfully registered with master" not in self._said(name):
            self._wait(name, worker, deadline)

    def kill(self, number: int) -> None:
        """End a worker and its executors as a machine ends that loses its power."""
        worker, self._workers[number] = self._workers[number], None
        if worker is None:
            raise RuntimeError(f"worker {number} does not run")
        for process in reversed(
            _below(worker.pid)
        ):  # executors first: they would note that their worker is gone
            os.kill(process, signal.SIGKILL)
        worker.stop()

    def stop(self) -> None:
        """Stop all of it. May be called again, and before `start`."""
        running = [*self._workers, self._master]
        self._workers, self._master = [None] * len(self._workers), None
        for each in running:
            if each is not None:
                each.stop()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self, name: str, main: str, *arguments: str) -> Guarded:
        spec = find_spec("pyspark")
        if spec is None or spec.origin is None:
            raise HardFailure("There is no Spark.", remedy="Install isthmus[bridge].")
        home = Path(spec.origin).parent
        environment = {
            "SPARK_HOME": home,
            "SPARK_LOCAL_IP": HOST,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": _JAVA,
        }
        return Guarded(
            [
                "env",
                *("-u", "PYTHONPATH"),
                *(f"{variable}={value}" for variable, value in environment.items()),
                str(home / "bin" / "spark-class"),
                main,
                *arguments,
            ],
            folder=self._folder,
            output=self._folder / f"{name}.log",
        )

    def _said(self, name: str) -> str:
        return (self._folder / f"{name}.log").read_text(errors="replace")

    def _wait(self, name: str, process: Guarded, deadline: float) -> None:
        if process.exit_code is not None or time.monotonic() > deadline:
            said = "\n".join(self._said(name).splitlines()[-20:])
            raise HardFailure(f"Spark's {name} does not start.\n{said}", remedy=f"See {self._folder}.")
        time.sleep(_POLL_S)


def _below(pid: int) -> list[int]:
    """The processes that a process has started, and those have, in that order. Linux only."""
    found = [pid]
    for each in found:
        for children in Path(f"/proc/{each}/task").glob("*/children"):
            try:
                found += [int(child) for child in children.read_text().split()]
            except OSError:  # it has ended
                continue
    return found[1:]
