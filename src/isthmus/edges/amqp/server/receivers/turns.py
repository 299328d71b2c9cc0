"""What converting messages, and reading and comparing selectors, may take of a turn of the event loop.

How long it takes to read a message and to compare it is its sender's and its receiver's to choose. So whoever
does asks before each message whether there is time, of which all receivers together have so much, and goes on
in a later turn if not. Those who wait go on one after the other, each with one message at least: nobody's
messages and selectors hold up another's for long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

TURN_S: Final = 0.005


class Turns:
    """Shares the time out. To be used on one event loop."""

    def __init__(self, turn_s: float = TURN_S) -> None:
        self._turn_s = turn_s
        self._ends: float | None = None
        """When the time of this turn is over, once any is used."""
        self._waiting: dict[Callable[[], None], None] = {}
        self._goes_on = False
        """Whether one of those who have waited goes on at the moment."""
        self._owed = False
        """Whether that one has not looked at anything yet."""

    def has_time(self) -> bool:
        """Whether one more message may be looked at in this turn."""
        if self._owed:
            self._owed = False
            return True
        if self._waiting and not self._goes_on:
            return False  # they come first
        self._begin()
        return not self._is_over

    def later(self, go_on: Callable[[], None]) -> None:
        """Call somebody when it is his turn; once, however often that is asked for."""
        self._begin()
        self._waiting[go_on] = None

    async def run(self, work: Callable[[], T]) -> T:
        """What something comes to that is done as soon as there is time for it."""
        if self.has_time():
            return work()
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def go_on() -> None:
            if done.done():
                return
            try:
                done.set_result(work())
            except Exception as error:
                done.set_exception(error)

        self.later(go_on)
        return await done

    @property
    def _is_over(self) -> bool:
        return self._ends is not None and asyncio.get_running_loop().time() >= self._ends

    def _begin(self) -> None:
        if self._ends is None:
            loop = asyncio.get_running_loop()
            self._ends = loop.time() + self._turn_s
            loop.call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._ends = None
        for go_on in list(self._waiting):
            if self._is_over:
                break
            self._begin()
            del self._waiting[go_on]
            self._goes_on = self._owed = True
            try:
                go_on()
            finally:
                self._goes_on = self._owed = False
