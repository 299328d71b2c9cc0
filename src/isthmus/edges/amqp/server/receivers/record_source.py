"""Between what reads Kafka and what fills a link: what each may ask of the other."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
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

    async def close(self) -> None:
        """Make what was settled hold, and let go of the rest."""
        ...


class NoRecords:
    """A source that has nothing."""

    def start(self, sink: RecordSink) -> None:
        """Remember whom to tell."""
        self._sink = sink

    def request(self, count: int, *, drain: bool = False) -> None:  # noqa: ARG002
        """Tell that there is nothing."""
        if count:
            asyncio.get_running_loop().call_soon(self._sink.on_idle)

    def holds(self, record: PolledRecord) -> bool:  # noqa: ARG002
        """Nothing was handed over."""
        return False

    def settle(self, record: PolledRecord, acknowledgement: Acknowledgement) -> None:
        """Nothing was handed over."""

    async def close(self) -> None:
        """Nothing is open."""
