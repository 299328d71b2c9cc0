"""Transactions: declared and discharged over a link to the coordinator, recorded in the journal.

A send in a transaction is an ADD_TX with its place. Discharge writes COMMIT or ROLLBACK with their number
right behind them, and the client is told once the journal has all of it. Should it not get one of the sends,
a COMMIT that it has is void, since that says how many there are: the ledger commits all or nothing. What a
client leaves open is rolled back: when the coordinator's link, the session or the connection ends.

A write whose answer never came may be in the journal all the same (`HardFailure.in_doubt`). A commit with
such a write, and with none that Kafka refused, is in doubt, and a client must not be told that it was rolled
back.

Acknowledgements in a transaction belong to whoever delivered: it enlists as `Participant`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from isthmus.edges.amqp.protocol.conditions import (
    INTERNAL_ERROR,
    TRANSACTION_ROLLBACK,
    UNKNOWN_TRANSACTION,
)
from isthmus.edges.amqp.protocol.terms import ACCEPTED, TransactionalState
from isthmus.errors import HardFailure, IsthmusError, RedeliveryFailure
from isthmus.journal.fast_path import EncodedEntry
from isthmus.journal.layout import Entry, Op
from isthmus.message import Body, BodyKind, Message

if TYPE_CHECKING:
    from isthmus.edges.contract import Journal

Discharged = Callable[[str | None, str], None]
"""Told how a discharge ended: None, or the condition that it failed with, and a description.

`IN_DOUBT` is the condition of a commit of which nobody knows whether it holds.
"""

IN_DOUBT: Final = INTERNAL_ERROR


class Participant(Protocol):
    """Somebody whose deliveries were acknowledged in a transaction."""

    def can_commit(self) -> bool:
        """Whether the acknowledgements would hold: False if others may have got the messages meanwhile."""
        ...

    def commit(self) -> None:
        """The transaction is in the journal as committed: the acknowledgements hold."""
        ...

    def roll_back(self) -> None:
        """It is not: the acknowledgements are void."""
        ...


class Transaction:
    """One transaction, all of whose records are of one session of the journal."""

    def __init__(self, journal: Journal, session: str, *, streams: bool) -> None:
        """``streams`` is whether the client is thought to send on without waiting for each send."""
        self.id = uuid.uuid4().bytes
        self.session = session
        self.streamed = False
        """Whether it did: something came before what went before it was decided."""
        self.accepted = TransactionalState(self.id, ACCEPTED)
        """The state of every send in it that the journal has."""
        self._journal = journal
        self._name = self.id.hex()
        self._streams = streams
        self._count = 0
        self._looked_into = 0
        self._undecided = 0
        self._failure: IsthmusError | None = None
        self._ending: Callable[[], None] | None = None
        """What is left to do once all that is in it is known, and then once that is decided."""
        self._participants: dict[Participant, None] = {}

    def look_into(self) -> None:
        """Note a send that comes to `add` later, or to nothing: an end waits for that."""
        self._looked_into += 1

    def looked_into(self) -> None:
        """Note that one of those has come to what it comes to."""
        self._looked_into -= 1
        self._go_on()

    def add(self, arrival: EncodedEntry, decided: Callable[[IsthmusError | None], None]) -> None:
        """Record a send. ``decided`` is told as by the journal."""
        # The ledger keeps a transaction together by its session, which the link's need not be.
        record = arrival.record_in(self._name, self.session, self._count)
        self._count += 1
        self.streamed = self.streamed or self._undecided > 0
        self._undecided += 1

        def recorded(failure: IsthmusError | None) -> None:
            self._undecided -= 1
            if failure is not None:
                self.fail(failure)
            decided(failure)
            self._go_on()

        self._journal.put_record(record, self.session, recorded, more=self._streams)

    def fail(self, why: IsthmusError) -> None:
        """Let it end in nothing but a rollback: something in it could not be taken."""
        if self._failure is None or _leaves_in_doubt(self._failure):
            self._failure = why

    def enlist(self, participant: Participant) -> None:
        """Tell somebody of the outcome, too."""
        self._participants[participant] = None

    def discharge(self, *, commit: bool, discharged: Discharged) -> None:
        """End it."""
        if self._looked_into:
            self._ending = partial(self.discharge, commit=commit, discharged=discharged)
        else:
            if commit and not all(each.can_commit() for each in self._participants):
                self.fail(
                    RedeliveryFailure("a message that it acknowledges was meanwhile delivered to others")
                )
            op = Op.COMMIT if commit and self._failure is None else Op.ROLLBACK
            self._write(op, partial(self._written, op, commit, discharged))

    def _go_on(self) -> None:
        ending = self._ending
        if ending is not None:
            self._ending = None
            ending()

    def _write(self, outcome: Op, written: Callable[[IsthmusError | None], None]) -> None:
        nothing = Message(
            id="", address="", protocol="amqp", value=b"", body=Body(BodyKind.EMPTY), session=self.session
        )
        self._journal.put(Entry(outcome, nothing, self._name, self._count), written)

    def _written(
        self, outcome: Op, commit: bool, discharged: Discharged, problem: IsthmusError | None
    ) -> None:
        """The journal has the outcome, or never will."""
        if self._undecided:
            self._ending = partial(self._written, outcome, commit, discharged, problem)
            return
        failures = [failure for failure in (self._failure, problem) if failure is not None]
        committed = outcome is Op.COMMIT and not failures
        for participant in self._participants:
            if committed:
                participant.commit()
            else:
                participant.roll_back()
        if outcome is Op.COMMIT and failures:
            self._write(Op.ROLLBACK, _nobody_waits)  # else the ledger waits for what is missing
        if outcome is Op.COMMIT and failures and all(map(_leaves_in_doubt, failures)):
            discharged(IN_DOUBT, f"whether the transaction is committed is not known: {failures[0]}")
        elif commit and failures:
            discharged(TRANSACTION_ROLLBACK, f"rolled back, since not all of it was taken: {failures[0]}")
        elif problem is not None:
            discharged(TRANSACTION_ROLLBACK, f"the rollback is not in the journal: {problem}")
        else:
            discharged(None, "")


class Transactions:
    """The open transactions of one connection."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._open: dict[bytes, Transaction] = {}
        self._streams = False
        """Whether the client goes on sending without waiting for each send, as far as is known."""

    def __len__(self) -> int:
        return len(self._open)

    def declare(self, session: str) -> Transaction:
        """Begin one."""
        transaction = Transaction(self._journal, session, streams=self._streams)
        self._open[transaction.id] = transaction
        return transaction

    def find(self, id: bytes) -> Transaction | None:
        """The open transaction of an id."""
        return self._open.get(id)

    def discharge(self, id: bytes, *, commit: bool, discharged: Discharged) -> None:
        """End one. An unknown id is a failure that is told at once."""
        transaction = self._open.pop(id, None)
        if transaction is None:
            discharged(UNKNOWN_TRANSACTION, "there is no such transaction, or it has ended")
        else:
            self._streams = transaction.streamed
            transaction.discharge(commit=commit, discharged=discharged)

    def abandon(self, session: str | None = None) -> None:
        """Roll back what a session, or all of the connection, has left open."""
        for transaction in list(self._open.values()):
            if session is None or transaction.session == session:
                self.discharge(transaction.id, commit=False, discharged=_nobody_asks)


def _leaves_in_doubt(failure: IsthmusError) -> bool:
    """Whether the write may have been done all the same. A message's own fault shows before it is written."""
    return isinstance(failure, HardFailure) and failure.in_doubt


def _nobody_waits(_failure: IsthmusError | None) -> None:
    """If even this is not written, the transaction expires in the ledger."""


def _nobody_asks(condition: str | None, description: str) -> None:
    """The client is gone. If even the rollback fails, the transaction expires in the ledger."""
