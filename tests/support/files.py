"""What there is in a folder that somebody works in."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path


def permissions(folder: Path) -> dict[Path, int]:
    """Those of a folder and of all that is in it. What goes meanwhile is passed over."""
    within = (Path(at, name) for at, folders, files in os.walk(folder) for name in (*folders, *files))
    found: dict[Path, int] = {}
    for each in (folder, *within):
        with suppress(FileNotFoundError):
            found[each] = stat.S_IMODE(each.stat().st_mode)
    return found
