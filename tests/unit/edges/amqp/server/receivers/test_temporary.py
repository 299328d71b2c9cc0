"""Temporary queues of one process, with their Kafka consumer left out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import pytest
from tests.support.amqp.receiver import Receiver
from tests.support.asynchronous import eventually

from isthmus.converters import ReceivedRecord
from isthmus.edges.amqp.protocol.terms import (
    DeleteOnNoLinks,
    DeleteOnNoLinksOrMessages,
    DeleteOnNoMessages,
)
from isthmus.edges.amqp.server.receivers import temporary
from isthmus.edges.amqp.server.receivers.record_source import Acknowledgement
from isthmus.edges.amqp.server.receivers.temporary import TemporaryQueues
from isthmus.edges.amqp.server.receivers.turns import Turns
from isthmus.errors import Refused
from isthmus.kafka.options import Kafka
from isthmus.kafka.records import OVERHEAD_BYTES, PolledRecord


class Tail:
    """Stands in for the consumer: a test says what arrives."""

    running = 0

    def __init__(self, kafka: Kafka, topic: str, positions: object, arrived: Callable[..., None]) -> None:
        Tail.running += 1
        Tail.arrived = staticmethod(arrived)  # type: ignore[attr-defined]

    async def close(self) -> None:
        Tail.running -= 1


class Bench:
    """The queues, and what did not fit."""

    def __init__(self) -> None:
        self.lost: list[ReceivedRecord] = []
        self.queues = TemporaryQueues(Kafka("nowhere:1"), "t", self._ends, self.lost.append, empty_s=0.05)

    async def _ends(self) -> dict[int, int]:
        return {}

    def send(self, address: str, *values: bytes) -> None:
        records = [ReceivedRecord("t", 0, n, address.encode(), value) for n, value in enumerate(values)]
        Tail.arrived(records)  # type: ignore[attr-defined]

    def is_there(self, address: str) -> bool:
        return address in self.queues._nodes

    async def empty_ones_are_gone(self) -> None:
        """Return when a queue that became empty just now is deleted."""
        witness = await self.queues.create("me", lifetime=DeleteOnNoMessages)
        await self.queues.leave(witness)
        await eventually(lambda: not self.is_there(witness))

    async def receiver(self, address: str, credit: int) -> tuple[Receiver, Any]:
        receiver = Receiver()
        source = self.queues.source(address, ["me"])
        source.start(receiver)
        source.request(credit)
        await asyncio.sleep(0)
        return receiver, source


@pytest.fixture(autouse=True)
def _no_kafka(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(temporary, "_Tail", Tail)


def run(test: Callable[[Bench], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        await test(Bench())

    asyncio.run(main())
    Tail.running = 0


def test_what_came_before_its_receiver_waits_for_it() -> None:
    async def test(bench: Bench) -> None:
        address = await bench.queues.create("me")
        bench.send(address, b"a", b"b", b"c")
        receiver, source = await bench.receiver(address, 2)
        assert receiver.values == [b"a", b"b"]
        source.request(5)
        await asyncio.sleep(0)
        assert receiver.values == [b"a", b"b", b"c"]

    run(test)


def test_a_queue_gets_its_own_and_nothing_else() -> None:
    async def test(bench: Bench) -> None:
        one, two = await bench.queues.create("me"), await bench.queues.create("me")
        receiver, _ = await bench.receiver(one, 10)
        bench.send(two, b"two's")
        bench.send("isthmus.temporary.gone", b"nobody's")
        bench.send(one, b"one's")
        assert receiver.values == [b"one's"]

    run(test)


def test_an_empty_queue_says_so() -> None:
    async def test(bench: Bench) -> None:
        receiver, _ = await bench.receiver(await bench.queues.create("me"), 1)
        assert receiver.idles == 1

    run(test)


def test_what_is_released_comes_again_first_and_is_counted() -> None:
    async def test(bench: Bench) -> None:
        address = await bench.queues.create("me")
        bench.send(address, b"a", b"b")
        receiver, source = await bench.receiver(address, 1)
        source.settle(receiver.taken[0], Acknowledgement.FAIL)
        source.request(2)
        await asyncio.sleep(0)
        assert [(each.record.value, each.deliveries) for each in receiver.taken[1:]] == [(b"a", 1), (b"b", 0)]

    run(test)


def test_only_the_owner_of_a_queue_receives_from_it() -> None:
    async def test(bench: Bench) -> None:
        address = await bench.queues.create("me")
        for wanted, owner, condition in (
            (address, "you", "amqp:resource-locked"),
            ("orders", "me", "amqp:not-found"),
        ):
            with pytest.raises(Refused) as refused:
                bench.queues.source(wanted, ["another", owner])
            assert refused.value.condition == condition

    run(test)


def test_what_a_queue_has_no_room_for_is_not_lost_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(temporary, "LIMIT_BYTES", 2 * OVERHEAD_BYTES + 10)

    async def test(bench: Bench) -> None:
        address = await bench.queues.create("me")
        bench.send(address, b"12345678", b"overflow", b"9")
        assert [record.value for record in bench.lost] == [b"overflow"]
        receiver, _ = await bench.receiver(address, 10)
        assert receiver.values == [b"12345678", b"9"]
        bench.send(address, b"12345678")
        assert receiver.values[2:] == [b"12345678"]

    run(test)


def test_a_connection_has_a_limited_number_of_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(temporary, "MAX_QUEUES", 1)

    async def test(bench: Bench) -> None:
        address = await bench.queues.create("me")
        with pytest.raises(Refused, match="1 temporary queues are"):
            await bench.queues.create("me")
        other = await bench.queues.create("another")
        await bench.queues.leave(address)
        await bench.queues.leave(other)

    run(test)


def test_kafka_is_read_only_while_there_are_queues() -> None:
    async def test(bench: Bench) -> None:
        one, two = await bench.queues.create("me"), await bench.queues.create("me")
        assert Tail.running == 1
        await bench.queues.leave(one)
        assert Tail.running == 1
        await bench.queues.leave(two)
        assert Tail.running == 0

    run(test)


def test_each_subscriber_of_a_temporary_topic_has_its_own_copy_from_when_it_subscribed() -> None:
    async def scenario() -> None:
        bench = Bench()
        address = await bench.queues.create("me", topic=True)
        bench.send(address, b"before")
        one, source = await bench.receiver(address, 10)
        bench.send(address, b"a")
        other, _ = await bench.receiver(address, 10)
        bench.send(address, b"b")
        assert one.values == [b"a", b"b"]
        assert other.values == [b"b"]
        await source.close()
        bench.send(address, b"c")
        assert (one.values, other.values) == ([b"a", b"b"], [b"b", b"c"])

    asyncio.run(scenario())


def test_what_a_receiver_of_a_temporary_queue_does_not_want_is_for_the_others() -> None:
    async def scenario() -> None:
        bench = Bench()
        address = await bench.queues.create("me")
        receiver = Receiver()
        choosy = bench.queues.source(address, "me", wants=lambda record: record.read.value == b"b")
        choosy.start(receiver)
        choosy.request(10)
        bench.send(address, b"a", b"b", b"c")
        assert receiver.values == [b"b"]
        looker = Receiver()
        browser = bench.queues.source(address, "me", browses=True)
        browser.start(looker)
        browser.request(10)
        await asyncio.sleep(0)
        assert looker.values == [b"a", b"c"]
        other, _ = await bench.receiver(address, 10)
        assert other.values == [b"a", b"c"]

    asyncio.run(scenario())


def test_what_a_receiver_declines_is_for_the_queue_s_others() -> None:
    async def test(bench: Bench) -> None:
        address = await bench.queues.create("me")
        bench.send(address, b"a", b"b")
        one, source = await bench.receiver(address, 1)
        assert source.decline(one.taken[0], failed=False)
        source.request(5)
        await asyncio.sleep(0)
        assert one.values == [b"a", b"b"]
        other, _ = await bench.receiver(address, 5)
        assert other.values == [b"a"]

    run(test)


def test_delete_on_no_links_keeps_a_queue_while_anybody_has_a_link_to_it() -> None:
    async def test(bench: Bench) -> None:
        address = await bench.queues.create("me", lifetime=DeleteOnNoLinks)
        told: list[str] = []

        def sender() -> None:
            told.append("deleted")

        _, source = await bench.receiver(address, 1)
        await bench.queues.link(address, sender)
        await bench.queues.leave(address)
        await source.close()
        assert bench.is_there(address)
        await bench.queues.unlink(address, sender)
        assert not bench.is_there(address)
        assert told == []

    run(test)


def test_who_has_a_link_to_a_queue_is_told_that_it_is_deleted() -> None:
    async def test(bench: Bench) -> None:
        address, other = await bench.queues.create("me"), await bench.queues.create("me")
        told: list[str] = []
        receiver, _ = await bench.receiver(address, 1)
        for queue, name in ((address, "one"), (address, "two"), (other, "other")):
            await bench.queues.link(queue, partial(told.append, name))
        await bench.queues.leave(address)
        assert told == ["one", "two"]
        assert receiver.failures == ["amqp:resource-deleted"]

    run(test)


def test_delete_on_no_messages_keeps_a_queue_until_all_that_is_in_it_is_settled() -> None:
    async def test(bench: Bench) -> None:
        address = await bench.queues.create("me", lifetime=DeleteOnNoMessages)
        await bench.queues.leave(address)
        bench.send(address, b"a")
        receiver, source = await bench.receiver(address, 5)
        assert receiver.values == [b"a"]
        await bench.empty_ones_are_gone()
        assert bench.is_there(address)
        source.settle(receiver.taken[0], Acknowledgement.ACCEPT)
        await eventually(lambda: not bench.is_there(address))
        assert receiver.failures == ["amqp:resource-deleted"]

    run(test)


def test_delete_on_no_links_or_messages_waits_for_both() -> None:
    async def test(bench: Bench) -> None:
        address = await bench.queues.create("me", lifetime=DeleteOnNoLinksOrMessages)
        await bench.queues.leave(address)
        bench.send(address, b"a")
        receiver, source = await bench.receiver(address, 5)
        source.settle(receiver.taken[0], Acknowledgement.ACCEPT)
        await bench.empty_ones_are_gone()
        assert bench.is_there(address)
        await source.close()
        await eventually(lambda: not bench.is_there(address))
        assert Tail.running == 0

    run(test)


def test_a_queue_that_nobody_has_a_link_to_is_not_kept_for_ever() -> None:
    async def test(bench: Bench) -> None:
        queues = TemporaryQueues(Kafka("nowhere:1"), "t", bench._ends, print, empty_s=0.05, abandoned_s=0.1)
        bench.queues = queues
        address = await queues.create("me", lifetime=DeleteOnNoMessages)
        bench.send(address, b"a")
        await queues.leave(address)
        await eventually(lambda: not bench.is_there(address))

    run(test)


def test_a_receiver_is_asked_once_for_each_record_and_others_have_their_turn() -> None:
    asked: list[bytes | None] = []

    def wants(record: PolledRecord) -> bool:
        asked.append(record.record.value)
        return record.record.value == b"c"

    async def test(bench: Bench) -> None:
        bench.queues._turns = Turns(0)
        address = await bench.queues.create("me")
        bench.send(address, b"a", b"b")
        receiver = Receiver()
        source = bench.queues.source(address, ["me"], wants=wants)
        source.start(receiver)
        source.request(5)
        bench.send(address, b"c", b"d")
        assert asked == []
        await eventually(lambda: len(asked) == 4)
        await eventually(lambda: receiver.idles)
        assert receiver.values == [b"c"]
        bench.send(address, b"e")
        await eventually(lambda: len(asked) == 5)
        other, _ = await bench.receiver(address, 10)
        assert other.values == [b"a", b"b", b"d", b"e"]
        assert asked == [b"a", b"b", b"c", b"d", b"e"]

    run(test)


def test_what_others_have_taken_is_forgotten() -> None:
    async def test(bench: Bench) -> None:
        address = await bench.queues.create("me")
        await bench.receiver(address, 0)
        other, _ = await bench.receiver(address, 10_000)
        bench.send(address, *[b"x"] * 2_000)
        assert len(other.taken) == 2_000
        [queue] = bench.queues._nodes[address].queues
        assert all(len(source.unseen) <= temporary.BATCH for source in queue.sources)

    run(test)
