"""Waiting for a system that is unavailable, and telling of it once.

In: what became of each attempt. Out: how long to wait before the next, and two lines in the log, one when the
system becomes unavailable and one when it is available again, however many attempts lie between.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from isthmus.events.edges import SystemAvailable, SystemUnavailable

FIRST_WAIT_S: Final = 0.05
LONGEST_WAIT_S: Final = 10.0
_MOST_DOUBLINGS: Final = 16


@dataclass(slots=True)
class ConnectionCounts:
    """What happened to the connection since the start."""

    connects: int = 0
    disconnects: int = 0
    reconnects: int = 0


class Backoff:
    """The waits between attempts to reach one system: doubled after each failure, up to a limit.

    A wait is a random part of that, at least half, so that many bridges do not all try at once. Before the
    first failure there is none.
    """

    def __init__(
        self,
        name: str,
        *,
        first_wait_s: float = FIRST_WAIT_S,
        longest_wait_s: float = LONGEST_WAIT_S,
        steady_s: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``name`` is what log lines begin with.

        A system that was available for less than ``steady_s`` does not begin the waits anew: it may be one
        that takes every connection and then drops it.
        """
        self.failures = 0
        """How many attempts in a row have failed."""
        self._name = name
        self._first_wait_s = first_wait_s
        self._longest_wait_s = longest_wait_s
        self._steady_s = steady_s
        self._clock = clock
        self._unavailable = False
        self._available_since: float | None = None

    @property
    def unavailable(self) -> bool:
        """Whether the last attempt failed."""
        return self._unavailable

    def failed(self, why: object) -> None:
        """An attempt has failed, or what was reached is lost. Only the first of a row is logged."""
        since, self._available_since = self._available_since, None
        if since is not None and self._clock() - since >= self._steady_s:
            self.failures = 0
        self.failures += 1
        if not self._unavailable:
            self._unavailable = True
            SystemUnavailable(self._name, why).emit()

    def succeeded(self) -> None:
        """The system was reached."""
        if self._available_since is None:
            self._available_since = self._clock()
        if not self._steady_s:
            self.failures = 0
        if self._unavailable:
            self._unavailable = False
            SystemAvailable(self._name).emit()

    def next_wait_s(self) -> float:
        """How long to wait before the next attempt."""
        if not self.failures:
            return 0.0
        doubled = self._first_wait_s * 2 ** min(self.failures - 1, _MOST_DOUBLINGS)
        longest = min(self._longest_wait_s, doubled)
        return random.uniform(longest / 2, longest)

    async def wait(self) -> None:
        """Wait until the next attempt is due: not at all before the first failure."""
        if self.failures:
            await asyncio.sleep(self.next_wait_s())
