"""What `isthmus.edges.contract` promises of a delivery, on every system that there is one for."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest
from tests.conformance.deliveries import DeliverySystem, delivery_system, outbound
from tests.support.polling import PATIENCE_S

from isthmus.edges.contract import OutboundMessage
from isthmus.errors import SoftFailure, Unreachable

Scenario = Callable[[DeliverySystem], Awaitable[None]]
Play = Callable[[Scenario], None]

SYSTEMS = ("nats subject", "jetstream", "mq", "amqp broker")


@pytest.fixture(params=SYSTEMS)
def play(request: pytest.FixtureRequest, tmp_path: Path) -> Play:
    """Plays a scenario on a system of its own."""
    if request.param == "amqp broker" and importlib.util.find_spec("proton") is None:
        pytest.skip("python-qpid-proton is not installed")

    def play(scenario: Scenario) -> None:
        async def run() -> None:
            async with asyncio.timeout(3 * PATIENCE_S), delivery_system(request.param, tmp_path) as system:
                await scenario(system)

        asyncio.run(run())

    return play


def numbered(system: DeliverySystem, count: int, start: int = 0) -> list[OutboundMessage]:
    return [outbound(system.destination, number) for number in range(start, start + count)]


def content(messages: Sequence[OutboundMessage]) -> list[tuple[str, bytes]]:
    return [(message.id, message.record.value or b"") for message in messages]


async def until_delivered(
    system: DeliverySystem, messages: Sequence[OutboundMessage]
) -> Sequence[SoftFailure | None]:
    """Deliver as an outbox does: again for as long as the system is unavailable."""
    while True:
        try:
            return await system.delivery.deliver(messages)
        except Unreachable:
            await asyncio.sleep(0.02)


def test_what_is_delivered_the_system_has_in_order_with_its_stable_id(play: Play) -> None:
    async def scenario(system: DeliverySystem) -> None:
        messages = numbered(system, 200)
        assert await system.delivery.deliver(messages) == [None] * 200
        assert await system.received() == content(messages)

    play(scenario)


def test_batches_keep_their_order(play: Play) -> None:
    async def scenario(system: DeliverySystem) -> None:
        messages = numbered(system, 100)
        for first in range(0, 100, 10):
            assert await system.delivery.deliver(messages[first : first + 10]) == [None] * 10
        assert await system.received() == content(messages)

    play(scenario)


def test_nothing_is_a_batch_too(play: Play) -> None:
    async def scenario(system: DeliverySystem) -> None:
        assert list(await system.delivery.deliver([])) == []

    play(scenario)


def test_one_that_can_never_be_delivered_holds_up_no_other(play: Play) -> None:
    async def scenario(system: DeliverySystem) -> None:
        first, last = numbered(system, 2)
        answers = await system.delivery.deliver([first, system.impossible, last])
        assert [answer is None for answer in answers] == [True, False, True]
        assert isinstance(answers[1], SoftFailure)
        assert await system.received() == content([first, last])

    play(scenario)


def test_a_system_that_is_unavailable_is_unreachable_and_nothing_is_settled(play: Play) -> None:
    async def scenario(system: DeliverySystem) -> None:
        before, after = numbered(system, 3), numbered(system, 3, start=3)
        assert await system.delivery.deliver(before) == [None] * 3
        assert await system.received() == content(before)
        await system.stop()
        for _ in range(3):
            with pytest.raises(Unreachable):
                await system.delivery.deliver(after)
        await system.start()
        assert await until_delivered(system, after) == [None] * 3
        assert await system.received() == content(before + after)

    play(scenario)


def test_a_batch_that_breaks_in_the_middle_is_delivered_whole_in_the_end(play: Play) -> None:
    async def scenario(system: DeliverySystem) -> None:
        if not system.keeps:
            pytest.skip("NATS keeps nothing of plain subjects")
        messages = numbered(system, 1_000)
        delivering = asyncio.create_task(until_delivered(system, messages))
        await asyncio.sleep(0)
        await system.stop()
        await system.start()
        assert await delivering == [None] * 1_000
        assert set(content(messages)) == set(await system.received())

    play(scenario)
