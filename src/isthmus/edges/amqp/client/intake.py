"""Takes messages from a broker's queues and topics into the journal.

A message is accepted when the journal has it on all in-sync replicas, not before: after a crash of the
bridge, of Kafka or of the broker it comes again. As many messages are under way as there is credit for, which
goes back with every message that is decided; and the broker is not listened to while they are too many bytes.

A message that cannot be understood is a dead letter, and accepted once it is kept. One that is too large for
the journal, and so for any dead letter, is rejected: the broker keeps it as it keeps its own dead letters.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Final

from isthmus.config.model.brokers import Node
from isthmus.edges.amqp.client.client import AmqpClient
from isthmus.edges.amqp.client.connection import BrokerConnection
from isthmus.edges.amqp.client.sources import BrokerSource
from isthmus.edges.contract import DeadLetters, Journal, Traffic

log = logging.getLogger(__name__)

FINISH_S: Final = 10.0
"""How long an intake that ends waits for the journal."""
MAX_BYTES: Final = 64 * 2**20
"""How many bytes of messages may be under way before the broker is not listened to."""


class AmqpIntake:
    """The messages of a broker's addresses, from `run` until that is cancelled."""

    def __init__(
        self,
        client: AmqpClient,
        journal: Journal,
        *,
        dead_letters: DeadLetters,
        max_message_size: int,
        as_json: bool = False,
    ) -> None:
        self.client = client
        self.traffic = Traffic()
        self.ready = asyncio.Event()
        """Set once the broker has answered for every address, even if it refuses one."""
        self.journal = journal
        self.dead_letters = dead_letters
        self.max_message_size = max_message_size
        self.as_json = as_json
        self.ending = False
        self.under_way = dict.fromkeys(client.broker.nodes, 0)
        """How many messages of each address are not decided, over whichever connection they came."""
        self._bytes = 0
        self._connection: BrokerConnection | None = None
        self._sources: dict[Node, BrokerSource] = {}
        self._idle = asyncio.Event()
        self._failure: asyncio.Future[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._refusals: dict[Node, str] = {}
        self._to_come = set(client.broker.nodes)

    @property
    def refusals(self) -> dict[str, str]:
        """The addresses that the broker does not let us have, and why."""
        return {node.address: why for node, why in self._refusals.items()}

    async def run(self) -> None:
        """Take messages until cancelled. Raises what the journal or the broker refuses with."""
        self._failure = failure = asyncio.get_running_loop().create_future()
        taking = asyncio.create_task(self._take())
        try:
            await asyncio.wait((taking, failure), return_when=asyncio.FIRST_COMPLETED)
            for ended in (failure, taking):
                if ended.done():
                    ended.result()
        finally:
            taking.cancel()
            await asyncio.gather(taking, return_exceptions=True)
            await self._finish(failed=failure.done())
            failure.cancel()

    async def _take(self) -> None:
        while True:
            connection = self._connection = await self.client.available()
            for node in self.client.broker.nodes:
                self._sources[node] = BrokerSource(self, connection, node)
                self._sources[node].attach()
            self._see_to_reading()
            await asyncio.shield(connection.ended)

    async def _finish(self, *, failed: bool) -> None:
        """Wait for what is on its way to the journal, so that it need not come again."""
        self.ending = True
        if any(self.under_way.values()) and not failed:
            self._idle.clear()
            try:
                await asyncio.wait_for(self._idle.wait(), FINISH_S)
            except TimeoutError:
                log.info("%d messages of %s come again", sum(self.under_way.values()), self.client.name)
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.client.close()

    # What the sources call

    def attached(self, node: Node) -> None:
        """An address is there."""
        if self._refusals.pop(node, None):
            log.info("%s: %s is there", self.client.name, node.address)
        self.answered(node)

    def refused(self, node: Node, why: str) -> None:
        """An address is not to be had."""
        if node not in self._refusals:
            log.warning("%s: %s cannot be taken from: %s", self.client.name, node.address, why)
        self._refusals[node] = why
        self.answered(node)

    def answered(self, node: Node) -> None:
        """The broker has said something of an address."""
        self._to_come.discard(node)
        if not self._to_come:
            self.ready.set()

    def entered(self, node: Node, size: int) -> None:
        """A message is under way."""
        self.under_way[node] += 1
        self._bytes += size
        self._see_to_reading()

    def left(self, node: Node, size: int) -> None:
        """A message is no longer under way."""
        self.under_way[node] -= 1
        self._bytes -= size
        self._see_to_reading()
        self._sources[node].top_up()
        if not any(self.under_way.values()):
            self._idle.set()

    def fail(self, failure: BaseException) -> None:
        """End the intake: what is under way was not settled."""
        if self._failure is not None and not self._failure.done():
            self._failure.set_exception(failure)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something that takes a while. It ends with the intake."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _see_to_reading(self) -> None:
        if self._connection is not None:
            limit = MAX_BYTES if self._connection.reading else MAX_BYTES >> 1
            self._connection.set_reading(self._bytes <= limit)
