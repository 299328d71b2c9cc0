"""The journal as edges write to it from an event loop: many messages in flight, and no task for any of them.

All fulfil `isthmus.edges.contract.Journal`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from isthmus.config.model.settings import JournalSettings
from isthmus.converters.conversion_headers import conversion_headers
from isthmus.edges.addresses import AddressBook, KnownAddress
from isthmus.edges.contract import Journal
from isthmus.errors import HardFailure, IsthmusError, Outage, SoftFailure
from isthmus.journal import OnDone, layout
from isthmus.journal.batches import BatchWriter
from isthmus.journal.layout import Entry, Op, Record
from isthmus.journal.wake_ledger import LedgerWaker, cannot_wait
from isthmus.kafka.options import Kafka
from isthmus.kafka.producer import record_bytes
from isthmus.message import Header


class EdgeJournal:
    """Puts entries into Kafka. To be made, used and closed on one event loop."""

    def __init__(
        self, writer: BatchWriter, *, as_json: bool = False, waker: LedgerWaker | None = None
    ) -> None:
        """``as_json`` is whether any route converts to ``json``, for which the journal must hold more.

        ``waker`` is told of what the ledger is to see at once.
        """
        self._writer = writer
        self._waker = waker
        self._as_json = as_json
        self._loop = asyncio.get_running_loop()

    @classmethod
    async def open(
        cls, kafka: Kafka, journal: JournalSettings, *, as_json: bool = False, clock_topic: str | None = None
    ) -> EdgeJournal:
        """Connect. Raises `HardFailure` when the journal is not there, or may not be written.

        ``clock_topic`` is that of the ledger, if there is one.
        """
        writer = await BatchWriter.open(kafka, journal)
        waker = None if clock_topic is None else LedgerWaker(writer.producer, clock_topic)
        return cls(writer, as_json=as_json, waker=waker)

    @property
    def max_message_bytes(self) -> int | None:
        """How large a batch the journal takes, if that is known."""
        return self._writer.max_message_bytes

    def put(self, entry: Entry, on_done: OnDone) -> None:
        """As the contract says, with what ``json`` needs added to an entry that does not have it."""
        try:
            if self._as_json and entry.op is Op.ADD and not entry.conversion:
                entry = entry._replace(conversion=conversion_headers(entry.message, json=True))
            record = layout.encode(entry)
        except SoftFailure as failure:
            self._loop.call_soon(on_done, failure)
        else:
            self.put_record(record, entry.message.session, on_done)

    def put_record(self, record: Record, session: str, on_done: OnDone) -> None:
        """As the contract says. The record must have what ``json`` needs."""
        if self._waker is not None and cannot_wait(record):
            on_done = self._then_wake(on_done)
        self._writer.add(record, session, on_done)

    @property
    def batch_bytes(self) -> int:
        """As the contract says."""
        return self._writer.batch_bytes

    def put_together(self, records: Sequence[Record], size: int, session: str, on_done: OnDone) -> None:
        """As the contract says. The records must have what ``json`` needs."""
        if self._waker is not None and any(map(cannot_wait, records)):
            on_done = self._then_wake(on_done)
        self._writer.add_together(records, size, session, on_done)

    @property
    def problem(self) -> str | None:
        """Why Kafka does not take what is written at the moment, if so."""
        return self._writer.problem

    async def close(self) -> None:
        """Wait until all that was put is done, and disconnect. Raises `HardFailure` if that takes long."""
        if self._waker is not None:
            self._waker.close()
        await self._writer.close()

    def _then_wake(self, on_done: OnDone) -> OnDone:
        def done(failure: IsthmusError | None) -> None:
            if self._waker is not None:
                self._waker.wake()
            on_done(failure)

        return done


class AddressedJournal:
    """A journal that is told which topic the address of each message has.

    It is for intakes of other systems, if their messages may take the direct route.

    While an address is looked up, what comes behind it in its session waits, to keep its order. To be used on
    one event loop.
    """

    def __init__(self, journal: Journal, addresses: AddressBook) -> None:
        """``addresses`` must take any address: what becomes of a message is for the router to decide."""
        self._journal = journal
        self._addresses = addresses
        self._held: dict[str, deque[tuple[Entry, OnDone]]] = {}
        """What waits, by session."""
        self._tasks: set[asyncio.Task[None]] = set()

    def put(self, entry: Entry, on_done: OnDone) -> None:
        """As the journal does."""
        session = entry.message.session
        address = self._addresses.known(entry.message.address)
        if session in self._held:
            self._held[session].append((entry, on_done))
        elif address is not None:
            self._write(entry, address, on_done)
        else:
            self._held[session] = deque([(entry, on_done)])
            task = asyncio.get_running_loop().create_task(self._look_up(session))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def put_record(self, record: Record, session: str, on_done: OnDone) -> None:  # noqa: ARG002
        """As the journal does."""
        self.put(layout.decode(record), on_done)

    @property
    def batch_bytes(self) -> int:
        """As the journal's."""
        return self._journal.batch_bytes

    def put_together(self, records: Sequence[Record], size: int, session: str, on_done: OnDone) -> None:
        """As the journal does: other systems have no transactions here, and nobody is told of topics."""
        self._journal.put_together(records, size, session, on_done)

    async def _look_up(self, session: str) -> None:
        held = self._held[session]
        while held:
            entry, on_done = held[0]
            address = self._addresses.known(entry.message.address)
            if address is None:
                try:
                    await self._addresses.find(entry.message.address)
                    continue
                except Outage:  # the journal cannot be written either
                    continue
                except HardFailure:  # nobody may know: let the router see to it
                    address = KnownAddress(None)
            held.popleft()
            self._write(entry, address, on_done)
        del self._held[session]

    def _write(self, entry: Entry, address: KnownAddress, on_done: OnDone) -> None:
        self._journal.put(entry._replace(topic=address.topic), on_done)


class TaggedJournal:
    """A journal that adds a header to every message: for an intake whose messages must be told apart."""

    def __init__(self, journal: Journal, name: str, value: str) -> None:
        self._journal = journal
        self._added = {name: Header(value)}

    def put(self, entry: Entry, on_done: OnDone) -> None:
        """As the journal does."""
        self._journal.put(self._tagged(entry), on_done)

    def put_record(self, record: Record, session: str, on_done: OnDone) -> None:  # noqa: ARG002
        """As the journal does."""
        self.put(layout.decode(record), on_done)

    @property
    def batch_bytes(self) -> int:
        """As the journal's."""
        return self._journal.batch_bytes

    def put_together(
        self,
        records: Sequence[Record],
        size: int,  # noqa: ARG002
        session: str,
        on_done: OnDone,
    ) -> None:
        """As the journal does, which takes fewer of them: the header counts, too."""
        tagged = [layout.encode(self._tagged(layout.decode(record))) for record in records]
        self._journal.put_together(tagged, sum(map(record_bytes, tagged)), session, on_done)

    def _tagged(self, entry: Entry) -> Entry:
        headers = {**entry.message.headers, **self._added}
        return entry._replace(message=replace(entry.message, headers=headers))
