"""Which receiver of a shared subscription gets what, and what its consumer group is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Sequence
from typing import Any

from isthmus.edges.amqp.server.receivers.record_source import Acknowledgement, RecordSink
from isthmus.edges.amqp.server.receivers.shared import SharedSubscription
from isthmus.kafka.records import PolledRecord

ACCEPT, RELEASE, FAIL = Acknowledgement.ACCEPT, Acknowledgement.RELEASE, Acknowledgement.FAIL


class Read:
    key = None
    value = b""
    headers = ()

    def __init__(self, offset: int) -> None:
        self.offset = offset


class FakeGroup:
    """A member of a consumer group without Kafka."""

    def __init__(self) -> None:
        self.requested = 0
        self.settled: list[tuple[int, Acknowledgement]] = []
        self.flushed = 0
        self.closed = False
        self._sink: RecordSink

    def start(self, sink: RecordSink) -> None:
        self._sink = sink

    def request(self, count: int, *, drain: bool = False) -> None:
        self.requested = count

    def holds(self, record: PolledRecord) -> bool:
        return True

    def settle(self, record: PolledRecord, acknowledgement: Acknowledgement) -> None:
        self.settled.append((record.offset, acknowledgement))
        if acknowledgement in (RELEASE, FAIL):
            again = record.again(failed=acknowledgement is FAIL)
            asyncio.get_running_loop().call_soon(lambda: self._sink.on_records([again], redelivered=True))

    def decline(self, record: PolledRecord, *, failed: bool) -> bool:
        return False

    async def flush(self) -> None:
        self.flushed += 1

    async def close(self) -> None:
        self.closed = True

    def read(self, *offsets: int, partition: int = 0) -> None:
        self.requested -= len(offsets)
        self._sink.on_records([PolledRecord("t", partition, Read(offset)) for offset in offsets])

    def is_idle(self) -> None:
        self._sink.on_idle()

    def revoke(self, partition: int) -> None:
        self._sink.on_revoked([partition])

    def fail(self) -> None:
        self._sink.on_failed("condition", "what is wrong")


class Receiver:
    """A link that takes what it is given."""

    def __init__(self, subscription: SharedSubscription, credit: int = 0) -> None:
        self.records: list[PolledRecord] = []
        self.idle = 0
        self.failure = ""
        self.source = subscription.source()
        self.source.start(self)
        self.source.request(credit)

    def on_records(self, records: Sequence[PolledRecord], *, redelivered: bool = False) -> None:
        self.records += records

    def on_idle(self) -> None:
        self.idle += 1

    def on_revoked(self, partitions: Collection[int]) -> None:
        self.records = [each for each in self.records if each.partition not in partitions]

    def on_failed(self, condition: str, description: str) -> None:
        self.failure = description

    @property
    def offsets(self) -> list[int]:
        return [record.offset for record in self.records]

    def settle(self, offset: int, how: Acknowledgement) -> None:
        record = next(each for each in self.records if each.offset == offset)
        self.records.remove(record)
        self.source.settle(record, how)


class Bench:
    """A subscription with a group that a test speaks for. Nobody wants what is in ``unwanted``."""

    def __init__(self, *unwanted: int) -> None:
        self.group = FakeGroup()
        self.left = 0
        self.subscription = SharedSubscription(
            self.group, wants=lambda record: record.offset not in unwanted, on_left=self._leave
        )

    def _leave(self) -> None:
        self.left += 1

    def receivers(self, *credits: int) -> list[Receiver]:
        return [Receiver(self.subscription, credit) for credit in credits]


async def turn() -> None:
    """Let what was left for the next turn of the loop happen."""
    for _ in range(3):
        await asyncio.sleep(0)


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(scenario())


def test_receivers_take_turns_and_the_first_to_come_is_the_first() -> None:
    async def scenario() -> None:
        bench = Bench()
        one, two, three = bench.receivers(10, 10, 2)
        assert bench.group.requested == 22
        bench.group.read(0)
        bench.group.read(1, 2, 3, 4, 5)
        bench.group.read(6, 7, 8)
        assert [one.offsets, two.offsets, three.offsets] == [[0, 3, 6, 8], [1, 4, 7], [2, 5]]

    run(scenario)


def test_what_the_selector_is_not_true_for_is_done_with_and_is_nobodys_turn() -> None:
    async def scenario() -> None:
        bench = Bench(0, 2)
        one, two = bench.receivers(5, 5)
        bench.group.read(0, 1, 2, 3)
        assert [one.offsets, two.offsets] == [[1], [3]]
        assert bench.group.settled == [(0, ACCEPT), (2, ACCEPT)]
        assert bench.group.requested == 8

    run(scenario)


def test_what_is_given_back_goes_there_again_or_to_another_if_there_is_no_credit() -> None:
    async def scenario() -> None:
        bench = Bench()
        one, two = bench.receivers(2, 1)
        bench.group.read(0, 1)
        one.settle(0, FAIL)
        await turn()
        assert one.offsets == [0]
        assert one.records[0].deliveries == 1
        two.source.request(1)
        one.settle(0, RELEASE)
        await turn()
        assert (one.offsets, two.offsets) == ([], [1, 0])
        assert two.records[1].deliveries == 1

    run(scenario)


def test_what_is_given_back_waits_before_all_else_while_nobody_has_credit() -> None:
    async def scenario() -> None:
        bench = Bench()
        one, two = bench.receivers(1, 1)
        bench.group.read(0, 1)
        one.settle(0, RELEASE)
        await turn()
        assert one.offsets == []
        two.source.request(3)
        await turn()
        assert two.offsets == [1, 0]
        assert bench.group.requested == 2

    run(scenario)


def test_what_a_receiver_leaves_is_for_the_others_until_the_last_one_is_gone() -> None:
    async def scenario() -> None:
        bench = Bench()
        one, two = bench.receivers(1, 1)
        bench.group.read(0, 1)
        two.source.request(5)
        one.settle(0, RELEASE)
        await one.source.close()
        await turn()
        assert two.offsets == [1, 0]
        assert (bench.group.flushed, bench.group.closed, bench.left) == (1, False, 0)
        await two.source.close()
        assert (bench.group.closed, bench.left) == (True, 1)

    run(scenario)


def test_a_receiver_that_never_began_can_leave() -> None:
    async def scenario() -> None:
        bench = Bench()
        (one,) = bench.receivers(1)
        await bench.subscription.source().close()
        assert not bench.group.closed
        bench.group.read(0)
        assert one.offsets == [0]

    run(scenario)


def test_receivers_hear_that_there_is_nothing_that_it_is_anothers_and_that_it_is_over() -> None:
    async def scenario() -> None:
        bench = Bench()
        one, two = bench.receivers(2, 0)
        bench.group.is_idle()
        assert (one.idle, two.idle) == (1, 0)
        bench.group.read(0)
        bench.group.read(0, partition=1)
        one.settle(0, RELEASE)
        await turn()
        bench.group.revoke(0)
        two.source.request(5)
        await turn()
        assert [each.partition for each in (*one.records, *two.records)] == [1]
        bench.group.fail()
        assert one.failure == two.failure == "what is wrong"

    run(scenario)
