"""What tests on an event loop share: parts that run for a while, and waiting without blocking."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable

from tests.support.polling import PATIENCE_S

from isthmus.edges.running import Part


@contextlib.asynccontextmanager
async def running(*parts: Part) -> AsyncIterator[None]:
    """The parts run for as long as the block does. What ends one of them too early is raised."""
    tasks = [asyncio.create_task(part.run()) for part in parts]
    try:
        yield
    finally:
        early = [task for task in tasks if task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in early:
        task.result()


async def eventually(
    condition: Callable[[], object], *, timeout_s: float = PATIENCE_S, what: str | Callable[[], str] = ""
) -> None:
    """Return once the condition holds. Fails when it does not hold in time."""
    deadline = time.monotonic() + max(timeout_s, PATIENCE_S)
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError((what() if callable(what) else what) or "not true in time")
        await asyncio.sleep(0.02)
