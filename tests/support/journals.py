"""A journal and dead letters in memory, for the tests of whatever writes to them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from isthmus.edges.contract import Journal
from isthmus.errors import HardFailure, IsthmusError, SoftFailure
from isthmus.journal import OnDone, layout
from isthmus.journal.layout import Entry, Op, Record
from isthmus.kafka.producer import record_bytes
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
        self.writes: list[list[Entry]] = []
        """What was put, each with what was put together with it."""
        self.held = False
        self.refuse: Refusal = refusing(None)
        self.batch_bytes = 1_000_000
        self._waiting: list[tuple[list[Entry], OnDone]] = []

    def put(self, entry: Entry, on_done: OnDone) -> None:
        self._put([entry], on_done)

    def put_record(self, record: Record, session: str, on_done: OnDone) -> None:
        entry = layout.decode(record)
        assert entry.message.session == session
        self.put(entry, on_done)

    def put_together(self, records: Sequence[Record], size: int, session: str, on_done: OnDone) -> None:
        assert sum(map(record_bytes, records)) == size <= self.batch_bytes
        entries = [layout.decode(record) for record in records]
        assert {entry.message.session for entry in entries} == {session}
        self._put(entries, on_done)

    def _put(self, entries: list[Entry], on_done: OnDone) -> None:
        self._waiting.append((entries, on_done))
        asyncio.get_running_loop().call_soon(self._write)

    def release(self) -> None:
        """Have what it was held from."""
        self.held = False
        self._write()

    def _write(self) -> None:
        if self.held:
            return
        waiting, self._waiting = self._waiting, []
        for entries, on_done in waiting:
            failure = next(filter(None, map(self.refuse, entries)), None)
            if failure is None:
                self.writes.append(entries)
            on_done(failure)

    @property
    def entries(self) -> list[Entry]:
        return [entry for entries in self.writes for entry in entries]

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


async def write(journal: Journal, entry: Entry) -> None:
    """Put an entry into a journal and wait until it has it. Raises what it was refused with."""
    done: asyncio.Future[IsthmusError | None] = asyncio.get_running_loop().create_future()
    journal.put(entry, done.set_result)
    if (error := await done) is not None:
        raise error
