"""The doors that take a connection: AMQP frames, SASL, and WebSocket, each at the server's own protocol.

A conversation of a sound client with the server is recorded, frame by frame. An input is one with damage: to
the bytes of a frame, whose size is then right again most of the time; to the order and number of frames; and
cut into pieces as a network does.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz.amqp import mutations
from tests.fuzz.door import Door, Opening
from tests.support.amqp.server import AnyAddress
from tests.support.amqp.wire import message
from tests.support.journals import MemoryJournal

from isthmus.codecs.amqp import AmqpMessage, AmqpValue, Described, Symbol
from isthmus.config.model.amqp import AmqpSettings
from isthmus.edges.amqp.protocol import Connection, Delivery, Limits, Link, Open, SaslClient
from isthmus.edges.amqp.protocol.terms import Coordinator, Declare, Source, Target
from isthmus.edges.amqp.server.connection import ServerConnection
from isthmus.edges.amqp.server.contract import Client, ReceiverRequest
from isthmus.edges.amqp.server.receivers.filters import filters_of
from isthmus.edges.amqp.server.server import AmqpServer
from isthmus.edges.amqp.server.users import Users, set_user
from isthmus.edges.amqp.server.websocket import Origins, WebSocketProtocol

TURNS = 4
"""How many turns of the loop a client stays after all that it has sent."""
HEADER_BYTES = 8


class Socket(asyncio.Transport):
    """A client's socket, as asyncio gives it to a protocol."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1)})
        self.closed = False
        self.reading = True
        self.written = bytearray()

    def write(self, data: Any) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    abort = close

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True


class _Journal(MemoryJournal):
    """Has everything, and keeps nothing."""

    def _write(self) -> None:
        super()._write()
        self.writes.clear()


class _Nothing:
    """A link that nothing ever comes on."""

    def __init__(self, source: Source) -> None:
        self.source = source

    @property
    def unsettled(self) -> list[bytes]:
        return []

    def resume(self, request: ReceiverRequest, *, lost: bool) -> None: ...

    def on_flow(self) -> None: ...

    def on_disposition(self, deliveries: Sequence[Delivery], state: object, settled: bool) -> None: ...

    async def close(self, *, detached: bool, lost: bool) -> None: ...


class _NoMessages:
    """Takes every receiver, once its filters are read."""

    async def open(self, request: ReceiverRequest) -> _Nothing:
        source = request.attach.source
        assert source is None or isinstance(source, Source)
        filters_of(source.filter if source else {})
        return _Nothing(source or Source())

    async def create_node(self, link: Link, client: Client) -> str:
        return "isthmus.temporary.x"

    async def leave_node(self, address: str) -> None: ...

    async def link_node(self, address: str, on_deleted: Callable[[], None]) -> None: ...
    async def unlink_node(self, address: str, on_deleted: Callable[[], None]) -> None: ...


def connection_doors(folder: Path) -> dict[str, Opening]:
    """Those that have an AMQP server behind them."""
    return {
        "frames": lambda: _opened("frames", {}, None, _recorded_frames),
        "sasl": lambda: _opened(
            "sasl", {"users_file": "x", "plain_without_tls": True}, folder, _recorded_logins
        ),
        "websocket": lambda: _opened("websocket", {}, None, _recorded_frames, websocket=True),
    }


@asynccontextmanager
async def _opened(
    name: str,
    settings: dict[str, Any],
    folder: Path | None,
    record: Callable[[AmqpServer], list[list[bytes]]],
    *,
    websocket: bool = False,
) -> AsyncIterator[Door]:
    users = None
    if folder is not None:
        set_user(folder / "users", "alice", "secret")
        users = Users.read(folder / "users")
    server = AmqpServer(
        AmqpSettings(enabled=False, **settings),
        journal=_Journal(),
        addresses=AnyAddress(),
        max_message_size=1_000_000,
        users=users,
        outgoing_links=_NoMessages(),
    )
    await server.start()
    conversations = await _recordings(server, record)
    wrap = _in_websocket if websocket else _as_it_is

    async def take(pieces: list[bytes]) -> bool:
        connection = ServerConnection(server)
        spoken, socket = wrap(connection), Socket()
        spoken.connection_made(socket)
        for piece in pieces:
            for _ in range(TURNS):  # a password is checked elsewhere; whoever waits for that is gone soon
                if not socket.reading:
                    await asyncio.sleep(0)
            if socket.closed or not socket.reading:
                break
            spoken.data_received(piece)
            await asyncio.sleep(0)  # so that links are attached before messages come
            await asyncio.sleep(0)
        for _ in range(TURNS):
            await asyncio.sleep(0)
        refused = socket.closed
        spoken.connection_lost(None)
        await asyncio.sleep(0)
        return not refused

    def make(random: Random) -> list[bytes]:
        data = _damaged(random.choice(conversations), random)
        if websocket:
            return _cut(_framed(data, random), random)
        return data if random.randrange(2) else _cut(b"".join(data), random)

    try:
        yield Door(name, make, take)
        for _ in range(TURNS):
            await asyncio.sleep(0)
        assert server.connections == 0
        assert server._unsettled_bytes == 0, "bytes of connections that are gone are still counted"
    finally:
        await server.close(grace_s=1)


def _as_it_is(connection: ServerConnection) -> asyncio.Protocol:
    return connection


def _in_websocket(connection: ServerConnection) -> asyncio.Protocol:
    return WebSocketProtocol(connection, Origins(None, all_log_in=False))


# What sound clients say


async def _recordings(
    server: AmqpServer, record: Callable[[AmqpServer], list[list[bytes]]]
) -> list[list[bytes]]:
    return await asyncio.gather(*record(server))  # type: ignore[arg-type]


async def _talk(server: AmqpServer, sasl: SaslClient, *steps: Callable[[Connection], object]) -> list[bytes]:
    """The frames of a client that does these steps, one after the other is answered."""
    connection, socket = ServerConnection(server), Socket()
    connection.connection_made(socket)
    client = Connection.client(Limits(idle_timeout_s=None), sasl)
    client.open(Open("fuzz"))
    said = bytearray()
    for step in (lambda _: None, *steps):
        step(client)
        for _ in range(20):
            data = client.data_to_send(0)
            said += data
            if data:
                connection.data_received(data)
            await asyncio.sleep(0.005)
            answer, socket.written = bytes(socket.written), bytearray()
            client.receive_data(answer, 0)
    connection.connection_lost(None)
    return _frames(bytes(said))


def _recorded_frames(server: AmqpServer) -> list[Any]:
    def send(client: Connection) -> None:
        link = client.begin().sender("out")
        link.attach(source=Source(), target=Target("orders"))

    def transfer(client: Connection) -> None:
        [link] = client.sessions[0].links.values()
        for number in range(3):
            link.send(b"%d" % number, message("text" * 50, to="other"), settled=number == 1)  # type: ignore[attr-defined]

    def coordinate(client: Connection) -> None:
        link = client.begin().sender("tx")
        link.attach(source=Source(), target=Coordinator(("amqp:local-transactions",)))

    def declare(client: Connection) -> None:
        [link] = client.sessions[0].links.values()
        link.send(b"d", AmqpMessage(body=AmqpValue(Declare().described())).encode())  # type: ignore[attr-defined]

    def receive(client: Connection) -> None:
        selector = Described(Symbol("apache.org:selector-filter:string"), "a = 1 AND b LIKE 'x%'")
        link = client.begin().receiver("in")
        link.attach(
            source=Source("q", capabilities=("queue",), filter={Symbol("jms-selector"): selector}),
            target=Target(),
        )

    def grant(client: Connection) -> None:
        [link] = client.sessions[0].links.values()
        link.grant(100)  # type: ignore[attr-defined]
        link.detach(closed=True)

    def end(client: Connection) -> None:
        client.close()

    return [
        _talk(server, SaslClient(), send, transfer, end),
        _talk(server, SaslClient(), coordinate, declare),
        _talk(server, SaslClient(), receive, grant, end),
    ]


def _recorded_logins(server: AmqpServer) -> list[Any]:
    logins = [
        SaslClient("alice", "secret", mechanisms=[mechanism])
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN")
    ]
    strangers = [SaslClient("bob", "x", mechanisms=[mechanism]) for mechanism in ("SCRAM-SHA-256", "PLAIN")]
    return [_talk(server, each) for each in (*logins, *strangers)]


def _frames(data: bytes) -> list[bytes]:
    """Protocol headers and frames, one by one."""
    found, at = [], 0
    while at < len(data):
        size = HEADER_BYTES if data[at : at + 4] == b"AMQP" else struct.unpack_from(">I", data, at)[0]
        found.append(data[at : at + size])
        at += size
    return found


# What becomes of it


def _damaged(frames: list[bytes], random: Random) -> list[bytes]:
    frames = list(frames)
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(frames))
        match random.randrange(8):
            case 0:
                del frames[at]
                frames = frames or [b""]
            case 1:
                frames.insert(at, random.choice(frames))
            case 2:
                frames[at], frames[-1] = frames[-1], frames[at]
            case 3:
                frames[at] = mutations(frames[at], random)
            case 4:
                frames[at] *= random.choice((2, 50))
            case _ if len(frames[at]) > HEADER_BYTES:
                body = mutations(frames[at][HEADER_BYTES:], random)
                size = struct.pack(">I", HEADER_BYTES + len(body))
                frames[at] = size + frames[at][4:HEADER_BYTES] + body
            case _:
                frames[at] = mutations(frames[at], random)
    return frames


def _cut(data: bytes, random: Random) -> list[bytes]:
    """Pieces, as they come from a network."""
    if random.randrange(3):
        return [data]
    places = sorted(random.randrange(len(data) + 1) for _ in range(random.randint(1, 4)))
    return [data[start:end] for start, end in zip([0, *places], [*places, len(data)], strict=True)]


REQUEST = (
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    b"Sec-WebSocket-Protocol: amqp\r\nOrigin: http://127.0.0.1\r\n\r\n"
)
BINARY, CLOSE, PING = 0x82, 0x88, 0x89


def _framed(frames: list[bytes], random: Random) -> bytes:
    """A stream in WebSocket's frames, with damage to those in place of that to what is inside."""
    request = mutations(REQUEST, random) if random.randrange(10) == 0 else REQUEST
    inside = b"".join(frames)
    step = random.choice((1, 7, 200, 70_000)) if len(inside) < 5000 else 70_000
    sent = [_frame(BINARY, inside[at : at + step], random) for at in range(0, len(inside), step)]
    sent.insert(
        random.randrange(len(sent) + 1), _frame(random.choice((PING, CLOSE, BINARY)), b"\x03\xe8", random)
    )
    stream = b"".join(sent)
    return request + (mutations(stream, random) if random.randrange(2) else stream)


def _frame(code: int, payload: bytes, random: Random) -> bytes:
    mask = random.randbytes(4)
    size = len(payload)
    length = (
        bytes([0x80 | size])
        if size < 126
        else bytes([0xFE]) + struct.pack(">H", size)
        if size < 65_536
        else bytes([0xFF]) + struct.pack(">Q", size)
    )
    masked = bytes(octet ^ mask[place % 4] for place, octet in enumerate(payload))
    return bytes([code]) + length + mask + masked
