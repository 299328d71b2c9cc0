"""The window of messages between a system and the journal, which every intake has.

In: entries, in the order in which the system handed them out. They are put into the journal at once, many at
a time. Out: ``settle`` for each, in the order in which the journal has them: the acknowledgement to the
system. What it guarantees:

- nothing is settled before the journal has it;
- what the journal can never carry is dead-lettered, and settled when that is done;
- what the journal refuses otherwise is not settled, and nothing behind it hides that: `InFlight.failure`
  has the error, as it has one that `InFlight.fail` is told of. The system delivers the message again.

How many messages may be in flight is for the intake to keep: by waiting for `room`, by the credit that it
gives, or by the size of a unit of work.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

from isthmus.edges.contract import DeadLetters, Journal, Traffic
from isthmus.errors import IsthmusError, SoftFailure
from isthmus.journal.layout import Entry
from isthmus.message import Message

Settle = Callable[[], None]


def _nobody_waits() -> None:
    """NATS, for one, wants no acknowledgement of what was sent to a plain subject."""


class InFlight:
    """The messages of one intake that the journal does not have yet."""

    def __init__(
        self,
        journal: Journal,
        dead_letters: DeadLetters,
        *,
        traffic: Traffic | None = None,
        on_change: Callable[[], None] | None = None,
    ) -> None:
        """``on_change`` is called after every message that has come into the window, or left it."""
        self.traffic = traffic or Traffic()
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Never has a result, but the error that ends the intake, or the unit of work."""
        self.dead_letters_failed = False
        """Whether the error is that a message could not be dead-lettered: redelivery does not help that."""
        self.count = 0
        self.bytes = 0
        self._journal = journal
        self._dead_letters = dead_letters
        self._on_change = on_change
        self._room = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def room(self, limit: int) -> None:
        """Return when fewer than so many messages are in flight."""
        while self.count >= limit:
            self._room.clear()
            await self._room.wait()

    def put(self, entry: Entry, settle: Settle = _nobody_waits) -> None:
        """Put a message into the journal; ``settle`` follows when the journal has it."""
        message = entry.message
        self._enter(message)

        def on_done(error: IsthmusError | None) -> None:
            if isinstance(error, SoftFailure):
                self._start(self._dead_letter(message, error, settle))
            else:
                self._leave(message, error, settle)

        self._journal.put(entry, on_done)

    def dead_letter(self, message: Message, failure: SoftFailure, settle: Settle = _nobody_waits) -> None:
        """Dead-letter a message; ``settle`` follows when that is done."""
        self._enter(message)
        self._start(self._dead_letter(message, failure, settle))

    def fail(self, error: BaseException) -> None:
        """The intake cannot go on: `failure` has the error, unless it has one already."""
        if not self.failure.done():
            self.failure.set_exception(error)

    async def settled(self) -> None:
        """Return once nothing is in flight. Raises the error of what could not be settled."""
        await self._idle.wait()
        if self.failure.done():
            self.failure.result()

    async def finish(self, timeout_s: float) -> int:
        """Wait for what is in flight, unless something has failed; returns how many were not settled."""
        if not self._failed:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), timeout_s)
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._failed:
            self.failure.exception()  # asked for, whoever else does
        else:
            self.failure.cancel()
        return self.count

    @property
    def _failed(self) -> bool:
        return self.failure.done() and not self.failure.cancelled()  # as it is when who awaits it is

    def _enter(self, message: Message) -> None:
        if not self.count:
            self._idle.clear()
        self.count += 1
        self.bytes += len(message.value or b"")
        if self._on_change is not None:
            self._on_change()

    def _leave(self, message: Message, error: BaseException | None, settle: Settle) -> None:
        size = len(message.value or b"")
        self.count -= 1
        self.bytes -= size
        if error is None:
            self.traffic.messages += 1
            self.traffic.bytes += size
            settle()
        else:
            self.fail(error)
        self._room.set()
        if not self.count:
            self._idle.set()
        if self._on_change is not None:
            self._on_change()

    async def _dead_letter(self, message: Message, failure: SoftFailure, settle: Settle) -> None:
        try:
            await self._dead_letters(message, failure)
        except Exception as error:
            self.dead_letters_failed = True
            self._leave(message, error, settle)
        else:
            self.traffic.dead_letters += 1
            self._leave(message, None, settle)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
