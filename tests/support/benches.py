"""The small forms of benchmarks, in a process of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from tests.support.commands import ROOT

NONE = {"lost": 0, "duplicates": 0, "inversions": 0, "reordered": 0, "failed": 0}
"""What there must be none of, where it is counted."""


def last_lines(*arguments: str) -> dict[str, dict[str, Any]]:
    """The last line of every benchmark in a row, by its name."""
    done = subprocess.run(
        [sys.executable, "-m", *arguments, "--small"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {line["name"]: line for line in lines}
