"""What all who watch get: the overview with rates, made once for all of them, as server-sent events.

While somebody watches, a document is made twice a second, so that nothing on the page is two seconds old;
else once in a while, for the history. What Kafka has to be asked for is asked less often.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Final

from isthmus.events.monitor import LookFailed
from isthmus.monitor.answers import encode
from isthmus.monitor.history import BIN_S, History
from isthmus.telemetry.overview import Overview

EVERY_S: Final = 0.5
ASK_S: Final = 5.0
"""How often Kafka is asked whether it answers, while somebody watches."""


class Feed:
    """Runs on the monitor's event loop."""

    def __init__(
        self,
        overview: Overview,
        history: History,
        health: Callable[[], Awaitable[Mapping[str, str]]],
    ) -> None:
        """``health`` says all that is wrong, and may take its time."""
        self._overview = overview
        self._history = history
        self._health = health
        self._asked: Mapping[str, str] = {}
        """What was wrong when Kafka was last asked."""
        self._ask_at = 0.0
        self._asking: asyncio.Task[None] | None = None
        self._watchers = 0
        self._someone_came = asyncio.Event()
        self._news = asyncio.Event()
        self._latest = b""
        self._failing = False

    async def run(self) -> None:
        """Keep the history and, while somebody watches, the latest document, until cancelled."""
        try:
            await self._run()
        finally:
            if self._asking is not None:
                self._asking.cancel()

    async def _run(self) -> None:
        while True:
            try:
                self._make()
                self._failing = False
            except Exception as error:  # those who watch see that nothing comes; what it was is said once
                if not self._failing:
                    LookFailed().emit(trace=error)
                self._failing = True
            if self._watchers:
                await asyncio.sleep(EVERY_S)
            else:
                with suppress(TimeoutError):
                    async with asyncio.timeout(BIN_S):
                        await self._someone_came.wait()

    async def events(self) -> AsyncIterator[bytes]:
        """The events for one who watches."""
        self._watchers += 1
        self._someone_came.set()
        try:
            yield b"retry: 1000\n\n"
            while True:
                news = self._news
                await news.wait()
                yield self._latest
        finally:
            self._watchers -= 1
            if not self._watchers:
                self._someone_came.clear()

    def _make(self) -> None:
        document = self._overview.document()
        self._history.add(document)
        if not self._watchers:
            return
        self._ask()
        document["problems"] = {**self._asked, **document["problems"]}
        document["monitor"] = {"watchers": self._watchers, "cpu_s": round(time.thread_time(), 3)}
        self._latest = b"data: " + encode(document) + b"\n\n"
        self._news.set()
        self._news = asyncio.Event()

    def _ask(self) -> None:
        now = time.monotonic()
        if now >= self._ask_at and (self._asking is None or self._asking.done()):
            self._ask_at = now + ASK_S
            self._asking = asyncio.create_task(self._ask_kafka())

    async def _ask_kafka(self) -> None:
        self._asked = await self._health()
