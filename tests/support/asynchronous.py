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
    """The parts run for as long as the block does. One that fails ends the block, and is raised."""
    block = asyncio.current_task()
    assert block is not None
    ended = False

    def end(task: asyncio.Task[None]) -> None:
        nonlocal ended
        if not ended and not task.cancelled() and task.exception() is not None:
            ended = True
            block.cancel()

    tasks = [asyncio.create_task(part.run()) for part in parts]
    for task in tasks:
        task.add_done_callback(end)
    try:
        yield
    except asyncio.CancelledError:
        if not ended:
            raise
        block.uncancel()
    finally:
        early = [task for task in tasks if task.done()]
        for task in tasks:
            task.remove_done_callback(end)
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
