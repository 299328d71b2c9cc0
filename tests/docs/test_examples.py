"""What the documentation shows is what happens."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from isthmus.cli import app
from isthmus.cli.lazy import LazyCommand

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]


def _blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize(
    "page", [page for page in PAGES if _blocks(page, "python")], ids=lambda page: page.name
)
def test_python_examples_run(page: Path, tmp_path: Path) -> None:
    code = "\n".join(_blocks(page, "python"))
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def _commands(text: str) -> list[tuple[str, list[str]]]:
    """The commands in a text, each with the long options that it is shown with."""
    shown = re.findall(r"(?:``?|^(?:\$ )?|\| )isthmus ([a-z][a-z-]*)([^`|\n]*)", text, re.MULTILINE)
    return [(command, re.findall(r"(?<![\w-])--[a-z-]+", more)) for command, more in shown]


def test_every_command_and_option_that_a_page_or_a_docstring_names_exists() -> None:
    missing = [
        f"{page.relative_to(ROOT)}: isthmus {command} {option}"
        for page in [*PAGES, *(ROOT / "src").rglob("*.py")]
        for command, options in _commands(page.read_text(encoding="utf-8"))
        for option in options or [""]
        if option not in _options(command)
    ]
    assert missing == []


def _options(command: str) -> set[str]:
    """The options of a command, or of all commands under one name; nothing if there is no such command."""
    listed = typer.main.get_command(app).commands.get(command)  # type: ignore[attr-defined]
    if listed is None:
        return set()
    found = listed.load() if isinstance(listed, LazyCommand) else listed
    commands = [found, *getattr(found, "commands", {}).values()]
    return {"", *(option for each in commands for p in each.params for option in p.opts)}


def test_the_quickstart_passes_its_own_check() -> None:
    example = ROOT / "examples" / "quickstart.properties"
    done = subprocess.run(
        [sys.executable, "-m", "isthmus", "check", str(example)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_the_page_on_configuration_shows_what_check_prints(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    shown = re.search(r"\$ isthmus check bridge.properties\n(.*?)```", page, re.DOTALL)
    assert shown
    (tmp_path / "bridge.properties").write_text(
        "bridge.id=x\nrouting.on-error=skip\nroutes.eu.predicate=msg.address== && msg.header.region==EU\n"
        "routes.eu.dest.topik=orders-eu\nroutes.eu.dest.topic=o\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "isthmus", "check", "bridge.properties"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert shown[1] in done.stdout


def test_the_demo_accounts_for_every_message() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "demo.py")],
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "every message is accounted for" in done.stdout
