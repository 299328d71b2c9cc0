"""How many bytes of records the receivers of this process may have: waiting for the client, or with it.

A client's credit counts messages, and nobody knows how large the next ones are. `BudgetedSource` stands
between a link and what reads for it::

    link ── request(5000) ──► BudgetedSource ── request(40) ──► source
         ◄── on_records ────                 ◄── on_records ──

What was handed over counts until it is settled. A link with no room left gets nothing more until the client
settles something; one that has nothing at all always gets one record, however large. Compiled with mypyc
where there is a C compiler.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import Final

from isthmus.edges.amqp.server.receivers.record_source import Acknowledgement, RecordSink, RecordSource
from isthmus.kafka.records import PolledRecord, held_bytes

FIRST: Final = 32
"""How many records a link gets before anybody knows how large they are."""


class ByteBudget:
    """What all links together may have."""

    def __init__(self, link_bytes: int, total_bytes: int) -> None:
        """``link_bytes`` is for each link, ``total_bytes`` for all of them."""
        self.held = 0
        self.links = 0
        self._link_bytes = link_bytes
        self._total_bytes = total_bytes

    @property
    def limit(self) -> int:
        """What a link may have now. Once the total is used up, that is its share of it."""
        if self.held < self._total_bytes:
            return self._link_bytes
        return min(self._link_bytes, self._total_bytes // max(1, self.links))


class BudgetedSource:
    """Reads for one link, within its budget: a `RecordSource` for it, and the `RecordSink` of another."""

    def __init__(self, source: RecordSource, budget: ByteBudget) -> None:
        self._source = source
        self._budget = budget
        self._total = 0
        self._held: dict[int, int] = {}
        """How many bytes of it, by partition."""
        self._largest = 0
        """The largest record so far; 0 before the first."""
        self._requested = 0
        self._draining = False
        self._cut = False
        """Whether less was requested than the link has credit for."""
        self._resuming = False
        self._sink: RecordSink
        budget.links += 1

    # What the link calls

    def start(self, sink: RecordSink) -> None:
        """See `RecordSource`."""
        self._sink = sink
        self._source.start(self)

    def request(self, count: int, *, drain: bool = False) -> None:
        """Have that many records read, or as many as there is room for."""
        self._requested = count
        self._draining = drain
        room = self._budget.limit - self._total
        allowed = count if self._largest else min(count, FIRST)
        if room < allowed * self._largest:
            allowed = max(room // self._largest, 0 if self._total else 1)
        self._cut = allowed < count
        self._source.request(min(count, allowed), drain=drain)

    def holds(self, record: PolledRecord) -> bool:
        """See `RecordSource`."""
        return self._source.holds(record)

    def settle(self, record: PolledRecord, acknowledgement: Acknowledgement) -> None:
        """Free what a record took. One that is to be redelivered is counted again then."""
        self._free(record)
        self._source.settle(record, acknowledgement)
        self._resume_soon()

    def decline(self, record: PolledRecord, *, failed: bool) -> bool:
        """Free what a record took, if others can have it."""
        declined = self._source.decline(record, failed=failed)
        if declined:
            self._free(record)
            self._resume_soon()
        return declined

    async def close(self) -> None:
        """See `RecordSource`."""
        self._cut = False
        self._budget.links -= 1
        for partition in self._held:
            self._count(partition, 0)
        await self._source.close()

    # What the source calls

    def on_records(self, records: Sequence[PolledRecord], *, redelivered: bool = False) -> None:
        """Count records, and hand them on."""
        for record in records:
            size = record.size = held_bytes(record.read)
            if size > self._largest:
                self._largest = size
            self._count(record.partition, self._held.get(record.partition, 0) + size)
        if not redelivered:
            self._requested = max(0, self._requested - len(records))
        self._sink.on_records(records, redelivered=redelivered)

    def on_idle(self) -> None:
        """See `RecordSink`."""
        self._sink.on_idle()

    def on_revoked(self, partitions: Collection[int]) -> None:
        """Free what was held of these: the link has forgotten it."""
        for partition in partitions:
            self._count(partition, 0)
        self._sink.on_revoked(partitions)
        self._resume_soon()

    def on_failed(self, condition: str, description: str) -> None:
        """See `RecordSink`."""
        self._sink.on_failed(condition, description)

    # Inside

    def _resume_soon(self) -> None:
        if self._cut and not self._resuming:
            self._resuming = True
            asyncio.get_running_loop().call_soon(self._resume)

    def _resume(self) -> None:
        self._resuming = False
        if self._cut:
            self.request(self._requested, drain=self._draining)

    def _free(self, record: PolledRecord) -> None:
        held = self._held.get(record.partition, 0)
        self._count(record.partition, max(0, held - record.size))  # of one that was revoked nothing is left

    def _count(self, partition: int, held: int) -> None:
        change = held - self._held.get(partition, 0)
        self._held[partition] = held
        self._total += change
        self._budget.held += change
