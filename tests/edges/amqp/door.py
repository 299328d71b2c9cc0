"""The front door on a loop of its own, for clients that block; and a journal in memory that can be held."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Self, TypeVar

from isthmus.config.model.amqp import AmqpSettings, AmqpsSettings
from isthmus.edges.amqp.server.addresses import AddressBook
from isthmus.edges.amqp.server.contract import BatchJournal, OutgoingLinks
from isthmus.edges.amqp.server.server import AmqpServer
from isthmus.edges.amqp.server.users import Users
from isthmus.errors import IsthmusError
from isthmus.journal import layout
from isthmus.journal.layout import Entry, Op, Record

T = TypeVar("T")
Decided = Callable[[IsthmusError | None], None]


class MemoryJournal:
    """Has entries when it is told to: at once, unless it is held."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.held = False
        self.refuses: IsthmusError | None = None
        self.refused_operations = frozenset(Op)
        """What it refuses then."""
        self._waiting: list[tuple[Entry, Decided]] = []

    def put(self, entry: Entry, decided: Decided, *, more: bool = False) -> None:
        self._waiting.append((entry, decided))
        asyncio.get_running_loop().call_soon(self.decide)

    def put_record(self, record: Record, session: str, decided: Decided, *, more: bool = False) -> None:
        entry = layout.decode(record)
        assert entry.message.session == session
        self.put(entry, decided, more=more)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def decide(self) -> None:
        if self.held:
            return
        waiting, self._waiting = self._waiting, []
        for entry, decided in waiting:
            if self.refuses is None or entry.op not in self.refused_operations:
                self.entries.append(entry)
                decided(None)
            else:
                decided(self.refuses)

    @property
    def operations(self) -> list[str]:
        return [entry.op.value for entry in self.entries]


class AnyAddress:
    """Takes all addresses but those that begin with ``no-``, and knows none before it is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def knows(self, address: str) -> bool:
        return address in self.asked and not address.startswith("no-")

    async def find(self, address: str, *, queue: bool = False) -> str | None:
        await asyncio.sleep(0)
        self.asked.append(address)
        return f"{address} does not exist" if address.startswith("no-") else None


class Door:
    """A running server, driven from a test's own thread."""

    def __init__(
        self,
        *,
        journal: BatchJournal | Callable[[], Awaitable[BatchJournal]] | None = None,
        addresses: AddressBook | None = None,
        amqps: AmqpsSettings | None = None,
        users: Users | None = None,
        outgoing_links: OutgoingLinks | None = None,
        max_message_size: int = 1_000_000,
        **settings: Any,
    ) -> None:
        self.memory = MemoryJournal()
        self.addresses = addresses or AnyAddress()
        self.outgoing_links = outgoing_links
        self._journal = journal or self.memory
        self._settings = AmqpSettings(**{"port": 0, **settings})
        self._more = {
            "amqps": amqps,
            "users": users,
            "outgoing_links": outgoing_links,
            "max_message_size": max_message_size,
        }
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="door")

    def run(self, work: Coroutine[Any, Any, T], timeout_s: float = 60) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout_s)

    def call(self, function: Callable[[], T]) -> T:
        async def work() -> T:
            return function()

        return self.run(work())

    def release(self) -> None:
        """Let the journal have what it was held from."""
        self.memory.held = False
        self.call(self.memory.decide)

    @property
    def port(self) -> int:
        return self.server.ports[0]

    @property
    def url(self) -> str:
        return f"amqp://127.0.0.1:{self.port}"

    async def _start(self) -> None:
        journal = self._journal
        self.journal = await journal() if callable(journal) else journal
        self.server = AmqpServer(self._settings, journal=self.journal, addresses=self.addresses, **self._more)
        await self.server.start()

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self.run(self._start())
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.memory.held = False
        try:
            self.call(self.memory.decide)
            self.run(self.server.close(grace_s=5))
        finally:
            self._stop()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
