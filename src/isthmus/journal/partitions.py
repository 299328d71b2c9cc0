"""Where records lie in the journal: most of its partitions are for sessions, the last ones for the ledger.

A reader of committed records waits behind an open transaction of Kafka's. The ledger's writes are such
transactions, so they go to partitions in which nobody else's message has to wait.
"""

from __future__ import annotations

import zlib
from functools import lru_cache
from typing import NamedTuple, Self

from isthmus.errors import HardFailure


class JournalPartitions(NamedTuple):
    """The partitions of a journal."""

    partitions: int
    """How many there are altogether."""
    ledger_partitions: int
    """How many of them, the last ones, only the ledger writes."""

    @classmethod
    def of(cls, topic: str, partitions: int, ledger_partitions: int) -> Self:
        """Those of a topic as it is. Raises `HardFailure` when it leaves no partition for sessions."""
        if partitions <= ledger_partitions:
            raise HardFailure(
                f"the journal {topic} has {partitions} partitions, {ledger_partitions} of them the ledger's",
                remedy="make the topic with journal.partitions + journal.ledger.partitions partitions",
            )
        return cls(partitions, ledger_partitions)

    @property
    def session_partitions(self) -> int:
        """How many are for sessions: the first ones."""
        return self.partitions - self.ledger_partitions

    def of_session(self, session: str) -> int:
        """The partition of what a session writes: the same one for as long as the journal has that many."""
        return _hash(session) % self.session_partitions

    def of_committed(self, session: str) -> int:
        """The partition of what the ledger writes for a session, so that it keeps its order."""
        return self.session_partitions + _hash(session) % self.ledger_partitions

    def shard_of_message(self, message_id: bytes) -> int:
        """The shard that knows about a message, wherever the records about it lie."""
        return zlib.crc32(message_id) % self.session_partitions


@lru_cache(4096)  # a busy session has many messages
def _hash(session: str) -> int:
    return zlib.crc32(session.encode())
