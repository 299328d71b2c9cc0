"""The link to one address of a broker: sends while it has credit, and tells the outcome of each message."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from isthmus.config.model.brokers import Node
from isthmus.edges.amqp.client.connection import BrokerConnection
from isthmus.edges.amqp.protocol import Attach, Delivery, Sender
from isthmus.edges.amqp.protocol.terms import OUTCOMES, Error, Source, Target
from isthmus.errors import Refused, Unreachable

OUTCOME_SYMBOLS: Final = tuple(each.SYMBOL for each in OUTCOMES)


class OutgoingLink:
    """One link, until the broker or the connection ends it."""

    def __init__(self, connection: BrokerConnection, node: Node, name: str) -> None:
        loop = asyncio.get_running_loop()
        self.ended: Unreachable | Refused | None = None
        """Why the link is over, if it is."""
        self._connection = connection
        self._ready: asyncio.Future[None] = loop.create_future()
        self._credit = asyncio.Event()
        self._unsettled: dict[Delivery, asyncio.Future[object]] = {}
        self._count = 0
        self._link: Sender = connection.session.sender(name)
        self._link.handler = self
        self._link.attach(
            source=Source(None, outcomes=OUTCOME_SYMBOLS),
            target=Target(node.address, capabilities=(node.capability,)) if node.address else Target(),
        )
        connection.wake()

    async def attached_within(self, timeout_s: float) -> None:
        """Return once the broker has attached it. Raises `Refused` or `Unreachable`."""
        await asyncio.wait((self._ready,), timeout=timeout_s)
        if self.ended is not None:
            raise self.ended
        if not self._ready.done():
            raise Unreachable("the broker does not answer attach")

    @property
    def max_message_size(self) -> int:
        """How large a message the broker takes, in bytes; 0 is any."""
        return self._link.max_message_size

    async def credit_within(self, timeout_s: float) -> None:
        """Return once a message may be sent. Raises `Refused` or `Unreachable`."""
        await self._connection.drained()
        while self._link.credit <= 0 and self.ended is None:
            self._credit.clear()
            try:
                await asyncio.wait_for(self._credit.wait(), timeout_s)
            except TimeoutError:
                raise Unreachable(f"the broker gives no credit for {self._link.name}") from None
        if self.ended is not None:
            raise self.ended

    def send(self, data: bytes) -> asyncio.Future[object]:
        """Send a message. The future has the outcome, or raises `Refused` or `Unreachable`."""
        self._count += 1
        outcome: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._unsettled[self._link.send(self._count.to_bytes(8), data)] = outcome
        self._connection.wake()
        return outcome

    # What the connection calls

    def on_attach(self, attach: Attach) -> None:
        """The broker has an end of the link; one without a target is about to be detached."""
        if attach.target is not None and not self._ready.done():
            self._ready.set_result(None)

    def on_detach(self, *, closed: bool, error: Error | None, lost: bool) -> None:  # noqa: ARG002
        """Tell everybody who waits."""
        self._link.detach()
        ended: Unreachable | Refused
        if error is not None:
            ended = Refused(error.condition, error.description or "without a reason")
        elif self._connection.ended.done():
            ended = Unreachable(self._connection.ended.result())
        else:
            ended = Unreachable("the link was detached")
        self.ended = ended
        if not self._ready.done():
            self._ready.set_result(None)
        self._credit.set()
        unsettled, self._unsettled = self._unsettled, {}
        for outcome in unsettled.values():
            if not outcome.done():
                outcome.set_exception(ended)
                outcome.exception()  # asked for: whoever sent it may be gone

    def on_delivery(self, delivery: Delivery) -> None:
        """Only receivers have this."""

    def on_flow(self) -> None:
        """There may be credit."""
        if self._link.drain:
            self._link.drained()
            self._connection.wake()
        if self._link.credit > 0:
            self._credit.set()

    def on_disposition(self, deliveries: Sequence[Delivery], state: object, settled: bool) -> None:
        """Tell the outcomes of messages."""
        for delivery in deliveries:
            if not settled:
                delivery.settle(state)
            outcome = self._unsettled.pop(delivery, None)
            if outcome is not None and not outcome.done():
                outcome.set_result(state)
