from __future__ import annotations

import fcntl
import os
import signal
import sys
from pathlib import Path

import pytest
from tests.support.polling import eventually
from tests.support.processes import children_of, is_running, owner

from isthmus.embedded.guarded import Guarded

DEAF = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("deaf", flush=True)
time.sleep(600)
"""

OWNER = """
import sys, time
from pathlib import Path
from isthmus.embedded.guarded import Guarded
folder = Path(sys.argv[1])
print(Guarded(["sleep", "600"], folder=folder, output=folder / "out").pid, flush=True)
time.sleep(600)
"""

FORKING_OWNER = """
import os, sys, time
from pathlib import Path
from isthmus.embedded.guarded import Guarded
folder = Path(sys.argv[1])
guarded = Guarded(["sleep", "600"], folder=folder, output=folder / "out")
fork = os.fork()
if fork:
    print(guarded.pid, fork, flush=True)
time.sleep(600)
"""


def run(folder: Path, *command: str, hold: int | None = None, grace_s: float = 10.0) -> Guarded:
    return Guarded(command, folder=folder, output=folder / "out", hold=hold, grace_s=grace_s)


def command_of(guard: int) -> int:
    eventually(lambda: children_of(guard) != [])
    return children_of(guard)[0]


def test_the_exit_code_is_that_of_the_command(tmp_path: Path) -> None:
    guarded = run(tmp_path, "sh", "-c", "exit 7")
    eventually(lambda: guarded.exit_code == 7)
    assert guarded.stop() == 7


def test_a_command_that_a_signal_ended_has_128_and_the_signal_as_exit_code(tmp_path: Path) -> None:
    guarded = run(tmp_path, "sh", "-c", "kill -9 $$")
    eventually(lambda: guarded.exit_code == 128 + 9)
    guarded.stop()


def test_a_command_that_does_not_exist_leaves_a_trace_in_the_output(tmp_path: Path) -> None:
    guarded = run(tmp_path, "no-such-command")
    eventually(lambda: guarded.exit_code is not None)
    assert guarded.stop() != 0
    assert "no-such-command" in (tmp_path / "out").read_text()


def test_the_command_runs_in_its_folder_and_writes_to_the_output(tmp_path: Path) -> None:
    guarded = run(tmp_path, "sh", "-c", "pwd; echo broken >&2")
    eventually(lambda: guarded.exit_code == 0)
    guarded.stop()
    assert (tmp_path / "out").read_text() == f"{tmp_path}\nbroken\n"


def test_stop_asks_with_sigterm_and_may_be_repeated(tmp_path: Path) -> None:
    guarded = run(tmp_path, "sleep", "600")
    command = command_of(guarded.pid)
    assert guarded.stop() == 128 + signal.SIGTERM
    assert guarded.stop() == 128 + signal.SIGTERM
    assert not is_running(command)


def test_a_command_that_ignores_sigterm_is_killed_after_its_grace(tmp_path: Path) -> None:
    guarded = run(tmp_path, sys.executable, "-c", DEAF, grace_s=0.3)
    eventually(lambda: "deaf" in (tmp_path / "out").read_text())
    assert guarded.stop() == 128 + signal.SIGKILL


def test_sigterm_to_the_guard_ends_the_command(tmp_path: Path) -> None:
    guarded = run(tmp_path, "sleep", "600")
    command = command_of(guarded.pid)
    os.kill(guarded.pid, signal.SIGTERM)
    eventually(lambda: guarded.exit_code == 128 + signal.SIGTERM)
    assert not is_running(command)
    guarded.stop()


def test_ctrl_c_on_the_terminal_does_not_reach_the_command(tmp_path: Path) -> None:
    guarded = run(tmp_path, "sleep", "600")
    command = command_of(guarded.pid)
    assert os.getsid(command) == os.getsid(guarded.pid) != os.getsid(0)
    guarded.stop()


def test_a_killed_owner_takes_guard_and_command_along(tmp_path: Path) -> None:
    with owner(OWNER, tmp_path) as (process, line):
        guard = int(line)
        command = command_of(guard)
        process.kill()
        eventually(lambda: not is_running(guard) and not is_running(command))


def test_a_fork_that_outlives_the_owner_does_not_keep_the_command_alive(tmp_path: Path) -> None:
    with owner(FORKING_OWNER, tmp_path) as (process, line):
        guard, fork = map(int, line.split())
        command = command_of(guard)
        process.kill()
        process.wait()
        try:
            eventually(lambda: not is_running(guard) and not is_running(command))
            assert is_running(fork)
        finally:
            os.kill(fork, signal.SIGKILL)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent died")
def test_a_killed_guard_takes_the_command_along(tmp_path: Path) -> None:
    guarded = run(tmp_path, "sleep", "600")
    command = command_of(guarded.pid)
    os.kill(guarded.pid, signal.SIGKILL)
    eventually(lambda: not is_running(command))
    guarded.stop()


def test_a_held_lock_is_free_only_when_the_command_is_gone(tmp_path: Path) -> None:
    with (tmp_path / "lock").open("w") as ours:
        fcntl.flock(ours, fcntl.LOCK_EX)
        guarded = run(tmp_path, "sleep", "600", hold=ours.fileno())
    with (tmp_path / "lock").open("w") as theirs:
        with pytest.raises(BlockingIOError):
            fcntl.flock(theirs, fcntl.LOCK_EX | fcntl.LOCK_NB)
        guarded.stop()
        fcntl.flock(theirs, fcntl.LOCK_EX | fcntl.LOCK_NB)
