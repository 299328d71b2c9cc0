"""The journal as edges write to it from an event loop: many messages in flight, few wake-ups.

Kafka's client reports from a thread of its own. What it reports is gathered and handled once per turn of the
loop, however many messages that is: there is no future, and no wake-up, per message. `EdgeJournal.write` is
the same for those who await one message at a time.

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
from isthmus.errors import EncodeError, HardFailure, IsthmusError, SoftFailure
from isthmus.journal.layout import Entry, Op
from isthmus.journal.writer import JournalWriter
from isthmus.message import Header

Decided = Callable[[IsthmusError | None], None]
"""Told on the loop when an entry is in the journal, or why it never will be: `HardFailure` if Kafka refuses,
a `SoftFailure` for one that the journal cannot carry."""

_Reported = Callable[[KafkaError | None, Delivered], None]
"""What Kafka's client calls."""

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
        self._awake = False
        self._delayed: deque[tuple[Entry, _Reported, Decided]] = deque()

    def put(self, entry: Entry, decided: Decided) -> None:
        """Write an entry; entries of one session are in the journal in the order in which they were put."""
        self._offer(entry, partial(self._on_decided, decided), decided)

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
        """How many entries wait for room in the client's queue."""
        return len(self._delayed)

    async def close(self) -> None:
        """Wait until all that was put is decided, and let go of Kafka. Raises `HardFailure` if that fails."""
        while self._delayed:
            await asyncio.sleep(RETRY_S)
        try:
            await self._loop.run_in_executor(None, self._writer.close)
        finally:
            self._drain()

    def _offer(self, entry: Entry, reported: _Reported, refused: Decided) -> None:
        if self._as_json and entry.op is Op.ADD and not entry.conversion:
            try:
                entry = entry._replace(conversion=conversion_headers(entry.message, json=True))
            except SoftFailure as failure:
                self._loop.call_soon(refused, failure)
                return
        if self._delayed or not self._offered(entry, reported, refused):
            if not self._delayed:
                self._loop.call_later(RETRY_S, self._retry)
            self._delayed.append((entry, reported, refused))

    def _offered(self, entry: Entry, reported: _Reported, refused: Decided) -> bool:
        try:
            return self._writer.offer(entry, reported)
        except (HardFailure, EncodeError) as failure:
            self._loop.call_soon(refused, failure)
            return True

    def _retry(self) -> None:
        while self._delayed and self._offered(*self._delayed[0]):
            self._delayed.popleft()
        if self._delayed:
            self._loop.call_later(RETRY_S, self._retry)

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
        if not self._awake:
            self._awake = True
            self._loop.call_soon_threadsafe(self._drain)

    def _drain(self) -> None:
        # Before the first is taken: one that arrives in the meantime wakes the loop again.
        self._awake = False
        outcomes = self._outcomes
        while outcomes:
            whom, what = outcomes.popleft()
            whom(what)


class TaggedJournal:
    """A journal that adds a header to every message: for an intake whose messages must be told apart."""

    def __init__(self, journal: Journal, name: str, value: str) -> None:
        self._journal = journal
        self._added = {name: Header(value)}

    async def write(self, entry: Entry) -> str:
        """As the journal does."""
        headers = {**entry.message.headers, **self._added}
        return await self._journal.write(entry._replace(message=replace(entry.message, headers=headers)))
