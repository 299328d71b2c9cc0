"""The paths of the monitor.

``/metrics`` for Prometheus, ``/healthz`` for whoever restarts things, ``/varz`` for ``isthmus top`` and for
those who know it from NATS, ``/`` for people. What is under ``/api`` is for the page, and may change with it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from http import HTTPStatus
from importlib.resources import files
from threading import Thread
from typing import Any, Final, TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from isthmus.errors import IsthmusError
from isthmus.monitor.answers import json_answer
from isthmus.monitor.feed import Feed
from isthmus.monitor.guard import Access, Guard
from isthmus.monitor.history import BIN_S, History
from isthmus.monitor.inspector import Inspector, Topics
from isthmus.telemetry.overview import Overview
from isthmus.telemetry.parts import Clients, QueueReport

T = TypeVar("T")

Health = Callable[[], Mapping[str, str]]
"""What is wrong, by part of the bridge: empty when all of it works."""

CLIENTS_SHOWN: Final = 500
QUEUES_S: Final = 1.5
"""How often Kafka is asked for the depths of queues at most."""
_KINDS: Final = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class Watched:
    """The bridge that a monitor shows."""

    overview: Overview
    health: Health
    """Asks Kafka as well, and so may take seconds."""
    topics: Topics | None = None
    """None where nobody is to look at messages."""
    history: History = field(default_factory=History)
    clients: Callable[[int], Clients] = lambda _: Clients()
    """Who is connected to the AMQP server, and so many of them at most; asks other processes."""
    queues: Callable[[], Sequence[QueueReport]] = list
    """What they receive from; asks Kafka."""


class MonitorApp:
    """Answers what the guard lets through. Does its work between `running` and the end of that."""

    def __init__(self, watched: Watched, access: Access) -> None:
        self._watched = watched
        self._access = access
        watched.overview.metrics.on_event = watched.history.told
        self._feed = Feed(watched.overview, watched.history, self._wrong)
        self._queues: Sequence[QueueReport] = ()
        self._queues_due = 0.0
        self._waiting: set[asyncio.Future[Any]] = set()
        """For what threads do."""
        paths = Starlette(
            routes=[
                Route("/", self._page),
                Route("/static/{name}", self._static),
                Route("/metrics", self._metrics),
                Route("/varz", self._varz),
                Route("/healthz", self._healthz),
                Route("/api/session", self._session),
                Route("/api/feed", self._events),
                Route("/api/history", self._route_history),
                Route("/api/clients", self._clients),
                *self._inspecting(),
            ],
            exception_handlers={404: _not_found, HTTPException: _refused},
        )
        paths.router.redirect_slashes = False
        self._answer = Guard(paths, access)

    def _inspecting(self) -> list[Route]:
        if self._watched.topics is None:
            return []
        return Inspector(self._watched.topics, self._aside, to_messages=self._access.to_messages).paths()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        await self._answer(scope, receive, send)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep the figures of the bridge."""
        feeding = asyncio.create_task(self._feed.run())
        try:
            yield
        finally:
            feeding.cancel()
            with suppress(asyncio.CancelledError):
                await feeding
            for each in self._waiting:
                if not each.done():
                    each.set_exception(HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, "the monitor closes"))

    async def _page(self, _: Request) -> Response:
        return _file("index.html")

    async def _static(self, request: Request) -> Response:
        name = request.path_params["name"]
        return _file(name) if name in _static_names() else await _not_found(request, None)

    async def _metrics(self, _: Request) -> Response:
        text = self._watched.overview.exposition()
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    async def _varz(self, _: Request) -> Response:
        return json_answer(self._watched.overview.document())

    async def _healthz(self, _: Request) -> Response:
        wrong = await self._wrong()
        status = HTTPStatus.SERVICE_UNAVAILABLE if wrong else HTTPStatus.OK
        return json_answer({"status": "down" if wrong else "up", "problems": wrong}, status)

    async def _session(self, _: Request) -> Response:
        return json_answer({"key": self._access.key, "messages": self._access.to_messages})

    async def _events(self, _: Request) -> Response:
        return StreamingResponse(self._feed.events(), media_type="text/event-stream")

    async def _route_history(self, request: Request) -> Response:
        points = self._watched.history.points(request.query_params.get("route", ""))
        return json_answer({"bin_s": BIN_S, "points": points})

    async def _clients(self, _: Request) -> Response:
        try:
            found = await self._aside(lambda: self._watched.clients(CLIENTS_SHOWN))
        except (IsthmusError, TimeoutError):
            raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, "the AMQP server does not answer") from None
        shown = [asdict(each) for each in found.shown]
        queues = [asdict(each) for each in await self._known_queues()]
        return json_answer({"connected": found.connected, "clients": shown, "queues": queues})

    async def _known_queues(self) -> Sequence[QueueReport]:
        """The queues; Kafka is asked once in a while, however many look."""
        now = time.monotonic()
        if now >= self._queues_due:
            self._queues_due = now + QUEUES_S
            with suppress(IsthmusError, TimeoutError):  # that Kafka does not answer is told as a problem
                self._queues = await self._aside(self._watched.queues)
        return self._queues

    async def _wrong(self) -> dict[str, str]:
        return dict(await self._aside(self._watched.health))

    async def _aside(self, work: Callable[[], T]) -> T:
        """What a function that may take its time returns, from a thread that nobody has to wait for."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        self._waiting.add(done)
        done.add_done_callback(self._waiting.discard)

        def settle(result: T | None, error: BaseException | None) -> None:
            if not done.done():
                done.set_exception(error) if error is not None else done.set_result(result)  # type: ignore[arg-type]

        def run() -> None:
            result, failure = None, None
            try:
                result = work()
            except BaseException as error:  # it is raised where it is waited for
                failure = error
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(settle, result, failure)

        Thread(target=run, name="monitor-work", daemon=True).start()
        return await done


async def _not_found(_: Request, __: Any) -> Response:
    return PlainTextResponse("there are /metrics, /varz, /healthz and /\n", HTTPStatus.NOT_FOUND)


async def _refused(_: Request, error: Exception) -> Response:
    """Says why, for the page."""
    assert isinstance(error, HTTPException)
    return json_answer({"error": error.detail}, error.status_code)


@cache
def _static_names() -> frozenset[str]:
    return frozenset(each.name for each in files("isthmus.monitor").joinpath("static").iterdir())


def _file(name: str) -> Response:
    return Response(_content(name), media_type=_KINDS[name.rpartition(".")[2]])


@cache
def _content(name: str) -> bytes:
    return files("isthmus.monitor").joinpath("static", name).read_bytes()
