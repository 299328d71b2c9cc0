"""Waiting for something to become true, with a deadline. `asynchronous` has the same for a coroutine."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_S = 300.0
"""Nothing that a test waits for takes this long, on a machine as busy as it may be."""


def eventually(
    condition: Callable[[], object], *, timeout_s: float = PATIENCE_S, what: str | Callable[[], str] = ""
) -> None:
    """Return once the condition holds. Fails when it does not hold in time.

    It looks half of the time at most: a look that takes long must not keep what it waits for from its work.
    """
    deadline = time.monotonic() + max(timeout_s, PATIENCE_S)
    while True:
        began = time.monotonic()
        if condition():
            return
        if began > deadline:
            raise AssertionError((what() if callable(what) else what) or "not true in time")
        time.sleep(max(0.02, time.monotonic() - began))
