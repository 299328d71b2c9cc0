"""A limit on how often a line may be logged that somebody outside can provoke.

Whoever sends rubbish at thousands of messages a second must not fill the disk, nor hide what else is said::

    log.addFilter(LogLimit())

Of each kind of line, which is what it says before its arguments, a few are logged in every period. The first
one of the next period says how many were left out.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

LINES = 10
PERIOD_S = 10.0


class LogLimit(logging.Filter):
    """Lets so many lines of a kind through in a period."""

    def __init__(
        self, *, lines: int = LINES, period_s: float = PERIOD_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__()
        self._lines = lines
        self._period_s = period_s
        self._clock = clock
        self._kinds: dict[object, tuple[float, int]] = {}
        """When the period of a kind began, and how many lines there were since."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a line is logged."""
        kind, now = record.msg, self._clock()
        began, count = self._kinds.get(kind, (now, 0))
        if now - began >= self._period_s:
            if count > self._lines:
                record.msg = f"{kind} (and {count - self._lines} more like it, which were left out)"
            began, count = now, 0
        self._kinds[kind] = (began, count + 1)
        return count < self._lines
