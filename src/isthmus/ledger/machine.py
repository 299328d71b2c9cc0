"""A shard of the ledger: one partition's transactions, and a share of all messages.

In: the events of a batch, or just the time. Out: updates to the journal, and a state that goes on from there.
The same state, events and time give the same updates: a batch that is repeated after a crash says the same.

A transaction belongs to the shard of its session's partition, so that what one session did stays in order.
A message belongs to a shard by its id: who deletes or annotates it may be another session than sent it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from isthmus.errors import HardFailure
from isthmus.journal.layout import Op
from isthmus.journal.partitions import JournalPartitions
from isthmus.ledger import delays, messages, transactions
from isthmus.ledger.delays import Delays
from isthmus.ledger.events import CLOCK, Event, Update, message_key, pack
from isthmus.ledger.messages import Messages
from isthmus.ledger.state import Chunks
from isthmus.ledger.transactions import OUTCOMES, RECORDS, Transactions

OF_PARTITION = RECORDS | OUTCOMES | {CLOCK}
"""The operations that belong to the shard of the partition in which they stand."""


class Summary(msgspec.Struct, array_like=True):
    """What is kept of a shard, but for its chunks."""

    transactions: transactions.Summary = msgspec.field(default_factory=transactions.Summary)
    messages: messages.Summary = msgspec.field(default_factory=messages.Summary)
    wake_ms: int = 0
    """When a timer was last set to go off."""
    delays: delays.Summary = msgspec.field(default_factory=delays.Summary)


_decoder = msgspec.msgpack.Decoder(Summary)


def shard_of(event: Event, places: JournalPartitions) -> int | None:
    """The shard that an event belongs to; None for a transaction in a partition that is the ledger's."""
    if event.op == Op.DELAY:  # those of a session stay in order
        return places.shard_of_message(event.session.encode())
    if event.op not in OF_PARTITION:
        return places.shard_of_message(message_key(event.key))
    return event.partition if event.partition < places.session_partitions else None


class Shard:
    """One shard, during one batch."""

    def __init__(
        self,
        number: int,
        saved: bytes | None,
        chunks: Chunks,
        places: JournalPartitions,
        *,
        now_ms: int,
        timeout_ms: int,
    ) -> None:
        summary = _decoder.decode(saved) if saved else Summary()
        self._now_ms = now_ms
        self._wake_ms = summary.wake_ms
        self._transactions = Transactions(
            number, summary.transactions, chunks, places, now_ms=now_ms, timeout_ms=timeout_ms
        )
        self._delays = Delays(summary.delays, chunks, places, now_ms=now_ms)
        self._messages = Messages(summary.messages, chunks, now_ms=now_ms)
        self._last_offset = -1

    def run(self, events: Iterable[Event]) -> Iterator[Update]:
        """What follows from the events of a batch, and from the time. Take all of it, then `save`."""
        for event in events:
            if event.op in OF_PARTITION:
                self._check_order(event)
                yield from self._transactions.take(event)
            elif event.op == Op.DELAY:
                self._delays.take(event)
            else:
                yield from self._messages.take(event)
        yield from self._transactions.expire()
        yield from self._messages.expire()
        yield from self._delays.release()

    @property
    def next_due_ms(self) -> int | None:
        """When a delayed message is due next, or may be: known after `save`."""
        return self._delays.next_due_ms

    def save(self) -> tuple[bytes, int | None]:
        """The state to go on from, and when to set a timer for; None if one is set, or none is needed."""
        delayed = self._delays.save()
        deadlines = (
            self._transactions.next_deadline_ms(),
            self._messages.next_deadline_ms(),
            self._delays.next_deadline_ms(),
        )
        next_ms = min((each for each in deadlines if each is not None), default=None)
        is_set = next_ms is None or self._now_ms < self._wake_ms <= next_ms
        if not is_set and next_ms is not None:
            self._wake_ms = next_ms = max(next_ms, self._now_ms + 1)
        summary = Summary(self._transactions.save(), self._messages.save(), self._wake_ms, delayed)
        return pack(summary), None if is_set else next_ms

    def _check_order(self, event: Event) -> None:
        if event.offset <= self._last_offset:
            raise HardFailure(
                "a batch of the ledger is too large to be sorted in memory, and lost its order",
                remedy="raise pipeline.spark.driver.memory (on a cluster: executor.memory)",
            )
        self._last_offset = event.offset
