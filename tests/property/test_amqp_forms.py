"""What messages pass through has two forms, compiled and plain: the same tests hold for both."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from isthmus.codecs import amqp

PLAIN = os.environ.get("ISTHMUS_PURE_PYTHON", "") not in ("", "0")
ROOT = Path(__file__).parents[2]


def can_be_compiled() -> bool:
    """Whether the machine has what the build needs, so that the package has no reason to be plain."""
    compiler = shutil.which((sysconfig.get_config_var("CC") or "cc").split()[0]) or shutil.which("cc")
    headers = Path(sysconfig.get_paths()["include"], "Python.h")
    return compiler is not None and headers.exists() and importlib.util.find_spec("mypyc") is not None


def test_the_codec_is_compiled_where_it_can_be() -> None:
    assert (can_be_compiled() and not PLAIN) == amqp.COMPILED


@pytest.mark.skipif(not amqp.COMPILED, reason="the plain form is the one that is running")
def test_the_plain_form_passes_every_test_of_what_is_compiled() -> None:
    folders = ("codecs/amqp", "codecs/jms", "converters", "edges/amqp", "journal")
    tests = [*(f"tests/unit/{folder}" for folder in folders), "tests/property/test_amqp_round_trip.py"]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests],
        cwd=ROOT,
        env={**os.environ, "ISTHMUS_PURE_PYTHON": "1"},
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-4000:]
