"""The edges of a bridge as one thing that is started, looked at and stopped, beside the router.

They run on an event loop in a thread of their own. `EdgeService.poll` raises what ended them, as the router's
`poll` does.
"""

from __future__ import annotations

import asyncio
from threading import Event, Thread
from types import TracebackType
from typing import Self

from isthmus.config import Settings
from isthmus.edges.assembly import Assembly
from isthmus.edges.traced import open_journal
from isthmus.errors import HardFailure, IsthmusError
from isthmus.extras import missing_extra
from isthmus.kafka.options import Kafka
from isthmus.telemetry.parts import Clients, PartReport, QueueReport
from isthmus.telemetry.traces import traces_of

READY_S = 10.0
"""How long a start waits for other systems. One that is unavailable is waited for behind the scenes."""
STOP_S = 60.0
CHANGE_S = 20.0
LOOK_S = 5.0


class EdgeService:
    """All edges of a bridge, from `start` to `stop`. Topics must be there already."""

    def __init__(self, settings: Settings, kafka: Kafka) -> None:
        self._settings = settings
        self._kafka = kafka
        self._ready = Event()
        self._failure: BaseException | None = None
        self._assembly: Assembly | None = None
        self._thread: Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._stopping = False

    def start(self) -> None:
        """Start, and wait a while until messages are taken. Raises `HardFailure` if that can never be."""
        self._thread = Thread(target=self._main, name="edges", daemon=True)
        self._thread.start()
        self._ready.wait(READY_S)
        self.poll()

    def poll(self) -> None:
        """Raises `HardFailure` once an edge has failed."""
        if isinstance(self._failure, IsthmusError):
            raise self._failure
        if (failure := missing_extra(self._failure)) is not None:
            raise failure from self._failure
        if self._failure is not None:
            raise HardFailure(
                f"an edge ended with {type(self._failure).__name__}: {self._failure}",
                remedy="start the bridge again, and report this: it is a mistake of the bridge's",
            ) from self._failure

    @property
    def problems(self) -> dict[str, str]:
        """What is wrong, by part; empty while all of it works."""
        if self._failure is not None:
            return {"edges": str(self._failure)}
        return {"edges": "not started"} if self._assembly is None else self._assembly.problems()

    @property
    def amqp_ports(self) -> list[int]:
        """The ports that AMQP clients connect to: without TLS first."""
        service = None if self._assembly is None else self._assembly.amqp_service
        return [] if service is None else service.ports

    def reports(self) -> list[PartReport]:
        """How every part stands."""
        return [] if self._assembly is None else self._assembly.reports()

    def clients(self, most: int) -> Clients:
        """Who is connected to the AMQP server; so many are shown at most.

        Raises `TimeoutError` when the server has no time to say.
        """
        if self._assembly is None or self._loop is None:
            return Clients()
        asking = asyncio.run_coroutine_threadsafe(self._assembly.clients(most), self._loop)
        return asking.result(LOOK_S)

    def queues(self) -> list[QueueReport]:
        """The queues and subscriptions that AMQP clients receive from, and how deep they are: Kafka is asked.

        Raises `HardFailure` or `TimeoutError` when it does not answer.
        """
        if self._assembly is None or self._loop is None:
            return []
        return asyncio.run_coroutine_threadsafe(self._assembly.queues(), self._loop).result(LOOK_S)

    def change(self, settings: Settings, *, narrowly: bool = False) -> None:
        """Go by other routes, users and certificates. Raises `ConfigError` for files that cannot be used, and
        `HardFailure` when it takes too long.

        ``narrowly`` is for as long as the router still goes by the routes of before: only what those take as
        well is taken.
        """
        if self._assembly is None or self._loop is None:
            raise HardFailure("the edges have not started", remedy="try again in a moment")
        changing = asyncio.run_coroutine_threadsafe(
            self._assembly.change(settings, narrowly=narrowly), self._loop
        )
        try:
            changing.result(CHANGE_S)
        except TimeoutError:
            raise HardFailure(
                "the edges have not gone over to the changed configuration in time",
                remedy="try again, and start the bridge anew if that does not help",
            ) from None
        if not narrowly:
            self._settings = settings

    def stop(self) -> None:
        """End all parts in good order: what was taken is in the journal, what was delivered is committed."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._stopping = True
        if self._loop is not None and self._stop is not None and thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
        thread.join(STOP_S)

    def _main(self) -> None:
        try:
            asyncio.run(self._run())
        except BaseException as error:  # whatever it is, the bridge must hear of it
            self._failure = error
        finally:
            self._ready.set()

    async def _run(self) -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        settings = self._settings
        traces = traces_of(settings.otel, settings.bridge_id)
        journal = await open_journal(settings, self._kafka, traces)
        try:
            self._assembly = Assembly(settings, self._kafka, journal, traces)
        except BaseException:
            await journal.close()
            raise
        self._stop, self._loop = stop, loop
        if self._stopping:
            stop.set()
        try:
            await self._assembly.run(stop, self._ready.set)
        finally:
            if traces is not None:
                await asyncio.to_thread(traces.close)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
