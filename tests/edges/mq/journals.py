"""A journal in memory that can be told to fail, and waiting for what happens on an event loop."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

from isthmus.errors import HardFailure, IsthmusError, SoftFailure
from isthmus.journal import OnDone, layout
from isthmus.journal.layout import Entry, Record
from isthmus.message import Message


class MemoryJournal:
    """Keeps what is written. ``refuse`` says what is wrong with an entry, if anything."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.refuse: Callable[[Entry], IsthmusError | None] = lambda entry: None
        self.open = asyncio.Event()
        self.open.set()
        self._waiting: deque[tuple[Entry, OnDone]] = deque()
        self._writing: asyncio.Future[None] | None = None

    def put(self, entry: Entry, on_done: OnDone, *, more: bool = False) -> None:
        self._waiting.append((entry, on_done))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.ensure_future(self._write())

    def put_record(self, record: Record, session: str, on_done: OnDone, *, more: bool = False) -> None:
        self.put(layout.decode(record), on_done)

    async def _write(self) -> None:
        while self._waiting:
            await self.open.wait()
            entry, on_done = self._waiting.popleft()
            failure = self.refuse(entry)
            if failure is None:
                self.entries.append(entry)
            on_done(failure)

    @property
    def messages(self) -> list[Message]:
        return [entry.message for entry in self.entries]

    @property
    def bodies(self) -> list[bytes | None]:
        return [message.value for message in self.messages]


class DeadLetterBox:
    """Keeps dead letters; ``broken`` makes it refuse them."""

    def __init__(self) -> None:
        self.messages: list[tuple[Message, SoftFailure]] = []
        self.broken = False

    async def __call__(self, message: Message, failure: SoftFailure) -> None:
        if self.broken:
            raise HardFailure("Kafka is unavailable", remedy="start it")
        self.messages.append((message, failure))


async def until(condition: Callable[[], object], *, timeout_s: float = 15) -> None:
    """Return once the condition holds. Fails when it does not hold in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not true within {timeout_s:g} s"
        await asyncio.sleep(0.01)
