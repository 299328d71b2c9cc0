"""What Kafka tells of a share group."""

from __future__ import annotations

import asyncio

from tests.kafka.test_share import ACCEPT, Group, numbers, with_group
from tests.support.asynchronous import eventually
from tests.support.polling import PATIENCE_S

from isthmus.kafka.share_state import PartitionState, members_of, state_of


def test_kafka_tells_who_is_in_a_share_group(kafka_servers: str) -> None:
    async def scenario(group: Group) -> None:
        one, _ = group.member()
        other, _ = group.member()
        found: list[str] = []
        async with asyncio.timeout(PATIENCE_S):
            while len(found) < 2:
                found = await members_of(group.client, group.name)
        assert set(found) == {one.id, other.id}
        assert await members_of(group.client, "no such group") == []

    with_group(kafka_servers, scenario)


def test_kafka_tells_what_a_share_group_is_done_with(kafka_servers: str) -> None:
    async def scenario(group: Group) -> None:
        topic = await group.client.topic(group.topic)
        assert topic is not None
        assert await state_of(group.client, group.name, topic, 0) == PartitionState()
        group.publish(*numbers(10))
        member, got = group.member()
        member.request(10)
        await eventually(lambda: len(got.acquired) == 10)
        for number in (0, 1, 3, 7, 8):
            member.acknowledge(got.acquired[number], ACCEPT)
        await member.flush()
        state = await state_of(group.client, group.name, topic, 0)
        assert state.left(10) == 5
        start, done = state
        offsets = {offset for first, last in done for offset in range(first, last + 1)}
        assert set(range(start)) | offsets == {0, 1, 3, 7, 8}

    with_group(kafka_servers, scenario)


def test_what_is_left_of_a_partition_leaves_out_what_is_done() -> None:
    assert PartitionState().left(0) == 0
    assert PartitionState().left(7) == 7
    assert PartitionState(3, ((5, 6), (8, 8))).left(10) == 4
    assert PartitionState(6, ((5, 6),)).left(10) == 3
    assert PartitionState(9).left(7) == 0
