"""Transactions: what is held, and what becomes of it.

In: the events of one partition of the journal, in order. Out: the updates that they cause.

- A transaction's records are held until its COMMIT, then written as plain records, in order of their place.
- Its outcome says by its own place how many records there are. A COMMIT that is early waits for them; records
  that come twice count once; a transaction with a gap is not complete. It takes effect whole or not at all.
- ROLLBACK drops what is held. So does time, unless the transaction is PREPAREd: that one is held for ever.
- When it is decided, a tombstone goes out for each of its records and for its outcome. What comes after that
  changes nothing, and gets a tombstone too.

Time is the journal's: a transaction is overdue when its partition has records that are younger than its
first one by more than the time-out, wherever batches begin and end. Only a partition in which nothing happens
goes by the clock on the wall.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from isthmus.errors import HardFailure
from isthmus.journal.layout import Op
from isthmus.journal.partitions import JournalPartitions
from isthmus.ledger import pages
from isthmus.ledger.events import CHUNK_BYTES, PER_UPDATE_BYTES, SEPARATOR, Event, Update
from isthmus.ledger.pages import Held, Pages
from isthmus.ledger.state import Chunks, Remembered, joined

DECIDED = 10_000
"""How many decided transactions a partition remembers, for records of theirs that come late or twice."""


class Transaction(msgspec.Struct, array_like=True):
    """A transaction without outcome, but for the records that it holds."""

    session: str
    id: str
    since_ms: int
    next_place: int = 0
    """How many records are held, without a gap."""
    pages: list[int] = []
    """Where they are kept, in order; see `isthmus.ledger.pages`."""
    prepared: bool = False
    committing: bool = False
    """Whether its COMMIT has come, and waits for records."""
    count: int = 0
    """How many records its outcome says there are."""
    ahead: dict[int, Held] = {}
    """Records that came before others of a lower place."""

    @property
    def name(self) -> tuple[str, str]:
        """What tells it from others."""
        return self.session, self.id

    @property
    def complete(self) -> bool:
        """Whether every record is there that the outcome counts."""
        return self.next_place >= self.count and not self.ahead


class Holding(msgspec.Struct, array_like=True, frozen=True):
    """How many transactions a partition has without outcome."""

    transactions: int = 0
    prepared: int = 0
    """Those of them that wait for their outcome for ever."""
    since_ms: int = 0
    """When the oldest of them began, by the journal's time; 0 if there is none."""


class Summary(msgspec.Struct, array_like=True):
    """What is kept of a partition's transactions, but for their records."""

    open: list[Transaction] = []
    decided: bytes = b""
    clock_ms: int = 0
    """The time of the youngest record."""
    seen_ms: int = 0
    """When, by the clock on the wall, the partition last had a record."""
    pages: pages.Summary = msgspec.field(default_factory=pages.Summary)


class Transactions:
    """The transactions of one partition, during one batch."""

    def __init__(
        self,
        partition: int,
        summary: Summary,
        chunks: Chunks,
        places: JournalPartitions,
        *,
        now_ms: int,
        timeout_ms: int,
    ) -> None:
        self._partition = partition
        self._open = {transaction.name: transaction for transaction in summary.open}
        self._decided = Remembered(DECIDED, summary.decided)
        self._clock_ms = summary.clock_ms
        self._seen_ms = summary.seen_ms
        self._pages = Pages(summary.pages, chunks)
        self._places = places
        self._now_ms = now_ms
        self._timeout_ms = timeout_ms
        self._fresh: dict[tuple[str, str], list[Held]] = {}
        self._fresh_bytes: dict[tuple[str, str], int] = {}

    def take(self, event: Event) -> Iterable[Update]:
        """What follows from an event. The updates are made while they are taken: take all of them."""
        self._clock_ms = max(self._clock_ms, event.time_ms)
        self._seen_ms = self._now_ms
        if event.op in RECORDS:
            return self._hold(event)
        return self._settle(event) if event.op in OUTCOMES else ()

    def expire(self) -> Iterator[Update]:
        """Roll back what is overdue."""
        idle = self._now_ms - self._seen_ms > self._timeout_ms
        # A sender's clock that is ahead must not end the transactions of others.
        reached_ms = self._now_ms if idle else min(self._clock_ms, self._now_ms)
        for transaction in [each for each in self._open.values() if self._overdue(each, reached_ms)]:
            yield from self._roll_back(transaction)

    @property
    def holding(self) -> Holding:
        """What waits for its outcome."""
        still = self._open.values()
        return Holding(
            len(still),
            sum(each.prepared for each in still),
            min((each.since_ms for each in still), default=0),
        )

    def next_deadline_ms(self) -> int | None:
        """When `expire` is worth calling even if nothing happens until then."""
        waiting = (each.since_ms for each in self._open.values() if not each.prepared)
        oldest_ms = min(waiting, default=None)
        return None if oldest_ms is None else max(oldest_ms, self._seen_ms) + self._timeout_ms + 1

    def save(self) -> Summary:
        """Keep what is held, and say the rest."""
        together: list[Transaction] = []
        size = 0
        for name, fresh_bytes in list(self._fresh_bytes.items()):
            together.append(self._open[name])
            size += fresh_bytes
            if size >= CHUNK_BYTES:
                self._keep(together)
                together, size = [], 0
        if together:
            self._keep(together)
        return Summary(
            list(self._open.values()),
            self._decided.save(),
            self._clock_ms,
            self._seen_ms,
            self._pages.save(),
        )

    def _hold(self, event: Event) -> Iterable[Update]:
        held = Held(_removable(event), event.record)
        transaction = self._find_or_open(event)
        if transaction is None:
            return [Update(self._partition, held.key)] if held.key else ()
        if event.place == transaction.next_place:
            self._append(transaction, held)
            while transaction.ahead and transaction.next_place in transaction.ahead:
                self._append(transaction, transaction.ahead.pop(transaction.next_place))
        elif event.place > transaction.next_place:
            transaction.ahead.setdefault(event.place, held)
        if self._overdue(transaction, event.time_ms):
            return self._roll_back(transaction)
        if transaction.committing and transaction.complete:
            return self._commit(transaction)
        return ()

    def _settle(self, event: Event) -> Iterable[Update]:
        transaction = self._find_or_open(event)
        if transaction is None:
            return [Update(self._partition, event.key)]
        if event.op == Op.ROLLBACK or self._overdue(transaction, event.time_ms):
            return self._roll_back(transaction)
        transaction.count = max(transaction.count, event.place)
        if event.op == Op.PREPARE:
            transaction.prepared = True
        elif transaction.complete:
            return self._commit(transaction)
        else:
            transaction.committing = True
        return ()

    def _find_or_open(self, event: Event) -> Transaction | None:
        """The event's transaction; None if that was decided before."""
        name = event.session, event.transaction
        transaction = self._open.get(name)
        if transaction is None and joined(name).encode() not in self._decided:
            transaction = self._open[name] = Transaction(event.session, event.transaction, event.time_ms)
        return transaction

    def _overdue(self, transaction: Transaction, time_ms: int) -> bool:
        return not transaction.prepared and time_ms - transaction.since_ms > self._timeout_ms

    def _append(self, transaction: Transaction, held: Held) -> None:
        name = transaction.name
        transaction.next_place += 1
        self._fresh.setdefault(name, []).append(held)
        size = self._fresh_bytes.get(name, 0) + len(held.record) + PER_UPDATE_BYTES
        self._fresh_bytes[name] = size
        if size >= CHUNK_BYTES:
            self._keep([transaction])

    def _keep(self, together: Iterable[Transaction]) -> None:
        number = self._pages.put({joined(each.name): self._fresh.pop(each.name) for each in together})
        for transaction in together:
            transaction.pages.append(number)
            del self._fresh_bytes[transaction.name]

    def _commit(self, transaction: Transaction) -> Iterator[Update]:
        self._decide(transaction)
        destination = self._places.of_committed(transaction.session)
        for held in self._release(transaction):
            yield Update(destination, b"", held.record)
            if held.key:
                yield Update(self._partition, held.key)
        yield Update(self._partition, transaction.id.encode())

    def _roll_back(self, transaction: Transaction) -> Iterator[Update]:
        self._decide(transaction)
        for held in self._release(transaction):
            if held.key:
                yield Update(self._partition, held.key)
        yield Update(self._partition, transaction.id.encode())

    def _decide(self, transaction: Transaction) -> None:
        del self._open[transaction.name]
        self._decided.add(joined(transaction.name).encode())

    def _release(self, transaction: Transaction) -> Iterator[Held]:
        """All that the transaction holds, in order, page by page; it is kept no longer."""
        for number in transaction.pages:
            held = self._pages.take(number, joined(transaction.name))
            if held is None:
                raise HardFailure(
                    f"the ledger's state has lost records of transaction {transaction.id}",
                    remedy="put the checkpoint back from a copy; without one, move it away and start anew",
                )
            yield from held
        self._fresh_bytes.pop(transaction.name, None)
        yield from self._fresh.pop(transaction.name, ())
        yield from transaction.ahead.values()


RECORDS = frozenset({Op.ADD_TX, Op.ANNOTATE_TX, Op.DELETE_TX})
OUTCOMES = frozenset({Op.COMMIT, Op.ROLLBACK, Op.PREPARE})


def _removable(event: Event) -> bytes:
    """The key by which the record can be removed, and nothing but the record."""
    return event.key if event.op == Op.ADD_TX or SEPARATOR in event.key else b""
