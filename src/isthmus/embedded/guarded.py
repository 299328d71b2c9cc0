"""A server process that ends with its owner, whatever ends the owner.

Between the two stands a guard (see `guard.py`) in a session of its own: Ctrl-C on the terminal reaches the
owner only, which decides in what order things stop.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from isthmus.embedded import guard
from isthmus.private import UMASK, private_opener

_MARGIN_S = 5.0  # beyond the grace of the command: for the guard itself, on a busy machine


class Guarded:
    """A running command. It has `grace_s` seconds to end by itself when it is asked to.

    Its stdout and stderr go to the file `output`, which is emptied first; whatever it writes is for its owner
    alone. `hold` is a descriptor that the
    command and its guard keep open: a lock on it is free when both are gone.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        folder: Path,
        output: Path,
        hold: int | None = None,
        grace_s: float = 10.0,
    ) -> None:
        self._grace_s = grace_s
        # -I -S: the guard needs the standard library alone, and starts faster.
        interpreter = (sys.executable, "-I", "-S", guard.__file__)
        with open(output, "wb", opener=private_opener) as sink:
            self._guard = subprocess.Popen(
                [*interpreter, str(grace_s), "--", *command],
                cwd=folder,
                stdin=subprocess.PIPE,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                umask=UMASK,
                pass_fds=() if hold is None else (hold,),
            )

    @property
    def pid(self) -> int:
        """The process id of the guard: it is there as long as the command is."""
        return self._guard.pid

    @property
    def exit_code(self) -> int | None:
        """None while the command runs, then its exit code, or 128 + N if signal N ended it."""
        return self._guard.poll()

    def stop(self) -> int:
        """End the command, wait for that, and return its exit code. May be called again."""
        if self._guard.stdin is not None:
            self._guard.stdin.close()
        try:
            return self._guard.wait(self._grace_s + _MARGIN_S)
        except subprocess.TimeoutExpired:
            self._guard.kill()
            return self._guard.wait()
