"""Who gets which record of a queue, and what Kafka is told of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, cast

import pytest
from tests.support.asynchronous import eventually

from isthmus.codecs.amqp import AmqpMessage
from isthmus.converters import ReceivedRecord
from isthmus.edges.amqp.server.receivers.queue import Queue, QueueSource
from isthmus.edges.amqp.server.receivers.queues import KEPT, Queues
from isthmus.edges.amqp.server.receivers.record_source import Acknowledgement
from isthmus.edges.amqp.server.receivers.selector import Selector
from isthmus.edges.amqp.server.receivers.turns import Turns
from isthmus.errors import HardFailure, SoftFailure
from isthmus.kafka.client import ResilientClient
from isthmus.kafka.records import AcquiredRecord, Lock, PolledRecord
from isthmus.kafka.share_session import AcknowledgeType

ACCEPT, RELEASE, FAIL = Acknowledgement.ACCEPT, Acknowledgement.RELEASE, Acknowledgement.FAIL


@dataclass
class Read:
    offset: int
    key: bytes | None = None
    value: bytes | None = b""
    headers: tuple[tuple[str, bytes], ...] = ()


class FakeMember:
    """A member of a share group without Kafka, which tells what it was asked for."""

    def __init__(self) -> None:
        self.looks = 0
        self.idle = False
        self.wanted = 0
        self.open: dict[int, AcquiredRecord] = {}
        self.told: list[tuple[int, AcknowledgeType]] = []
        self.lost: set[int] = set()
        self.alone = True
        self.closed = False

    @property
    def held(self) -> int:
        return len(self.open)

    def start(self) -> None:
        self.closed = False

    def request(self, count: int, *, drain: bool = False) -> None:
        self.wanted = count

    def holds(self, record: AcquiredRecord) -> bool:
        return record.offset in self.open and record.offset not in self.lost

    def acknowledge(self, record: AcquiredRecord, how: AcknowledgeType) -> None:
        del self.open[record.offset]
        self.told.append((record.offset, how))

    def refused(self, record: AcquiredRecord) -> bool:
        return record.offset in self.lost

    def forget(self, record: AcquiredRecord) -> None:
        self.open.pop(record.offset, None)

    async def is_alone(self) -> bool:
        self.looks += 1
        await asyncio.sleep(0)
        return self.alone

    async def flush(self) -> None:
        await asyncio.sleep(0)

    async def flush_within(self) -> None:
        await self.flush()

    async def close(self) -> None:
        self.open.clear()
        self.closed = True


class Receiver:
    """A link that takes what it is given."""

    def __init__(self, queue: Queue, *, at_most_once: bool = False, selector: str = "") -> None:
        self.records: list[PolledRecord] = []
        self.idle = 0
        self.failure = ""
        wanted = Selector(selector) if selector else None
        self.source = QueueSource(queue, at_most_once=at_most_once, selector=wanted)
        self.source.start(self)

    def on_records(self, records: Sequence[PolledRecord], *, redelivered: bool = False) -> None:
        self.records += records

    def on_idle(self) -> None:
        self.idle += 1

    def on_revoked(self, partitions: object) -> None:
        raise AssertionError("a queue's records are not taken away")

    def on_failed(self, condition: str, description: str) -> None:
        self.failure = description

    @property
    def offsets(self) -> list[int]:
        return [record.offset for record in self.records]

    def settle(self, offset: int, how: Acknowledgement) -> None:
        self.source.settle(self._take(offset), how)

    def decline(self, offset: int, *, failed: bool = False) -> None:
        assert self.source.decline(self._take(offset), failed=failed)

    def _take(self, offset: int) -> PolledRecord:
        record = next(each for each in self.records if each.offset == offset)
        self.records.remove(record)
        return record


def message_of(record: PolledRecord) -> AmqpMessage:
    """What selectors see: the offset, and the headers."""
    texts = {name: (value or b"").decode() for name, value in record.read.headers}
    return AmqpMessage(application_properties={"n": record.offset, **texts})


class Bench:
    """A queue with a member that a test speaks for."""

    def __init__(self, **options: Any) -> None:
        self.member = FakeMember()
        self.joined = 0
        self.dead: list[tuple[int, str]] = []
        self.can_write = True
        self.queue = Queue("q", self._join, convert=message_of, undeliverable=self._dead_letter, **options)

    def _join(self, _: object) -> FakeMember:
        self.joined += 1
        return self.member

    async def _dead_letter(self, record: ReceivedRecord, failure: SoftFailure) -> None:
        if not self.can_write:
            raise HardFailure("the topic is not there", remedy="make it")
        self.dead.append((record.offset, failure.code))

    def acquire(self, *offsets: int, count: int = 1, **headers: str) -> None:
        lock = Lock(1e12)
        texts = tuple((name.replace("_", "."), text.encode()) for name, text in headers.items())
        records = [AcquiredRecord("q", 0, Read(offset, headers=texts), count, lock) for offset in offsets]
        self.member.open |= {record.offset: record for record in records}
        self.queue.on_acquired(records)


async def turn() -> None:
    """Let what was left for the next turn of the loop happen."""
    for _ in range(3):
        await asyncio.sleep(0)


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(scenario())


def test_the_member_is_asked_for_what_all_receivers_want() -> None:
    async def scenario() -> None:
        bench = Bench()
        one, other = Receiver(bench.queue), Receiver(bench.queue)
        one.source.request(3)
        other.source.request(4)
        assert bench.member.wanted == 7
        bench.acquire(0, 1)
        assert bench.member.wanted == 5

    run(scenario)


def test_receivers_get_one_in_turn_as_far_as_their_credit_goes() -> None:
    async def scenario() -> None:
        bench = Bench()
        receivers = [Receiver(bench.queue) for _ in range(3)]
        for receiver, credit in zip(receivers, (10, 2, 10), strict=True):
            receiver.source.request(credit)
        bench.acquire(*range(8))
        assert sorted(len(each.records) for each in receivers) == [2, 3, 3]
        assert sorted(offset for each in receivers for offset in each.offsets) == list(range(8))
        assert all(each.offsets == sorted(each.offsets) for each in receivers)

    run(scenario)


def test_the_first_receiver_to_come_gets_the_first_message() -> None:
    async def scenario() -> None:
        bench = Bench()
        one, other = Receiver(bench.queue), Receiver(bench.queue)
        one.source.request(5)
        other.source.request(5)
        for offset in range(3):
            bench.acquire(offset)
        assert (one.offsets, other.offsets) == ([0, 2], [1])

    run(scenario)


def test_what_is_rolled_back_is_delivered_again_in_its_old_order_and_kafka_hears_nothing() -> None:
    async def scenario() -> None:
        bench = Bench()
        receiver = Receiver(bench.queue)
        receiver.source.request(5)
        bench.acquire(*range(5))
        for offset in (3, 1, 4, 0):
            receiver.settle(offset, FAIL if offset < 2 else RELEASE)
        bench.acquire(5, 6)
        assert receiver.offsets == [2]
        receiver.source.request(10)
        await turn()
        assert receiver.offsets == [2, 0, 1, 3, 4, 5, 6]
        assert [record.deliveries for record in receiver.records] == [0, 1, 1, 0, 0, 0, 0]
        assert bench.member.told == []

    run(scenario)


def test_what_is_given_back_goes_to_another_if_its_receiver_has_no_credit_or_is_gone() -> None:
    async def scenario() -> None:
        bench = Bench()
        one = Receiver(bench.queue)
        one.source.request(2)
        bench.acquire(0, 1)
        other = Receiver(bench.queue)
        one.settle(0, RELEASE)
        other.source.request(1)
        await turn()
        assert other.offsets == [0]
        one.settle(1, RELEASE)
        await one.source.close()
        other.source.request(1)
        await turn()
        assert other.offsets == [0, 1]
        assert bench.member.told == []

    run(scenario)


def test_it_goes_to_the_receiver_that_gave_it_back_if_that_has_credit() -> None:
    async def scenario() -> None:
        bench = Bench()
        receivers = [Receiver(bench.queue) for _ in range(3)]
        receivers[1].source.request(1)
        bench.acquire(0)
        for receiver in receivers:
            receiver.source.request(5)
        receivers[1].settle(0, FAIL)
        await turn()
        assert [each.offsets for each in receivers] == [[], [0], []]

    run(scenario)


def test_a_message_that_applications_had_too_often_is_a_dead_letter_and_then_accepted() -> None:
    async def scenario() -> None:
        bench = Bench(max_deliveries=3)
        receiver = Receiver(bench.queue)
        receiver.source.request(1)
        bench.acquire(0)
        for times in range(3):
            assert receiver.records[0].deliveries == times
            receiver.settle(0, FAIL)
            receiver.source.request(1)
            await turn()
        assert receiver.offsets == []
        assert bench.dead == [(0, "redelivery")]
        assert bench.member.told == [(0, AcknowledgeType.ACCEPT)]

    run(scenario)


def test_a_message_that_is_only_released_is_never_a_dead_letter() -> None:
    async def scenario() -> None:
        bench = Bench(max_deliveries=3)
        receiver = Receiver(bench.queue)
        receiver.source.request(1)
        bench.acquire(0)
        for _ in range(50):
            receiver.settle(0, RELEASE)
            receiver.source.request(1)
            await turn()
        assert receiver.offsets == [0]
        assert receiver.records[0].deliveries == 0

    run(scenario)


def test_the_last_delivery_that_kafka_allows_is_not_handed_out() -> None:
    async def scenario() -> None:
        bench = Bench(delivery_limit=10)
        receiver = Receiver(bench.queue)
        receiver.source.request(5)
        bench.acquire(0, count=10)
        bench.acquire(1, count=9)
        await turn()
        assert receiver.offsets == [1]
        assert bench.dead == [(0, "redelivery")]
        assert bench.member.told == [(0, AcknowledgeType.ACCEPT)]

    run(scenario)


def test_a_dead_letter_that_cannot_be_written_is_held_and_tried_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        bench = Bench(delivery_limit=2, retry_s=0.01)
        bench.can_write = False
        receiver = Receiver(bench.queue)
        receiver.source.request(5)
        bench.acquire(0, count=2)
        await eventually(lambda: "held back" in caplog.text)
        assert bench.member.told == []
        bench.can_write = True
        await eventually(lambda: bench.member.told == [(0, AcknowledgeType.ACCEPT)])
        assert caplog.text.count("held back") == 1

    run(scenario)


def test_what_was_released_unread_is_not_marked_as_delivered_when_it_is_acquired_again() -> None:
    async def scenario() -> None:
        bench = Bench(rest_s=0.01, hold_s=0)
        receiver = Receiver(bench.queue)
        receiver.source.request(2)
        bench.acquire(0, 1)
        receiver.settle(0, RELEASE)
        receiver.settle(1, FAIL)
        await receiver.source.close()
        await eventually(lambda: bench.member.closed)
        again = Receiver(bench.queue)
        again.source.request(5)
        bench.acquire(0, 1, count=2)
        await turn()
        assert [(each.offset, each.deliveries) for each in again.records] == [(0, 0), (1, 1)]
        elsewhere = Bench()
        other = Receiver(elsewhere.queue)
        other.source.request(5)
        elsewhere.acquire(0, count=2)
        assert other.records[0].deliveries == 1  # of another process nothing is known

    run(scenario)


def test_a_queue_that_nobody_wants_anything_from_is_left_and_joined_again() -> None:
    async def scenario() -> None:
        bench = Bench(rest_s=0.01)
        receiver = Receiver(bench.queue)
        receiver.source.request(1)
        bench.acquire(0)
        receiver.settle(0, ACCEPT)
        await eventually(lambda: bench.member.closed)
        receiver.source.request(1)
        await eventually(lambda: bench.joined == 2)
        bench.acquire(1)
        await turn()
        assert receiver.offsets == [1]

    run(scenario)


def test_a_queue_is_not_left_while_an_application_holds_a_message() -> None:
    async def scenario() -> None:
        bench = Bench(rest_s=0.01)
        bench.member.alone = False
        receiver = Receiver(bench.queue)
        receiver.source.request(1)
        bench.acquire(0, 1)  # one more than there is credit for
        await eventually(lambda: bench.member.told == [(1, AcknowledgeType.RELEASE)])
        assert not bench.member.closed
        assert receiver.offsets == [0]

    run(scenario)


def test_at_most_once_a_record_is_accepted_before_it_is_handed_over() -> None:
    async def scenario() -> None:
        bench = Bench()
        receiver = Receiver(bench.queue, at_most_once=True)
        receiver.source.request(5)
        bench.member.lost = {1}
        bench.acquire(0, 1, 2)
        assert receiver.records == []
        await turn()
        assert [offset for offset, _ in bench.member.told] == [0, 1, 2]
        assert receiver.offsets == [0, 2]

    run(scenario)


def test_what_waits_and_has_lost_its_lock_is_forgotten() -> None:
    async def scenario() -> None:
        bench = Bench()
        receiver = Receiver(bench.queue)
        receiver.source.request(1)
        bench.acquire(0, 1, 2)
        bench.queue.on_lost([bench.member.open[1]])
        receiver.source.request(5)
        await turn()
        assert receiver.offsets == [0, 2]

    run(scenario)


def test_all_receivers_hear_that_nothing_more_comes() -> None:
    async def scenario() -> None:
        bench = Bench()
        receivers = [Receiver(bench.queue) for _ in range(2)]
        receivers[0].source.request(1)
        bench.queue.on_failed(RuntimeError("no"))
        assert [each.failure for each in receivers] == ["no", "no"]
        await bench.queue.close()

    run(scenario)


def test_queues_that_nobody_receives_from_are_forgotten_in_the_end() -> None:
    async def scenario() -> None:
        queues = Queues(cast("ResilientClient", None), undeliverable=Bench()._dead_letter)
        used = queues.source("used", "used", convert=message_of, delivery_limit=10, at_most_once=False)
        used.start(Receiver(Bench().queue))
        for number in range(2 * KEPT):
            queues.source("q", f"group {number}", convert=message_of, delivery_limit=10, at_most_once=False)
        assert len(queues._queues) <= KEPT + 1
        assert "used" in queues._queues

    run(scenario)


def test_each_record_goes_to_one_receiver_whose_selector_is_true_for_it() -> None:
    async def scenario() -> None:
        bench = Bench()
        low, high = Receiver(bench.queue, selector="n < 3"), Receiver(bench.queue, selector="n > 5")
        low.source.request(10)
        high.source.request(2)
        bench.acquire(*range(10))
        await turn()
        assert (low.offsets, high.offsets) == ([0, 1, 2], [6, 7])
        any_ = Receiver(bench.queue)
        any_.source.request(10)
        await turn()
        assert any_.offsets == [3, 4, 5, 8, 9]
        assert bench.member.told == []

    run(scenario)


def test_records_are_compared_with_selectors_as_far_as_there_is_time() -> None:
    async def scenario() -> None:
        bench = Bench(turns=Turns(0))
        receiver = Receiver(bench.queue, selector="n <> 1")
        receiver.source.request(10)
        bench.acquire(*range(5))
        assert receiver.offsets == []
        await turn()
        assert len(receiver.offsets) < 4
        await eventually(lambda: receiver.offsets == [0, 2, 3, 4])

    run(scenario)


def test_what_two_views_want_goes_to_both_in_turn_and_to_one_only() -> None:
    async def scenario() -> None:
        bench = Bench()
        receivers = [Receiver(bench.queue, selector=each) for each in ("n >= 0", "n < 100", "")]
        for receiver in receivers:
            receiver.source.request(100)
        bench.acquire(*range(30))
        await turn()
        assert [len(each.records) for each in receivers] == [10, 10, 10]
        assert sorted(offset for each in receivers for offset in each.offsets) == list(range(30))
        assert all(each.offsets == sorted(each.offsets) for each in receivers)

    run(scenario)


def test_a_queue_reads_on_past_what_nobody_wants() -> None:
    async def scenario() -> None:
        bench = Bench()
        receiver = Receiver(bench.queue, selector="n = 1000")
        receiver.source.request(1)
        assert bench.member.wanted == 1
        at = 0
        while not receiver.records:
            asked = bench.member.wanted
            assert asked > 0
            bench.acquire(*range(at, at + asked))
            at += asked
            await eventually(lambda: bench.member.wanted > 0 or bool(receiver.records))
        assert receiver.offsets == [1000]
        assert bench.member.held == at

    run(scenario)


def test_what_is_given_back_goes_to_whoever_wants_it_in_its_old_order() -> None:
    async def scenario() -> None:
        bench = Bench()
        odd = Receiver(bench.queue, selector="n IN ('x') OR n = 1 OR n = 3")
        odd.source.request(2)
        bench.acquire(0, 1, 2, 3)
        await turn()
        assert odd.offsets == [1, 3]
        odd.settle(1, FAIL)
        odd.settle(3, RELEASE)
        await odd.source.close()
        other = Receiver(bench.queue)
        other.source.request(10)
        await turn()
        assert [(each.offset, each.deliveries) for each in other.records] == [(0, 0), (1, 1), (2, 0), (3, 0)]

    run(scenario)


def test_what_others_took_is_not_kept_for_a_receiver_without_credit() -> None:
    async def scenario() -> None:
        bench = Bench()
        Receiver(bench.queue, selector="n >= 0")
        busy = Receiver(bench.queue)
        for start in range(0, 10_000, 100):
            busy.source.request(100)
            bench.acquire(*range(start, start + 100))
            await turn()
        assert len(busy.records) == 10_000
        assert all(len(view.fitting) < 1000 for view in bench.queue._views.values())

    run(scenario)


def test_what_has_a_higher_priority_is_handed_out_first() -> None:
    async def scenario() -> None:
        bench = Bench()
        receiver = Receiver(bench.queue)
        bench.acquire(0, 1)
        bench.acquire(2, jms_Priority="9")
        bench.acquire(3, jms_Priority="0")
        bench.acquire(4, jms_Priority="nonsense")
        bench.acquire(5, jms_Priority="9")
        receiver.source.request(10)
        await turn()
        assert receiver.offsets == [2, 5, 0, 1, 4, 3]

    run(scenario)


def test_what_nobody_wants_is_kept_while_no_other_process_is_there() -> None:
    async def scenario() -> None:
        bench = Bench(rest_s=0.01)
        receiver = Receiver(bench.queue, selector="n = 1")
        receiver.source.request(10)
        bench.acquire(0, 1, 2)
        await eventually(lambda: receiver.offsets == [1])
        receiver.settle(1, ACCEPT)
        await receiver.source.close()
        await eventually(lambda: bench.member.looks >= 5)  # it looks again and again, and keeps it
        assert not bench.member.closed
        other = Receiver(bench.queue)
        other.source.request(10)
        await turn()
        assert other.offsets == [0, 2]
        assert bench.member.told == [(1, AcknowledgeType.ACCEPT)]

    run(scenario)


def test_what_nobody_wants_is_released_for_other_processes_but_not_for_ever() -> None:
    async def scenario() -> None:
        bench = Bench(rest_s=0.01, delivery_limit=4)
        bench.member.alone = False
        receiver = Receiver(bench.queue, selector="n = 1")
        receiver.source.request(10)
        bench.acquire(0)
        await eventually(lambda: bench.member.told == [(0, AcknowledgeType.RELEASE)])
        bench.acquire(0, count=2)
        await eventually(lambda: len(bench.member.told) == 2)
        bench.acquire(0, count=3)
        bench.acquire(2, count=1)
        await eventually(lambda: (2, AcknowledgeType.RELEASE) in bench.member.told)
        assert bench.member.told.count((0, AcknowledgeType.RELEASE)) == 2
        await eventually(lambda: bench.member.wanted > 0)

    run(scenario)


def test_a_receiver_that_is_gone_may_still_say_that_it_has_credit() -> None:
    async def scenario() -> None:
        bench = Bench()
        receiver = Receiver(bench.queue)
        await receiver.source.close()
        receiver.source.request(5)
        assert bench.joined == 0

    run(scenario)


def test_what_a_receiver_declines_goes_to_another_and_not_to_that_one_again() -> None:
    async def scenario() -> None:
        bench = Bench()
        one, other = Receiver(bench.queue), Receiver(bench.queue)
        one.source.request(2)
        bench.acquire(0, 1)
        one.decline(0)
        one.source.request(5)
        bench.acquire(2)
        await turn()
        assert one.offsets == [1, 2]
        other.source.request(1)
        await turn()
        assert other.offsets == [0]
        other.settle(0, FAIL)
        one.source.request(5)
        await turn()
        assert one.offsets == [1, 2]
        other.source.request(1)
        await turn()
        assert [(each.offset, each.deliveries) for each in other.records] == [(0, 1)]
        other.settle(0, ACCEPT)
        assert bench.member.told == [(0, AcknowledgeType.ACCEPT)]

    run(scenario)


def test_what_the_only_receiver_declines_does_not_keep_it_from_the_rest_and_waits_for_the_next() -> None:
    async def scenario() -> None:
        bench = Bench()
        only = Receiver(bench.queue)
        only.source.request(1)
        bench.acquire(0)
        only.decline(0, failed=True)
        only.source.request(1)
        await turn()
        assert bench.member.wanted > 0
        bench.acquire(1)
        assert only.offsets == [1]
        await only.source.close()
        later = Receiver(bench.queue)
        later.source.request(2)
        await turn()
        assert [(each.offset, each.deliveries) for each in later.records] == [(0, 1)]
        assert bench.dead == []

    run(scenario)


def test_what_all_receivers_that_want_it_decline_is_a_dead_letter_in_the_end() -> None:
    async def scenario() -> None:
        bench = Bench(rest_s=0.01, declined_s=0.05)
        receivers = [Receiver(bench.queue), Receiver(bench.queue), Receiver(bench.queue, selector="n = 7")]
        receivers[2].source.request(1)
        for receiver in receivers[:2]:
            receiver.source.request(1)
            if receiver is receivers[0]:
                bench.acquire(0)
            await eventually(lambda receiver=receiver: receiver.offsets == [0])  # type: ignore[misc]
            assert bench.dead == []
            receiver.decline(0)
            receiver.source.request(1)
        await eventually(lambda: bench.dead == [(0, "refused")])
        assert bench.member.told == [(0, AcknowledgeType.ACCEPT)]

    run(scenario)


def test_what_is_declined_stays_so_when_kafka_hands_it_out_again() -> None:
    async def scenario() -> None:
        bench = Bench(rest_s=0.01)
        bench.member.alone = False
        receiver = Receiver(bench.queue)
        receiver.source.request(1)
        bench.acquire(0)
        receiver.decline(0)
        receiver.source.request(2)
        await eventually(lambda: bench.member.told == [(0, AcknowledgeType.RELEASE)])
        bench.acquire(0, count=2)
        bench.acquire(1)
        await turn()
        assert receiver.offsets == [1]

    run(scenario)


def test_messages_of_a_group_go_to_the_receiver_that_had_the_first_and_others_read_on() -> None:
    async def scenario() -> None:
        bench = Bench()
        one, other = Receiver(bench.queue), Receiver(bench.queue)
        one.source.request(1)
        bench.acquire(0, jms_JMSXGroupID="a")
        other.source.request(1)
        bench.acquire(1, jms_JMSXGroupID="b")
        assert (one.offsets, other.offsets) == ([0], [1])
        other.source.request(1)
        bench.acquire(2, jms_JMSXGroupID="a")
        assert bench.member.wanted > 0
        bench.acquire(3, jms_JMSXGroupID="b")
        assert other.offsets == [1, 3]
        other.source.request(5)
        bench.acquire(4)
        assert other.offsets == [1, 3, 4]
        one.settle(0, RELEASE)
        one.source.request(5)
        await turn()
        assert one.offsets == [0, 2]

    run(scenario)


def test_the_groups_of_a_receiver_that_is_gone_go_to_another_in_order() -> None:
    async def scenario() -> None:
        bench = Bench()
        one, other = Receiver(bench.queue), Receiver(bench.queue)
        one.source.request(1)
        bench.acquire(0, jms_JMSXGroupID="a")
        other.source.request(5)
        bench.acquire(1, 2, jms_JMSXGroupID="a")
        await turn()
        assert (one.offsets, other.offsets) == ([0], [])
        one.settle(0, RELEASE)
        await one.source.close()
        await turn()
        assert other.offsets == [0, 1, 2]

    run(scenario)


def test_a_group_that_the_only_receiver_has_stays_with_it_when_another_comes() -> None:
    async def scenario() -> None:
        bench = Bench()
        one = Receiver(bench.queue)
        one.source.request(10)
        bench.acquire(0, jms_JMSXGroupID="a")
        other = Receiver(bench.queue)
        other.source.request(10)
        bench.acquire(1, 2, 3, jms_JMSXGroupID="a")
        assert (one.offsets, other.offsets) == ([0, 1, 2, 3], [])

    run(scenario)


def test_what_waits_for_its_group_s_receiver_is_not_for_other_processes() -> None:
    async def scenario() -> None:
        bench = Bench(rest_s=0.01)
        bench.member.alone = False
        one = Receiver(bench.queue)
        one.source.request(1)
        bench.acquire(0, jms_JMSXGroupID="a")
        bench.acquire(1, jms_JMSXGroupID="a")
        looks = bench.member.looks
        await eventually(lambda: bench.member.looks > looks + 5)
        assert bench.member.told == []
        one.source.request(1)
        await turn()
        assert one.offsets == [0, 1]

    run(scenario)


class Group(bytes):
    """The name of a message group, and how often anybody looks for who has one."""

    looks = 0

    def __hash__(self) -> int:
        Group.looks += 1
        return super().__hash__()


class GroupName(str):
    __slots__ = ()

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        return Group(super().encode(encoding, errors))


def test_what_waits_for_its_receiver_is_not_looked_at_again_for_each_record_of_others() -> None:
    async def scenario() -> None:
        bench = Bench()
        one, other = Receiver(bench.queue), Receiver(bench.queue)
        one.source.request(1)
        bench.acquire(*range(500), jms_JMSXGroupID=GroupName("a"))
        other.source.request(100)
        await turn()
        Group.looks = 0
        bench.acquire(*range(500, 600))
        await turn()
        assert other.offsets == list(range(500, 600))
        assert 0 < Group.looks < 10_000

    run(scenario)


def test_what_waited_for_a_receiver_that_has_lost_its_message_group_goes_to_any() -> None:
    async def scenario() -> None:
        bench = Bench()
        one, other = Receiver(bench.queue), Receiver(bench.queue, selector="n >= 0")
        one.source.request(1)
        bench.acquire(0, jms_JMSXGroupID="a")
        bench.acquire(1, 2, jms_JMSXGroupID="a")
        other.source.request(2)
        await eventually(lambda: other.offsets == [1, 2])

    run(scenario)
