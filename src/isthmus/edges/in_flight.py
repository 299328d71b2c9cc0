"""Messages between their arrival and the journal: begun in their order, many at a time, settled one by one.

What cannot be understood is a dead letter. What the journal refuses ends the intake: nothing was settled, and
the message comes again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

from isthmus.edges.contract import DeadLetters, Journal, Traffic
from isthmus.errors import IsthmusError, SoftFailure
from isthmus.journal.layout import Entry, Op
from isthmus.message import Message

Settle = Callable[[], None]
Decided = Callable[[IsthmusError | None], None]


class InFlight:
    """At most ``limit`` messages on their way. `failure` ends with the error that ends the intake.

    A journal that has ``put``, as `isthmus.edges.journal.EdgeJournal` does, is told of each message without a
    task of its own: that halves the cost of taking one.
    """

    def __init__(self, journal: Journal, dead_letters: DeadLetters, *, limit: int) -> None:
        self.traffic = Traffic()
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._journal = journal
        self._put: Callable[[Entry, Decided], None] = getattr(journal, "put", self._put_by_writing)
        self._dead_letters = dead_letters
        self._limit = limit
        self._room = asyncio.Event()
        self._under_way = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def take(self, message: Message, settle: Settle | None = None) -> None:
        """Begin to write a message, once there is room; ``settle`` follows when the journal has it."""
        await self._begin()

        def decided(failure: IsthmusError | None) -> None:
            if isinstance(failure, SoftFailure):
                self._start(self._keep(message, failure, settle))
            else:
                self._end(message, failure, settle)

        self._put(Entry(Op.ADD, message), decided)

    async def bury(self, message: Message, failure: SoftFailure, settle: Settle | None = None) -> None:
        """Make a dead letter of a message; ``settle`` follows when it is kept."""
        await self._begin()
        self._start(self._keep(message, failure, settle))

    async def finish(self, timeout_s: float) -> None:
        """Wait for those on their way, and leave the rest: they were not settled."""
        with contextlib.suppress(TimeoutError):
            failed = self.failure.done() and not self.failure.cancelled()
            await asyncio.wait_for(self._idle.wait(), 0 if failed else timeout_s)
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.failure.cancel()

    async def _begin(self) -> None:
        while self._under_way >= self._limit:
            self._room.clear()
            await self._room.wait()
        if not self._under_way:
            self._idle.clear()
        self._under_way += 1

    def _end(self, message: Message, error: BaseException | None, settle: Settle | None) -> None:
        self._under_way -= 1
        self._room.set()
        if not self._under_way:
            self._idle.set()
        if error is None:
            self.traffic.messages += 1
            self.traffic.bytes += len(message.value or b"")
            if settle is not None:
                settle()
        elif not self.failure.done():
            self.failure.set_exception(error)

    async def _keep(self, message: Message, failure: SoftFailure, settle: Settle | None) -> None:
        self.traffic.dead_letters += 1
        try:
            await self._dead_letters(message, failure)
        except Exception as error:
            self._end(message, error, None)
        else:
            self._end(message, None, settle)

    def _put_by_writing(self, entry: Entry, decided: Decided) -> None:
        async def write() -> None:
            try:
                await self._journal.write(entry)
            except IsthmusError as failure:
                decided(failure)
            else:
                decided(None)

        self._start(write())

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
