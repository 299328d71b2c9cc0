"""The journal as edges write to it from an event loop: many messages in flight, few wake-ups.

Kafka's client reports from a thread of its own. What it reports is gathered and handled once per turn of the
loop, however many messages that is: there is no future, and no wake-up, per message. `EdgeJournal.write` is
the same for those who await one message at a time.

A message that comes alone leaves at once. Those that come in one turn of the loop, or while others are under
way, are gathered, and leave together when those are decided or a short time has passed: a few large requests
cost Kafka, and its client, a fraction of what many small ones do. So are those of which it is known that more
is to come.

A queue that is full, as in an absence of Kafka, delays messages and keeps their order. What holds senders
back then is that nothing is acknowledged.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from confluent_kafka import KafkaError
from confluent_kafka import Message as Delivered

from isthmus.converters.conversion_headers import conversion_headers
from isthmus.edges.contract import Journal
from isthmus.errors import IsthmusError, SoftFailure
from isthmus.journal.layout import Entry, Op
from isthmus.journal.writer import JournalWriter
from isthmus.message import Header

Decided = Callable[[IsthmusError | None], None]
"""Told on the loop when an entry is in the journal, or why it never will be: `HardFailure` if Kafka refuses,
a `SoftFailure` for one that the journal cannot carry, or that is too large for it."""

_Reported = Callable[[KafkaError | None, Delivered], None]
"""What Kafka's client calls."""

GATHER_S = 0.005
"""How long a message waits for others at most, while Kafka is busy with the last ones."""
RETRY_S = 0.02
"""How long a full queue is left alone."""


class EdgeJournal:
    """Puts entries into the journal from an event loop. To be made, used and closed on that loop."""

    def __init__(self, writer: JournalWriter, *, as_json: bool = False) -> None:
        """``as_json`` is whether any route converts to ``json``, for which the journal must hold more."""
        self._writer = writer
        self._as_json = as_json
        self._loop = asyncio.get_running_loop()
        self._outcomes: deque[tuple[Callable[[Any], None], object]] = deque()
        self._under_way = 0
        self._waiting: deque[tuple[Entry, _Reported, Decided]] = deque()
        self._release_at: asyncio.TimerHandle | None = None
        self._releasing = False
        """Whether what waits leaves at the end of this turn."""
        writer.after_reports(self._wake)

    def put(self, entry: Entry, decided: Decided, *, more: bool = False) -> None:
        """Write an entry; entries of one session are in the journal in the order in which they were put.

        One after which ``more`` is about to come waits for that, for a short time.
        """
        self._offer(entry, partial(self._on_decided, decided), decided, more=more)

    async def write(self, entry: Entry) -> str:
        """Write an entry and wait for its stable id: what `isthmus.edges.contract.Journal` promises."""
        future: asyncio.Future[str] = self._loop.create_future()

        def placed(place: str) -> None:
            if not future.cancelled():
                future.set_result(place)

        def failed(failure: IsthmusError | None) -> None:
            if failure is not None and not future.cancelled():
                future.set_exception(failure)

        self._offer(entry, partial(self._on_placed, placed, failed), failed)
        return await future

    @property
    def delayed(self) -> int:
        """How many entries wait for others to be decided, or for room in the client's queue."""
        return len(self._waiting)

    async def close(self) -> None:
        """Wait until all that was put is decided, and let go of Kafka. Raises `HardFailure` if that fails."""
        while self._waiting:
            await asyncio.sleep(RETRY_S)
        try:
            await self._loop.run_in_executor(None, self._writer.close)
        finally:
            self._drain()

    def _offer(self, entry: Entry, reported: _Reported, refused: Decided, *, more: bool = False) -> None:
        if self._as_json and entry.op is Op.ADD and not entry.conversion:
            try:
                entry = entry._replace(conversion=conversion_headers(entry.message, json=True))
            except SoftFailure as failure:
                self._loop.call_soon(refused, failure)
                return
        self._waiting.append((entry, reported, refused))
        if self._releasing:
            return
        if not self._under_way and not more:
            self._releasing = True
            self._loop.call_soon(self._release)
        elif self._release_at is None:
            self._release_at = self._loop.call_later(GATHER_S, self._release)

    def _offered(self, entry: Entry, reported: _Reported, refused: Decided, *, alone: bool) -> bool:
        try:
            if not self._writer.offer(entry, reported, alone=alone):
                return False
            self._under_way += 1
        except IsthmusError as failure:
            self._loop.call_soon(refused, failure)
        return True

    def _release(self) -> None:
        """Hand over all that waits, as far as there is room."""
        if self._release_at is not None:
            self._release_at.cancel()
            self._release_at = None
        self._releasing = False
        waiting = self._waiting
        alone = len(waiting) == 1 and not self._under_way
        while waiting and self._offered(*waiting[0], alone=alone):
            waiting.popleft()
        if waiting:
            self._release_at = self._loop.call_later(RETRY_S, self._release)

    # On the thread of Kafka's client

    def _on_decided(self, decided: Decided, error: KafkaError | None, _message: Delivered) -> None:
        self._tell(decided, None if error is None else self._writer.refused(error))

    def _on_placed(
        self, placed: Callable[[str], None], failed: Decided, error: KafkaError | None, message: Delivered
    ) -> None:
        if error is None:
            self._tell(placed, str(self._writer.position(message)))
        else:
            self._tell(failed, self._writer.refused(error))

    def _tell(self, whom: Callable[[Any], None], what: object) -> None:
        self._outcomes.append((whom, what))

    def _wake(self) -> None:
        if self._outcomes and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._drain)

    # On the loop

    def _drain(self) -> None:
        outcomes = self._outcomes
        while outcomes:
            whom, what = outcomes.popleft()
            self._under_way -= 1
            whom(what)
        if self._waiting and not self._under_way:
            self._release()


class TaggedJournal:
    """A journal that adds a header to every message: for an intake whose messages must be told apart."""

    def __init__(self, journal: Journal, name: str, value: str) -> None:
        self._journal = journal
        self._added = {name: Header(value)}

    async def write(self, entry: Entry) -> str:
        """As the journal does."""
        headers = {**entry.message.headers, **self._added}
        return await self._journal.write(entry._replace(message=replace(entry.message, headers=headers)))
