"""AMQP on asyncio: the engine on a socket, for the server and for the client of brokers.

::

    socket ──► data_received ──► engine ──► events ──► handlers of links
       ▲                            │
       └───────────  flush  ◄───────┘  once per turn of the loop, however much was decided in it

No more than `READ_BYTES` are read in a turn, and no more frames handled than `Limits.max_frames`, so that no
peer keeps the others waiting for long.

Every handler of a link is told of its end once: by a detach, by the end of its session, or by that of the
connection. Whatever a handler raises closes this connection with ``amqp:internal-error``, with a traceback in
the log, and no other connection. A peer that does not answer close is cut off.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from isthmus.edges.amqp.protocol import (
    Attach,
    Authenticated,
    Closed,
    Connection,
    Delivery,
    Disposed,
    Event,
    Flowed,
    Identity,
    Link,
    LinkAttached,
    LinkDetached,
    LinkHandler,
    Open,
    Opened,
    PasswordCheck,
    PasswordGiven,
    Session,
    SessionEnded,
    Undelivered,
)
from isthmus.edges.amqp.protocol.conditions import INTERNAL_ERROR, NOT_ALLOWED
from isthmus.edges.amqp.protocol.terms import RELEASED, Error
from isthmus.events.amqp import ConnectionFailed

CLOSE_S: Final = 2.0
"""How long a peer may take to answer close, and to read what was sent before it."""
TICK_S: Final = 0.5
"""How often heartbeats are seen to."""


READ_BYTES: Final = 64 * 1024

_buffers = threading.local()
"""What is read into, one for each thread, and so for each event loop: what is in it is copied at once."""


def _read_buffer() -> memoryview:
    if not hasattr(_buffers, "view"):
        _buffers.view = memoryview(bytearray(READ_BYTES))
    view: memoryview = _buffers.view
    return view


class AmqpTransport(asyncio.BufferedProtocol, asyncio.Protocol):
    """One connection, from `connection_made` to `connection_lost`. All of it is used on the loop.

    asyncio reads into a buffer of ours; whatever stands in between, as a WebSocket does, hands over bytes.
    """

    engine: Connection
    """To be set before `connection_made` of this class is called."""

    def __init__(self, *, close_s: float = CLOSE_S, tick_s: float = TICK_S) -> None:
        self.lost = False
        self.closing = False
        """Whether we have sent close."""
        self.reading = True
        """Whether the socket is read."""
        self.congested = False
        """Whether the peer reads too slowly: what is sent now waits in memory."""
        self.busy = False
        """Whether the peer has sent so much that what is left of it waits for the next turn of the loop."""
        self.answer_held = False
        """Whether the answer to the peer's close waits for something; nothing else is sent behind a close."""
        self._loop = asyncio.get_running_loop()
        self._socket: asyncio.Transport | None = None
        self._close_s = close_s
        self._tick_s = tick_s
        self._ticking: asyncio.TimerHandle | None = None
        self._cutting_off: asyncio.TimerHandle | None = None
        self._flush_due = False

    # What a subclass may add

    def accept_link(self, link: Link, attach: Attach) -> LinkHandler | None:  # noqa: ARG002
        """Who handles a link that the peer attached; None refuses it."""
        return None

    def on_received(self) -> None:
        """All that is whole of what has arrived is handled, or as much of it as this turn is for."""

    def on_password(self, check: PasswordCheck) -> None:
        """A client showed a password: `on_checked` is to be told whether it is right."""

    def on_authenticated(self, identity: Identity) -> None:
        """SASL ended well."""

    def on_opened(self, open: Open) -> None:
        """The peer sent open."""

    def on_undelivered(self, state: object) -> None:
        """A message with a state, as one of a transaction, was not taken."""

    def on_session_ended(self, session: Session, error: Error | None, *, local: bool) -> None:  # noqa: ARG002
        """The peer ended a session, or a fault of its did (``local``). Its links end with it."""
        self.end_links(session, lost=False)
        session.end()

    def on_closed(self, error: Error | None, *, local: bool) -> None:
        """The connection is closed, by the peer or for a fault of its (``local``). The socket follows."""

    # What the parts of a connection call

    def wake(self) -> None:
        """Send, at the end of this turn of the loop, what the engine has to send."""
        if not self._flush_due:
            self._flush_due = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Send what the engine has to send, now."""
        self._flush_due = False
        if self._socket is None or self.lost or self.answer_held:
            return
        try:
            data = self.engine.data_to_send(self._loop.time())
        except Exception as error:  # nothing that could be said of it would get out
            ConnectionFailed().emit(trace=error)
            self.abort()
            return
        if data:
            self._socket.write(data)
        if self.engine.finished:
            self._socket.close()
            self._cut_off_later()

    def set_reading(self, reading: bool) -> None:
        """Read on, or let the peer wait."""
        if reading is self.reading or self._socket is None or self._socket.is_closing():
            return
        self.reading = reading
        if reading:
            self._socket.resume_reading()
        else:
            self._socket.pause_reading()

    def on_checked(self, fits: bool) -> None:
        """Go on with what the client sends: its password is the right one, or not."""
        self._handle(self.engine.password_checked(fits))

    def answer_open(self, error: Error | None) -> None:
        """Let the client in whose open was held, or close the connection with an error."""
        self.closing = error is not None
        self._handle(self.engine.answer_open(error))
        if self.closing:
            self._cut_off_later()

    def update_backpressure(self) -> None:
        """Read on, or no further."""
        self.set_reading(not self.busy)

    def close_with(self, error: Error | None) -> None:
        """Send close, and cut the connection if the peer does not answer in time."""
        self.closing = True
        self.engine.close(error)
        self.flush()
        self._cut_off_later()

    def abort(self) -> None:
        """Cut the connection."""
        if self._socket is not None and not self.lost:
            self._socket.abort()

    def fail(self, error: BaseException) -> None:
        """Close the connection after an exception that nobody expected."""
        ConnectionFailed().emit(trace=error)
        self.close_with(Error(INTERNAL_ERROR, "an unexpected error; the log of the bridge tells more"))

    def end_links(self, session: Session | None = None, *, lost: bool = True) -> None:
        """Tell the handlers of a session, or of all, that their links are over, ``lost`` or in good order."""
        for link in self._links() if session is None else [*session.links.values(), *session.suspended]:
            handler, link.handler = link.handler, None
            if handler is not None:
                with self._contained():
                    handler.on_detach(closed=False, error=None, lost=lost)

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """There is a socket, with TLS if it is to be."""
        assert isinstance(transport, asyncio.Transport)
        self._socket = transport
        self._tick()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        """Where to read to."""
        return _read_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """So much was read."""
        self.data_received(bytes(_read_buffer()[:nbytes]))

    def data_received(self, data: bytes) -> None:
        """The peer has sent something."""
        self._handle(self.engine.receive_data(data, self._loop.time()))

    def pause_writing(self) -> None:
        """The peer reads too slowly."""
        self.congested = True

    def resume_writing(self) -> None:
        """The peer has caught up."""
        self.congested = False
        for link in self._links():
            if link.handler is not None:
                with self._contained():
                    link.handler.on_flow()
        self.wake()

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002
        """The connection is over, with or without a close."""
        self.lost = True
        for timer in (self._ticking, self._cutting_off):
            if timer is not None:
                timer.cancel()
        self.end_links()
        self.engine.abandon()

    # Inside

    def _handle(self, events: Sequence[Event]) -> None:
        """Tell the handlers what happened, and send what they answer."""
        try:
            for event in events:
                if type(event) is Delivery:
                    handler = event.link.handler
                    if handler is not None:
                        handler.on_delivery(event)
                    else:
                        event.settle(RELEASED)
                elif type(event) is Disposed:
                    handler = event.deliveries[0].link.handler
                    if handler is not None:
                        handler.on_disposition(event.deliveries, event.state, event.settled)
                else:
                    self._on_event(event)
        except Exception as error:
            self.fail(error)
        self.flush()
        self.on_received()
        if self.engine.has_more and not self.busy:
            self._go_on_later()

    def _go_on_later(self) -> None:
        self.busy = True
        self.update_backpressure()
        self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        self.busy = False
        if self.lost:
            return
        self._handle(self.engine.receive_more())
        if not self.busy:
            self.update_backpressure()

    def _links(self) -> list[Link]:
        sessions = self.engine.sessions.values()
        return [link for session in sessions for link in (*session.links.values(), *session.suspended)]

    @contextmanager
    def _contained(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self.fail(error)

    def _on_event(self, event: Event) -> None:
        match event:
            case Flowed(link):
                if link.handler is not None:
                    link.handler.on_flow()
            case LinkAttached(link, attach):
                self._on_attached(link, attach)
            case LinkDetached(link, closed, error, local):
                handler, link.handler = link.handler, None
                if handler is not None:
                    handler.on_detach(closed=closed and not local, error=error, lost=local)
                else:
                    link.detach(closed=closed)
            case Undelivered(state):
                self.on_undelivered(state)
            case SessionEnded(session, error, local):
                self.on_session_ended(session, error, local=local)
            case PasswordGiven(check):
                self.on_password(check)
            case Authenticated(identity):
                self.on_authenticated(identity)
            case Opened(open):
                self.on_opened(open)
            case Closed(error, local):
                self.on_closed(error, local=local)
            case _:
                pass  # a session that began: its links are what matters

    def _on_attached(self, link: Link, attach: Attach) -> None:
        if link.handler is None:
            link.handler = self.accept_link(link, attach)
        if link.handler is not None:
            link.handler.on_attach(attach)
        else:
            link.refuse(NOT_ALLOWED, "no links are taken here")

    def _tick(self) -> None:
        now = self._loop.time()
        self._ticking = self._loop.call_later(self._tick_s, self._tick)
        with self._contained():
            if not self.reading:
                self.engine.receive_data(b"", now)  # it is we who do not hear the peer
            for event in self.engine.tick(now):
                self._on_event(event)
        self.flush()

    def _cut_off_later(self) -> None:
        if self._cutting_off is None and not self.lost:
            self._cutting_off = self._loop.call_later(self._close_s, self.abort)
