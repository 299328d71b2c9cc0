"""A connection to a broker: the engine as client on a socket, with one session.

Its links are told of what concerns them. Bytes go out once per turn of the loop. It ends once, for good, and
says why.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Final, Protocol

from isthmus.codecs.amqp import Symbol
from isthmus.edges.amqp.protocol import (
    Attach,
    Closed,
    Connection,
    Delivery,
    Disposed,
    Event,
    Flowed,
    Link,
    LinkAttached,
    LinkDetached,
    Open,
    Opened,
    Session,
    SessionEnded,
)
from isthmus.edges.amqp.protocol.conditions import UNAUTHORIZED_ACCESS
from isthmus.edges.amqp.protocol.terms import Error
from isthmus.errors import Unreachable

GOODBYE_S: Final = 2.0
"""How long the broker may take to answer close."""
TICK_S: Final = 0.5
"""How often heartbeats are seen to."""


_BROKE: Final = "the connection broke"
_CLOSED: Final = "the broker closed the connection"
_FAILED: Final = Symbol("amqp:connection-establishment-failed")
"""A property of an open that is followed by close: brokers cannot refuse a connection otherwise."""


class Refusal(Unreachable):
    """The broker, or its certificate, is not what the settings expect: waiting does not help."""


class LinkUser(Protocol):
    """What uses a link: its ``context``. All is called on the loop."""

    def attached(self, attach: Attach) -> None:
        """The broker has attached the link. If it has no terminus there, `detached` follows."""
        ...

    def detached(self, why: str, condition: str | None) -> None:
        """The link is over, or its connection is. ``condition`` is AMQP's, if the broker gave one."""
        ...

    def delivered(self, delivery: Delivery) -> None:
        """A message has come."""
        ...

    def flowed(self) -> None:
        """The link's credit has changed."""
        ...

    def disposed(self, deliveries: Sequence[Delivery], state: object) -> None:
        """The broker has decided on deliveries, which are settled."""
        ...


class BrokerConnection(asyncio.Protocol):
    """One connection. To be made with `isthmus.edges.amqp.client.connecting.connect`."""

    def __init__(self, engine: Connection, open: Open) -> None:
        loop = asyncio.get_running_loop()
        self.opened: asyncio.Future[str] = loop.create_future()
        """The name of the broker's container."""
        self.ended: asyncio.Future[str] = loop.create_future()
        """Why the connection is over."""
        self.session: Session
        self._loop = loop
        self._engine = engine
        self._open = open
        self._transport: asyncio.Transport | None = None
        self._ticking: asyncio.TimerHandle | None = None
        self._flushing = False
        self._listens = True
        self._writable = asyncio.Event()
        self._writable.set()
        self._why = _BROKE
        self._refused = False

    # What its users call

    @property
    def is_open(self) -> bool:
        """Whether it can be used."""
        return self.opened.done() and not self.opened.cancelled() and not self.ended.done()

    def wake(self) -> None:
        """Send, at the end of this turn, what the engine has to send."""
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)

    @property
    def listens(self) -> bool:
        """Whether the broker is listened to."""
        return self._listens

    def listen(self, listens: bool) -> None:
        """Read on, or let the broker wait."""
        if listens is self._listens or self._transport is None or self._transport.is_closing():
            return
        self._listens = listens
        if listens:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    async def drained(self) -> None:
        """Return when the socket takes more."""
        await self._writable.wait()

    async def close(self) -> None:
        """Say goodbye, and wait a little for the answer."""
        self._engine.close()
        self._flush()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self.ended), GOODBYE_S)
        self.abort()
        await self.ended

    def abort(self) -> None:
        """Cut the connection."""
        if self._transport is not None and not self.ended.done():
            self._transport.abort()

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """There is a socket, with TLS if it is to be."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._engine.open(self._open)
        self._flush()
        self._tick()

    def data_received(self, data: bytes) -> None:
        """The broker has sent something."""
        for event in self._engine.receive_data(data, self._loop.time()):
            self._on_event(event)
        self._flush()

    def pause_writing(self) -> None:
        """The broker reads too slowly."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """The broker has caught up."""
        self._writable.set()

    def connection_lost(self, error: Exception | None) -> None:
        """It is over, with or without a word."""
        if error is not None and not self._engine.finished:
            self._why = f"{_BROKE}: {error}"
        if self._ticking is not None:
            self._ticking.cancel()
        self._writable.set()
        self.ended.set_result(self._why)
        if not self.opened.done():
            self.opened.set_exception((Refusal if self._refused else Unreachable)(self._why))
        for session in self._engine.sessions.values():
            for link in session.links.values():
                _tell_detached(link, self._why, None)

    # Inside

    def _flush(self) -> None:
        self._flushing = False
        transport = self._transport
        if transport is None or self.ended.done():
            return
        if data := self._engine.data_to_send(self._loop.time()):
            transport.write(data)
        if self._engine.finished:
            transport.close()

    def _tick(self) -> None:
        if not self._listens:
            self._engine.receive_data(b"", self._loop.time())  # it is us who does not hear it
        for event in self._engine.tick(self._loop.time()):
            self._on_event(event)
        self._flush()
        self._ticking = self._loop.call_later(TICK_S, self._tick)

    def _on_event(self, event: Event) -> None:
        match event:
            case Delivery(link) if link.context is not None:
                link.context.delivered(event)
            case Disposed(deliveries, state, settled):
                self._on_disposed(deliveries, state, settled)
            case Flowed(link) if link.context is not None:
                link.context.flowed()
            case LinkAttached(link, attach):
                if link.context is None:
                    link.refuse("amqp:not-allowed", "brokers attach no links here")
                else:
                    link.context.attached(attach)
            case LinkDetached(link, _, error, _):
                link.detach()
                condition = None if error is None else error.condition
                _tell_detached(link, _said(error, "the link was detached"), condition)
            case SessionEnded(_, error, _):
                self._why = _said(error, "the broker ended the session")
                self._engine.close()
            case Opened(open) if _FAILED not in (open.properties or {}):
                self.session = self._engine.begin()
                self.opened.set_result(open.container_id)
            case Closed(error, _):
                self._why = _said(error, _CLOSED if self._why == _BROKE else self._why)
                self._refused = not self.opened.done() and self._is_login_refused(error)
            case _:
                pass  # nothing new, or what came behind a detach, or an open that close follows

    def _on_disposed(self, deliveries: Sequence[Delivery], state: object, settled: bool) -> None:
        if not settled:
            for delivery in deliveries:
                delivery.settle(state)
        link = deliveries[0].link
        if link.context is not None:
            link.context.disposed(deliveries, state)

    def _is_login_refused(self, error: Error | None) -> bool:
        # Before open, what can fail but the bytes themselves is who we are.
        sasl = self._engine.sasl
        return error is not None and (
            error.condition == UNAUTHORIZED_ACCESS or (sasl is not None and sasl.identity is None)
        )


def _tell_detached(link: Link, why: str, condition: str | None) -> None:
    user, link.context = link.context, None
    if user is not None:
        user.detached(why, condition)


def _said(error: Error | None, otherwise: str) -> str:
    return otherwise if error is None else f"{error.condition}: {error.description or ''}".rstrip(": ")
