from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from isthmus.edges.journal import GATHER_S, EdgeJournal
from isthmus.errors import EncodeError, HardFailure, IsthmusError
from isthmus.journal import layout
from isthmus.journal.layout import Entry, Op
from isthmus.journal.writer import Position
from isthmus.message import Body, BodyKind, Message


class FakeWriter:
    """Reports from a thread of its own, as Kafka's client does."""

    def __init__(self, room: int = 1000) -> None:
        self.room = room
        self.taken: list[str] = []
        self.taken_alone: list[str] = []
        self.fails: Exception | None = None
        self._pending: list[Callable[[Any, Any], None]] = []
        self._after_reports: Callable[[], None] = lambda: None
        self.closed = False

    def after_reports(self, call: Callable[[], None]) -> None:
        self._after_reports = call

    def offer(self, entry: Entry, delivered: Callable[[Any, Any], None], *, alone: bool = False) -> bool:
        if self.fails is not None:
            raise self.fails
        if self.room == 0:
            return False
        self.room -= 1
        self.taken.append(entry.message.id)
        if alone:
            self.taken_alone.append(entry.message.id)
        self._pending.append(delivered)
        return True

    def report(self, error: object = None) -> None:
        pending, self._pending = self._pending, []

        def work() -> None:
            for offset, delivered in enumerate(pending):
                delivered(error, offset)
            self._after_reports()

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        self.room += len(pending)

    def position(self, message: int) -> Position:
        return Position("journal", 0, message)

    def refused(self, error: object) -> HardFailure:
        return HardFailure(f"refused: {error}", remedy="none")

    def close(self) -> None:
        self.closed = True


async def turn() -> None:
    """Let the loop have a turn, which takes no time."""
    await asyncio.sleep(0)


def entry(id: str) -> Entry:
    message = Message(id=id, address="a", protocol="amqp", value=b"", body=Body(BodyKind.EMPTY), session="s")
    return Entry(Op.ADD, message)


def run(scenario: Callable[[EdgeJournal, FakeWriter], Any], room: int = 1000) -> FakeWriter:
    writer = FakeWriter(room)

    async def work() -> None:
        await scenario(EdgeJournal(writer), writer)  # type: ignore[arg-type]

    asyncio.run(work())
    return writer


def test_outcomes_are_told_on_the_loop_in_order() -> None:
    told: list[tuple[int, IsthmusError | None, bool]] = []

    async def scenario(journal: EdgeJournal, writer: FakeWriter) -> None:
        loop_thread = threading.current_thread()
        for n in range(100):
            journal.put(
                entry(str(n)),
                lambda failure, n=n: told.append((n, failure, threading.current_thread() is loop_thread)),
            )
        await turn()
        writer.report()
        assert told == []
        await asyncio.sleep(0.01)

    run(scenario)
    assert told == [(n, None, True) for n in range(100)]


def test_a_message_that_comes_alone_leaves_at_once() -> None:
    async def scenario(journal: EdgeJournal, writer: FakeWriter) -> None:
        for n in range(3):
            journal.put(entry(str(n)), lambda _: None)
            await turn()
            assert writer.taken_alone[-1] == str(n)
            writer.report()
            await asyncio.sleep(0.01)

    run(scenario)


def test_messages_that_come_in_one_turn_leave_together() -> None:
    async def scenario(journal: EdgeJournal, writer: FakeWriter) -> None:
        for n in range(3):
            journal.put(entry(str(n)), lambda _: None)
        assert writer.taken == []
        await turn()
        assert writer.taken == ["0", "1", "2"]
        assert writer.taken_alone == []

    run(scenario)


async def put_five_of_which_one_is_under_way(journal: EdgeJournal, writer: FakeWriter) -> None:
    journal.put(entry("0"), lambda _: None)
    await turn()
    for n in range(1, 5):
        journal.put(entry(str(n)), lambda _: None)
    await turn()
    assert writer.taken == ["0"]


def test_messages_that_come_while_one_is_under_way_leave_when_that_is_decided() -> None:
    async def scenario(journal: EdgeJournal, writer: FakeWriter) -> None:
        await put_five_of_which_one_is_under_way(journal, writer)
        writer.report()
        for _ in range(3):
            await turn()
        assert writer.taken == ["0", "1", "2", "3", "4"]
        assert writer.taken_alone == ["0"]

    run(scenario)


def test_messages_leave_after_a_short_time_though_one_is_still_under_way() -> None:
    async def scenario(journal: EdgeJournal, writer: FakeWriter) -> None:
        await put_five_of_which_one_is_under_way(journal, writer)
        await asyncio.sleep(5 * GATHER_S)
        assert writer.taken == ["0", "1", "2", "3", "4"]

    run(scenario)


def test_a_message_with_more_to_come_waits_for_it_for_a_short_time() -> None:
    async def scenario(journal: EdgeJournal, writer: FakeWriter) -> None:
        journal.put(entry("0"), lambda _: None, more=True)
        journal.put(entry("1"), lambda _: None, more=True)
        await turn()
        assert writer.taken == []
        journal.put(entry("2"), lambda _: None)
        await turn()
        assert writer.taken == ["0", "1", "2"]
        writer.report()
        await asyncio.sleep(0.01)
        journal.put(entry("3"), lambda _: None, more=True)
        await turn()
        assert writer.taken == ["0", "1", "2"]
        await asyncio.sleep(5 * GATHER_S)
        assert writer.taken == ["0", "1", "2", "3"]

    run(scenario)


def test_a_refusal_is_told_with_its_reason() -> None:
    told: list[IsthmusError | None] = []

    async def scenario(journal: EdgeJournal, writer: FakeWriter) -> None:
        journal.put(entry("1"), told.append)
        await turn()
        writer.report("too large")
        await asyncio.sleep(0.01)

    run(scenario)
    assert [str(failure) for failure in told] == ["refused: too large"]


@pytest.mark.parametrize("problem", [HardFailure("too large", remedy=""), EncodeError("no")])
def test_what_is_refused_before_kafka_is_asked_is_told_later_too(problem: IsthmusError) -> None:
    told: list[IsthmusError | None] = []

    async def scenario(journal: EdgeJournal, writer: FakeWriter) -> None:
        writer.fails = problem
        journal.put(entry("1"), told.append)
        await turn()
        assert told == []
        await turn()
        assert told == [problem]

    run(scenario)


def test_a_full_queue_delays_and_keeps_the_order() -> None:
    async def scenario(journal: EdgeJournal, writer: FakeWriter) -> None:
        told: list[IsthmusError | None] = []
        for n in range(10):
            journal.put(entry(str(n)), told.append)
        await turn()
        assert journal.delayed == 8
        for _ in range(200):
            writer.report()
            await asyncio.sleep(0.01)
            if len(told) == 10:
                break
        assert told == [None] * 10

    assert run(scenario, room=2).taken == [str(n) for n in range(10)]


def test_a_write_returns_the_stable_id() -> None:
    async def scenario(journal: EdgeJournal, writer: FakeWriter) -> None:
        writing = asyncio.create_task(journal.write(entry("1")))
        await turn()
        await turn()
        assert not writing.done()
        writer.report()
        assert await writing == "journal:0:0"

    run(scenario)


def test_a_write_that_is_refused_raises() -> None:
    async def scenario(journal: EdgeJournal, writer: FakeWriter) -> None:
        writing = asyncio.create_task(journal.write(entry("1")))
        await turn()
        await turn()
        writer.report("gone")
        with pytest.raises(HardFailure, match="refused: gone"):
            await writing

    run(scenario)


def test_close_lets_go_of_the_writer() -> None:
    async def scenario(journal: EdgeJournal, writer: FakeWriter) -> None:
        await journal.close()

    assert run(scenario).closed


def test_a_message_of_any_protocol_is_journaled_with_what_json_needs() -> None:
    offered: list[Entry] = []

    class Writer(FakeWriter):
        def offer(self, entry: Entry, delivered: Callable[[Any, Any], None], *, alone: bool = False) -> bool:
            offered.append(entry)
            return super().offer(entry, delivered, alone=alone)

    message = Message(id="1", address="a", protocol="nats", value=b"hi", body=Body(BodyKind.TEXT))

    async def work() -> None:
        for as_json in (False, True):
            journal = EdgeJournal(Writer(), as_json=as_json)  # type: ignore[arg-type]
            journal.put(Entry(Op.ADD, message), lambda _: None)
            await turn()

    asyncio.run(work())
    plain, complete = offered
    assert not plain.conversion
    assert [name for name, _ in complete.conversion] == [layout.JSON_DOCUMENT]
