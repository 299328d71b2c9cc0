"""Journals for the tests of intakes: in memory, and refusing or waiting where a test says so."""

from __future__ import annotations

import asyncio

from isthmus.errors import SoftFailure
from isthmus.journal.layout import Entry
from isthmus.message import Message


class MemoryJournal:
    """Has what was written. Writes wait while `open` is not set, and raise `refusal` if there is one."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.open = asyncio.Event()
        self.open.set()
        self.refusal: Exception | None = None

    async def write(self, entry: Entry) -> None:
        await self.open.wait()
        if self.refusal is not None:
            raise self.refusal
        self.messages.append(entry.message)

    @property
    def bodies(self) -> list[bytes]:
        return [message.value or b"" for message in self.messages]


class Cellar:
    """Keeps dead letters."""

    def __init__(self) -> None:
        self.kept: list[tuple[Message, SoftFailure]] = []

    async def __call__(self, message: Message, failure: SoftFailure) -> None:
        self.kept.append((message, failure))
