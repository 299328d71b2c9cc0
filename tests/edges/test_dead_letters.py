"""Dead letters in a real Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests.support.names import unique

from isthmus.config import RoutingSettings, Settings
from isthmus.converters import ReceivedRecord
from isthmus.edges import dead_letters
from isthmus.edges.dead_letters import EdgeDeadLetters
from isthmus.embedded.ports import free_port
from isthmus.errors import HardFailure, RefusedFailure
from isthmus.kafka.blocking import create_topics, read_topic
from isthmus.kafka.options import Kafka
from isthmus.routing.route import OnError

FAILURE = RefusedFailure("nobody takes it")


def keeping(kafka: Kafka, topic: str, scenario: Callable[[EdgeDeadLetters], Awaitable[None]]) -> None:
    routing = RoutingSettings(on_error=OnError.DEAD_LETTER, dead_letter_topic=topic)

    async def run() -> None:
        kept = EdgeDeadLetters(Settings(bridge_id="b", routing=routing), kafka)
        try:
            await scenario(kept)
        finally:
            await kept.close()

    asyncio.run(run())


def received(number: int, value: bytes = b"v") -> ReceivedRecord:
    return ReceivedRecord("t", 0, number, b"key %d" % number, value, [("own", b"1")])


def test_what_is_kept_is_in_the_topic_with_its_reason(kafka_servers: str) -> None:
    kafka, topic = Kafka(kafka_servers), unique("dead")
    create_topics(kafka, [topic], 3)

    async def scenario(kept: EdgeDeadLetters) -> None:
        await asyncio.gather(*(kept.received(received(number), FAILURE) for number in range(20)))

    keeping(kafka, topic, scenario)
    records = list(read_topic(kafka, topic))
    assert {record.key() for record in records} == {b"key %d" % number for number in range(20)}
    headers = dict(records[0].headers() or [])
    assert (headers["own"], headers["isthmus.error.code"]) == (b"1", b"refused")


def test_what_is_too_large_for_the_topic_is_not_kept_and_does_not_keep_others_from_it(
    kafka_servers: str,
) -> None:
    kafka, topic = Kafka(kafka_servers), unique("dead")
    create_topics(kafka, [topic], 1, {"max.message.bytes": "10000"})

    async def scenario(kept: EdgeDeadLetters) -> None:
        await kept.received(received(0), FAILURE)
        with pytest.raises(HardFailure, match=rf"cannot be written to {topic}: .*MESSAGE_TOO_LARGE"):
            await kept.received(received(1, bytes(20_000)), FAILURE)
        await kept.received(received(2), FAILURE)

    keeping(kafka, topic, scenario)
    assert [record.key() for record in read_topic(kafka, topic)] == [b"key 0", b"key 2"]


def test_a_kafka_that_does_not_answer_is_a_failure_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters, "WRITE_TIMEOUT_S", 0.3)

    async def scenario(kept: EdgeDeadLetters) -> None:
        with pytest.raises(HardFailure, match=r"cannot be written to dead: not within 0\.3 s"):
            await kept.received(received(0), FAILURE)

    keeping(Kafka(f"127.0.0.1:{free_port()}"), "dead", scenario)
