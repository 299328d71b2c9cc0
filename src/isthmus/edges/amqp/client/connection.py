"""A connection to a broker: the engine as client, with one session. It ends once, for good, and says why."""

from __future__ import annotations

import asyncio
from typing import Final

from isthmus.codecs.amqp import Symbol
from isthmus.edges.amqp.protocol import Connection, Open, Session
from isthmus.edges.amqp.protocol.conditions import UNAUTHORIZED_ACCESS
from isthmus.edges.amqp.protocol.terms import Error
from isthmus.edges.amqp.transport import AmqpTransport
from isthmus.errors import LoginRefused, Unreachable

_BROKE: Final = "the connection broke"
_CLOSED: Final = "the broker closed the connection"
_FAILED: Final = Symbol("amqp:connection-establishment-failed")
"""A property of an open that is followed by close: brokers cannot refuse a connection otherwise."""


class BrokerConnection(AmqpTransport):
    """One connection. To be made with `isthmus.edges.amqp.client.connecting.connect`."""

    def __init__(self, engine: Connection, open: Open) -> None:
        super().__init__()
        self.engine = engine
        self.opened: asyncio.Future[str] = self._loop.create_future()
        """The name of the broker's container."""
        self.ended: asyncio.Future[str] = self._loop.create_future()
        """Why the connection is over."""
        self.session: Session
        self._open = open
        self._writable = asyncio.Event()
        self._writable.set()
        self._why = _BROKE
        self._refused = False

    # What its users call

    @property
    def is_open(self) -> bool:
        """Whether it can be used."""
        return self.opened.done() and not self.opened.cancelled() and not self.ended.done()

    async def drained(self) -> None:
        """Return when the socket takes more."""
        await self._writable.wait()

    async def close(self) -> None:
        """Close it; the broker has a moment to answer."""
        self.close_with(None)
        await self.ended

    def fail(self, error: BaseException) -> None:
        """Close it after an exception that nobody expected."""
        self._why = f"an unexpected error: {error!r}"
        super().fail(error)

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send open, behind the login."""
        self.engine.open(self._open)
        super().connection_made(transport)

    def pause_writing(self) -> None:
        """The broker reads too slowly."""
        super().pause_writing()
        self._writable.clear()

    def resume_writing(self) -> None:
        """The broker has caught up."""
        super().resume_writing()
        self._writable.set()

    def connection_lost(self, error: Exception | None) -> None:
        """Say why, then end the links."""
        if error is not None and not self.engine.finished:
            self._why = f"{_BROKE}: {error}"
        self._writable.set()
        self.ended.set_result(self._why)
        if not self.opened.done():
            self.opened.set_exception((LoginRefused if self._refused else Unreachable)(self._why))
        super().connection_lost(error)

    # What the transport calls

    def on_opened(self, open: Open) -> None:
        """Begin the session, unless the broker is about to close."""
        if _FAILED not in (open.properties or {}) and not self.opened.done():
            self.session = self.engine.begin()
            self.opened.set_result(open.container_id)

    def on_session_ended(self, session: Session, error: Error | None, *, local: bool) -> None:  # noqa: ARG002
        """Close: there is but one session."""
        self._why = said(error, "the broker ended the session")
        self.close_with(None)

    def on_closed(self, error: Error | None, *, local: bool) -> None:  # noqa: ARG002
        """Note why."""
        self._why = said(error, _CLOSED if self._why == _BROKE else self._why)
        self._refused = not self.opened.done() and self._is_login_refused(error)

    def _is_login_refused(self, error: Error | None) -> bool:
        # Before open, what can fail but the bytes themselves is who we are.
        sasl = self.engine.sasl
        return error is not None and (
            error.condition == UNAUTHORIZED_ACCESS or (sasl is not None and sasl.identity is None)
        )


def said(error: Error | None, otherwise: str) -> str:
    """An error of the broker's for people, or what to say where it gave none."""
    return otherwise if error is None else f"{error.condition}: {error.description or ''}".rstrip(": ")
