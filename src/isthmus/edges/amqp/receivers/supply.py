"""Between a thread that reads Kafka and the outlet that fills a link: what each may ask of the other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from enum import Enum
from typing import Final, NamedTuple, Protocol

from isthmus.converters import ReceivedRecord
from isthmus.edges.amqp.ports import ERROR_PREFIX

KAFKA_SUBSCRIBE: Final = f"{ERROR_PREFIX}kafka-subscribe"
KAFKA_COMMIT: Final = f"{ERROR_PREFIX}kafka-commit"


class Taken(NamedTuple):
    """A record that was read, on its way to a receiver."""

    record: ReceivedRecord
    deliveries: int = 0
    """How often it was delivered before, in vain."""

    @property
    def tag(self) -> bytes:
        """The delivery tag: unique on the link."""
        return b"%d_%d" % (self.record.partition, self.record.offset)


class Verdict(Enum):
    """What becomes of a record."""

    ACCEPT = "accept"
    RELEASE = "release"
    """It comes again."""
    FAIL = "fail"
    """It comes again, and counts as delivered in vain."""
    REJECT = "reject"
    """It is done with, though nobody took it."""

    __hash__ = object.__hash__  # Enum's own is ten times slower


class Sink(Protocol):
    """Who takes records. All is called on the loop."""

    def arrived(self, taken: Sequence[Taken], *, again: bool = False) -> None:
        """Records were read; ``again`` if they go before all that wait."""
        ...

    def idle(self) -> None:
        """Kafka has nothing more at the moment."""
        ...

    def revoked(self, partitions: Collection[int]) -> None:
        """These partitions are somebody else's now: what was not sent of them is not to be."""
        ...

    def failed(self, condition: str, description: str) -> None:
        """Nothing more can come."""
        ...


class Supply(Protocol):
    """Reads records. All is called on the loop."""

    def start(self, sink: Sink) -> None:
        """Begin. Nothing arrives before it is wanted."""
        ...

    def want(self, count: int) -> None:
        """That many records may arrive from now on: it replaces what was said before."""
        ...

    def settle(self, taken: Taken, verdict: Verdict) -> None:
        """A record that arrived is decided."""
        ...

    async def close(self) -> None:
        """Make what was settled hold, and let go of the rest."""
        ...


class OnLoop:
    """Calls a sink from another thread. What comes after the loop has ended is dropped."""

    def __init__(self, sink: Sink) -> None:
        self._loop = asyncio.get_running_loop()
        self._sink = sink

    def arrived(self, taken: Sequence[Taken]) -> None:
        """See `Sink.arrived`."""
        self._call(lambda: self._sink.arrived(taken))

    def idle(self) -> None:
        """See `Sink.idle`."""
        self._call(self._sink.idle)

    def revoked(self, partitions: Collection[int]) -> None:
        """See `Sink.revoked`."""
        self._call(lambda: self._sink.revoked(partitions))

    def failed(self, condition: str, description: str) -> None:
        """See `Sink.failed`."""
        self._call(lambda: self._sink.failed(condition, description))

    def _call(self, what: Callable[[], None]) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(what)
