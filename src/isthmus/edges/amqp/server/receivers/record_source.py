"""Between what reads Kafka and what fills a link: what each may ask of the other."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from enum import Enum
from typing import Final, Protocol

from isthmus.edges.amqp.server.contract import ERROR_PREFIX
from isthmus.kafka.records import PolledRecord

KAFKA_SUBSCRIBE: Final = f"{ERROR_PREFIX}kafka-subscribe"
KAFKA_COMMIT: Final = f"{ERROR_PREFIX}kafka-commit"


class Acknowledgement(Enum):
    """What becomes of a record."""

    ACCEPT = "accept"
    RELEASE = "release"
    """It is delivered again."""
    FAIL = "fail"
    """It is delivered again, and counts as delivered in vain."""
    REJECT = "reject"
    """It is done with, though nobody took it."""

    __hash__ = object.__hash__  # Enum's own is ten times slower


class RecordSink(Protocol):
    """Who takes records. All is called on the loop."""

    def on_records(self, records: Sequence[PolledRecord], *, redelivered: bool = False) -> None:
        """Records were read; ``redelivered`` ones go before all that wait."""
        ...

    def on_idle(self) -> None:
        """Kafka has nothing more at the moment."""
        ...

    def on_revoked(self, partitions: Collection[int]) -> None:
        """These partitions are somebody else's now: what was not sent of them is not to be."""
        ...

    def on_failed(self, condition: str, description: str) -> None:
        """Nothing more can come."""
        ...


class RecordSource(Protocol):
    """Reads records. All is called on the loop."""

    def start(self, sink: RecordSink) -> None:
        """Begin. Nothing arrives before it is wanted."""
        ...

    def request(self, count: int, *, drain: bool = False) -> None:
        """That many records may arrive from now on: it replaces what was said before.

        ``drain`` asks for what is there: `RecordSink.on_idle` is called once that is known to be nothing.
        """
        ...

    def holds(self, record: PolledRecord) -> bool:
        """Whether an acceptance of a record would hold: False if somebody else may have it by now."""
        ...

    def settle(self, record: PolledRecord, acknowledgement: Acknowledgement) -> None:
        """A record that arrived is decided."""
        ...

    def decline(self, record: PolledRecord, *, failed: bool) -> bool:
        """Have a record delivered to other receivers, and not to this one again.

        ``failed`` if it counts as delivered in vain. False if no other receiver can ever have it: then it is
        still to be settled.
        """
        ...

    async def close(self) -> None:
        """Make what was settled hold, and let go of the rest."""
        ...


class Snapshot:
    """Records that are known, once each, whatever becomes of them."""

    def __init__(self, records: Iterable[PolledRecord] = ()) -> None:
        self._records = deque(records)
        self._requested = 0
        self._sink: RecordSink

    def start(self, sink: RecordSink) -> None:
        """Remember who takes them."""
        self._sink = sink

    def request(self, count: int, *, drain: bool = False) -> None:  # noqa: ARG002
        """Have that many handed over, and then be told that there are no more."""
        self._requested = count
        asyncio.get_running_loop().call_soon(self._hand_over)

    def holds(self, record: PolledRecord) -> bool:  # noqa: ARG002
        """Nobody takes it away."""
        return True

    def settle(self, record: PolledRecord, acknowledgement: Acknowledgement) -> None:
        """Nothing becomes of them."""

    def decline(self, record: PolledRecord, *, failed: bool) -> bool:  # noqa: ARG002
        """Each comes once in any case."""
        return True

    async def close(self) -> None:
        """Hand over no more."""
        self._requested = 0

    def _hand_over(self) -> None:
        found = [self._records.popleft() for _ in range(min(self._requested, len(self._records)))]
        self._requested -= len(found)
        if found:
            self._sink.on_records(found)
        elif self._requested:
            self._sink.on_idle()
