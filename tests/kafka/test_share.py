"""A member of a share group against a real Kafka: what it acquires, holds, acknowledges and survives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer
from tests.support.asynchronous import eventually
from tests.support.kafka.topics import new_topic, publish
from tests.support.names import unique
from tests.support.polling import PATIENCE_S

from isthmus.embedded.kafka import EmbeddedKafka
from isthmus.kafka.admin import KafkaAdmin
from isthmus.kafka.blocking import QUIET
from isthmus.kafka.client import ResilientClient
from isthmus.kafka.options import Kafka
from isthmus.kafka.records import AcquiredRecord
from isthmus.kafka.requests import GROUP_RESOURCE
from isthmus.kafka.share import ShareMember
from isthmus.kafka.share_requests import (
    ACKNOWLEDGE_API,
    FETCH_API,
    HEARTBEAT_API,
    ShareAcknowledge,
    ShareFetch,
)
from isthmus.kafka.share_session import AcknowledgeType

ACCEPT, RELEASE = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE
SETTINGS = {
    "share.auto.offset.reset": "earliest",
    "share.isolation.level": "read_committed",
    "share.assignment.interval.ms": "0",
}


class Listener:
    def __init__(self) -> None:
        self.acquired: list[AcquiredRecord] = []
        self.lost: list[AcquiredRecord] = []
        self.idle = 0
        self.refused = 0
        self.failure: Exception | None = None

    def on_acquired(self, records: list[AcquiredRecord]) -> None:
        self.acquired += records

    def on_idle(self) -> None:
        self.idle += 1

    def on_lost(self, records: Sequence[AcquiredRecord]) -> None:
        self.lost += records

    def on_refused(self, accepted: int) -> None:
        self.refused += accepted

    def on_failed(self, error: Exception) -> None:
        self.failure = error

    @property
    def offsets(self) -> list[int]:
        return [record.offset for record in self.acquired]


class Group:
    """A share group of a topic of its own, whose members end with the test."""

    def __init__(self, servers: str, topic: str) -> None:
        self.servers = servers
        self.topic = topic
        self.name = unique("group")
        self.client = ResilientClient(Kafka(servers))
        self._members: list[ShareMember] = []

    def member(self, **timings: float) -> tuple[ShareMember, Listener]:
        listener = Listener()
        member = ShareMember(self.client, self.name, self.topic, listener, **timings)
        member.start()
        self._members.append(member)
        return member, listener

    def publish(self, *values: str, partition: int = 0) -> None:
        publish(self.servers, self.topic, values, partition=partition)

    async def close(self) -> None:
        for member in self._members:
            await member.close()
        await self.client.close()


@asynccontextmanager
async def new_group(servers: str, partitions: int = 1, **settings: str) -> AsyncIterator[Group]:
    group = Group(servers, await asyncio.to_thread(new_topic, servers, partitions))
    admin = KafkaAdmin(Kafka(servers))
    try:
        await admin.set_configs(GROUP_RESOURCE, group.name, {**SETTINGS, **settings})
        yield group
    finally:
        await group.close()
        await admin.close()


def with_group(
    servers: str, scenario: Callable[[Group], Awaitable[None]], partitions: int = 1, **settings: str
) -> None:
    async def run() -> None:
        async with (
            asyncio.timeout(3 * PATIENCE_S),
            new_group(servers, partitions, **settings) as group,
        ):
            await scenario(group)

    asyncio.run(run())


def numbers(count: int) -> list[str]:
    return [str(number) for number in range(count)]


def test_no_more_is_acquired_than_was_requested_and_in_order(kafka_servers: str) -> None:
    async def scenario(group: Group) -> None:
        group.publish(*numbers(20))
        member, got = group.member()
        for count in (1, 3, 5):
            had = len(got.acquired)
            member.request(count)
            await eventually(lambda: len(got.acquired) >= had + count)  # noqa: B023
        other, rest = group.member()
        other.request(1000)
        await eventually(lambda: len(rest.acquired) == 11)
        assert got.offsets == list(range(9))
        assert rest.offsets == list(range(9, 20))
        assert {record.delivery_count for record in [*got.acquired, *rest.acquired]} == {1}

    with_group(kafka_servers, scenario)


def test_the_next_request_is_out_before_records_are_handed_on(kafka_servers: str) -> None:
    async def scenario(group: Group) -> None:
        order: list[str] = []
        send = group.client.send

        async def note(node_id: int, request: object, **others: object) -> object:
            if not isinstance(request, ShareFetch):
                return await send(node_id, request, **others)  # type: ignore[arg-type]
            order.append("request")
            answer = await send(node_id, request, **others)  # type: ignore[arg-type]
            order.append("answer")
            return answer

        group.client.send = note  # type: ignore[method-assign]
        group.publish(*numbers(3))
        member, got = group.member()
        got.on_acquired = lambda records: order.append(f"{len(records)} records")  # type: ignore[method-assign]
        member.request(5)
        await eventually(lambda: "3 records" in order)
        at = order.index("3 records")
        assert order[at - 2 : at] == ["answer", "request"]

    with_group(kafka_servers, scenario)


def test_what_is_about_to_be_handed_on_counts_as_had(kafka_servers: str) -> None:
    async def scenario(group: Group) -> None:
        loop, send = asyncio.get_running_loop(), group.client.send

        async def ask_again(node_id: int, request: object, **others: object) -> object:
            answer = await send(node_id, request, **others)  # type: ignore[arg-type]
            if isinstance(request, ShareFetch) and not got.acquired:
                loop.call_soon(member.request, 5)  # by who does not know yet what came
            return answer

        group.client.send = ask_again  # type: ignore[method-assign]
        group.publish(*numbers(20))
        member, got = group.member()
        member.request(5)
        await eventually(lambda: got.acquired)
        await member.close()
        assert got.offsets == [0, 1, 2, 3, 4]
        other, rest = group.member()
        other.request(20)
        await eventually(lambda: len(rest.acquired) == 20)
        assert [record.delivery_count for record in rest.acquired] == [2] * 5 + [1] * 15

    with_group(kafka_servers, scenario)


def test_more_is_acquired_while_nothing_is_acknowledged(kafka_servers: str) -> None:
    async def scenario(group: Group) -> None:
        member, got = group.member()
        group.publish("a")
        member.request(10)
        await eventually(lambda: got.acquired)
        group.publish("b")
        await eventually(lambda: got.offsets == [0, 1])

    with_group(kafka_servers, scenario)


def test_what_is_accepted_is_over_and_what_is_released_is_delivered_again(kafka_servers: str) -> None:
    async def scenario(group: Group) -> None:
        group.publish(*numbers(4))
        member, got = group.member()
        member.request(4)
        await eventually(lambda: len(got.acquired) == 4)
        for record, how in zip(got.acquired, (ACCEPT, RELEASE, ACCEPT, RELEASE), strict=True):
            member.acknowledge(record, how)
        await member.flush()
        other, rest = group.member()
        other.request(10)
        await eventually(lambda: rest.offsets == [1, 3])
        assert [record.delivery_count for record in rest.acquired] == [2, 2]
        assert got.refused == 0

    with_group(kafka_servers, scenario)


def test_what_is_held_is_free_for_others_once_a_member_has_left(kafka_servers: str) -> None:
    async def scenario(group: Group) -> None:
        group.publish(*numbers(3))
        member, got = group.member()
        member.request(3)
        await eventually(lambda: len(got.acquired) == 3)
        member.acknowledge(got.acquired[0], ACCEPT)
        await member.close()
        other, rest = group.member()
        other.request(10)
        await eventually(lambda: rest.offsets == [1, 2])

    with_group(kafka_servers, scenario)


def test_a_lock_is_renewed_for_as_long_as_the_record_is_held(kafka_servers: str) -> None:
    async def scenario(group: Group) -> None:
        group.publish(*numbers(20))
        member, got = group.member()
        member.request(20)
        await eventually(lambda: len(got.acquired) == 20)
        other, rest = group.member()
        other.request(20)
        locks = {record.lock for record in got.acquired}
        for _ in range(3):  # each time, all locks are others than before
            await eventually(lambda: not locks & {record.lock for record in got.acquired})  # noqa: B023
            locks = {record.lock for record in got.acquired}
        assert rest.acquired == []
        for record in got.acquired:
            member.acknowledge(record, ACCEPT)
        await member.flush()
        assert got.refused == 0
        assert got.lost == []

    # Kafka gives no shorter lock than 15 s unless its own settings say so.
    with_group(kafka_servers, scenario, **{"share.record.lock.duration.ms": "15000"})


def test_what_comes_while_a_member_is_being_closed_is_for_others(kafka_servers: str) -> None:
    async def scenario(group: Group) -> None:
        member, got = group.member(wait_s=10.0, close_s=PATIENCE_S)
        member.request(1)
        await eventually(lambda: got.idle)
        closing = asyncio.create_task(member.close())
        await asyncio.sleep(0)
        await asyncio.to_thread(group.publish, "late")
        await closing
        assert got.acquired == []
        other, rest = group.member()
        other.request(1)
        await eventually(lambda: rest.offsets == [0])

    with_group(kafka_servers, scenario)


def test_a_record_whose_lock_was_lost_is_not_handed_out_twice(tmp_path: Path) -> None:
    with EmbeddedKafka(tmp_path / "kafka") as kafka:

        async def scenario(group: Group) -> None:
            group.publish(*numbers(5))
            member, got = group.member()
            member.request(10)
            await eventually(lambda: len(got.acquired) == 5)
            await asyncio.to_thread(kafka.stop)
            member.acknowledge(got.acquired[0], ACCEPT)  # while Kafka is away
            await asyncio.to_thread(kafka.start)
            group.publish("after")
            await eventually(lambda: 5 in got.offsets)
            await eventually(lambda: all(member.holds(record) for record in got.acquired[1:]))
            assert got.offsets == [0, 1, 2, 3, 4, 5]
            for record in got.acquired:
                member.acknowledge(record, ACCEPT)
            await member.flush()
            await member.close()
            other, rest = group.member()
            other.request(10)
            await eventually(lambda: rest.idle)
            assert rest.acquired == []

        with_group(kafka.bootstrap_servers, scenario)


def test_several_partitions_and_members_share_everything_once(kafka_servers: str) -> None:
    async def scenario(group: Group) -> None:
        members = [group.member() for _ in range(3)]
        for partition in range(4):
            group.publish(*numbers(50), partition=partition)
        for member, _ in members:
            member.request(200)

        def all_of_it() -> list[tuple[int, int]]:
            return [(each.partition, each.offset) for _, got in members for each in got.acquired]

        await eventually(lambda: len(all_of_it()) >= 200)
        assert sorted(all_of_it()) == [(part, offset) for part in range(4) for offset in range(50)]
        for _, got in members:
            for partition in range(4):
                own = [each.offset for each in got.acquired if each.partition == partition]
                assert own == sorted(own)

    with_group(kafka_servers, scenario, partitions=4)


def test_offsets_without_a_record_are_passed_over(kafka_servers: str) -> None:
    async def scenario(group: Group) -> None:
        producer = Producer(
            {"bootstrap.servers": group.servers, "transactional.id": group.name}, logger=QUIET
        )
        producer.init_transactions(30)
        for value, commits in (("kept", True), ("rolled back", False), ("kept, too", True)):
            producer.begin_transaction()
            producer.produce(group.topic, value)
            producer.flush(30)
            (producer.commit_transaction if commits else producer.abort_transaction)(30)
        group.publish("last")
        member, got = group.member()
        member.request(10)
        await eventually(lambda: len(got.acquired) == 3)
        assert [record.read.value for record in got.acquired] == [b"kept", b"kept, too", b"last"]
        for record in got.acquired:
            member.acknowledge(record, ACCEPT)
        await member.flush()
        assert got.refused == 0

    with_group(kafka_servers, scenario)


def test_a_fenced_member_joins_again_and_keeps_what_it_holds(kafka_servers: str) -> None:
    async def scenario(group: Group) -> None:
        group.publish(*numbers(2))
        member, got = group.member()
        member.request(1)
        await eventually(lambda: got.acquired)
        member._epoch = 77  # as if the coordinator had gone on without us
        member.moved()
        await eventually(lambda: 0 < member._epoch < 77)
        member.request(1)
        await eventually(lambda: got.offsets == [0, 1])
        for record in got.acquired:
            member.acknowledge(record, ACCEPT)
        await member.flush()
        assert got.refused == 0

    with_group(kafka_servers, scenario)


def test_a_lost_session_is_opened_again_with_what_was_acknowledged(kafka_servers: str) -> None:
    async def scenario(group: Group) -> None:
        group.publish(*numbers(4))
        member, got = group.member()
        member.request(4)
        await eventually(lambda: len(got.acquired) == 4)
        (session,) = member.sessions.values()
        session._epoch = 1000  # Kafka does not know it
        for record in got.acquired:
            member.acknowledge(record, ACCEPT)
        await member.flush()
        group.publish("more")
        member.request(10)
        await eventually(lambda: 4 in got.offsets)
        assert got.offsets == [0, 1, 2, 3, 4]

    with_group(kafka_servers, scenario)


def test_an_acceptance_that_comes_too_late_is_told_and_does_not_spoil_others(kafka_servers: str) -> None:
    async def scenario(group: Group) -> None:
        group.publish(*numbers(6))
        member, got = group.member()
        member.request(6)
        await eventually(lambda: len(got.acquired) == 6)
        stolen = got.acquired[2]
        member.acknowledge(stolen, RELEASE)  # behind the back of whoever holds it
        await member.flush()
        member.partitions[0].held[2] = stolen
        other, rest = group.member()
        other.request(1)
        await eventually(lambda: rest.offsets == [2])
        for record in got.acquired:
            member.acknowledge(record, ACCEPT)
        await member.flush()
        assert got.refused == 1
        assert member.refused(stolen)
        assert not any(member.refused(record) for record in got.acquired if record is not stolen)

    with_group(kafka_servers, scenario)


def test_what_no_broker_allows_is_told_at_once(kafka_servers: str) -> None:
    async def scenario(group: Group) -> None:
        group.name = ""
        _, got = group.member()
        await eventually(lambda: got.failure is not None)

    with_group(kafka_servers, scenario)


def test_draining_an_empty_queue_is_answered(kafka_servers: str) -> None:
    async def scenario(group: Group) -> None:
        member, got = group.member()
        member.request(1, drain=True)
        await eventually(lambda: got.idle)
        assert got.acquired == []

    with_group(kafka_servers, scenario)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_records_are_read(kafka_servers: str, codec: str) -> None:
    async def scenario(group: Group) -> None:
        producer = Producer({"bootstrap.servers": group.servers, "compression.type": codec}, logger=QUIET)
        for number in range(50):
            producer.produce(group.topic, f"{number} {'x' * 200}")
        assert producer.flush(30) == 0
        member, got = group.member()
        member.request(50)
        await eventually(lambda: len(got.acquired) == 50)
        assert [(each.read.value or b"").split()[0] for each in got.acquired] == [
            str(number).encode() for number in range(50)
        ]

    with_group(kafka_servers, scenario)


def test_a_broker_that_cannot_renew_locks_is_used_as_far_as_it_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = dict.fromkeys(
        ["group.share.record.lock.duration.ms", "group.share.min.record.lock.duration.ms"], "3000"
    )

    async def old_versions(_: ResilientClient) -> dict[int, int]:
        return {HEARTBEAT_API: 1, FETCH_API: 1, ACKNOWLEDGE_API: 1}

    monkeypatch.setattr(ResilientClient, "versions", old_versions)
    for request in (ShareFetch, ShareAcknowledge):
        monkeypatch.setattr(request, "_CLASSES", request._CLASSES[:1])

    async def scenario(group: Group) -> None:
        group.publish(*numbers(3))
        member, got = group.member()
        member.request(1)
        await eventually(lambda: len(got.acquired) == 3)  # a whole batch, since it cannot do less
        member.acknowledge(got.acquired[0], ACCEPT)
        member.acknowledge(got.acquired[1], RELEASE)
        await member.flush()
        held = got.acquired[2]
        await eventually(lambda: got.lost == [held])
        assert not member.holds(held)
        member.acknowledge(held, ACCEPT)
        assert got.refused == 1
        assert got.failure is None
        member.request(10)
        await eventually(lambda: 1 in got.offsets[3:])

    with EmbeddedKafka(tmp_path / "kafka", overrides=lock) as kafka:
        with_group(kafka.bootstrap_servers, scenario)
