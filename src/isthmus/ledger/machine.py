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
from isthmus.ledger.transactions import OUTCOMES, RECORDS, Holding, Transactions

OF_PARTITION = RECORDS | OUTCOMES | {CLOCK}
"""The operations that belong to the shard of the partition in which they stand."""

ENDS_A_TIMEOUT = 10
LONGEST_STEP_MS, SHORTEST_STEP_MS = 60_000, 500
"""What comes to its end may wait for a part of the time-out, so that the ends of many make one batch."""


class Summary(msgspec.Struct, array_like=True):
    """What is kept of a shard, but for its chunks."""

    transactions: transactions.Summary = msgspec.field(default_factory=transactions.Summary)
    messages: messages.Summary = msgspec.field(default_factory=messages.Summary)
    wake_ms: int = 0
    """When a timer was last set to go off: in the next batch, or in states of long ago at some later time."""
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
        self._step_ms = min(max(timeout_ms // ENDS_A_TIMEOUT, SHORTEST_STEP_MS), LONGEST_STEP_MS)
        self._next_due_ms: int | None = None
        self._wake_ms = summary.wake_ms
        self._transactions = Transactions(
            number, summary.transactions, chunks, places, now_ms=now_ms, timeout_ms=timeout_ms
        )
        self._held_before = self._transactions.holding
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
    def holding(self) -> Holding | None:
        """The transactions that wait for their outcome; None if there are none, and were none before."""
        now = self._transactions.holding
        return now if now.transactions or self._held_before.transactions else None

    @property
    def next_due_ms(self) -> int | None:
        """When it has something to do even if nothing happens until then: known after `save`.

        None if it holds nothing that comes to an end.
        """
        return self._next_due_ms

    def save(self) -> tuple[bytes, int | None]:
        """The state to go on from, and when to set a timer for; None if one is set, or none is needed.

        A shard that holds something takes part in every batch: so each tells what is held, and when the next
        one is due.
        """
        delayed = self._delays.save()
        ends = (self._transactions.next_deadline_ms(), self._messages.next_deadline_ms())
        due = [-(-end_ms // self._step_ms) * self._step_ms for end_ms in ends if end_ms is not None]
        if (delayed_ms := self._delays.next_due_ms) is not None:
            due.append(delayed_ms)
        self._next_due_ms = min(due, default=None)
        next_batch_ms = self._now_ms + 1
        holds = self._next_due_ms is not None or self._transactions.holding.transactions > 0
        to_set = holds and self._wake_ms != next_batch_ms
        if to_set:
            self._wake_ms = next_batch_ms
        summary = Summary(self._transactions.save(), self._messages.save(), self._wake_ms, delayed)
        return pack(summary), next_batch_ms if to_set else None

    def _check_order(self, event: Event) -> None:
        if event.offset <= self._last_offset:
            raise HardFailure(
                "a batch of the ledger is too large to be sorted in memory, and lost its order",
                remedy="raise pipeline.spark.driver.memory (on a cluster: executor.memory)",
            )
        self._last_offset = event.offset
