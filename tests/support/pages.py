"""The fenced blocks of Markdown pages, and whether a command prints what a page shows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple


class Block(NamedTuple):
    """What stands between two fences. ``language`` is empty for a block that says none."""

    language: str
    text: str


def blocks(page: Path) -> list[Block]:
    """The blocks of a page, in order."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return [Block(*each) for each in found]


def shows(shown: str, printed: str) -> bool:
    """Whether what is shown was printed. ``…`` is any part of a line, and alone any number of lines."""
    lines = "\n".join(line.rstrip() for line in printed.splitlines()) + "\n"
    patterns = (
        r"(?:.*\n)*?" if line.strip() == "…" else re.escape(line).replace("…", ".*") + r"\n"
        for line in shown.splitlines()
    )
    return re.search("^" + "".join(patterns), lines, re.MULTILINE) is not None
