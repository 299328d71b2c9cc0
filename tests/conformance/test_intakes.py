"""What `isthmus.edges.contract` promises of an intake, on every system that there is one for."""

from __future__ import annotations

import asyncio
import importlib.util
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.conformance.intakes import WINDOW, IntakeSystem, intake_system
from tests.support.asynchronous import eventually, running
from tests.support.journals import refusing
from tests.support.polling import PATIENCE_S

from isthmus.errors import EncodeError, HardFailure, IsthmusError
from isthmus.journal.layout import Entry

Scenario = Callable[[IntakeSystem], Awaitable[None]]
Play = Callable[[Scenario], None]

SYSTEMS = ("nats subject", "jetstream", "mq", "amqp broker", "amqp server")


@pytest.fixture(params=SYSTEMS)
def play(request: pytest.FixtureRequest, tmp_path: Path) -> Play:
    """Plays a scenario on a system of its own."""
    if request.param == "amqp broker" and importlib.util.find_spec("proton") is None:
        pytest.skip("python-qpid-proton is not installed")

    def play(scenario: Scenario) -> None:
        async def run() -> None:
            async with asyncio.timeout(3 * PATIENCE_S), intake_system(request.param, tmp_path) as system:
                await scenario(system)

        asyncio.run(run())

    return play


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


async def until_settled(system: IntakeSystem) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while left := await system.unsettled():
        assert time.monotonic() < deadline, f"{left} messages are not settled"
        await asyncio.sleep(0.02)


def needs_redelivery(system: IntakeSystem) -> None:
    if not system.redelivers:
        pytest.skip("NATS keeps nothing of plain subjects")


def refusing_only(body: bytes, failure: IsthmusError) -> Callable[[Entry], IsthmusError | None]:
    def refuse(entry: Entry) -> IsthmusError | None:
        message = entry.message
        return failure if message.body.slice(message.value) == body else None

    return refuse


def test_messages_are_in_the_journal_in_order_and_settled(play: Play) -> None:
    async def scenario(system: IntakeSystem) -> None:
        async with running(system.intake()):
            await system.ready()
            await system.send(*numbered(300))
            await eventually(lambda: len(system.journal.entries) >= 300)
            await until_settled(system)
        assert system.journal.bodies == numbered(300)
        assert system.dead.letters == []

    play(scenario)


def test_nothing_is_settled_before_the_journal_has_it(play: Play) -> None:
    async def scenario(system: IntakeSystem) -> None:
        needs_redelivery(system)
        system.journal.held = True
        async with running(system.intake()):
            await system.ready()
            await system.send(*numbered(5))
            await eventually(lambda: system.journal.waiting)
            assert await system.unsettled() == 5
            system.journal.release()
            await eventually(lambda: system.journal.bodies == numbered(5))
            await until_settled(system)

    play(scenario)


def test_what_the_journal_refuses_is_not_settled_and_redelivered(play: Play) -> None:
    async def scenario(system: IntakeSystem) -> None:
        needs_redelivery(system)
        system.journal.refuse = refusing(HardFailure("Kafka refuses", remedy="start it"))
        refused = asyncio.create_task(system.intake().run())
        await system.ready()
        await system.send(*numbered(20))
        await eventually(lambda: system.journal.refused)
        assert await system.unsettled() == 20
        refused.cancel()
        [ended] = await asyncio.gather(refused, return_exceptions=True)
        assert isinstance(ended, HardFailure | asyncio.CancelledError)
        assert system.journal.entries == []
        system.journal.refuse = refusing(None)
        async with running(system.intake()):
            await eventually(lambda: set(system.journal.bodies) == set(numbered(20)))
            await until_settled(system)
        assert system.dead.letters == []

    play(scenario)


def test_what_can_never_be_written_is_dead_lettered_and_then_settled(play: Play) -> None:
    async def scenario(system: IntakeSystem) -> None:
        bad = b"1"
        system.journal.refuse = refusing_only(bad, EncodeError("no"))
        async with running(system.intake()):
            await system.ready()
            await system.send(*numbered(3))
            await eventually(lambda: set(system.journal.bodies) == {b"0", b"2"})
            if system.dead_letters:
                await eventually(lambda: system.dead.letters)
                await until_settled(system)
                [(message, failure)] = system.dead.letters
                assert (message.body.slice(message.value), failure.code) == (bad, "unencodable")
            else:  # its sender is told, and has it still
                assert await system.unsettled() == 1
        assert system.journal.bodies == [b"0", b"2"]

    play(scenario)


def test_what_cannot_even_be_dead_lettered_ends_the_intake_and_is_not_settled(play: Play) -> None:
    async def scenario(system: IntakeSystem) -> None:
        if not system.dead_letters:
            pytest.skip("its sender is told instead")
        system.journal.refuse = refusing(EncodeError("no"))
        system.dead.broken = True
        ending = asyncio.create_task(system.intake().run())
        await system.ready()
        await system.send(b"x")
        with pytest.raises(HardFailure, match="Kafka is unavailable"):
            await ending
        assert await system.unsettled() == (1 if system.redelivers else 0)

    play(scenario)


def test_no_more_messages_are_in_flight_than_the_window_allows(play: Play) -> None:
    async def scenario(system: IntakeSystem) -> None:
        system.journal.held = True
        async with running(system.intake()):
            await system.ready()
            await system.send(*numbered(10 * WINDOW))
            await eventually(lambda: system.journal.waiting == WINDOW)
            for _ in range(20):  # turns in which more would come
                await system.unsettled()
                await asyncio.sleep(0)
            system.journal.release()
            await eventually(lambda: system.journal.bodies == numbered(10 * WINDOW))
            await until_settled(system)
        assert system.journal.most_waiting == WINDOW

    play(scenario)


def test_an_intake_that_is_stopped_in_mid_stream_loses_nothing(play: Play) -> None:
    async def scenario(system: IntakeSystem) -> None:
        bodies = numbered(400)
        async with running(system.intake()):
            await system.ready()
            await system.send(*bodies)
            await eventually(lambda: len(system.journal.entries) > 20)
        if system.redelivers:
            async with running(system.intake()):
                await eventually(lambda: set(system.journal.bodies) == set(bodies))
                await until_settled(system)
        assert set(system.journal.bodies) == set(bodies)

    play(scenario)


def test_an_intake_that_is_stopped_settles_what_is_in_flight(play: Play) -> None:
    async def scenario(system: IntakeSystem) -> None:
        needs_redelivery(system)
        system.journal.held = True
        async with running(system.intake()):
            await system.ready()
            await system.send(*numbered(3))
            await eventually(lambda: system.journal.waiting == 3)
            asyncio.get_running_loop().call_later(0.1, system.journal.release)
        await until_settled(system)
        assert system.journal.bodies == numbered(3)

    play(scenario)


def test_what_the_journal_did_not_get_before_a_stop_is_redelivered(play: Play) -> None:
    async def scenario(system: IntakeSystem) -> None:
        needs_redelivery(system)
        system.finish_s = 0.1
        system.journal.held = True
        async with running(system.intake()):
            await system.ready()
            await system.send(*numbered(3 * WINDOW))
            await eventually(lambda: system.journal.waiting == WINDOW)
        assert await system.unsettled() == 3 * WINDOW
        system.journal.release()  # too late: the journal has these, and nobody said so
        async with running(system.intake()):
            await eventually(lambda: set(system.journal.bodies) == set(numbered(3 * WINDOW)))
            await until_settled(system)

    play(scenario)
