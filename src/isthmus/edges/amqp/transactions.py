"""Transactions: declared and discharged over a link to the coordinator, recorded in the journal.

A send in a transaction is an ADD_TX with its place. Discharge waits until the journal has all of them, and
then writes COMMIT or ROLLBACK with their number; the client is told only once the journal has that too. What
a client leaves open is rolled back: when the coordinator's link, the session or the connection ends.

Acknowledgements in a transaction belong to whoever delivered: it enlists as `Participant`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from isthmus.edges.amqp.protocol.conditions import TRANSACTION_ROLLBACK, UNKNOWN_TRANSACTION
from isthmus.edges.amqp.protocol.terms import ACCEPTED, TransactionalState
from isthmus.errors import IsthmusError
from isthmus.journal.layout import Entry, Op
from isthmus.message import Body, BodyKind, Message

if TYPE_CHECKING:
    from isthmus.edges.amqp.ports import BatchJournal

Discharged = Callable[[str | None, str], None]
"""Told how a discharge ended: None, or the condition that it failed with, and a description."""


class Participant(Protocol):
    """Somebody whose deliveries were acknowledged in a transaction."""

    def commit(self) -> None:
        """The transaction is in the journal as committed: the acknowledgements hold."""
        ...

    def roll_back(self) -> None:
        """It is not: the acknowledgements are void."""
        ...


class Transaction:
    """One transaction, all of whose records are of one session of the journal."""

    def __init__(self, journal: BatchJournal, session: str) -> None:
        self.id = uuid.uuid4().bytes
        self.session = session
        self.accepted = TransactionalState(self.id, ACCEPTED)
        """The state of every send in it that the journal has."""
        self._journal = journal
        self._name = self.id.hex()
        self._count = 0
        self._undecided = 0
        self._failure: str | None = None
        self._discharge: tuple[bool, Discharged] | None = None
        self._participants: dict[Participant, None] = {}

    def add(
        self,
        message: Message,
        conversion: tuple[tuple[str, bytes | None], ...],
        decided: Callable[[IsthmusError | None], None],
    ) -> None:
        """Record a send. ``decided`` is told as by the journal."""
        entry = Entry(Op.ADD_TX, message, self._name, self._count, conversion)
        self._count += 1
        self._undecided += 1

        def recorded(failure: IsthmusError | None) -> None:
            self._undecided -= 1
            if failure is not None:
                self.fail(str(failure))
            decided(failure)
            self._proceed()

        self._journal.put(entry, recorded)

    def fail(self, why: str) -> None:
        """Let it end in nothing but a rollback: something in it could not be taken."""
        if self._failure is None:
            self._failure = why

    def enlist(self, participant: Participant) -> None:
        """Tell somebody of the outcome, too."""
        self._participants[participant] = None

    def discharge(self, *, commit: bool, discharged: Discharged) -> None:
        """End it, as soon as the journal has all that is in it."""
        self._discharge = (commit, discharged)
        self._proceed()

    def _proceed(self) -> None:
        if self._discharge is None or self._undecided:
            return
        (commit, discharged), self._discharge = self._discharge, None
        failure = self._failure
        commits = commit and failure is None

        def recorded(problem: IsthmusError | None) -> None:
            for participant in self._participants:
                if commits and problem is None:
                    participant.commit()
                else:
                    participant.roll_back()
            if problem is not None:
                discharged(TRANSACTION_ROLLBACK, f"the outcome is not in the journal: {problem}")
            elif commit and failure is not None:
                discharged(TRANSACTION_ROLLBACK, f"rolled back, since a message was not taken: {failure}")
            else:
                discharged(None, "")

        outcome = Message(
            id="", address="", protocol="amqp", value=b"", body=Body(BodyKind.EMPTY), session=self.session
        )
        op = Op.COMMIT if commits else Op.ROLLBACK
        self._journal.put(Entry(op, outcome, self._name, self._count), recorded)


class Transactions:
    """The open transactions of one connection."""

    def __init__(self, journal: BatchJournal) -> None:
        self._journal = journal
        self._open: dict[bytes, Transaction] = {}

    def __len__(self) -> int:
        return len(self._open)

    def declare(self, session: str) -> Transaction:
        """Begin one."""
        transaction = Transaction(self._journal, session)
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
            transaction.discharge(commit=commit, discharged=discharged)

    def abandon(self, session: str | None = None) -> None:
        """Roll back what a session, or all of the connection, has left open."""
        for transaction in list(self._open.values()):
            if session is None or transaction.session == session:
                self.discharge(transaction.id, commit=False, discharged=_nobody_asks)


def _nobody_asks(condition: str | None, description: str) -> None:
    """The client is gone. If even the rollback fails, the transaction expires in the ledger."""
