"""What the page asks of a bridge's messages, as paths under ``/api``: each reads Kafka when somebody looks.

Whatever shows messages, or acts on them, is for those who have shown a token. One action runs at a time, and
a few questions: the bridge has other work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, TypeVar

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from isthmus.config.model.settings import Settings
from isthmus.errors import ConfigError, IsthmusError
from isthmus.kafka.options import Kafka
from isthmus.monitor import dead_letters, explaining, messages
from isthmus.monitor.answers import json_answer

T = TypeVar("T")
Aside = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Has a function run in a thread, and gives what it returns."""

MAX_POSTED: Final = 64 * 1024
AT_ONCE: Final = 2
"""So many questions are worked on at a time; further ones wait."""
NO_TOKEN: Final = "set monitor.token to see messages and to act on them: others on this machine can ask too"


class Message(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """One to explain: as it is typed, as it was captured, or by its position."""

    address: str = ""
    headers: str = ""
    body: str | None = None
    captured: str | None = None
    position: str | None = None


class ChangedRoute(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A route with another predicate, and perhaps another key."""

    route: str
    predicate: str
    key: str | None = None
    """As ``conv.key`` has it; empty for the message id, None for the key that the route has."""


@dataclass(frozen=True, slots=True)
class Topics:
    """Where the bridge's messages are."""

    settings: Callable[[], Settings]
    """Those that it goes by now."""
    kafka: Kafka


class Inspector:
    """Answers for the page."""

    def __init__(self, topics: Topics, aside: Aside, *, to_messages: bool) -> None:
        self._topics = topics
        self._aside = aside
        self._to_messages = to_messages
        self._room = asyncio.Semaphore(AT_ONCE)
        self._acting = asyncio.Lock()

    def paths(self) -> list[Route]:
        """What it answers to."""
        return [
            Route("/api/messages", self._messages),
            Route("/api/journal", self._journal),
            Route("/api/explain", self._explain, methods=["POST"]),
            Route("/api/try-route", self._try_route, methods=["POST"]),
            Route("/api/dead-letters", self._dead_letters),
            Route("/api/dead-letter", self._dead_letter),
            Route("/api/replay", self._replay, methods=["POST"]),
            Route("/api/drop", self._drop, methods=["POST"]),
        ]

    async def _messages(self, request: Request) -> Response:
        self._need_token()
        route = request.query_params.get("route", "")
        return await self._ask(messages.last_published, route)

    async def _journal(self, _: Request) -> Response:
        self._need_token()
        return await self._ask(messages.last_journaled)

    async def _explain(self, request: Request) -> Response:
        given = await _posted(request, Message)
        if given.position is not None:
            self._need_token()
            return await self._ask(explaining.explain_position, given.position)
        if given.captured is not None:
            return await self._ask(explaining.explain_captured, given.captured)
        return await self._ask(explaining.explain_sample, given.address, given.headers, given.body)

    async def _try_route(self, request: Request) -> Response:
        self._need_token()
        given = await _posted(request, ChangedRoute)
        return await self._ask(explaining.try_route, given.route, given.predicate, given.key)

    async def _dead_letters(self, _: Request) -> Response:
        self._need_token()
        return await self._ask(dead_letters.overview)

    async def _dead_letter(self, request: Request) -> Response:
        self._need_token()
        return await self._ask(dead_letters.one, request.query_params.get("position", ""))

    async def _replay(self, request: Request) -> Response:
        return await self._act(request, dead_letters.replay)

    async def _drop(self, request: Request) -> Response:
        return await self._act(request, dead_letters.drop)

    async def _act(self, request: Request, action: Callable[..., Any]) -> Response:
        self._need_token()
        chosen = await _posted(request, dead_letters.Chosen)
        if self._acting.locked():
            raise HTTPException(HTTPStatus.CONFLICT, "a replay is at work; try again when it is done")
        async with self._acting:
            return await self._ask(action, chosen)

    async def _ask(self, question: Callable[..., Any], *about: Any) -> Response:
        settings, kafka = self._topics.settings(), self._topics.kafka
        async with self._room:
            try:
                return json_answer(await self._aside(lambda: question(settings, kafka, *about)))
            except ConfigError as error:
                raise HTTPException(HTTPStatus.BAD_REQUEST, str(error)) from None
            except IsthmusError as error:
                raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, str(error)) from None

    def _need_token(self) -> None:
        if not self._to_messages:
            raise HTTPException(HTTPStatus.FORBIDDEN, NO_TOKEN)


async def _posted(request: Request, kind: type[T]) -> T:
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MAX_POSTED:
            raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"more than {MAX_POSTED} bytes")
    try:
        return msgspec.json.decode(bytes(body), type=kind)
    except msgspec.MsgspecError as error:
        raise HTTPException(HTTPStatus.BAD_REQUEST, str(error)) from None
