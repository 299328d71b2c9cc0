"""What the tests of edges share: parts that run for a while, and waiting for something without blocking."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable

from isthmus.edges.contract import Journal
from isthmus.edges.running import Part
from isthmus.errors import IsthmusError
from isthmus.journal.layout import Entry


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


async def write(journal: Journal, entry: Entry) -> None:
    """Put an entry into the journal and wait until it has it. Raises what it was refused with."""
    done: asyncio.Future[IsthmusError | None] = asyncio.get_running_loop().create_future()
    journal.put(entry, done.set_result)
    if (error := await done) is not None:
        raise error


async def eventually(condition: Callable[[], object], *, timeout_s: float = 30) -> None:
    """Return once the condition holds. Fails when it does not hold in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not true within {timeout_s:g} s")
        await asyncio.sleep(0.02)
