"""Journals for the tests of intakes: in memory, and refusing or waiting where a test says so."""

from __future__ import annotations

import asyncio
from collections import deque

from isthmus.errors import IsthmusError, SoftFailure
from isthmus.journal import OnDone, layout
from isthmus.journal.layout import Entry, Record
from isthmus.message import Message


class MemoryJournal:
    """Has what was written. Writes wait while `open` is not set, and fail with `refusal` if there is one."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.open = asyncio.Event()
        self.open.set()
        self.refusal: IsthmusError | None = None
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
            if self.refusal is None:
                self.messages.append(entry.message)
            on_done(self.refusal)

    @property
    def bodies(self) -> list[bytes]:
        return [message.value or b"" for message in self.messages]


class Cellar:
    """Keeps dead letters."""

    def __init__(self) -> None:
        self.kept: list[tuple[Message, SoftFailure]] = []

    async def __call__(self, message: Message, failure: SoftFailure) -> None:
        self.kept.append((message, failure))
