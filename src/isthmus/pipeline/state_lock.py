"""The folder of a bridge's state is for one process at a time. The file that it locks says who it is.

The lock is the operating system's, and goes with the process, however that ends.
"""

from __future__ import annotations

import fcntl
import os
import socket
from pathlib import Path
from types import TracebackType
from typing import Self

from isthmus.errors import AlreadyRunning, HardFailure


def this_process() -> str:
    """What others are told of the process that holds a lock."""
    return f"process {os.getpid()} on {socket.gethostname()}"


LOCK_FILE = "bridge.lock"


def running_in(folder: Path) -> str | None:
    """The process that runs a bridge in this folder now, as `this_process` says it; None if there is none."""
    try:
        with (folder / LOCK_FILE).open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return file.read().strip() or "another process"
    except OSError:
        return None
    return None


class StateLock:
    """Held from the start to the end of a block. Raises `AlreadyRunning` if another process holds it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> Self:
        path = self._folder / LOCK_FILE
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a+")
        except OSError as error:
            raise HardFailure(
                f"state.dir {self._folder} cannot be used: {error}",
                remedy="choose a folder that can be written",
            ) from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with self._file:
                self._file.seek(0)
                holder = self._file.read().strip() or "another process"
            raise AlreadyRunning(
                f"a bridge already runs in state.dir {self._folder}", holder=holder, setting="state.dir"
            ) from None
        self._file.truncate(0)
        self._file.write(this_process())
        self._file.flush()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
