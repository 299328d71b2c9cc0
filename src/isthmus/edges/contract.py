"""What an edge is made of, whatever the system: the same two parts, with the same promises.

*Intake* takes messages from a system and puts them into a `Journal`. It acknowledges a message to its system
only when the journal has it, so that a crash at any point repeats a message and never loses one.

*Delivery* is given `OutboundMessage`s from the edge's outbox, in order, and hands them to the system. One
counts as delivered when the system has said so. After a crash messages may be redelivered, with the same id.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from isthmus.errors import IsthmusError, SoftFailure
from isthmus.journal.layout import Entry, Record
from isthmus.message import Message


class Unreachable(IsthmusError):
    """The other system cannot be reached at the moment. Nothing was settled: try again later."""


class DeadLetters(Protocol):
    """Where a message goes that an intake can never handle. It is settled once this returns."""

    async def __call__(self, message: Message, failure: SoftFailure) -> None:
        """Keep the message, with what is wrong with it."""
        ...


@dataclass(slots=True)
class Traffic:
    """What went one way since the start."""

    messages: int = 0
    bytes: int = 0
    dead_letters: int = 0


class Journal(Protocol):
    """Where intake puts messages."""

    async def write(self, entry: Entry) -> None:
        """Returns once Kafka has the message on all in-sync replicas.

        Writes that were begun in some order are in the journal in that order, if of one session. Raises
        `HardFailure` when Kafka refuses.
        """
        ...


class OutboundMessage(NamedTuple):
    """A message on its way out: a record of the edge's outbox."""

    id: str
    """The stable id: the same one however often the letter comes."""
    destination: str
    """The subject, queue or address that it goes to."""
    record: Record
    """The converted message. Its headers are those of the ``jms`` form, without the bridge's own."""


class Delivery(Protocol):
    """Hands letters to a system."""

    async def deliver(self, letters: Sequence[OutboundMessage]) -> Sequence[SoftFailure | None]:
        """Hand the letters over, in order; returns when the system has every one that it takes.

        The answer has, for each letter, None or why this one can never be delivered. Raises `Unreachable`
        when the system is away: then all of the letters come again.
        """
        ...
