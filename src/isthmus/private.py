"""Files and folders that are their owner's alone: what is written there may hold messages and passwords."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Final

from isthmus.errors import HardFailure

UMASK: Final = 0o077
"""For this process and those that it starts: files are made with 0600, folders with 0700."""


def private_folder(folder: Path) -> None:
    """Make a folder, or close one that is there to others. Raises `HardFailure` if it is another user's.

    One of root's stays as it is where that cannot be changed, as with volumes that a container is given: what
    is made inside is private all the same.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except OSError as error:
        raise HardFailure(
            f"{folder} cannot be used: {error.strerror}", remedy="choose another folder"
        ) from None
    if status.st_uid not in (os.geteuid(), 0) and os.geteuid() != 0:
        raise HardFailure(
            f"{folder} belongs to another user, who could read and replace what is in it",
            remedy="choose a folder of your own",
        )
    if status.st_mode & UMASK and status.st_uid == os.geteuid():
        folder.chmod(0o700)


def cache_folder() -> Path:
    """Where this user keeps what can be made or fetched again; it need not exist yet."""
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "isthmus"


def private_opener(path: str, flags: int) -> int:
    """For ``open``: a file that it makes is its owner's alone."""
    return os.open(path, flags, 0o600)


def write_private(file: Path, text: str) -> None:
    """Replace a file: it appears whole, and only its owner can read it. Raises `OSError`."""
    descriptor, fresh = tempfile.mkstemp(dir=file.absolute().parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as sink:
            sink.write(text)
            sink.flush()
            os.fsync(descriptor)
        Path(fresh).replace(file)
    except BaseException:
        Path(fresh).unlink(missing_ok=True)
        raise
