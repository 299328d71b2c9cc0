"""Between what reads Kafka and what fills a link: what each may ask of the other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from enum import Enum
from typing import Final, Protocol, cast

from confluent_kafka import Message

from isthmus.converters import ReceivedRecord
from isthmus.edges.amqp.server.contract import ERROR_PREFIX
from isthmus.journal.layout import KafkaHeaders
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


def record_of(message: Message) -> ReceivedRecord:
    """A record as converters know it."""
    return ReceivedRecord(
        message.topic() or "",
        message.partition() or 0,
        message.offset() or 0,
        message.key(),
        message.value(),
        cast("KafkaHeaders", message.headers() or ()),
    )


class RecordSink(Protocol):
    """Who takes records. All is called on the loop."""

    def on_records(self, taken: Sequence[PolledRecord], *, redelivered: bool = False) -> None:
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


class OnLoop:
    """Calls a sink from another thread. What comes after the loop has ended is dropped."""

    def __init__(self, sink: RecordSink) -> None:
        self._loop = asyncio.get_running_loop()
        self._sink = sink

    def on_records(self, taken: Sequence[PolledRecord]) -> None:
        """See `RecordSink.arrived`."""
        self._call(lambda: self._sink.on_records(taken))

    def on_idle(self) -> None:
        """See `RecordSink.idle`."""
        self._call(self._sink.on_idle)

    def on_revoked(self, partitions: Collection[int]) -> None:
        """See `RecordSink.revoked`."""
        self._call(lambda: self._sink.on_revoked(partitions))

    def on_failed(self, condition: str, description: str) -> None:
        """See `RecordSink.failed`."""
        self._call(lambda: self._sink.on_failed(condition, description))

    def _call(self, what: Callable[[], None]) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(what)
