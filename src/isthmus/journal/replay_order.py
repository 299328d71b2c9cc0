"""The order in which a replay takes dead letters: that of the records which failed.

In: the dead letters that are meant, as they are read: the partitions of their topic in any order. Out: the
same ones, so that those whose records stood in one partition, of the journal or another topic, come in the
order in which they stood there. So does what one session sent. What never was in Kafka, since it failed on
its way in, comes by the time of its dead letter. Otherwise they stay as near to where they were read as that
allows.

They are read twice: first all of them, of which only their places are kept, a few numbers each; then as they
are taken, so many and so much at a time as a *window* has. Memory does not grow with what is in them.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator

from isthmus.journal.dead_letter import DeadLetter
from isthmus.journal.replay import dead_letter_of
from isthmus.kafka.blocking import read_between
from isthmus.kafka.options import Kafka
from isthmus.routing.size import record_size

WINDOW = 10_000
"""How many dead letters are held at a time."""
WINDOW_BYTES = 64 * 1024 * 1024
"""How large they may be altogether, unless a single one is larger."""

_Place = tuple[int, int]
"""Partition and offset in the topic of dead letters."""


def in_order(kafka: Kafka, topic: str, chosen: Iterable[DeadLetter]) -> Iterator[DeadLetter]:
    """These dead letters of the topic, in the order of what failed. Those that are gone when they are read
    again are left out. Raises `Outage` when Kafka does not answer."""
    places = _Places()
    for dead in chosen:
        places.add(dead)
    for window in places.windows():
        yield from _read(kafka, topic, window)


def _read(kafka: Kafka, topic: str, window: list[_Place]) -> Iterator[DeadLetter]:
    starts: dict[tuple[str, int], int] = {}
    ends: dict[tuple[str, int], int] = {}
    for partition, offset in window:
        at = (topic, partition)
        starts[at] = min(offset, starts.get(at, offset))
        ends[at] = max(offset + 1, ends.get(at, 0))
    found: dict[_Place, DeadLetter | None] = dict.fromkeys(window)
    # Which of them are committed is known already.
    for message in read_between(kafka, starts, ends):
        place = (message.partition() or 0, message.offset() or 0)
        if place in found:
            found[place] = dead_letter_of(message)
    yield from (dead for dead in found.values() if dead is not None)


class _Places:
    """Where dead letters are, and where what failed was: numbers, in the order in which they were read."""

    def __init__(self) -> None:
        self._sources: dict[tuple[str, int], int] = {}
        self._source, self._rank = array("q"), array("q")
        self._partition, self._offset, self._size = array("q"), array("q"), array("q")

    def add(self, dead: DeadLetter) -> None:
        """Take in the next one."""
        topic, partition, rank = dead.source or ("", 0, dead.timestamp_ms)
        self._source.append(self._sources.setdefault((topic, partition), len(self._sources)))
        self._rank.append(rank)
        self._partition.append(dead.partition)
        self._offset.append(dead.offset)
        self._size.append(record_size(dead.record))

    def windows(self) -> Iterator[list[_Place]]:
        """The places of the dead letters, in order, so many at a time as may be held."""
        window: list[_Place] = []
        size = 0
        for index in self._ordered():
            size += self._size[index]
            if window and (len(window) >= WINDOW or size > WINDOW_BYTES):
                yield window
                window, size = [], self._size[index]
            window.append((self._partition[index], self._offset[index]))
        if window:
            yield window

    def _ordered(self) -> Iterator[int]:
        """Those of one source change places with each other, and with nobody else: failures come about as
        their sources do, so that a window is read from few stretches of the topic."""
        own = [array("q") for _ in self._sources]
        for index in sorted(range(len(self._rank)), key=self._rank.__getitem__):
            own[self._source[index]].append(index)
        following = [iter(each) for each in own]
        return (next(following[source]) for source in self._source)
