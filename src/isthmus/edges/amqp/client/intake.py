"""Takes messages from a broker's queues and topics into the journal.

A message is accepted when the journal has it on all in-sync replicas, not before: after a crash of the
bridge, of Kafka or of the broker it is redelivered. As many messages are in flight as there is credit for,
and the socket is not read while they are too many bytes.

A message that cannot be read is dead-lettered, and accepted when that is done. One that is too large for the
journal, and so for any dead letter, is rejected: the broker dead-letters it as it does its own.
"""

from __future__ import annotations

import asyncio
from typing import Final

from isthmus.edges.amqp.client.client import AmqpClient
from isthmus.edges.amqp.client.connection import BrokerConnection
from isthmus.edges.amqp.client.incoming_link import IncomingLink
from isthmus.edges.contract import DeadLetters, Journal, Traffic
from isthmus.edges.in_flight import InFlight
from isthmus.events.amqp import IntakeUnsettled

FINISH_S: Final = 10.0
"""How long an intake that ends waits for the journal."""
MAX_BYTES: Final = 64 * 2**20
"""How many bytes of messages may be in flight before the socket is not read."""


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
        max_bytes: int = MAX_BYTES,
        finish_s: float = FINISH_S,
    ) -> None:
        self.client = client
        self.traffic = Traffic()
        self.ready = asyncio.Event()
        """Set once the broker has answered for every address, even if it refuses one."""
        self._max_bytes = max_bytes
        self._finish_s = finish_s
        self._connection: BrokerConnection | None = None
        self._in_flight = InFlight(
            journal, dead_letters, traffic=self.traffic, on_change=self._update_backpressure
        )
        self._links = [
            IncomingLink(
                client,
                node,
                self._in_flight,
                max_message_size=max_message_size,
                as_json=as_json,
                on_answer=self._on_answer,
            )
            for node in client.broker.nodes
        ]

    @property
    def refusals(self) -> dict[str, str]:
        """The addresses that the broker does not let us have, and why."""
        return {link.node.address: link.refusal for link in self._links if link.refusal is not None}

    async def run(self) -> None:
        """Take messages until cancelled. Raises what the journal or the broker refuses with."""
        failure = self._in_flight.failure
        taking = asyncio.create_task(self._take())
        try:
            await asyncio.wait((taking, failure), return_when=asyncio.FIRST_COMPLETED)
            for ended in (failure, taking):
                if ended.done():
                    ended.result()
        finally:
            for link in self._links:
                link.stop()
            taking.cancel()
            await asyncio.gather(taking, return_exceptions=True)
            if unsettled := await self._in_flight.finish(self._finish_s):
                IntakeUnsettled(unsettled, self.client.name).emit()
            await self.client.close()

    async def _take(self) -> None:
        while True:
            connection = self._connection = await self.client.available()
            for link in self._links:
                link.attach(connection)
            self._update_backpressure()
            await asyncio.shield(connection.ended)

    def _on_answer(self) -> None:
        if all(link.answered for link in self._links):
            self.ready.set()

    def _update_backpressure(self) -> None:
        if self._connection is not None:
            limit = self._max_bytes if self._connection.reading else self._max_bytes >> 1
            self._connection.set_reading(self._in_flight.bytes <= limit)
