"""The AMQP server on a loop of its own, for clients that block; and a journal in memory that can be held."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Self, TypeVar

from tests.support.journals import MemoryJournal

from isthmus.config.model.amqp import AmqpSettings, AmqpsSettings
from isthmus.edges.addresses import AddressBook, KnownAddress
from isthmus.edges.amqp.server.contract import OutgoingLinks
from isthmus.edges.amqp.server.server import AmqpServer
from isthmus.edges.amqp.server.users import Users
from isthmus.edges.contract import Journal
from isthmus.kafka.name_locks import NameLocks
from isthmus.routing.reserved import BY_PREFIX, ReservedTopics

T = TypeVar("T")


class AnyAddress:
    """Takes all addresses but those that begin with ``no-``, and knows none before it is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def known(self, address: str) -> KnownAddress | None:
        return KnownAddress(None) if address in self.asked and not address.startswith("no-") else None

    async def find(self, address: str, *, jms: bool = False) -> str | None:
        await asyncio.sleep(0)
        self.asked.append(address)
        return f"{address} does not exist" if address.startswith("no-") else None


class RunningServer:
    """A running server, driven from a test's own thread."""

    def __init__(
        self,
        *,
        journal: Journal | Callable[[], Awaitable[Journal]] | None = None,
        addresses: AddressBook | None = None,
        amqps: AmqpsSettings | None = None,
        users: Users | None = None,
        client_ids: NameLocks | None = None,
        reserved: ReservedTopics = BY_PREFIX,
        outgoing_links: OutgoingLinks | None = None,
        max_message_size: int = 1_000_000,
        senders_choose: bool = False,
        link_close_s: float = 5.0,
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
            "reserved": reserved,
            "outgoing_links": outgoing_links,
            "client_ids": client_ids,
            "max_message_size": max_message_size,
            "senders_choose": senders_choose,
            "link_close_s": link_close_s,
        }
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="amqp server")

    def run(self, work: Coroutine[Any, Any, T], timeout_s: float = 60) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout_s)

    def call(self, function: Callable[[], T]) -> T:
        async def work() -> T:
            return function()

        return self.run(work())

    def release(self) -> None:
        """Let the journal have what it was held from."""
        self.call(self.memory.release)

    @property
    def port(self) -> int:
        return self.amqp.ports[0]

    @property
    def url(self) -> str:
        return f"amqp://127.0.0.1:{self.port}"

    async def _start(self) -> None:
        journal = self._journal
        self.journal = await journal() if callable(journal) else journal
        self.amqp = AmqpServer(self._settings, journal=self.journal, addresses=self.addresses, **self._more)
        await self.amqp.start()

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self.run(self._start())
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.call(self.memory.release)
            self.run(self.amqp.close(grace_s=5))
        finally:
            self._stop()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
