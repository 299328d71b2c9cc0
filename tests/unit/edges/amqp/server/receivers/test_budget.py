"""A receiver's budget: how much it may have, whatever its credit."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence

from isthmus.edges.amqp.server.receivers.budget import BudgetedSource, ByteBudget
from isthmus.edges.amqp.server.receivers.record_source import Acknowledgement, RecordSink
from isthmus.kafka.records import OVERHEAD_BYTES, PolledRecord


class Read:
    def __init__(self, offset: int, size: int) -> None:
        self.offset = offset
        self.key = None
        self.value = b"x" * 100
        self.headers = [("h", b"x" * (size - OVERHEAD_BYTES - 100)), ("none", None)]


class Endless:
    """Has records of one size, as many as are requested."""

    def __init__(self, size: int) -> None:
        self.requested = 0
        self._size = size
        self._offset = 0
        self._sink: RecordSink

    def start(self, sink: RecordSink) -> None:
        self._sink = sink

    def request(self, count: int, *, drain: bool = False) -> None:
        self.requested = count

    def holds(self, record: PolledRecord) -> bool:
        return True

    def settle(self, record: PolledRecord, acknowledgement: Acknowledgement) -> None: ...

    async def close(self) -> None: ...

    def deliver(self, partition: int = 0) -> None:
        records = [PolledRecord("t", partition, Read(n, self._size)) for n in range(self.requested)]
        self.requested = 0
        self._sink.on_records(records)

    def revoke(self) -> None:
        self._sink.on_revoked([0])


class Link:
    """Has more credit than anybody can fill."""

    def __init__(self, source: BudgetedSource) -> None:
        self.records: list[PolledRecord] = []
        self._source = source
        source.start(self)
        source.request(10_000)

    def on_records(self, records: Sequence[PolledRecord], *, redelivered: bool = False) -> None:
        self.records += records
        self._source.request(10_000)

    def on_idle(self) -> None: ...

    def on_revoked(self, partitions: Collection[int]) -> None:
        self.records.clear()

    def on_failed(self, condition: str, description: str) -> None: ...


def filled(budget: ByteBudget, size: int) -> tuple[Endless, BudgetedSource, Link]:
    """A link that takes what it may have."""
    endless = Endless(size)
    source = BudgetedSource(endless, budget)
    link = Link(source)
    while endless.requested:
        endless.requested = min(endless.requested, 10)  # Kafka answers in pieces
        endless.deliver()
    return endless, source, link


async def turn() -> None:
    await asyncio.sleep(0)
    await asyncio.sleep(0)


def test_a_link_gets_what_its_budget_holds_and_goes_on_when_something_is_settled() -> None:
    async def go() -> None:
        budget = ByteBudget(100_000, 1_000_000)
        endless, source, link = filled(budget, 10_000)
        assert len(link.records) == 10
        assert budget.held == 100_000
        for record in link.records[:3]:
            source.settle(record, Acknowledgement.ACCEPT)
        await turn()
        assert endless.requested == 3
        await source.close()
        assert budget.held == 0

    asyncio.run(go())


def test_a_record_larger_than_the_budget_is_delivered_alone() -> None:
    _, _, link = filled(ByteBudget(2000, 2000), 50_000)
    assert 1 <= len(link.records) <= 10  # of the first piece nobody knew how large it is


def test_one_link_does_not_use_up_what_the_others_need() -> None:
    budget = ByteBudget(100_000, 100_000)
    filled(budget, 2000)
    _, _, second = filled(budget, 2000)
    assert len(second.records) == 25  # its half


def test_partitions_that_are_revoked_count_no_longer() -> None:
    async def go() -> None:
        budget = ByteBudget(100_000, 100_000)
        endless, source, link = filled(budget, 10_000)
        record = link.records[0]
        endless.revoke()
        assert budget.held == 0
        source.settle(record, Acknowledgement.ACCEPT)  # decided in a transaction before
        assert budget.held == 0
        await turn()
        assert endless.requested == 10

    asyncio.run(go())
