"""Names that one process of many holds, by a real Kafka."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.support.asynchronous import eventually
from tests.support.names import unique
from tests.support.polling import PATIENCE_S

from isthmus.kafka.client import ResilientClient
from isthmus.kafka.name_locks import NameLocks
from isthmus.kafka.options import Kafka


def ignore() -> None: ...


def patient(servers: str) -> ResilientClient:
    """A client that waits for Kafka's word: without it a name is held."""
    return ResilientClient(Kafka(servers), request_timeout_s=PATIENCE_S, connect_timeout_s=PATIENCE_S)


def test_a_name_is_held_once_and_is_free_when_it_is_given_up(kafka_servers: str) -> None:
    async def scenario() -> None:
        client, group = patient(kafka_servers), unique("names")
        one, other = (NameLocks(client, group, patience_s=PATIENCE_S) for _ in range(2))
        try:
            assert await one.take("shop", ignore)
            assert not await one.take("shop", ignore)
            assert not await other.take("shop", ignore)
            assert await other.take("a name with ü and spaces", ignore)
            await one.give_up("shop")
            assert await other.take("shop", ignore)
            await other.close()
            assert await one.take("shop", ignore)
        finally:
            await one.close()
            await other.close()
            await client.close()

    asyncio.run(scenario())


def test_whoever_loses_a_name_is_told(kafka_servers: str) -> None:
    async def scenario() -> None:
        client, group = patient(kafka_servers), unique("names")
        one = NameLocks(client, group, patience_s=PATIENCE_S, interval_s=0.05)
        other = NameLocks(client, group, patience_s=PATIENCE_S)
        lost: list[str] = []
        try:
            assert await one.take("shop", lambda: lost.append("shop"))
            member = one._held["shop"]
            assert not await other.take("shop", ignore)
            await one._send(member, -1)  # as if Kafka had forgotten it
            assert await other.take("shop", ignore)
            await eventually(lambda: lost == ["shop"])
        finally:
            await one.close()
            await other.close()
            await client.close()

    asyncio.run(scenario())


class LosesAnAnswer(NameLocks):
    """Does not hear what Kafka says first."""

    has_lost = False

    async def _send(self, held: Any, epoch: int) -> Any:
        answer = await super()._send(held, epoch)
        if not self.has_lost:
            self.has_lost = True
            raise TimeoutError
        return answer


def test_a_name_is_not_lost_to_oneself_when_kafka_s_answer_is(kafka_servers: str) -> None:
    async def scenario() -> None:
        client, group = patient(kafka_servers), unique("names")
        one = LosesAnAnswer(client, group, patience_s=PATIENCE_S, interval_s=0.05)
        other = NameLocks(client, group, patience_s=PATIENCE_S)
        lost: list[str] = []
        try:
            assert await one.take("shop", lambda: lost.append("shop"))
            member = one._held["shop"]
            await eventually(lambda: member.epoch > 0 or lost)
            assert not lost
            assert not await other.take("shop", ignore)
        finally:
            await one.close()
            await other.close()
            await client.close()

    asyncio.run(scenario())


def test_a_name_whose_answer_was_lost_is_free_when_it_is_given_up(kafka_servers: str) -> None:
    async def scenario() -> None:
        client, group = patient(kafka_servers), unique("names")
        one, other = (kind(client, group, patience_s=PATIENCE_S) for kind in (LosesAnAnswer, NameLocks))
        try:
            assert await one.take("shop", ignore)
            await one.give_up("shop")
            assert await other.take("shop", ignore)
        finally:
            await one.close()
            await other.close()
            await client.close()

    asyncio.run(scenario())
