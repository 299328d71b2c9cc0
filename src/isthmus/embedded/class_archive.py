"""Java's class data sharing, which halves the time that the embedded Kafka takes to start.

A first run of a set of jars on a Java records, and leaves an archive of the classes it loaded when it ends
(this takes seconds more). Every later run maps the archive instead of reading and verifying jars.
Java itself refuses an archive that does not fit and goes on without.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from isthmus.embedded import jars
from isthmus.embedded.java import java_version

_RECORDING = "classes.jsa"
_IN_GOOD_ORDER = (0, 128 + 15)
"""Exit codes: by itself, or by SIGTERM."""


class ClassArchive:
    """The archive for one Java and one class path; recorded in a run's own folder first."""

    def __init__(
        self, java: Path, classpath: Sequence[Path], run_folder: Path, *, shelf: Path | None = None
    ) -> None:
        """It is kept on the ``shelf``, which is beside the jars if nothing else is said."""
        identity = hashlib.sha256(java_version(java).encode())
        for jar in classpath:  # Java compares the same: path, size and time
            status = jar.stat()
            identity.update(f"{jar} {status.st_size} {status.st_mtime_ns}\n".encode())
        self._java = java
        self._shelf = shelf or jars.folder() / "cds"
        self._archive = self._shelf / f"{identity.hexdigest()[:16]}.jsa"
        self._recording = run_folder / _RECORDING
        self.is_recorded = self._archive.exists()

    def reading(self) -> list[str]:
        """Options of a Java that uses the archive if there is one."""
        return [f"-XX:SharedArchiveFile={self._archive}"] if self.is_recorded else []

    def reading_or_recording(self) -> list[str]:
        """Options of a Java that uses the archive, or records it if there is none."""
        if self.is_recorded or not os.access(self._shelf.parent, os.W_OK):
            return self.reading()
        self._recording.unlink(missing_ok=True)
        # A Java without its own archive, or one that was told to share nothing, does not start with this.
        sharing = subprocess.run([self._java, "-Xshare:on", "-version"], capture_output=True, check=False)
        return [f"-XX:ArchiveClassesAtExit={self._recording}"] if sharing.returncode == 0 else []

    def keep(self, exit_code: int) -> None:
        """Keep what a Java that has ended in good order recorded."""
        if not self._recording.exists():
            return
        if exit_code in _IN_GOOD_ORDER:
            self._shelf.mkdir(exist_ok=True)
            copy = self._archive.with_suffix(f".{os.getpid()}")  # the folders may be on different disks
            shutil.copyfile(self._recording, copy)
            copy.replace(self._archive)
        self._recording.unlink()
