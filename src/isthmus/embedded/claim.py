"""A data folder that one owner at a time may run a server in, and what others can learn about that server.

Two files in the folder::

    lock           locked from the claim until owner, guard and server are all gone
    running.json   {"address": "127.0.0.1:20123", "pid": the guard's, "owner": the owner's}, while it is up

The lock decides; it cannot go stale. The note can, after kill -9 of everyone, so a reader verifies it.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from pathlib import Path
from typing import NamedTuple

from isthmus.errors import HardFailure
from isthmus.private import private_folder, private_opener, write_private

_PATIENCE_S = 20.0  # a server whose owner was killed still has its grace to end in
_POLL_S = 0.05


class Note(NamedTuple):
    """What an owner tells others about the server that it runs."""

    address: str
    pid: int
    owner: int


class Claim:
    """The right to run a server in a folder. `HardFailure` when another owner has it."""

    def __init__(self, folder: Path, *, what: str) -> None:
        self._note = folder / "running.json"
        private_folder(folder)
        try:
            self._lock = os.fdopen(private_opener(str(folder / "lock"), os.O_RDWR | os.O_CREAT), "w")
        except OSError as error:
            raise HardFailure(
                f"The {what} cannot use {folder}: {error}", remedy="Choose a folder that can be written to."
            ) from error
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                note = _read(self._note)
                if (note and _is_alive(note.owner)) or time.monotonic() > deadline:
                    self._lock.close()
                    raise _taken(folder, what, note) from None
            time.sleep(_POLL_S)
        self._note.unlink(missing_ok=True)

    @property
    def descriptor(self) -> int:
        """The locked file: who inherits it keeps the claim alive."""
        return self._lock.fileno()

    def announce(self, address: str, pid: int) -> None:
        """Tell others that the server answers at this address (host:port)."""
        write_private(self._note, json.dumps(Note(address, pid, os.getpid())._asdict()))

    def withdraw(self) -> None:
        """Take the note away: the server is about to end."""
        self._note.unlink(missing_ok=True)

    def release(self) -> None:
        """Let others have the folder. The server must be gone by now."""
        fcntl.flock(self._lock, fcntl.LOCK_UN)  # closing is not enough if a fork of this process has it open
        self._lock.close()


def running_in(folder: Path) -> str | None:
    """The address (host:port) of the server that runs in a folder, if its note holds true."""
    note = _read(folder / "running.json")
    if note is None or not _is_alive(note.pid):
        return None
    return note.address if answers(note.address) else None


def answers(address: str) -> bool:
    """Whether somebody listens at host:port."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=1.0).close()
    except OSError:
        return False
    return True


def _read(note: Path) -> Note | None:
    try:
        return Note(**json.loads(note.read_text()))
    except (FileNotFoundError, NotADirectoryError, ValueError, TypeError):
        return None


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's
        return True
    return True


def _taken(folder: Path, what: str, note: Note | None) -> HardFailure:
    if note is None:
        return HardFailure(
            f"Another process holds {folder}, and runs no {what} there yet.",
            remedy="Wait until it has started or ended, or choose another folder.",
        )
    return HardFailure(
        f"An {what} already runs in {folder}: {note.address}, owned by process {note.owner}.",
        remedy=f"Connect to {note.address}, stop process {note.owner}, or choose another folder.",
    )
