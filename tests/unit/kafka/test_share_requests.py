"""What older brokers lack for queues is told by the versions of their requests."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

import pytest

from isthmus.edges.amqp.server.receivers.admin import ReceiverAdmin
from isthmus.kafka.share_requests import ACKNOWLEDGE_API, FETCH_API, HEARTBEAT_API, missing_for_queues

KAFKA_4_0: dict[int, int] = {FETCH_API: 0}
KAFKA_4_1 = {HEARTBEAT_API: 1, FETCH_API: 1, ACKNOWLEDGE_API: 1}
KAFKA_4_3 = {HEARTBEAT_API: 1, FETCH_API: 2, ACKNOWLEDGE_API: 2}


@pytest.mark.parametrize(
    ("versions", "said"),
    [({}, "no share groups"), (KAFKA_4_0, "no share groups"), (KAFKA_4_1, "cannot renew locks")],
)
def test_a_kafka_that_is_too_old_is_said_to_be(versions: Mapping[int, int], said: str) -> None:
    assert said in (missing_for_queues(versions) or "")


def test_nothing_is_said_of_one_that_is_not() -> None:
    assert missing_for_queues(KAFKA_4_3) is None


class OldKafka:
    """An admin client of a Kafka that takes no setting of groups."""

    def __init__(self) -> None:
        self.client = self

    async def versions(self) -> dict[int, int]:
        return KAFKA_4_1

    async def controller(self) -> int:
        return 1

    async def set_configs(self, kind: int, name: str, values: Mapping[str, str]) -> dict[str, str]:
        return {name: "unknown" for name in values if name == "share.assignment.interval.ms"}

    async def configs(self, kind: int, name: str) -> dict[str, str]:
        return {}


def test_the_log_says_once_what_is_lost_with_it(caplog: pytest.LogCaptureFixture) -> None:
    admin = ReceiverAdmin(OldKafka(), auto_create=False, partitions=4)  # type: ignore[arg-type]

    async def scenario() -> None:
        for number in range(3):
            granted = await admin.begin_queue(f"jms-queue:{number}")
            assert granted.delivery_count_limit == 5

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())
    assert caplog.text.count("cannot renew locks") == 1
    assert caplog.text.count("receivers wait for seconds") == 1
