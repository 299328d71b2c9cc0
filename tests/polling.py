"""Waiting for something to become true, with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable


def eventually(condition: Callable[[], object], *, timeout_s: float, what: str = "") -> None:
    """Return once the condition holds. Fails when it does not hold in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(what or f"not true within {timeout_s:g} s")
        time.sleep(0.05)
