"""The package as users install it: built with a compiler and without, on its own in an empty folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from zipfile import ZipFile

import pytest
from tests.support.commands import QUICKSTART, ROOT

from isthmus.extras import EXTRAS

BUILD = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
UNOPTIMISED = (
    '#!/bin/sh\nfor each; do shift; [ "$each" = -O3 ] && each=-O0; set -- "$@" "$each"; done\nexec cc "$@"\n'
)
"""A compiler that does not optimise, which takes most of the time."""


def _run(*command: object, folder: Path, environ: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*map(str, command)],
        cwd=folder,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )


def _wheel(folder: Path, **environ: str) -> Path:
    """The wheel that the source makes in such an environment."""
    source = folder / "source"
    unwanted = shutil.ignore_patterns("*.so", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT / "src", source / "src", ignore=unwanted)
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    done = _run(sys.executable, "-c", BUILD, folder, folder=source, environ=environ)
    assert done.returncode == 0, done.stderr
    [wheel] = folder.glob("isthmus-*.whl")
    return wheel


def _compiled(wheel: Path) -> set[str]:
    with ZipFile(wheel) as archive:
        return {name.partition(".")[0] for name in archive.namelist() if name.endswith(".so")}


def _installed(wheel: Path, folder: Path) -> Path:
    """A folder with the package, the libraries that it cannot do without, and nothing else."""
    if (uv := shutil.which("uv", path=Path(sys.executable).parent)) is None:
        pytest.skip("there is no uv beside Python")
    target = folder / "installed"
    pinned = ["--constraint", ROOT / "requirements.lock", "--python", sys.executable]
    done = _run(uv, "pip", "install", *pinned, "--target", target, wheel, folder=folder, environ={})
    if "Failed to fetch" in done.stderr or "Failed to download" in done.stderr:
        pytest.skip("no package index can be reached, and uv's cache does not have what the library needs")
    assert done.returncode == 0, done.stderr
    return target


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _wheel(tmp_path_factory.mktemp("plain"), ISTHMUS_PURE_PYTHON="1")


def test_a_wheel_of_plain_python_is_for_every_machine(plain: Path) -> None:
    assert plain.name.endswith("-py3-none-any.whl")
    assert _compiled(plain) == set()


def test_a_wheel_is_built_where_there_is_no_compiler(tmp_path: Path) -> None:
    assert _compiled(_wheel(tmp_path, CC=str(tmp_path / "none"))) == set()


@pytest.mark.skipif(not os.environ.get("ISTHMUS_WALK"), reason="it compiles for minutes: `make walk` runs it")
def test_a_wheel_has_the_hot_modules_compiled_where_there_is_a_compiler(tmp_path: Path) -> None:
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    compiler = tmp_path / "compiler"
    compiler.write_text(UNOPTIMISED)
    compiler.chmod(0o755)
    compiled = _compiled(_wheel(tmp_path, CC=str(compiler)))
    assert {"isthmus/codecs/amqp/decoder", "isthmus/journal/layout", "isthmus/kafka/records"} <= compiled


def test_the_library_alone_says_its_version_and_which_extra_a_command_needs(
    plain: Path, tmp_path: Path
) -> None:
    target = _installed(plain, tmp_path)
    assert {each.name for each in target.iterdir()}.isdisjoint(EXTRAS)
    alone = [getattr(sys, "_base_executable", sys.executable), "-S", target / "bin" / "isthmus"]
    environ = {"PYTHONPATH": str(target), "NO_COLOR": "1"}
    assert _run(*alone, "--version", folder=tmp_path, environ=environ).stdout.startswith("isthmus ")
    checked = _run(*alone, "check", "--offline", QUICKSTART, folder=tmp_path, environ=environ)
    assert checked.returncode == 0, checked.stderr
    for command in (["run", QUICKSTART], ["receive", "--topic", "x"], ["doctor", QUICKSTART]):
        done = _run(*alone, *command, folder=tmp_path, environ=environ)
        assert "pip install 'isthmus[" in done.stdout + done.stderr, (command, done)
        assert "Traceback" not in done.stderr, command
