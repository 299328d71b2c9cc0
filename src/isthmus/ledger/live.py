"""What is live in a journal: what Kafka's compaction leaves, whether it has run yet or not.

In a partition, of all records with one key only the last is live, and none if that one is a tombstone.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Protocol, TypeVar


class Kept(Protocol):
    """A record as Kafka's client reads it."""

    def partition(self) -> int | None:
        """Where it lies."""
        ...

    def offset(self) -> int | None:
        """Its place there."""
        ...

    def key(self) -> bytes | str | None:
        """What later records replace it by."""
        ...

    def value(self) -> bytes | str | None:
        """None in a tombstone."""
        ...


R = TypeVar("R", bound=Kept)


def live(read: Callable[[], Iterable[R]]) -> Generator[R]:
    """The live records of a journal, which is read from its beginning twice. Only keys are kept in memory."""
    last: dict[tuple[int | None, bytes | str | None], int | None] = {}
    for record in read():
        place = record.partition(), record.key()
        if record.value() is None:
            last.pop(place, None)
        else:
            last[place] = record.offset()
    for record in read():
        place = record.partition(), record.key()
        if place in last and last[place] == record.offset():
            yield record
