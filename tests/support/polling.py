"""Waiting for something to become true, with a deadline. `asynchronous` has the same for a coroutine."""

from __future__ import annotations

import time
from collections.abc import Callable


def eventually(
    condition: Callable[[], object], *, timeout_s: float = 60, what: str | Callable[[], str] = ""
) -> None:
    """Return once the condition holds. Fails when it does not hold in time.

    It looks half of the time at most: a look that takes long must not keep what it waits for from its work.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        began = time.monotonic()
        if condition():
            return
        if time.monotonic() > deadline:
            raise AssertionError((what() if callable(what) else what) or f"not true within {timeout_s:g} s")
        time.sleep(max(0.02, time.monotonic() - began))
