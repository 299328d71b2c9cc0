"""What an edge is made of, whatever the system: the same two parts, with the same promises.

*Intake* takes messages from a system and puts them into a `Journal`. It acknowledges a message to its system
only when the journal has it, so that a crash at any point repeats a message and never loses one.

*Delivery* is given `OutboundMessage`s from the edge's outbox, in order, and hands them to the system. One
counts as delivered when the system has said so. After a crash messages may be delivered again, with the same
id.

``tests/conformance`` holds every intake and every delivery to these promises.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from isthmus.errors import SoftFailure
from isthmus.journal import OnDone
from isthmus.journal.layout import Entry, Record
from isthmus.message import Message


class Journal(Protocol):
    """Where every intake puts messages: many at a time, without a task or a future for each."""

    @property
    def batch_bytes(self) -> int:
        """How large the records of one `put_together` may be, by the sum of their `record_bytes`."""
        ...

    def put(self, entry: Entry, on_done: OnDone) -> None:
        """Write an entry. Entries of one session are in the journal in the order in which they were put.

        ``on_done`` is called on the loop, later, once for each entry: with None when Kafka has it on all
        in-sync replicas, in that order; with a `SoftFailure` if the journal can never carry it; with a
        `HardFailure` when Kafka refuses.
        """
        ...

    def put_record(self, record: Record, session: str, on_done: OnDone) -> None:
        """Write the encoded record of an entry of a session, likewise."""
        ...

    def put_together(self, records: Sequence[Record], size: int, session: str, on_done: OnDone) -> None:
        """Write the encoded records of a session, likewise, and atomically: all of them, or none.

        ``size`` is the sum of their `record_bytes`. They are in the journal one behind the other.
        ``on_done`` is called once: with an `OversizeFailure` if the size is more than ``batch_bytes``; after
        a `HardFailure` nobody knows whether they are in it.
        """
        ...


class DeadLetters(Protocol):
    """Where a message goes that an intake can never handle."""

    async def __call__(self, message: Message, failure: SoftFailure) -> None:
        """Return when the message is kept, with what is wrong with it: then it is settled."""
        ...


@dataclass(slots=True)
class Traffic:
    """What went one way since the start."""

    messages: int = 0
    """All that were settled, dead letters included."""
    bytes: int = 0
    dead_letters: int = 0

    def add(self, other: Traffic) -> None:
        """Count what somebody else has counted."""
        self.messages += other.messages
        self.bytes += other.bytes
        self.dead_letters += other.dead_letters


class OutboundMessage(NamedTuple):
    """A message on its way out: a record of the edge's outbox."""

    id: str
    """The stable id: the same one however often the message is delivered."""
    destination: str
    """The subject, queue or address that it goes to."""
    record: Record
    """The converted message. Its headers are those of the ``jms`` form, without the bridge's own."""


class Delivery(Protocol):
    """Hands messages to a system."""

    async def deliver(self, messages: Sequence[OutboundMessage]) -> Sequence[SoftFailure | None]:
        """Hand the messages over, in order; returns when the system has every one that it takes.

        The answer has, for each message, None or why this one can never be delivered. Raises
        `isthmus.errors.Unreachable` when the system is unavailable: then all of them are to be delivered
        again.
        """
        ...
