"""What comes in on a link: a message for the journal, or a word to the coordinator of transactions.

A delivery is accepted once the journal has it, never before, and rejected with a condition and a description
if it never will. The credit that it used is given back with that. What a client sets in a message's ``to``
outranks the link's target.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from isthmus.codecs.amqp import AmqpMessage, AmqpValue
from isthmus.codecs.jms import to_message
from isthmus.edges.amqp.entry import entry_of
from isthmus.edges.amqp.protocol import Delivery, Receiver
from isthmus.edges.amqp.protocol.composite import interpret
from isthmus.edges.amqp.protocol.conditions import (
    DECODE_ERROR,
    NOT_ALLOWED,
    NOT_FOUND,
    NOT_IMPLEMENTED,
    UNAUTHORIZED_ACCESS,
    UNKNOWN_TRANSACTION,
    Fault,
)
from isthmus.edges.amqp.protocol.terms import (
    ACCEPTED,
    Declare,
    Declared,
    Discharge,
    Error,
    Rejected,
    TransactionalState,
)
from isthmus.edges.amqp.server.addresses import KEPT
from isthmus.edges.amqp.server.contract import ERROR_TO_KAFKA, Refused
from isthmus.edges.amqp.server.transactions import IN_DOUBT, Transaction
from isthmus.errors import DecodeError, HardFailure, IsthmusError, SoftFailure
from isthmus.journal.fast_path import EncodedEntry, FastPath
from isthmus.journal.layout import CLIENT, encode
from isthmus.message import Header

if TYPE_CHECKING:
    from isthmus.edges.amqp.server.connection import ServerConnection


class IncomingLink:
    """Takes the messages of one link. An empty address is that of an anonymous relay."""

    def __init__(self, connection: ServerConnection, link: Receiver, address: str, session: str) -> None:
        self.link = link
        self.in_flight = 0
        self._connection = connection
        self._address = address
        self._session = session
        self._short_way = FastPath(address, session)
        self._checked = {address} if address else set()
        self._held: deque[tuple[Delivery, Transaction | None]] = deque()
        """What waits for an address that is asked for, and the transactions that wait with it."""
        self._returned = 0
        self._window = connection.server.settings.credit
        self._count = 0
        self._leaving = False

    def start(self) -> None:
        """Grant the first credit."""
        self.link.grant(self._window)

    def receive(self, delivery: Delivery) -> None:
        """Take a delivery."""
        self.in_flight += 1
        self._connection.hold(len(delivery.data))
        transaction: Transaction | None = None
        if delivery.state is not None:
            try:
                transaction = self._transaction(delivery.state)
            except Fault as problem:
                self._refuse(delivery, None, problem)
                return
        if self._held:
            self._hold(delivery, transaction)
        else:
            self._take(delivery, transaction)

    def leave(self) -> None:
        """The client has detached the link: answer once all that came over it is decided."""
        self._leaving = True
        if not self.in_flight:
            self.link.detach()
            self._connection.wake()

    def _hold(self, delivery: Delivery, transaction: Transaction | None) -> None:
        self._held.append((delivery, transaction))
        if transaction is not None:
            transaction.look_into()

    def _take(self, delivery: Delivery, transaction: Transaction | None) -> None:
        try:
            arrival = self._arrival(delivery.data)
            if arrival.address not in self._checked and not self._check(arrival.address):
                self._hold(delivery, transaction)
                self._connection.spawn(self._look_up(arrival.address))
                return
            self._write(delivery, transaction, arrival)
        except (Fault, SoftFailure) as problem:
            self._refuse(delivery, transaction, problem)

    def _arrival(self, data: bytes) -> EncodedEntry:
        as_json = self._connection.server.as_json
        if not (as_json or self._connection.signs_messages):
            arrival = self._short_way.read(data)
            if arrival is not None:
                return arrival
        self._count += 1
        message = to_message(
            data,
            target=self._address,
            fallback_id=f"ID:{self._session}:{self.link.handle}:{self._count}",
            session=self._session,
            received_ms=int(time.time() * 1000),
        )
        entry = entry_of(message, data, as_json=as_json)
        if self._connection.signs_messages:
            sender = Header(self._connection.client.container_id)
            entry = entry._replace(message=replace(message, headers={**message.headers, CLIENT: sender}))
        return EncodedEntry(message.address, encode(entry))

    def _check(self, address: str) -> bool:
        """Whether an address may be sent to; False if that is not known yet. Raises `Refused`."""
        if not self._connection.client.may_send(address):
            raise Refused(UNAUTHORIZED_ACCESS, f"you may not send to {address!r:.300}")
        if not self._connection.server.addresses.knows(address):
            return False
        self._remember(address)
        return True

    def _remember(self, address: str) -> None:
        if len(self._checked) >= KEPT:  # one who answers requests has a new address for each
            self._checked.clear()
        self._checked.add(address)

    async def _look_up(self, address: str) -> None:
        """Ask for an address that a message names. Those that came after it wait, to keep their order."""
        refusal: Fault | None = None
        try:
            problem = await self._connection.server.addresses.find(address)
            if problem is None:
                self._remember(address)
            else:
                refusal = Refused(NOT_FOUND, problem)
        except HardFailure as failure:
            refusal = Refused(ERROR_TO_KAFKA, str(failure))
        held, self._held = self._held, deque()
        while held:
            if self._held:
                self._held.extend(held)
                break
            delivery, transaction = held.popleft()
            if refusal is not None:
                self._refuse(delivery, transaction, refusal)
                refusal = None
            else:
                self._take(delivery, transaction)
            if transaction is not None:
                transaction.looked_into()
        self._connection.wake()

    def _write(self, delivery: Delivery, transaction: Transaction | None, arrival: EncodedEntry) -> None:
        if transaction is None:
            decided = partial(self._decided, delivery, ACCEPTED)
            self._connection.server.journal.put_record(arrival.record(), self._session, decided)
        else:
            transaction.add(arrival, partial(self._decided, delivery, transaction.accepted))

    def _transaction(self, state: object) -> Transaction:
        if not isinstance(state, TransactionalState):
            raise Refused(NOT_ALLOWED, "a message is sent with a state that only a receiver can give it")
        transaction = self._connection.transactions.find(state.txn_id)
        if transaction is None:
            raise Refused(UNKNOWN_TRANSACTION, "there is no such transaction, or it has ended")
        return transaction

    def _decided(self, delivery: Delivery, state: object, failure: IsthmusError | None) -> None:
        stats = self._connection.server.stats
        if failure is not None:
            state = Rejected(Error(ERROR_TO_KAFKA, str(failure)))
            stats.rejected += 1
        else:
            stats.accepted += 1
            stats.accepted_bytes += len(delivery.data)
        self._settle(delivery, state)

    def _refuse(
        self,
        delivery: Delivery,
        transaction: Transaction | None,
        problem: Fault | SoftFailure,
    ) -> None:
        if isinstance(problem, Fault):
            error = Error(problem.condition, problem.description)
        else:
            error = Error(DECODE_ERROR if isinstance(problem, DecodeError) else NOT_ALLOWED, str(problem))
        if transaction is not None:
            transaction.fail(problem)
        self._connection.server.stats.rejected += 1
        self._settle(delivery, Rejected(error))

    def _settle(self, delivery: Delivery, state: object) -> None:
        self.in_flight -= 1
        self._connection.release(len(delivery.data))
        delivery.settle(state)
        self._returned += 1
        if self._leaving:
            if not self.in_flight:
                self.link.detach()
        elif self.link.credit <= self._window >> 1 and self._connection.welcome:
            self.link.grant(self._returned)
            self._returned = 0
        self._connection.wake()


class Coordinator:
    """Takes the words of a link to the coordinator: declare and discharge."""

    CREDIT: Final = 100

    def __init__(self, connection: ServerConnection, link: Receiver, session: str) -> None:
        self.link = link
        self._connection = connection
        self._session = session

    def start(self) -> None:
        """Grant the first credit."""
        self.link.grant(self.CREDIT)

    def receive(self, delivery: Delivery) -> None:
        """Take a word."""
        if self.link.credit <= self.CREDIT >> 1:
            self.link.grant(self.CREDIT - self.link.credit)
        try:
            self._obey(delivery)
        except Fault as problem:
            delivery.settle(Rejected(Error(problem.condition, problem.description)))
        except DecodeError as problem:
            delivery.settle(Rejected(Error(DECODE_ERROR, str(problem))))

    def leave(self) -> None:
        """The client has detached the link: what it left open is rolled back."""
        self._connection.transactions.abandon(self._session)
        self.link.detach()
        self._connection.wake()

    def _obey(self, delivery: Delivery) -> None:
        body = AmqpMessage.decode(delivery.data).body
        word = interpret(body.value) if isinstance(body, AmqpValue) else None
        if isinstance(word, Declare):
            if word.global_id is not None:
                raise Refused(NOT_IMPLEMENTED, "there are no distributed transactions")
            transaction = self._connection.transactions.declare(self._session)
            delivery.settle(Declared(transaction.id))
        elif isinstance(word, Discharge):
            discharged = partial(self._discharged, delivery)
            self._connection.transactions.discharge(word.txn_id, commit=not word.fail, discharged=discharged)
        else:
            raise Refused(NOT_ALLOWED, "the coordinator takes declare and discharge")

    def _discharged(self, delivery: Delivery, condition: str | None, description: str) -> None:
        if condition is None:
            delivery.settle(ACCEPTED)
        elif condition == IN_DOUBT:  # a rejection would say that it was rolled back
            self._connection.transactions.abandon(self._session)
            self.link.detach(Error(condition, description))
        else:
            delivery.settle(Rejected(Error(condition, description)))
        self._connection.wake()
