"""A connection: bytes in, events out; calls in, bytes out. No sockets, no clock, no threads.

::

    connection = Connection.server(limits, sasl=SaslServer(...))
    for event in connection.receive_data(data, now): ...
    transport.write(connection.data_to_send())

Whatever bytes come in, `receive_data` raises nothing: what the specification forbids is answered with close,
end or detach and the right condition, and told as an event. Memory is bounded by `Limits` and by the credit
that the application grants. Time is in seconds of any clock that does not go back.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, Self

import msgspec

from isthmus.codecs.amqp import Described, Reader, Symbol
from isthmus.edges.amqp.protocol.composite import Composite, interpret
from isthmus.edges.amqp.protocol.conditions import (
    DECODE_ERROR,
    FRAMING_ERROR,
    NOT_ALLOWED,
    RESOURCE_LIMIT_EXCEEDED,
    UNAUTHORIZED_ACCESS,
    ConnectionFault,
    SessionFault,
)
from isthmus.edges.amqp.protocol.events import (
    Authenticated,
    Closed,
    Event,
    Opened,
    PasswordGiven,
    SessionBegun,
    SessionEnded,
)
from isthmus.edges.amqp.protocol.frames import (
    AMQP_FRAME,
    AMQP_HEADER,
    EMPTY_FRAME,
    HEADER_BYTES,
    MIN_MAX_FRAME_BYTES,
    SASL_FRAME,
    SASL_HEADER,
    FrameBuffer,
    accepts_one,
    encode_frame,
    frame_end,
    not_a_performative,
)
from isthmus.edges.amqp.protocol.link import Link
from isthmus.edges.amqp.protocol.performatives import Begin, Close, End, Open
from isthmus.edges.amqp.protocol.sasl import Identity, SaslClient, SaslServer
from isthmus.edges.amqp.protocol.session import Session
from isthmus.edges.amqp.protocol.terms import Error
from isthmus.errors import DecodeError

_TRANSFER: Final = b"\x00\x53\x14"
SOLE_CONNECTION: Final = "sole-connection-for-container"
"""What a client desires that wants to be the only connection of its container id."""
OPEN_FAILED: Final = Symbol("amqp:connection-establishment-failed")
"""The property of an open that is followed by a close."""
_MAX_SASL_FRAME_BYTES: Final = 8 * MIN_MAX_FRAME_BYTES
"""The specification says 512. Tokens in the place of passwords are longer, and other brokers take them."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a peer may use."""

    max_frame_size: int = 128 * 1024
    channel_max: int = 255
    handle_max: int = 1023
    incoming_window: int = 2**31 - 1
    """Transfer frames that a session may be ahead of our next flow: no limit to speak of, as with other
    brokers. What holds senders back is their links' credit. With a window of 4,096, and more credit than
    that, Qpid JMS kept its last messages to itself until the next heartbeat."""
    idle_timeout_s: float | None = 60.0
    """A peer that is silent for longer is given up. It is told half of it, as the specification advises."""
    max_partial_bytes: int = 256 * 1024 * 1024
    """What unfinished messages of all links together may hold."""
    max_attach_bytes: int = 2 * 1024 * 1024
    """What the attaches of all links together may have: what is in them is kept as long as the link is."""
    max_frames: int = 0
    """How many frames `Connection.receive_data` handles at a time, for the time that it takes; 0 is any."""


class _Phase(Enum):
    SASL_HEADER = auto()
    SASL = auto()
    CHECKING = auto()
    """A password is being checked: what comes meanwhile waits."""
    AMQP_HEADER = auto()
    OPENING = auto()
    """It is being found out whether an open can be granted: what comes meanwhile waits."""
    FRAMES = auto()
    FINISHED = auto()


class Connection:
    """One connection, as server or as client."""

    def __init__(
        self, limits: Limits, sasl: SaslServer | SaslClient | None, *, is_server: bool, needs_sasl: bool
    ) -> None:
        self.limits = limits
        self.sasl = sasl
        self.remote_open: Open | None = None
        self.remote_max_frame_size = MIN_MAX_FRAME_BYTES
        self.sessions: dict[int, Session] = {}
        """The sessions by our channel."""
        self.due: dict[Session, None] = {}
        """Sessions that have something gathered to be sent."""
        self.active: dict[tuple[str, bool], Link] = {}
        """The links that the peer has attached, by their name and our role: one name is active once."""
        self.partial_bytes = 0
        """What has arrived of unfinished messages."""
        self.has_more = False
        """Whether frames wait for `receive_more`: so many had come that the others have to wait."""
        self.attach_bytes = 0
        """How large the attaches of all its links are."""
        self._frame_bytes = 0
        """How large the performative is that is being handled."""
        self.fruitless = 0
        """How many deliveries were looked for in vain, of what the peer has sent last."""
        self._is_server = is_server
        self._needs_sasl = needs_sasl
        self._phase = _Phase.SASL_HEADER if sasl is not None else _Phase.AMQP_HEADER
        self._buffer = FrameBuffer()
        self._out: list[bytes] = []
        self._by_remote_channel: dict[int, Session] = {}
        self._pending_open: Open | None = None
        self._answer: Open | None = None
        self._holds_open = False
        self._header_sent = False
        self._open_sent = False
        self._close_sent = False
        self._remote_channel_max = 0xFFFF
        self._remote_idle_s: float | None = None
        self._last_received: float | None = None
        self._last_sent: float | None = None
        if not is_server:
            self._write_header(AMQP_HEADER if sasl is None else SASL_HEADER)

    @classmethod
    def server(
        cls,
        limits: Limits,
        sasl: SaslServer | None = None,
        *,
        answer: Open,
        needs_sasl: bool = True,
        holds_open: bool = False,
    ) -> Self:
        """The server's end, which answers open with ``answer``. A client may leave SASL out if not needed.

        With ``holds_open`` one that asks to be its container's only connection waits for `answer_open`.
        """
        connection = cls(limits, sasl, is_server=True, needs_sasl=needs_sasl)
        connection._holds_open = holds_open
        # At once, and not when the application gets to it: clients send begin and attach without waiting.
        connection._answer = answer
        return connection

    @classmethod
    def client(cls, limits: Limits, sasl: SaslClient | None = None) -> Self:
        """The client's end, which begins: it has bytes to send from the start."""
        return cls(limits, sasl, is_server=False, needs_sasl=sasl is not None)

    # What the application calls

    @property
    def writable(self) -> bool:
        """Whether frames may still be sent."""
        return self._open_sent and not self._close_sent and self._phase is not _Phase.FINISHED

    @property
    def finished(self) -> bool:
        """Whether nothing more will come out of it: send what is left, then close the transport."""
        return self._phase is _Phase.FINISHED

    @property
    def held_bytes(self) -> int:
        """What is held of messages and of a frame that have not arrived in full."""
        return self.partial_bytes + self._buffer.held_bytes

    def abandon(self) -> None:
        """Forget everything: the transport is gone, or about to be. Nothing more comes out of it."""
        self._end_all()
        self._phase = _Phase.FINISHED
        self._buffer = FrameBuffer()
        self._out.clear()

    def open(self, open: Open) -> None:
        """Send open, as a client does whenever it likes.

        Frame size, channels and the idle time-out are those of the limits.
        """
        if self._open_sent or self._pending_open is not None:
            raise RuntimeError("the connection is open already")
        limits = self.limits
        self._pending_open = msgspec.structs.replace(
            open,
            max_frame_size=limits.max_frame_size,
            channel_max=limits.channel_max,
            idle_time_out=None if limits.idle_timeout_s is None else int(limits.idle_timeout_s * 500),
        )
        self._send_pending_open()

    def begin(self) -> Session:
        """Begin a session."""
        session = self._new_session()
        session.begin()
        return session

    def close(self, error: Error | None = None) -> None:
        """Send close, as the first or in answer. Does nothing if that was done."""
        if self._close_sent or not self._header_sent or self._phase is _Phase.FINISHED:
            return
        if not self._open_sent:
            if self._pending_open is None:
                self.open(self._answer or Open(""))
            self._send_pending_open()
        for session in list(self.due):
            session.flush()
        self._out.append(encode_frame(0, Close(error)))
        self._close_sent = True

    def receive_data(self, data: bytes, now: float) -> list[Event]:
        """Take bytes from the peer, in whatever pieces, and return what happened. Raises nothing.

        No bytes at all tell that the peer is alive: for a transport that is not being read for a while.
        """
        events: list[Event] = []
        if self._phase is _Phase.FINISHED:
            return events
        self._last_received = now
        if not data:
            return events
        complete = self._buffer.take(data)
        if complete is not None:
            self._receive(complete, events)
        return events

    def receive_more(self) -> list[Event]:
        """Go on with what `receive_data` has left, and return what happened. Raises nothing."""
        events: list[Event] = []
        self.has_more = False
        complete = self._buffer.release()
        if complete is not None:
            self._receive(complete, events)
        return events

    def password_checked(self, fits: bool) -> list[Event]:
        """Take the result of a `PasswordGiven`'s check, and return what happened since. Raises nothing."""
        events: list[Event] = []
        if self._phase is not _Phase.CHECKING:
            return events
        assert isinstance(self.sasl, SaslServer)
        self._phase = _Phase.SASL
        self._write_sasl(self.sasl.checked(fits))
        self._finish_sasl(self.sasl.identity, events)
        complete = self._buffer.release()
        if complete is not None:
            self._receive(complete, events)
        return events

    @property
    def opening(self) -> bool:
        """Whether the peer's open waits for `answer_open`."""
        return self._phase is _Phase.OPENING

    def answer_open(self, error: Error | None = None) -> list[Event]:
        """Answer an open that was held, or refuse it, and return what happened since. Raises nothing."""
        events: list[Event] = []
        if self._phase is not _Phase.OPENING:
            return events
        assert self._answer is not None
        self._phase = _Phase.FRAMES
        if error is None:
            self.open(self._answer)
        else:
            self.open(msgspec.structs.replace(self._answer, properties={OPEN_FAILED: True}))
            self.close(error)
        complete = self._buffer.release()
        if complete is not None:
            self._receive(complete, events)
        return events

    def data_to_send(self, now: float | None = None) -> bytes:
        """The bytes for the peer; empty if there are none."""
        if self.due:
            due = list(self.due)
            self.due.clear()
            for session in due:
                session.flush()
        if not self._out:
            return b""
        if now is not None:
            self._last_sent = now
        data = self._out[0] if len(self._out) == 1 else b"".join(self._out)
        self._out.clear()
        return data

    def tick(self, now: float) -> list[Event]:
        """Let time pass: keep the peer's idle time-out from expiring, and give up a peer that is silent.

        To be called a few times in the shorter of both time-outs.
        """
        events: list[Event] = []
        if self._phase is _Phase.FINISHED:
            return events
        if self._last_received is None:
            self._last_received = now
        idle_s = self.limits.idle_timeout_s
        if idle_s is not None and self.remote_open is not None and now - self._last_received > idle_s:
            self._fail(RESOURCE_LIMIT_EXCEEDED, f"nothing came for {idle_s:g} s", events)
            self._phase = _Phase.FINISHED  # who does not send does not answer either
        elif self.writable and self._remote_idle_s is not None:
            if self._last_sent is None:
                self._last_sent = now
            if now - self._last_sent >= self._remote_idle_s / 2:
                self._out.append(EMPTY_FRAME)
        return events

    # What sessions call

    def write(self, frame: bytes) -> None:
        """Queue a frame."""
        self._out.append(frame)

    def forget(self, session: Session) -> None:
        """Forget a session that both sides have ended."""
        for link in (*session.links.values(), *session.suspended):
            self.uncount_attach(link)
        self.sessions.pop(session.channel, None)
        self.due.pop(session, None)

    def count_attach(self, link: Link) -> None:
        """Count what is kept of a link. Raises `ConnectionFault` where it is too much of all."""
        link.attach_bytes = self._frame_bytes
        self.attach_bytes += link.attach_bytes
        limit = self.limits.max_attach_bytes
        if self.attach_bytes > limit:
            raise ConnectionFault(RESOURCE_LIMIT_EXCEEDED, f"the attaches of all links exceed {limit} bytes")

    def uncount_attach(self, link: Link) -> None:
        """Free what was kept of a link."""
        self.attach_bytes -= link.attach_bytes
        link.attach_bytes = 0

    # Inside

    def _receive(self, data: bytes, events: list[Event]) -> None:
        self.fruitless = 0
        try:
            self._consume(data, events)
        except ConnectionFault as fault:
            self._fail(fault.condition, fault.description, events)
        except (DecodeError, IndexError, UnicodeDecodeError) as error:
            self._fail(DECODE_ERROR, f"a frame cannot be decoded: {error}", events)

    def _consume(self, buf: bytes, events: list[Event]) -> None:
        pos, size = 0, len(buf)
        reader = Reader(buf)
        frames = 0
        while self._phase is not _Phase.FINISHED:
            phase = self._phase
            waits = phase is _Phase.CHECKING or phase is _Phase.OPENING
            if size - pos < 8 or waits or frames == self.limits.max_frames > 0:
                self._buffer.keep(buf[pos:], 8)
                if waits or size - pos >= 8:
                    self.has_more = not waits
                    self._buffer.wait()
                return
            frames += 1
            if phase is _Phase.SASL_HEADER or phase is _Phase.AMQP_HEADER:
                self._on_header(buf[pos : pos + HEADER_BYTES], events)
                pos += HEADER_BYTES
                continue
            if phase is _Phase.FRAMES:
                end = frame_end(buf, pos, self.limits.max_frame_size, AMQP_FRAME)
            else:
                end = frame_end(buf, pos, _MAX_SASL_FRAME_BYTES, SASL_FRAME)
            if end > size:
                self._buffer.keep(buf[pos:], end - pos)
                return
            body = pos + (buf[pos + 4] << 2)
            if body < end:
                self._on_frame(reader, body, end, buf[pos + 6] << 8 | buf[pos + 7], events)
            elif phase is _Phase.SASL:
                raise ConnectionFault(FRAMING_ERROR, "a frame of SASL is empty")
            pos = end

    def _on_frame(self, reader: Reader, body: int, end: int, channel: int, events: list[Event]) -> None:
        reader.end = end
        buf = reader.buf
        if buf[body : body + 3] == _TRANSFER and self._phase is _Phase.FRAMES:
            reader.pos = body + 3
            fields = reader.value()
            payload = reader.pos
            if payload > end or type(fields) is not list:
                raise ConnectionFault(DECODE_ERROR, "transfer is not a list within its frame")
            if self._close_sent:
                return
            session = self._by_remote_channel.get(channel)
            if session is None:
                raise _no_session(channel)
            if session.end_sent:
                return
            try:
                session.receive_transfer(fields, buf[payload:end], events)
            except SessionFault as fault:
                self._end_session(session, fault, events)
            return
        accepting = accepts_one(buf, body, end)
        if accepting is not None and self._phase is _Phase.FRAMES:
            self._on_performative(accepting, channel, events)
            return
        reader.pos = body
        self._frame_bytes = end - body
        value = reader.value()
        if reader.pos > end:
            raise ConnectionFault(DECODE_ERROR, "a performative is longer than its frame")
        said = interpret(value)
        if not isinstance(said, Composite):
            raise not_a_performative(value.descriptor if isinstance(value, Described) else value)
        if reader.pos != end:
            raise ConnectionFault(DECODE_ERROR, f"bytes follow {said.SYMBOL} in its frame")
        if self._phase is _Phase.SASL:
            self._on_sasl(said, events)
        else:
            self._on_performative(said, channel, events)

    def _on_header(self, header: bytes, events: list[Event]) -> None:
        due = SASL_HEADER if self._phase is _Phase.SASL_HEADER else AMQP_HEADER
        if header == AMQP_HEADER and due == SASL_HEADER and self._is_server and not self._needs_sasl:
            due = AMQP_HEADER
        if header != due:
            if self._is_server:
                self._write_header(due)  # tells the peer what would do
            self._phase = _Phase.FINISHED
            events.append(
                Closed(Error(FRAMING_ERROR, f"protocol header {header!r} where {due!r} is due"), True)
            )
            return
        if self._is_server:
            self._write_header(header)
        if header == SASL_HEADER:
            self._phase = _Phase.SASL
            assert self.sasl is not None
            self._write_sasl(self.sasl.start())
        else:
            self._phase = _Phase.FRAMES

    def _write_header(self, header: bytes) -> None:
        self._out.append(header)
        if header == AMQP_HEADER:
            self._header_sent = True
            self._send_pending_open()

    def _write_sasl(self, frames: list[Composite]) -> None:
        self._out.extend(encode_frame(0, frame, frame_type=SASL_FRAME) for frame in frames)

    def _on_sasl(self, frame: Composite, events: list[Event]) -> None:
        assert self.sasl is not None
        self._write_sasl(self.sasl.receive(frame))
        if isinstance(self.sasl, SaslServer) and self.sasl.check is not None:
            self._phase = _Phase.CHECKING
            events.append(PasswordGiven(self.sasl.check))
        elif self.sasl.done:
            self._finish_sasl(self.sasl.identity, events)

    def _finish_sasl(self, identity: Identity | None, events: list[Event]) -> None:
        if identity is None:
            self._phase = _Phase.FINISHED
            events.append(Closed(Error(UNAUTHORIZED_ACCESS, "authentication failed"), self._is_server))
            return
        self._phase = _Phase.AMQP_HEADER
        events.append(Authenticated(identity))
        if not self._is_server:
            self._write_header(AMQP_HEADER)

    def _on_performative(self, body: Composite, channel: int, events: list[Event]) -> None:
        if isinstance(body, Close):
            self._on_close(body, events)
        elif self._close_sent:
            return  # what was on its way when we closed
        elif isinstance(body, Open):
            if channel != 0:
                raise ConnectionFault(FRAMING_ERROR, f"open is on channel {channel}, which is not 0")
            self._on_open(body, events)
        elif self.remote_open is None:
            raise ConnectionFault(NOT_ALLOWED, f"{body.SYMBOL} comes before open")
        elif isinstance(body, Begin):
            self._on_begin(body, channel, events)
        else:
            session = self._by_remote_channel.get(channel)
            if session is None:
                raise _no_session(channel)
            if isinstance(body, End):
                self._on_end(session, body, events)
            elif not session.end_sent:
                try:
                    session.receive(body, events)
                except SessionFault as fault:
                    self._end_session(session, fault, events)

    def _on_open(self, open: Open, events: list[Event]) -> None:
        if self.remote_open is not None:
            raise ConnectionFault(NOT_ALLOWED, "the connection is open already")
        if open.max_frame_size < MIN_MAX_FRAME_BYTES:
            raise ConnectionFault(FRAMING_ERROR, f"max-frame-size is below {MIN_MAX_FRAME_BYTES}")
        self.remote_open = Open(open.container_id)  # what else it says is not kept
        self.remote_max_frame_size = min(open.max_frame_size, self.limits.max_frame_size)
        self._remote_channel_max = open.channel_max
        if open.idle_time_out:
            self._remote_idle_s = open.idle_time_out / 1000
        if self._holds_open and SOLE_CONNECTION in open.desired_capabilities:
            self._phase = _Phase.OPENING
        elif self._answer is not None and not self._open_sent:
            self.open(self._answer)
        events.append(Opened(open))

    def _on_begin(self, begin: Begin, channel: int, events: list[Event]) -> None:
        if channel > self.limits.channel_max:
            raise ConnectionFault(FRAMING_ERROR, f"channel {channel} is above {self.limits.channel_max}")
        if channel in self._by_remote_channel:
            raise ConnectionFault(NOT_ALLOWED, f"channel {channel} has a session already")
        if begin.remote_channel is None:
            session = self._new_session()
        else:
            known = self.sessions.get(begin.remote_channel)
            if known is None or known.remote_channel is not None:
                raise ConnectionFault(NOT_ALLOWED, f"channel {begin.remote_channel} was not begun")
            session = known
        self._by_remote_channel[channel] = session
        session.on_begin(begin, channel)
        if not session.begin_sent:
            session.begin()
        events.append(SessionBegun(session))

    def _on_end(self, session: Session, end: End, events: list[Event]) -> None:
        assert session.remote_channel is not None
        del self._by_remote_channel[session.remote_channel]
        if session.end_sent:
            session.ended = True
            self.forget(session)
        else:
            session.on_end()
            events.append(SessionEnded(session, end.error, False))

    def _end_session(self, session: Session, fault: SessionFault, events: list[Event]) -> None:
        error = Error(fault.condition, fault.description)
        session.end(error)
        events.append(SessionEnded(session, error, True))

    def _on_close(self, close: Close, events: list[Event]) -> None:
        """The peer's close, answered at once unless it is an answer itself."""
        if self.remote_open is None:
            raise ConnectionFault(NOT_ALLOWED, "close comes before open")
        self.close()
        self._end_all()
        self._phase = _Phase.FINISHED
        events.append(Closed(close.error, False))

    def _fail(self, condition: str, description: str, events: list[Event]) -> None:
        """Break the connection off: with close if frames are being spoken, silently if not."""
        error = Error(condition, description)
        speaks = self._phase is _Phase.FRAMES
        if speaks and not self._close_sent:
            self.close(error)
        self._end_all()
        self._phase = _Phase.FINISHED
        events.append(Closed(error, True))

    def _end_all(self) -> None:
        for session in self.sessions.values():
            if not session.ended:
                session.on_end()
        self.due.clear()

    def _new_session(self) -> Session:
        channel = 0
        while channel in self.sessions:
            channel += 1
        if channel > min(self._remote_channel_max, self.limits.channel_max):
            raise ConnectionFault(NOT_ALLOWED, "the connection has no channel left")
        session = self.sessions[channel] = Session(self, channel)
        return session

    def _send_pending_open(self) -> None:
        if self._pending_open is not None and self._header_sent and not self._open_sent:
            self._out.append(encode_frame(0, self._pending_open))
            self._open_sent = True


def _no_session(channel: int) -> ConnectionFault:
    return ConnectionFault(NOT_ALLOWED, f"channel {channel} has no session")
