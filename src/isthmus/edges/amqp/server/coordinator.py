"""The coordinator of transactions, a link of its own: declare and discharge (part 4, 4.2).

It is for those who may send or receive something. What it takes is small, and so are the numbers: a message
that does not fit into a frame or two is not one for the coordinator.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from isthmus.codecs.amqp import AmqpMessage, AmqpValue
from isthmus.edges.amqp.protocol import Attach, Delivery, Receiver
from isthmus.edges.amqp.protocol.composite import interpret
from isthmus.edges.amqp.protocol.conditions import (
    DECODE_ERROR,
    ILLEGAL_STATE,
    NOT_ALLOWED,
    NOT_IMPLEMENTED,
    RESOURCE_LIMIT_EXCEEDED,
    UNAUTHORIZED_ACCESS,
)
from isthmus.edges.amqp.protocol.performatives import FIRST
from isthmus.edges.amqp.protocol.terms import ACCEPTED, Declare, Declared, Discharge, Error, Rejected
from isthmus.edges.amqp.protocol.terms import Coordinator as CoordinatorTarget
from isthmus.edges.amqp.server.link import Granted, ServerLink
from isthmus.edges.amqp.server.transactions import IN_DOUBT
from isthmus.errors import DecodeError, Fault, Refused

if TYPE_CHECKING:
    from isthmus.edges.amqp.server.connection import ServerConnection

_CAPABILITIES: Final = ("amqp:local-transactions",)
_CREDIT: Final = 100
_MAX_MESSAGE_BYTES: Final = 1024
_MAX_OPEN: Final = 1000
"""How many transactions a connection may have open. A JMS session has one."""


class Coordinator(ServerLink):
    """Declares and discharges transactions of its session. What is open when the link ends is rolled back."""

    def __init__(self, connection: ServerConnection, link: Receiver) -> None:
        super().__init__(connection, link)
        self._receiver = link
        self._session = connection.session_id(link.session)

    async def open(self, attach: Attach) -> Granted:
        """Take it: there is nothing to open."""
        if not self._connection.client.may_anything:
            raise Refused(UNAUTHORIZED_ACCESS, "you may neither send nor receive")
        self._link.rcv_settle_mode = FIRST
        return Granted(attach.source, CoordinatorTarget(_CAPABILITIES), _MAX_MESSAGE_BYTES)

    def on_attached(self) -> None:
        """Grant the first credit."""
        self._receiver.grant(_CREDIT)

    async def close(self, *, closed: bool, lost: bool) -> None:  # noqa: ARG002
        """Roll back what the client left open."""
        self._connection.transactions.abandon(self._session)

    def on_delivery(self, delivery: Delivery) -> None:
        """Declare or discharge. A client that does not wait for the outcome is told by a detach (4.2)."""
        if delivery.settled:
            self.detach(Error(ILLEGAL_STATE, "what the coordinator is told must not be settled"))
            return
        if self._receiver.credit <= _CREDIT >> 1:
            self._receiver.grant(_CREDIT - self._receiver.credit)
        try:
            self._handle(delivery)
        except Fault as problem:
            self._reject(delivery, Error(problem.condition, problem.description))
        except DecodeError as problem:
            self._reject(delivery, Error(DECODE_ERROR, str(problem)))

    def _handle(self, delivery: Delivery) -> None:
        body = AmqpMessage.decode(delivery.data).body
        request = interpret(body.value) if isinstance(body, AmqpValue) else None
        transactions = self._connection.transactions
        if isinstance(request, Declare):
            if request.global_id is not None:
                raise Refused(NOT_IMPLEMENTED, "there are no distributed transactions")
            if len(transactions) >= _MAX_OPEN:
                raise Refused(RESOURCE_LIMIT_EXCEEDED, f"the connection has {_MAX_OPEN} transactions open")
            delivery.settle(Declared(transactions.declare(self._session).id))
        elif isinstance(request, Discharge):
            self.in_flight += 1
            on_done = partial(self._on_discharged, delivery)
            transactions.discharge(request.txn_id, commit=not request.fail, on_done=on_done)
        else:
            raise Refused(NOT_ALLOWED, "the coordinator takes declare and discharge")

    def _on_discharged(self, delivery: Delivery, condition: str | None, description: str) -> None:
        self.in_flight -= 1
        if condition is None:
            delivery.settle(ACCEPTED)
        elif condition == IN_DOUBT:  # a rejection would say that it was rolled back
            self.detach(Error(condition, description))
        else:
            self._reject(delivery, Error(condition, description))
        self._connection.wake()

    def _reject(self, delivery: Delivery, error: Error) -> None:
        """Tell the client what failed: by a detach if it does not know the outcome (4.3)."""
        if self._can_reject:
            delivery.settle(Rejected(error))
        else:
            self.detach(error)
