"""The journal as edges write to it from an event loop: many messages under way.

`EdgeJournal.put` is for those who take many messages at a time, `EdgeJournal.write` for those who await one.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from isthmus.config.model.settings import JournalSettings
from isthmus.converters.conversion_headers import conversion_headers
from isthmus.edges.contract import Journal
from isthmus.errors import IsthmusError, SoftFailure
from isthmus.journal import layout
from isthmus.journal.batches import BatchWriter, Decided
from isthmus.journal.layout import Entry, Op, Record
from isthmus.kafka.options import Kafka
from isthmus.message import Header


class EdgeJournal:
    """Puts entries into the journal from an event loop. To be made, used and closed on that loop."""

    def __init__(self, writer: BatchWriter, *, as_json: bool = False) -> None:
        """``as_json`` is whether any route converts to ``json``, for which the journal must hold more."""
        self._writer = writer
        self._as_json = as_json
        self._loop = asyncio.get_running_loop()

    @classmethod
    async def open(cls, kafka: Kafka, journal: JournalSettings, *, as_json: bool = False) -> EdgeJournal:
        """Connect. Raises `HardFailure` when the journal is not there, or may not be written."""
        return cls(await BatchWriter.open(kafka, journal), as_json=as_json)

    def put(self, entry: Entry, decided: Decided, *, more: bool = False) -> None:
        """Write an entry; entries of one session are in the journal in the order in which they were put.

        One after which ``more`` is about to come waits for that, for a short time. ``decided`` is told of a
        `SoftFailure` for one that the journal cannot carry.
        """
        try:
            if self._as_json and entry.op is Op.ADD and not entry.conversion:
                entry = entry._replace(conversion=conversion_headers(entry.message, json=True))
            record = layout.encode(entry)
        except SoftFailure as failure:
            self._loop.call_soon(decided, failure)
        else:
            self.put_record(record, entry.message.session, decided, more=more)

    def put_record(self, record: Record, session: str, decided: Decided, *, more: bool = False) -> None:
        """Write the record of an entry of a session, as `put` does. It must hold what ``json`` needs."""
        self._writer.add(record, session, decided, more=more)

    async def write(self, entry: Entry) -> None:
        """Write an entry and wait for it: what `isthmus.edges.contract.Journal` promises."""
        future: asyncio.Future[None] = self._loop.create_future()

        def decided(failure: IsthmusError | None) -> None:
            if future.cancelled():
                return
            if failure is None:
                future.set_result(None)
            else:
                future.set_exception(failure)

        self.put(entry, decided)
        await future

    async def close(self) -> None:
        """Wait until all that was put is decided, and let go of Kafka. Raises `HardFailure` if that fails."""
        await self._writer.close()


class TaggedJournal:
    """A journal that adds a header to every message: for an intake whose messages must be told apart."""

    def __init__(self, journal: Journal, name: str, value: str) -> None:
        self._journal = journal
        self._added = {name: Header(value)}

    async def write(self, entry: Entry) -> None:
        """As the journal does."""
        headers = {**entry.message.headers, **self._added}
        await self._journal.write(entry._replace(message=replace(entry.message, headers=headers)))
