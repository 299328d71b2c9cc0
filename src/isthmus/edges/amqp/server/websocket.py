"""AMQP over WebSocket (OASIS, "AMQP WebSocket Binding"): for clients behind proxies, and in browsers.

::

    socket ──► WebSocketProtocol ──► the connection's protocol, which takes it for a socket of its own
       ▲               │
       └── frames  ◄───┴── _Stream ◄── write

The payload of binary frames is a stream, whatever frames it is cut into, and is handed on as it comes:
no frame is put together in memory. A browser lets any page of the web connect to any address, and says in
``Origin`` whose page it is: `Origins` decides whether that may.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from wsproto import ConnectionType, WSConnection
from wsproto.connection import ConnectionState
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Event,
    Ping,
    Pong,
    RejectConnection,
    Request,
    TextMessage,
)
from wsproto.frame_protocol import CloseReason
from wsproto.utilities import ProtocolError, RemoteProtocolError

SUBPROTOCOL: Final = "amqp"
FRAME_BYTES: Final = 32 * 1024
"""The payload of a frame at most: Qpid JMS takes 65,535 bytes by default."""
PIECE_BYTES: Final = 2048
"""How much is read between two looks at the clock."""
TURN_S: Final = 0.01
"""How long one client may keep the loop: it may send frames of one byte."""


class Origins(NamedTuple):
    """Which web pages may connect."""

    allowed: Sequence[str] | None
    """Those that are configured; None if nothing is."""
    all_log_in: bool
    """Whether nobody gets in without a password, so that it matters little whose page it is."""

    def allow(self, origin: str, host: str) -> bool:
        """Whether a page of an origin may connect to the server that it knows by the ``Host`` header."""
        if self.allowed is not None:
            return "*" in self.allowed or origin.lower() in self.allowed
        return self.all_log_in or _own_address(origin, host)


class WebSocketProtocol(asyncio.Protocol):
    """A client's connection. ``inner`` is the protocol that is spoken inside."""

    def __init__(self, inner: asyncio.Protocol, origins: Origins) -> None:
        self._inner = inner
        self._origins = origins
        self._loop = asyncio.get_running_loop()
        self._peer = WSConnection(ConnectionType.SERVER)
        self._socket: asyncio.Transport
        self._unread = bytearray()
        self._wanted = True
        """Whether what is inside reads on."""
        self._turn: asyncio.Handle | None = None
        """The next turn, if one is due."""

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected. Its time to log in begins, whatever it speaks."""
        assert isinstance(transport, asyncio.Transport)
        self._socket = transport
        self._inner.connection_made(_Stream(self, transport))

    def data_received(self, data: bytes) -> None:
        """The client has sent something."""
        self._unread += data
        self._read()

    def pause_writing(self) -> None:
        """The client reads too slowly."""
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """The client has caught up."""
        self._inner.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        """The connection is over."""
        if self._turn is not None:
            self._turn.cancel()
        self._unread.clear()
        self._inner.connection_lost(error)

    # What the stream inside calls

    def write(self, data: bytes) -> None:
        """Send bytes of the stream."""
        if self._peer.state is ConnectionState.OPEN:
            for start in range(0, len(data), FRAME_BYTES):
                self._send(BytesMessage(data=data[start : start + FRAME_BYTES]))

    def close(self) -> None:
        """Send what is left, and close."""
        if self._peer.state is ConnectionState.OPEN:
            self._send(CloseConnection(code=CloseReason.NORMAL_CLOSURE))
        self._socket.close()

    def set_reading(self, wanted: bool) -> None:
        """Read on, or let the client wait."""
        self._wanted = wanted
        if wanted and self._unread:
            self._read_later()
        self._update_reading()

    # Inside

    def _read(self) -> None:
        self._turn = None
        give_way_at = self._loop.time() + TURN_S
        while self._unread and self._wanted and not self._socket.is_closing():
            piece = bytes(self._unread[:PIECE_BYTES])
            del self._unread[:PIECE_BYTES]
            self._receive(piece)
            if self._loop.time() > give_way_at:
                break
        if self._unread and self._wanted:
            self._read_later()
        self._update_reading()

    def _read_later(self) -> None:
        if self._turn is None:
            self._turn = self._loop.call_soon(self._read)

    def _update_reading(self) -> None:
        if self._socket.is_closing():
            return
        if self._wanted and not self._unread:
            self._socket.resume_reading()
        else:
            self._socket.pause_reading()

    def _receive(self, data: bytes) -> None:
        try:
            self._peer.receive_data(data)
            for event in self._peer.events():
                self._on_event(event)
        except RemoteProtocolError as problem:
            self._refuse(problem.event_hint)
        except (ProtocolError, UnicodeError):  # of the library's own: it reads some headers as they come
            self._refuse(None)

    def _on_event(self, event: Event) -> None:
        match event:
            case BytesMessage(data=data):
                if data:
                    self._inner.data_received(bytes(data))
            case Ping():
                self._send(event.response())
            case Pong():
                pass
            case Request():
                self._on_request(event)
            case CloseConnection():
                if self._peer.state is ConnectionState.REMOTE_CLOSING:
                    self._send(event.response())
                self._socket.close()
            case TextMessage():
                self._refuse(CloseConnection(code=CloseReason.UNSUPPORTED_DATA))
            case _:
                self._refuse(None)

    def _on_request(self, request: Request) -> None:
        headers = {bytes(name): bytes(value).decode("latin-1") for name, value in request.extra_headers}
        origin = headers.get(b"origin")
        if SUBPROTOCOL not in request.subprotocols:
            self._refuse(RejectConnection(status_code=400))
        elif origin is not None and not self._origins.allow(origin, request.host):
            self._refuse(RejectConnection(status_code=403))
        else:
            self._send(AcceptConnection(subprotocol=SUBPROTOCOL))

    def _refuse(self, answer: Event | None) -> None:
        try:
            if answer is not None:
                self._send(answer)
        except ProtocolError:
            pass  # too late for an answer
        self._unread.clear()
        self._socket.close()

    def _send(self, event: Event) -> None:
        self._socket.write(self._peer.send(event))


class _Stream(asyncio.Transport):
    """The socket, as what is spoken inside sees it."""

    def __init__(self, outer: WebSocketProtocol, socket: asyncio.Transport) -> None:
        super().__init__()
        self._outer = outer
        self._socket = socket

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._socket.get_extra_info(name, default)

    def is_closing(self) -> bool:
        return self._socket.is_closing()

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        self._outer.write(bytes(data))

    def pause_reading(self) -> None:
        self._outer.set_reading(False)

    def resume_reading(self) -> None:
        self._outer.set_reading(True)

    def close(self) -> None:
        self._outer.close()

    def abort(self) -> None:
        self._socket.abort()


def _own_address(origin: str, host: str) -> bool:
    """Whether a page, or a client that says so, is of the server's own address, and that cannot be forged.

    A name may be made to mean this machine by whoever owns it; an address cannot, and ``localhost`` is ours.
    """
    try:
        page = urlsplit(origin)
        name = page.hostname or ""
        if name != "localhost":
            ipaddress.ip_address(name)
    except ValueError:
        return False
    return page.netloc == host
