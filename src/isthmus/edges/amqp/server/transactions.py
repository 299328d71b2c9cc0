"""Transactions: declared and discharged over a link to the coordinator, recorded in the journal.

Most fit into one batch of the journal, which Kafka appends as a whole or not at all. Their sends are held
here, and accepted at once, as far as that goes before the discharge; a commit writes them as plain ADD
records in one batch, and the client is told once the journal has it. A rollback writes nothing, and neither
does a client that is gone.

One that does not fit, or for which there is no memory, is *spilled*: what is held, and all that follows, is
written as ADD_TX records with their sequence numbers. Its discharge writes COMMIT or ROLLBACK with their
count right behind them, and the ledger commits all of them or none: should the journal not get one of the
sends, a COMMIT that it has is void. What the ledger commits is in the journal later than the COMMIT. So once
a session has committed a spilled transaction, those that follow are spilled, too, to keep their order.

What a client leaves open is rolled back: when the coordinator's link, the session or the connection ends.

A write whose answer never came may be in the journal all the same (`HardFailure.in_doubt`). A commit with
such a write, and with none that Kafka refused, is in doubt, and a client must not be told that it was rolled
back.

Acknowledgements in a transaction belong to whoever delivered: it enlists as `Participant`.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from isthmus.edges.amqp.protocol.conditions import (
    INTERNAL_ERROR,
    TRANSACTION_ROLLBACK,
    UNKNOWN_TRANSACTION,
)
from isthmus.edges.amqp.protocol.terms import ACCEPTED, TransactionalState
from isthmus.errors import HardFailure, IsthmusError, RedeliveryFailure
from isthmus.journal.fast_path import EncodedEntry
from isthmus.journal.layout import Entry, Op, Record
from isthmus.kafka.producer import record_bytes
from isthmus.message import Body, BodyKind, Message

if TYPE_CHECKING:
    from isthmus.edges.contract import Journal
    from isthmus.journal import OnDone

OnDischarged = Callable[[str | None, str], None]
"""Told how a discharge ended: None, or the condition that it failed with, and a description.

`IN_DOUBT` is the condition of a commit of which nobody knows whether it holds.
"""

IN_DOUBT: Final = INTERNAL_ERROR
HELD_BYTES: Final = 1 << 20
"""How much of a transaction is held at most."""


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


class Memory(Protocol):
    """Counts the bytes that are held for a client. When they are too many it has transactions spilled."""

    def hold(self, size: int) -> None:
        """Count a message that is held."""
        ...

    def release(self, size: int) -> None:
        """Count a message that no longer is."""
        ...


class HeldSend(NamedTuple):
    """A send that waits for the discharge."""

    entry: EncodedEntry
    record: Record
    """Its record as an ADD."""
    size: int
    """What it takes in a batch at most."""


class Transaction:
    """One transaction, all of whose records are of one session of the journal."""

    def __init__(self, journal: Journal, memory: Memory, session: str, ledger_sessions: set[str]) -> None:
        """``ledger_sessions`` are those with a commit that the ledger has to carry out."""
        self.id = uuid.uuid4().bytes
        self.began = time.monotonic()
        self.session = session
        self.accepted = TransactionalState(self.id, ACCEPTED)
        """The state of every send in it that is held, or that the journal has."""
        self._journal = journal
        self._memory = memory
        self._ledger_sessions = ledger_sessions
        self._name = self.id.hex()
        self._sends: list[HeldSend] = []
        self._held_bytes = 0
        self._limit = min(HELD_BYTES, journal.batch_bytes)
        self._spilled = False
        self._written = 0
        """How many ADD_TX records there are."""
        self._in_flight = 0
        self._on_hold = 0
        self._failure: IsthmusError | None = None
        self._ending: Callable[[], None] | None = None
        """What is left to do once all that is in it is known, and then once that is written."""
        self._participants: dict[Participant, None] = {}

    def hold(self) -> None:
        """Have the discharge wait for a send that is added later, or refused."""
        self._on_hold += 1

    def release(self) -> None:
        """Note that one of those is added or refused."""
        self._on_hold -= 1
        self._proceed()

    def add(self, entry: EncodedEntry, on_done: OnDone) -> None:
        """Take a send. ``on_done`` is called as by the journal, and at once for one that is held."""
        record = entry.record_of(self.session)
        size = record_bytes(record)
        if self._held_bytes + size > self._limit or self.session in self._ledger_sessions:
            self.spill()
        if self._spilled:
            self._write(entry, on_done)
        else:
            self._sends.append(HeldSend(entry, record, size))
            self._held_bytes += size
            on_done(None)
            self._memory.hold(size)  # which may spill it

    def spill(self) -> None:
        """Hold nothing any longer: leave it to the ledger."""
        self._spilled = True
        sends, self._sends = self._sends, []
        for send in sends:
            self._write(send.entry, partial(self._on_spilled, send.size))

    def fail(self, why: IsthmusError) -> None:
        """Let it end in nothing but a rollback: something in it could not be taken."""
        if self._failure is None or _leaves_in_doubt(self._failure):
            self._failure = why

    def enlist(self, participant: Participant) -> None:
        """Tell somebody of the outcome, too."""
        self._participants[participant] = None

    @property
    def holds_sends(self) -> bool:
        """Whether there is anything to spill."""
        return bool(self._sends)

    def discharge(self, *, commit: bool, on_done: OnDischarged) -> None:
        """End it."""
        if self._on_hold:
            self._ending = partial(self.discharge, commit=commit, on_done=on_done)
            return
        if commit and not all(each.can_commit() for each in self._participants):
            self.fail(RedeliveryFailure("a message that it acknowledges was meanwhile delivered to others"))
        outcome = Op.COMMIT if commit and self._failure is None else Op.ROLLBACK
        on_written = partial(self._on_written, outcome, commit, on_done)
        if outcome is Op.COMMIT:
            if self._sends and self.session in self._ledger_sessions:
                self.spill()
            if self._spilled:
                self._ledger_sessions.add(self.session)
        if self._spilled:
            self._write_outcome(outcome, on_written)
        elif outcome is Op.COMMIT and self._sends:
            records = [send.record for send in self._sends]
            self._journal.put_together(records, self._held_bytes, self.session, on_written)
        else:
            on_written(None)

    def _write(self, entry: EncodedEntry, on_done: OnDone) -> None:
        """Write a send for the ledger."""
        # It keeps a transaction together by its session, which the link's need not be.
        record = entry.record_in(self._name, self.session, self._written)
        self._written += 1
        self._in_flight += 1

        def on_written(error: IsthmusError | None) -> None:
            self._in_flight -= 1
            if error is not None:
                self.fail(error)
            on_done(error)
            self._proceed()

        self._journal.put_record(record, self.session, on_written)

    def _on_spilled(self, size: int, _error: IsthmusError | None) -> None:
        self._memory.release(size)

    def _write_outcome(self, outcome: Op, on_done: OnDone) -> None:
        nothing = Message(
            id="", address="", protocol="amqp", value=b"", body=Body(BodyKind.EMPTY), session=self.session
        )
        self._journal.put(Entry(outcome, nothing, self._name, self._written), on_done)

    def _proceed(self) -> None:
        ending = self._ending
        if ending is not None:
            self._ending = None
            ending()

    def _on_written(
        self, outcome: Op, commit: bool, on_done: OnDischarged, error: IsthmusError | None
    ) -> None:
        """The journal has the outcome, or never will."""
        if self._in_flight:
            self._ending = partial(self._on_written, outcome, commit, on_done, error)
            return
        sends, self._sends = self._sends, []
        for send in sends:
            self._memory.release(send.size)
        failures = [failure for failure in (self._failure, error) if failure is not None]
        committed = outcome is Op.COMMIT and not failures
        for participant in self._participants:
            if committed:
                participant.commit()
            else:
                participant.roll_back()
        if self._spilled and outcome is Op.COMMIT and failures:
            self._write_outcome(Op.ROLLBACK, _ignore)  # else the ledger waits for what is missing
        if outcome is Op.COMMIT and failures and all(map(_leaves_in_doubt, failures)):
            on_done(IN_DOUBT, f"whether the transaction is committed is not known: {failures[0]}")
        elif commit and failures:
            on_done(TRANSACTION_ROLLBACK, f"rolled back, since not all of it was taken: {failures[0]}")
        elif error is not None:
            on_done(TRANSACTION_ROLLBACK, f"the rollback is not in the journal: {error}")
        else:
            on_done(None, "")


class Transactions:
    """The open transactions of one connection."""

    def __init__(self, journal: Journal, memory: Memory) -> None:
        self._journal = journal
        self._memory = memory
        self._open: dict[bytes, Transaction] = {}
        self._ledger_sessions: set[str] = set()

    def __len__(self) -> int:
        return len(self._open)

    @property
    def oldest(self) -> float | None:
        """When the oldest of them began, by the monotonic clock; None without any."""
        # The one that was declared first is the first, and another thread may ask.
        first = next(iter(self._open.copy().values()), None)
        return None if first is None else first.began

    def declare(self, session: str) -> Transaction:
        """Begin one."""
        transaction = Transaction(self._journal, self._memory, session, self._ledger_sessions)
        self._open[transaction.id] = transaction
        return transaction

    def find(self, id: bytes) -> Transaction | None:
        """The open transaction of an id."""
        return self._open.get(id)

    def discharge(self, id: bytes, *, commit: bool, on_done: OnDischarged) -> None:
        """End one. An unknown id is a failure that is told at once."""
        transaction = self._open.pop(id, None)
        if transaction is None:
            on_done(UNKNOWN_TRANSACTION, "there is no such transaction, or it has ended")
        else:
            transaction.discharge(commit=commit, on_done=on_done)

    def spill(self) -> None:
        """Free the memory that open transactions take, as soon as the journal has what they hold."""
        for transaction in self._open.values():
            if transaction.holds_sends:
                transaction.spill()

    def abandon(self, session: str | None = None) -> None:
        """Roll back what a session, or all of the connection, has left open."""
        for transaction in list(self._open.values()):
            if session is None or transaction.session == session:
                self.discharge(transaction.id, commit=False, on_done=_ignore_discharged)


def _leaves_in_doubt(failure: IsthmusError) -> bool:
    """Whether the write may have been done all the same. A message's own fault shows before it is written."""
    return isinstance(failure, HardFailure) and failure.in_doubt


def _ignore(_error: IsthmusError | None) -> None:
    """If even this is not written, the transaction expires in the ledger."""


def _ignore_discharged(_condition: str | None, _description: str) -> None:
    """The client is gone. If even the rollback fails, the transaction expires in the ledger."""
