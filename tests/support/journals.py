"""A journal and dead letters in memory, for the tests of whatever writes to them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from isthmus.errors import HardFailure, IsthmusError, SoftFailure
from isthmus.journal import layout
from isthmus.journal.layout import Entry, Op, Record
from isthmus.message import Message

Refusal = Callable[[Entry], IsthmusError | None]


def refusing(failure: IsthmusError | None, *operations: Op) -> Refusal:
    """Refuses all entries, or those of the operations, with the failure."""
    return lambda entry: failure if not operations or entry.op in operations else None


class MemoryJournal:
    """Has an entry on the next turn of the loop; while it is ``held``, once it is released.

    ``refuse`` says what is wrong with an entry, if anything.
    """

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.held = False
        self.refuse: Refusal = refusing(None)
        self._waiting: list[tuple[Entry, Callable[[IsthmusError | None], None]]] = []

    def put(
        self, entry: Entry, decided: Callable[[IsthmusError | None], None], *, more: bool = False
    ) -> None:
        self._waiting.append((entry, decided))
        asyncio.get_running_loop().call_soon(self._decide)

    def put_record(
        self,
        record: Record,
        session: str,
        decided: Callable[[IsthmusError | None], None],
        *,
        more: bool = False,
    ) -> None:
        entry = layout.decode(record)
        assert entry.message.session == session
        self.put(entry, decided, more=more)

    async def write(self, entry: Entry) -> None:
        answer: asyncio.Future[IsthmusError | None] = asyncio.get_running_loop().create_future()
        self.put(entry, lambda failure: None if answer.done() else answer.set_result(failure))
        if failure := await answer:
            raise failure

    def release(self) -> None:
        """Have what it was held from."""
        self.held = False
        self._decide()

    def _decide(self) -> None:
        if self.held:
            return
        waiting, self._waiting = self._waiting, []
        for entry, decided in waiting:
            failure = self.refuse(entry)
            if failure is None:
                self.entries.append(entry)
            decided(failure)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def operations(self) -> list[str]:
        return [entry.op.value for entry in self.entries]

    @property
    def messages(self) -> list[Message]:
        return [entry.message for entry in self.entries]

    @property
    def bodies(self) -> list[bytes]:
        """What each message has for a body, without the headers around it."""
        return [message.body.slice(message.value) or b"" for message in self.messages]


class DeadLetterBox:
    """Has dead letters; ``broken`` makes it refuse them."""

    def __init__(self) -> None:
        self.letters: list[tuple[Message, SoftFailure]] = []
        self.broken = False

    async def __call__(self, message: Message, failure: SoftFailure) -> None:
        if self.broken:
            raise HardFailure("Kafka is unavailable", remedy="start it")
        self.letters.append((message, failure))
