"""``isthmus reload``: have a running bridge go by its configuration as it is now.

The command and the bridge meet in the bridge's ``state.dir``::

    isthmus reload ──► reload.request, SIGHUP ──► the bridge reads its file, and changes or refuses
                   ◄── reload.json ◄─────────────

A SIGHUP without a request is served as well: ``reload.json`` and the log then say what became of it.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import signal
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from isthmus import config
from isthmus.cli.bridge import ConfigFile
from isthmus.errors import ConfigError, HardFailure
from isthmus.pipeline.state_lock import running_in
from isthmus.private import write_private

REQUEST, RESULT = "reload.request", "reload.json"
POLL_S = 0.05


def reload(
    file: ConfigFile = None,
    state_dir: Annotated[
        Path | None, typer.Option("--state-dir", help="The bridge's state.dir, in place of its file.")
    ] = None,
    timeout: Annotated[float, typer.Option(help="How many seconds to wait for the bridge.")] = 300.0,
) -> None:
    """Have a running bridge read its configuration again: routes, users and certificates.

    The bridge is found by its state.dir, on this machine. It reads the file that it was started with. Every
    message is routed once, by the routes of before or by those of now. A file with mistakes, or one that
    changes what needs a restart, leaves the running one in force: the command then says why, and ends with 1.
    """
    folder = state_dir or config.read(file, os.environ).settings.local_state_dir
    pid = _running(folder)
    token = secrets.token_hex(8)
    write_private(folder / REQUEST, token)
    os.kill(pid, signal.SIGHUP)
    answer = _await_answer(folder, token, timeout)
    if not answer["ok"]:
        raise ConfigError(answer["said"])
    typer.echo(answer["said"])


def asked(folder: Path) -> str | None:
    """The request that a reload is for, if a command made one."""
    with suppress(OSError):
        return (folder / REQUEST).read_text().strip()
    return None


def answer(folder: Path, token: str | None, *, ok: bool, said: str) -> None:
    """Tell whoever asked what became of it."""
    with suppress(OSError):  # the log has it, too
        write_private(folder / RESULT, json.dumps({"request": token, "ok": ok, "said": said}))


def _running(folder: Path) -> int:
    holder = running_in(folder)
    found = re.fullmatch(r"process (\d+) on (.+)", holder or "")
    if found is None:
        raise HardFailure(
            f"no bridge runs in state.dir {folder}",
            remedy="give the file that it was started with, or its --state-dir; "
            "for `isthmus edge` and `isthmus monitor`, which have no lock, send the process a SIGHUP",
        )
    if found[2] != socket.gethostname():
        raise HardFailure(f"the bridge is {holder}", remedy="run this command on that machine")
    return int(found[1])


def _await_answer(folder: Path, token: str, timeout_s: float) -> dict[str, Any]:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        with suppress(OSError, ValueError):
            told: dict[str, Any] = json.loads((folder / RESULT).read_text())
            if told["request"] == token:
                return told
        time.sleep(POLL_S)
    raise HardFailure(
        f"the bridge has not answered within {timeout_s:g} s",
        remedy="look at its log: a bridge that is still starting reloads when it is ready",
    )
