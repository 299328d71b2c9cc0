"""Where records lie in the journal: most of its partitions are for sessions, the last ones for the ledger.

A reader of committed records waits behind an open transaction of Kafka's. The ledger's writes are such
transactions, so they go to partitions in which nobody else's message has to wait.
"""

from __future__ import annotations

import zlib
from typing import NamedTuple


class Places(NamedTuple):
    """The partitions of a journal."""

    partitions: int
    """How many there are altogether."""
    ledger_partitions: int
    """How many of them, the last ones, only the ledger writes."""

    @property
    def session_partitions(self) -> int:
        """How many are for sessions: the first ones."""
        return self.partitions - self.ledger_partitions

    def of_session(self, session: str) -> int:
        """The partition of what a session writes."""
        return zlib.crc32(session.encode()) % self.session_partitions

    def of_committed(self, session: str) -> int:
        """The partition of what the ledger writes for a session, so that it keeps its order."""
        return self.session_partitions + zlib.crc32(session.encode()) % self.ledger_partitions

    def shard_of_message(self, message_id: bytes) -> int:
        """The shard that knows about a message, wherever the records about it lie."""
        return zlib.crc32(message_id) % self.session_partitions
