"""Runs the parts of an edge together: intakes and outboxes, until one fails or all are told to stop."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Protocol


class Part(Protocol):
    """Something that runs until it is cancelled, and puts things in order when it is."""

    async def run(self) -> None:
        """Run. Raises what nothing can be done about."""
        ...


def end_if_cancelled() -> None:
    """Raise `asyncio.CancelledError` if somebody cancelled this task, and a library kept that to itself.

    nats-py does while it flushes. A part that runs in a loop asks here once a turn, else it would never end.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


async def run_together(parts: Mapping[str, Part], stop: asyncio.Event) -> None:
    """Run all parts until ``stop`` is set. The first error ends all of them, in good order, and is raised."""
    tasks = {asyncio.create_task(part.run(), name=name) for name, part in parts.items()}
    stopping = asyncio.create_task(stop.wait())
    try:
        done, _ = await asyncio.wait({*tasks, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (*tasks, stopping):
            task.cancel()
        await asyncio.gather(*tasks, stopping, return_exceptions=True)
    for task in done - {stopping}:
        task.result()
