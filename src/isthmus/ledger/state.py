"""What the ledger keeps from one batch to the next, as seen from its decisions.

A shard's state is one summary, read and written once a batch, and any number of chunks, each read and
written by itself. A call to Spark's state store takes longer than many decisions: hence few, large pieces.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Protocol


class Chunks(Protocol):
    """Pieces of bytes under a name and a number."""

    def put(self, name: str, number: int, data: bytes) -> None:
        """Keep a piece, in place of any with the same name and number."""
        ...

    def get(self, name: str, number: int) -> bytes | None:
        """The piece; None if there is none."""
        ...

    def remove(self, name: str, number: int) -> None:
        """Forget the piece, if there is one."""
        ...


class MemoryChunks:
    """Chunks in memory, for tests."""

    def __init__(self) -> None:
        self.pieces: dict[tuple[str, int], bytes] = {}

    def put(self, name: str, number: int, data: bytes) -> None:
        """See `Chunks`."""
        self.pieces[name, number] = data

    def get(self, name: str, number: int) -> bytes | None:
        """See `Chunks`."""
        return self.pieces.get((name, number))

    def remove(self, name: str, number: int) -> None:
        """See `Chunks`."""
        self.pieces.pop((name, number), None)


class Remembered:
    """The last names of many, each in eight bytes: what was decided, so that what comes late finds out.

    Two names have the same eight bytes once in 10¹⁹.
    """

    WIDTH = 8

    def __init__(self, capacity: int, saved: bytes = b"") -> None:
        self._capacity = capacity
        pieces = (saved[at : at + self.WIDTH] for at in range(0, len(saved), self.WIDTH))
        self._digests = dict.fromkeys(pieces)

    def add(self, name: bytes) -> None:
        """Remember one more; the oldest is forgotten when there are too many."""
        self._digests[self._digest(name)] = None
        if len(self._digests) > self._capacity:
            del self._digests[next(iter(self._digests))]

    def __contains__(self, name: bytes) -> bool:
        return bool(self._digests) and self._digest(name) in self._digests

    def save(self) -> bytes:
        """Oldest first."""
        return b"".join(self._digests)

    def _digest(self, name: bytes) -> bytes:
        return hashlib.blake2b(name, digest_size=self.WIDTH).digest()


def joined(parts: Iterable[str]) -> str:
    """One name out of several: two lists of parts never have the same."""
    return "".join(f"{len(part)}:{part}" for part in parts)
