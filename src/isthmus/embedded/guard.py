"""Runs a command that must not outlive its owner: ``python -m isthmus.embedded.guard [GRACE_S] -- COMMAND…``

The owner holds the other end of the guard's stdin. When that end closes, on purpose or because the owner is
gone (kill -9 included), the command gets SIGTERM, and SIGKILL if it is still there after GRACE_S seconds
(10). SIGTERM to the guard does the same. The guard exits with the command's code, 128 + N after signal N.
On Linux the command goes even when the guard itself is killed.

The standard library only, and little of it: this stands between the owner and the start of every command.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys

_GRACE_S = 10.0
_PR_SET_PDEATHSIG = 1  # prctl(2)
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


def main(arguments: list[str]) -> int:
    """Run the command that stands behind ``--``, to its end or the owner's."""
    separator = arguments.index("--")
    grace_s = float(arguments[0]) if separator else _GRACE_S
    owner, guard = os.getppid(), os.getpid()

    signals, wakeup = os.pipe()
    os.set_blocking(wakeup, False)
    signal.set_wakeup_fd(wakeup)
    asked_to_stop = False

    def ask_to_stop(*_: object) -> None:
        nonlocal asked_to_stop
        asked_to_stop = True

    signal.signal(signal.SIGTERM, ask_to_stop)
    signal.signal(signal.SIGCHLD, lambda *_: None)  # so that the end of the command wakes select

    child = subprocess.Popen(
        arguments[separator + 1 :],
        stdin=subprocess.DEVNULL,
        close_fds=False,  # descriptors that the owner passed on, a lock for one, are for the command
        preexec_fn=lambda: _die_with(guard),  # noqa: PLW1509 - unsafe beside threads, and there are none
    )
    while child.poll() is None:
        # The time-out is for an owner that is gone while a fork of it still holds the pipe open.
        readable, _, _ = select.select([sys.stdin, signals], [], [], 1.0)
        if signals in readable:
            os.read(signals, 64)
        abandoned = sys.stdin in readable and not os.read(0, 4096)
        if asked_to_stop or abandoned or os.getppid() != owner:
            _end(child, grace_s)
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


def _end(child: subprocess.Popen[bytes], grace_s: float) -> None:
    child.terminate()
    try:
        child.wait(grace_s)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def _die_with(guard: int) -> None:
    """In the child, before it becomes the command: ask the kernel for SIGKILL when the guard dies."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != guard:  # it died before we asked
            os._exit(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
