from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.polling import eventually
from tests.support.processes import is_running, owner

from isthmus.embedded.claim import Claim, running_in
from isthmus.errors import HardFailure

# An owner whose server takes a second to end.
OWNER = """
import sys, time
from pathlib import Path
from isthmus.embedded.claim import Claim
from isthmus.embedded.guarded import Guarded
folder = Path(sys.argv[1])
claim = Claim(folder, what="server")
slow = "trap 'sleep 1; exit 0' TERM; echo up; while :; do sleep 0.05; done"
server = Guarded(["sh", "-c", slow], folder=folder, output=folder / "out", hold=claim.descriptor)
claim.announce("127.0.0.1:1", server.pid)
print(server.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture
def listener() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def pid_of_the_past() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_second_claim_is_refused_with_what_runs_there(tmp_path: Path) -> None:
    claim = Claim(tmp_path, what="server")
    claim.announce("127.0.0.1:20001", 4711)
    with pytest.raises(HardFailure, match=f"already runs in {tmp_path}: 127.0.0.1:20001") as failure:
        Claim(tmp_path, what="server")
    assert str(os.getpid()) in failure.value.remedy
    claim.release()


def test_a_released_folder_can_be_claimed_again(tmp_path: Path) -> None:
    Claim(tmp_path, what="server").release()
    Claim(tmp_path, what="server").release()


def test_a_claim_makes_the_folder(tmp_path: Path) -> None:
    Claim(tmp_path / "a" / "b", what="server").release()
    assert (tmp_path / "a" / "b").is_dir()


def test_a_folder_that_cannot_be_written_to_is_a_hard_failure(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(HardFailure, match=f"{tmp_path}/file/folder cannot be used"):
        Claim(tmp_path / "file" / "folder", what="server")


def test_an_announced_server_is_found(tmp_path: Path, listener: str) -> None:
    claim = Claim(tmp_path, what="server")
    assert running_in(tmp_path) is None
    claim.announce(listener, os.getpid())
    assert running_in(tmp_path) == listener
    claim.withdraw()
    assert running_in(tmp_path) is None
    claim.release()


def test_nothing_runs_in_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    assert running_in(tmp_path / "none") is None


def test_a_note_of_a_process_that_is_gone_is_not_believed(tmp_path: Path, listener: str) -> None:
    note = {"address": listener, "pid": pid_of_the_past(), "owner": os.getpid()}
    (tmp_path / "running.json").write_text(json.dumps(note))
    assert running_in(tmp_path) is None


def test_a_note_with_a_port_where_nobody_listens_is_not_believed(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
    note = {"address": address, "pid": os.getpid(), "owner": os.getpid()}
    (tmp_path / "running.json").write_text(json.dumps(note))
    assert running_in(tmp_path) is None


@pytest.mark.parametrize("garbage", ["", "{", "{}", "[1]", '{"address": "x"}'])
def test_a_note_that_makes_no_sense_is_not_believed(tmp_path: Path, garbage: str) -> None:
    (tmp_path / "running.json").write_text(garbage)
    assert running_in(tmp_path) is None


def test_a_stale_note_does_not_prevent_a_claim(tmp_path: Path) -> None:
    note = {"address": "127.0.0.1:1", "pid": os.getpid(), "owner": os.getpid()}
    (tmp_path / "running.json").write_text(json.dumps(note))
    Claim(tmp_path, what="server").release()
    assert not (tmp_path / "running.json").exists()


def test_a_claim_after_the_owner_was_killed_waits_for_its_server_to_end(tmp_path: Path) -> None:
    with owner(OWNER, tmp_path) as (process, server):
        eventually(lambda: (tmp_path / "out").read_text() == "up\n")
        process.kill()
        process.wait()
        Claim(tmp_path, what="server").release()
        assert not is_running(int(server))
