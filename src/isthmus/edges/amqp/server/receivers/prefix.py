"""How far a partition may be committed: up to the first record that is not settled.

Kafka remembers one offset for a partition, while a receiver settles in any order. What is settled behind a
record that is not waits for it: of 0 to 3, 2 and 3 commit nothing, then 0 commits 1, and 1 commits 4.
"""

from __future__ import annotations

from collections import deque


class ContiguousPrefix:
    """The records of one partition, from taken to settled. Offsets may have gaps."""

    def __init__(self) -> None:
        self._taken: deque[int] = deque()
        self._outstanding: set[int] = set()
        self._position: int | None = None
        self._committed: int | None = None

    def take(self, offset: int) -> None:
        """A record was read: in the order of offsets."""
        self._taken.append(offset)
        self._outstanding.add(offset)

    def settle(self, offset: int) -> None:
        """A record is done with. One that is not outstanding changes nothing."""
        self._outstanding.discard(offset)
        while self._taken and self._taken[0] not in self._outstanding:
            self._position = self._taken.popleft() + 1

    @property
    def due(self) -> int | None:
        """The offset to commit, if it has moved since it was committed."""
        return self._position if self._position != self._committed else None

    def committed(self, offset: int) -> None:
        """That offset is committed."""
        self._committed = offset
