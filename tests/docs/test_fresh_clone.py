"""The newcomer's walk: a fresh clone, an empty home, and the commands of the README, none of them ours.

``make walk`` runs it; it installs everything anew, which takes minutes. What was downloaded before is not
downloaded again, and the package stays plain Python, since compiling it takes the longest.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.docs.test_walk import README, free_port
from tests.support.commands import ROOT
from tests.support.pages import shows
from tests.support.polling import eventually

from isthmus.embedded import jars

pytestmark = pytest.mark.skipif(
    not os.environ.get("ISTHMUS_WALK"), reason="it installs everything anew: `make walk` runs it"
)
INSTALLING_S = 1800
"""A machine that others use too."""


def _environ(home: Path) -> dict[str, str]:
    """That of a newcomer, but for what is downloaded and for ports that are free."""
    caches = {
        "UV_CACHE_DIR": _printed(str(Path(sys.executable).with_name("uv")), "cache", "dir"),
        "ISTHMUS_JARS_DIR": str(jars.folder()),
    }
    ports = {f"ISTHMUS_{name}_PORT": free_port() for name in ("AMQP", "MONITOR")}
    own = {
        name: value for name, value in os.environ.items() if not name.startswith(("ISTHMUS_", "XDG_", "MAKE"))
    }
    own.pop("VIRTUAL_ENV", None)
    return {**own, **caches, **ports, "HOME": str(home), "ISTHMUS_PURE_PYTHON": "1", "NO_COLOR": "1"}


def _printed(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_a_newcomer_sees_a_jms_message_in_kafka_and_another_come_back(tmp_path: Path) -> None:
    home, clone, log = tmp_path / "home", tmp_path / "a clone", tmp_path / "log"
    home.mkdir()
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    environ = _environ(home)
    first, *others = [block.text for block in README]
    with log.open("wb") as output:
        bridge = subprocess.Popen(
            ["bash", "-c", first],
            cwd=clone,
            env=environ,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        eventually(
            lambda: "ready:" in log.read_text() or bridge.poll() is not None,
            timeout_s=INSTALLING_S,
            what=log.read_text,
        )
        assert bridge.poll() is None, log.read_text()
        there, back = [_commands(text, clone, environ) for text in others]
        assert shows("orders-eu:…  key …\n…", there)
        assert shows("…\nanswers\n…\n  on its way", back)
        os.killpg(bridge.pid, signal.SIGINT)
        bridge.wait(300)
        assert "stopped" in log.read_text()
    finally:
        if bridge.poll() is None:
            os.killpg(bridge.pid, signal.SIGKILL)


def _commands(text: str, folder: Path, environ: dict[str, str]) -> str:
    done = subprocess.run(
        ["bash", "-euc", text],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
    return done.stdout
