"""Selectors share what they may take of a turn of the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from tests.support.asynchronous import eventually

from isthmus.edges.amqp.server.receivers.turns import Turns


class Worker:
    """Has messages to compare."""

    def __init__(self, name: str, turns: Turns, done: list[str], messages: int) -> None:
        self._name = name
        self._turns = turns
        self._done = done
        self._left = messages

    def work(self) -> None:
        while self._left:
            if not self._turns.has_time():
                self._turns.later(self.work)
                return
            self._left -= 1
            self._done.append(self._name)


def turns_of(turn_s: float, *messages: int) -> tuple[list[str], int]:
    """Who compared when, and how many turns others had meanwhile."""
    done: list[str] = []
    turns = 0

    async def main() -> None:
        shared = Turns(turn_s)
        loop = asyncio.get_running_loop()

        def count() -> None:
            nonlocal turns
            if len(done) < sum(messages):
                turns += 1
                loop.call_soon(count)

        for number, each in enumerate(messages):
            Worker("abc"[number], shared, done, each).work()
        count()
        await eventually(lambda: len(done) == sum(messages))

    asyncio.run(main())
    return done, turns


def test_where_there_is_time_all_is_done_at_once() -> None:
    assert turns_of(3600, 100, 100) == (["a"] * 100 + ["b"] * 100, 0)


def test_where_there_is_none_everybody_goes_on_in_turn_and_others_have_theirs() -> None:
    done, turns = turns_of(0, 3, 2, 1)
    assert done == ["a", "b", "c", "a", "b", "a"]
    assert turns >= 5


def test_who_goes_on_later_does_so_once() -> None:
    calls: list[str] = []

    async def main() -> None:
        turns = Turns(0)
        go_on: Callable[[], None] = lambda: calls.append("on")  # noqa: E731
        turns.later(go_on)
        turns.later(go_on)
        await eventually(lambda: calls)
        for _ in range(5):
            await asyncio.sleep(0)

    asyncio.run(main())
    assert calls == ["on"]


def test_what_takes_long_is_done_in_a_turn_of_its_own() -> None:
    async def main() -> tuple[list[object], list[int]]:
        turns, ticks, done = Turns(0), [0], []
        loop = asyncio.get_running_loop()

        def tick() -> None:
            ticks[0] += 1
            if len(done) < 3:
                loop.call_soon(tick)

        def work(number: int) -> int:
            done.append(ticks[0])
            if number == 1:
                raise ValueError
            return number

        tick()
        results = await asyncio.gather(
            *(turns.run(partial(work, number)) for number in range(3)), return_exceptions=True
        )
        return [each if isinstance(each, int) else type(each) for each in results], done

    results, done = asyncio.run(main())
    assert results == [0, ValueError, 2]
    assert len(set(done)) == 3


def test_what_is_done_later_is_not_done_for_who_has_given_up() -> None:
    done: list[str] = []

    async def main() -> None:
        turns = Turns(0)
        waiting = asyncio.ensure_future(turns.run(lambda: done.append("in vain")))
        await asyncio.sleep(0)
        waiting.cancel()
        await turns.run(lambda: done.append("in time"))

    asyncio.run(main())
    assert done == ["in time"]
