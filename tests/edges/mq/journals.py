"""A journal in memory that can be told to fail, and waiting for what happens on an event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from isthmus.errors import HardFailure, SoftFailure
from isthmus.journal.layout import Entry
from isthmus.message import Message


class MemoryJournal:
    """Keeps what is written. ``refuse`` says what is wrong with an entry, if anything."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.refuse: Callable[[Entry], Exception | None] = lambda entry: None
        self.open = asyncio.Event()
        self.open.set()

    async def write(self, entry: Entry) -> None:
        await self.open.wait()
        if failure := self.refuse(entry):
            raise failure
        self.entries.append(entry)

    @property
    def messages(self) -> list[Message]:
        return [entry.message for entry in self.entries]

    @property
    def bodies(self) -> list[bytes | None]:
        return [message.value for message in self.messages]


class DeadLetterBox:
    """Keeps dead letters; ``broken`` makes it refuse them."""

    def __init__(self) -> None:
        self.letters: list[tuple[Message, SoftFailure]] = []
        self.broken = False

    async def __call__(self, message: Message, failure: SoftFailure) -> None:
        if self.broken:
            raise HardFailure("Kafka is away", remedy="start it")
        self.letters.append((message, failure))


async def until(condition: Callable[[], object], *, timeout_s: float = 15) -> None:
    """Return once the condition holds. Fails when it does not hold in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not true within {timeout_s:g} s"
        await asyncio.sleep(0.01)
