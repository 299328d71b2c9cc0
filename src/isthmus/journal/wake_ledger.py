"""What has the ledger look at the journal at once.

A batch of the ledger costs much the same whether it has a thousand commits to decide or none, and most
messages do not concern it. So it lets `LOOK_RECORDS` gather, or `LOOK_S` pass, before it runs one. Whoever
writes what cannot wait that long wakes it: with as many empty records, in the topic of its clock, as it would
have let gather.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from isthmus.events.kafka import LedgerNotWoken
from isthmus.journal.layout import Op, Record
from isthmus.kafka.producer import ResilientProducer

LOOK_RECORDS: Final = 10_000
LOOK_S: Final = 10.0

CANNOT_WAIT: Final = frozenset(
    each.encode() for each in (Op.DELAY, Op.ANNOTATE, Op.DELETE, Op.PREPARE, Op.COMMIT, Op.ROLLBACK)
)
"""Operations that the ledger is to see at once. The records of a transaction can wait for its outcome."""

_EMPTY: Final = Record(None, None, [])
_PAUSE_S: Final = 0.2


def cannot_wait(record: Record) -> bool:
    """Whether the ledger is to see a journal record at once."""
    return record.headers[0][1] in CANNOT_WAIT


class LedgerWaker:
    """Wakes the ledger from an event loop, a few times a second at most."""

    def __init__(self, producer: ResilientProducer, topic: str) -> None:
        """``topic`` is that of the ledger's clock."""
        self._producer = producer
        self._topic = topic
        self._again = False
        self._waking: asyncio.Task[None] | None = None

    def wake(self) -> None:
        """Have the ledger look, now or in a moment."""
        if self._waking is None:
            self._waking = asyncio.create_task(self._wake())
        else:
            self._again = True

    def close(self) -> None:
        """Leave it to itself."""
        if self._waking is not None:
            self._waking.cancel()

    async def _wake(self) -> None:
        while True:
            self._again = False
            batch, now_ms = self._producer.new_batch(), int(time.time() * 1000)
            while batch.count < LOOK_RECORDS and batch.append(_EMPTY, now_ms):
                pass
            failure = await self._producer.write(batch, self._topic, 0)
            if failure is not None:
                LedgerNotWoken(LOOK_S, failure).emit()
            await asyncio.sleep(_PAUSE_S)
            if not self._again:
                break
        self._waking = None
