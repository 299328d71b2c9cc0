"""The window of messages between a system and the journal."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests.support.asynchronous import eventually
from tests.support.journals import DeadLetterBox, MemoryJournal, refusing

from isthmus.edges.contract import Traffic
from isthmus.edges.in_flight import InFlight
from isthmus.errors import EncodeError, HardFailure
from isthmus.journal.layout import Entry, Op
from isthmus.message import Body, BodyKind, Message


class Window:
    def __init__(self) -> None:
        self.journal = MemoryJournal()
        self.dead = DeadLetterBox()
        self.settled: list[bytes] = []
        self.changes: list[tuple[int, int]] = []
        self.in_flight = InFlight(self.journal, self.dead, on_change=self._on_change)

    def _on_change(self) -> None:
        self.changes.append((self.in_flight.count, self.in_flight.bytes))

    def put(self, *bodies: bytes) -> None:
        for body in bodies:
            self.in_flight.put(Entry(Op.ADD, message(body)), lambda body=body: self.settled.append(body))  # type: ignore[misc]


def message(body: bytes) -> Message:
    return Message(
        id=body.decode(), address="a", protocol="nats", value=body, body=Body(BodyKind.TEXT), session="s"
    )


def play(scenario: Callable[[Window], Awaitable[None]]) -> Window:
    async def run() -> Window:
        window = Window()
        await scenario(window)
        return window

    return asyncio.run(run())


def test_messages_are_settled_in_order_once_the_journal_has_them() -> None:
    async def scenario(window: Window) -> None:
        window.journal.held = True
        window.put(b"1", b"22", b"333")
        assert (window.in_flight.count, window.in_flight.bytes, window.settled) == (3, 6, [])
        window.journal.release()
        await window.in_flight.settled()

    window = play(scenario)
    assert window.settled == [b"1", b"22", b"333"]
    assert window.in_flight.traffic == Traffic(messages=3, bytes=6)


def test_every_message_that_comes_or_leaves_is_told() -> None:
    async def scenario(window: Window) -> None:
        window.put(b"1", b"22")
        await window.in_flight.settled()

    assert play(scenario).changes == [(1, 1), (2, 3), (1, 2), (0, 0)]


def test_room_is_waited_for() -> None:
    async def scenario(window: Window) -> None:
        window.journal.held = True
        await window.in_flight.room(2)
        window.put(b"1", b"2")
        waiting = asyncio.ensure_future(window.in_flight.room(2))
        await asyncio.sleep(0)
        assert not waiting.done()
        window.journal.release()
        await asyncio.wait_for(waiting, 10)

    play(scenario)


def test_what_the_journal_cannot_carry_is_dead_lettered_and_settled() -> None:
    async def scenario(window: Window) -> None:
        window.journal.refuse = refusing(EncodeError("no"))
        window.put(b"bad")
        await window.in_flight.settled()

    window = play(scenario)
    assert [(each.value, str(failure)) for each, failure in window.dead.letters] == [(b"bad", "no")]
    assert window.settled == [b"bad"]
    assert window.in_flight.traffic == Traffic(messages=1, bytes=3, dead_letters=1)


def test_what_cannot_be_read_is_dead_lettered_without_the_journal() -> None:
    async def scenario(window: Window) -> None:
        window.in_flight.dead_letter(
            message(b"bad"), EncodeError("no"), lambda: window.settled.append(b"bad")
        )
        assert window.settled == []
        await window.in_flight.settled()

    window = play(scenario)
    assert (window.settled, window.journal.entries) == ([b"bad"], [])


def test_what_the_journal_refuses_is_not_settled_and_the_first_error_is_kept() -> None:
    async def scenario(window: Window) -> None:
        first, second = HardFailure("first", remedy="none"), HardFailure("second", remedy="none")
        errors = iter([first, second])
        window.journal.refuse = lambda _: next(errors)
        window.put(b"1", b"2")
        with pytest.raises(HardFailure, match="first"):
            await window.in_flight.settled()
        assert window.in_flight.failure.exception() is first
        assert not window.in_flight.dead_letters_failed

    assert play(scenario).settled == []


def test_a_dead_letter_that_cannot_be_written_is_a_failure_that_redelivery_does_not_help() -> None:
    async def scenario(window: Window) -> None:
        window.journal.refuse = refusing(EncodeError("no"))
        window.dead.broken = True
        window.put(b"bad")
        with pytest.raises(HardFailure, match="Kafka is unavailable"):
            await window.in_flight.settled()
        assert window.in_flight.dead_letters_failed

    window = play(scenario)
    assert (window.settled, window.in_flight.traffic) == ([], Traffic())


def test_an_end_waits_for_what_is_in_flight() -> None:
    async def scenario(window: Window) -> None:
        window.journal.held = True
        window.put(b"1", b"2")
        finishing = asyncio.ensure_future(window.in_flight.finish(60))
        await asyncio.sleep(0)
        window.journal.release()
        assert await finishing == 0

    assert play(scenario).settled == [b"1", b"2"]


def test_an_end_leaves_what_takes_too_long_and_says_how_much() -> None:
    async def scenario(window: Window) -> None:
        window.journal.held = True
        window.put(b"1", b"2")
        assert await window.in_flight.finish(0) == 2

    assert play(scenario).settled == []


def test_an_end_after_a_failure_does_not_wait() -> None:
    async def scenario(window: Window) -> None:
        window.journal.refuse = refusing(HardFailure("no", remedy="none"))
        window.put(b"1")
        await eventually(window.in_flight.failure.done)
        window.journal.held = True
        window.put(b"2")
        assert await asyncio.wait_for(window.in_flight.finish(3600), 10) == 1

    play(scenario)


def test_an_end_waits_although_whoever_awaited_the_failure_was_cancelled() -> None:
    async def scenario(window: Window) -> None:
        window.journal.held = True
        window.put(b"1")

        async def await_failure() -> None:
            await window.in_flight.failure

        intake = asyncio.ensure_future(await_failure())
        await asyncio.sleep(0)
        intake.cancel()
        await asyncio.gather(intake, return_exceptions=True)
        finishing = asyncio.ensure_future(window.in_flight.finish(60))
        await asyncio.sleep(0)
        window.journal.release()
        assert await finishing == 0

    assert play(scenario).settled == [b"1"]
