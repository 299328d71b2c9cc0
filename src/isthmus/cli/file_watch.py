"""Files that a running bridge goes by, and whether they are as they were."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path


class FileWatch:
    """Tells of files that are not as they were: their contents, or which of them there are."""

    def __init__(self, files: Callable[[], Iterable[Path]]) -> None:
        self._files = files
        self._seen = self._look()

    def changed(self) -> bool:
        """Whether any is, since it was last asked."""
        before, self._seen = self._seen, self._look()
        return before != self._seen

    def _look(self) -> dict[Path, tuple[int, int, int]]:
        found = {}
        for each in self._files():
            with suppress(OSError):  # one that is being replaced
                state = each.stat()
                found[each] = state.st_mtime_ns, state.st_size, state.st_ino
        return found
