"""What a page shows of a command is what the command prints."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from tests.support.commands import ROOT, isthmus

PAGES = [ROOT / "docs" / "trying-routes.md"]


def _files(page: str) -> dict[str, str]:
    """The files that a page shows, by the name in their first line."""
    blocks = re.findall(r"```(?:properties|yaml)\n(# (\S+)\n.*?)```", page, re.DOTALL)
    return {name: text for text, name in blocks}


def _commands(page: str) -> list[tuple[str, str]]:
    """Each command with what it prints."""
    consoles = "\n".join(re.findall(r"```console\n(.*?)```", page, re.DOTALL))
    return re.findall(r"^\$ isthmus (.*)\n((?:(?!\$ ).*\n?)*)", consoles, re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_print_what_the_page_shows(page: Path, tmp_path: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for name, content in _files(text).items():
        (tmp_path / name).write_text(content)
    commands = _commands(text)
    assert commands
    for command, shown in commands:
        done = isthmus(*shlex.split(command), folder=tmp_path)
        printed = "\n".join(line.rstrip() for line in done.stdout.splitlines())
        assert printed == shown.strip(), (command, done.stderr)
