"""What hostile clients do: each begins again and again until it is cancelled.

They are users with every right, or nobody at all. What the server answers does not matter to them, nor does a
connection that it ends.
"""

from __future__ import annotations

import asyncio
import os
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from multiprocessing.synchronize import Event
from typing import Final, NamedTuple

from benches.hostile.peer import Peer
from isthmus.codecs.amqp import AmqpMessage, AmqpValue, Described, MessageProperties, Symbol
from isthmus.edges.amqp.protocol.frames import AMQP_HEADER, EMPTY_FRAME, SASL_FRAME, SASL_HEADER, encode_frame
from isthmus.edges.amqp.protocol.performatives import SaslInit
from isthmus.edges.amqp.protocol.terms import Coordinator, Source, Target

USER: Final = "mallory"
PASSWORD: Final = "not a secret"
TOPIC: Final = "victims"
"""Has messages with a property ``text`` of 80 letters a, and bodies of 100 KB."""
SILENT: Final = 300

_SELECTOR: Final = Symbol("apache.org:selector-filter:string")


class Ports(NamedTuple):
    """Where the server is."""

    amqp: int
    tls: int
    websocket: int


Attack = Callable[[Ports], Awaitable[None]]


async def _logged_in(ports: Ports) -> Peer:
    return await Peer.connect(ports.amqp, USER, PASSWORD)


def _receive(peer: Peer, selector: str | None = None, credit: int = 1000, address: str = TOPIC) -> None:
    link = peer.engine.begin().receiver(os.urandom(8).hex())
    filters = {} if selector is None else {Symbol("jms-selector"): Described(_SELECTOR, selector)}
    link.attach(source=Source(address, capabilities=("queue",), filter=filters), target=Target())
    link.grant(credit)
    peer.flush()


async def selectors(ports: Ports) -> None:
    """Selectors that a backtracking matcher would never come to the end of, and the longest there may be."""
    peer = await _logged_in(ports)
    try:
        like = f"text LIKE '{'%a' * 40}%b'"
        long = " OR ".join(f"text LIKE '%a{number}%'" for number in range(1000))
        for selector in (like, long[:4000], "(" * 4000, "NOT " * 1000 + "a", like):
            _receive(peer, selector)
            await asyncio.sleep(0.2)
    finally:
        peer.close()


async def keys(ports: Ports) -> None:
    """Messages of half a megabyte that are maps of integers, to a queue and to the coordinator."""
    peer = await _logged_in(ports)
    try:
        entries = b"".join(b"\x80" + struct.pack(">Q", n << 40) + b"\x40" for n in range(50_000))
        body = b"\x00\x53\x77\xd1" + struct.pack(">II", len(entries) + 4, 100_000) + entries
        link = await peer.sender("orders")
        for number in range(10):
            link.send(number.to_bytes(4), body)
            peer.flush()
            await asyncio.sleep(0.05)
        coordinator = peer.engine.begin().sender("tx")
        coordinator.attach(source=Source(), target=Coordinator())
        await peer.until(lambda: coordinator.credit)
        coordinator.send(b"x", body)
        peer.flush()
        await asyncio.sleep(0.2)
    finally:
        peer.close()


async def unfinished(ports: Ports) -> None:
    """Messages that are begun and never finished, on links of many, and the connection closed."""
    peer = await _logged_in(ports)
    try:
        session = peer.engine.begin()
        for _ in range(20):
            link = await peer.sender("orders", session)
            link.send(b"t", bytes(900_000), more=True)
            peer.flush()
        await asyncio.sleep(0.2)
    finally:
        peer.close()


async def credit(ports: Ports) -> None:
    """All the credit that there is, for large messages that nobody reads off the socket."""
    peer = await _logged_in(ports)
    try:
        for _ in range(5):
            _receive(peer, credit=2**31 - 1)
        await asyncio.sleep(0.1)
        peer.transport.pause_reading()
        await asyncio.sleep(1)
    finally:
        peer.close()


async def logins(ports: Ports) -> None:
    """Wrong passwords, of the longest kind, a hundred at a time."""

    async def one() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", ports.amqp)
        try:
            wrong = b"\0mallory\0" + b"x" * 100_000
            for response in (wrong, b"\0mallory\0wrong"):
                frame = encode_frame(0, SaslInit(Symbol("PLAIN"), response), frame_type=SASL_FRAME)
                writer.write(SASL_HEADER + frame)
            await asyncio.wait_for(reader.read(), 3)
        finally:
            writer.transport.abort()

    await asyncio.gather(*(one() for _ in range(100)), return_exceptions=True)


async def silent(ports: Ports) -> None:
    """Connections on which nothing is said, without TLS and with it."""
    opened: list[asyncio.StreamWriter] = []
    try:
        for number in range(SILENT):
            port = (ports.amqp, ports.tls, ports.websocket)[number % 3]
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            opened.append(writer)
            if port == ports.tls:
                writer.write(b"\x16\x03\x01\x02\x00\x01")  # the beginning of a handshake
        await asyncio.sleep(1)
    finally:
        for writer in opened:
            writer.transport.abort()


async def links(ports: Ports) -> None:
    """More receivers than anybody needs, and links that come and go."""
    peer = await _logged_in(ports)
    try:
        for number in range(200):
            _receive(peer, credit=1, address=f"{TOPIC}-{number}")
            await asyncio.sleep(0.002)
        await asyncio.sleep(0.3)
    finally:
        peer.close()


async def addresses(ports: Ports) -> None:
    """Messages to addresses that nobody has, that are long, or that are not for clients."""
    peer = await _logged_in(ports)
    try:
        link = await peer.sender("orders")
        for address in ("__consumer_offsets", "isthmus.bench.journal", "a" * 100_000, "/".join("a" * 5_000)):
            message = AmqpMessage(properties=MessageProperties(to=address), body=AmqpValue("x")).encode()
            link.send(address.encode()[:16], message)
            peer.flush()
            await asyncio.sleep(0.05)
    finally:
        peer.close()


async def rubbish(ports: Ports) -> None:
    """Bytes that mean nothing, behind a good beginning."""
    for port in ports:
        for beginning in (b"", AMQP_HEADER, SASL_HEADER, b"GET / HTTP/1.1\r\n"):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(beginning + os.urandom(10_000))
            await asyncio.sleep(0.005)
            writer.transport.abort()


async def frames(ports: Ports) -> None:
    """As many frames as fit into what the server reads at a time: empty ones, in WebSocket too."""
    peer = await _logged_in(ports)
    _, writer = await asyncio.open_connection("127.0.0.1", ports.websocket)
    try:
        writer.write(
            b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
            b"Sec-WebSocket-Protocol: amqp\r\n\r\n"
        )
        for _ in range(4):
            peer.transport.write(EMPTY_FRAME * 32_768)
            writer.write(b"\x82\x80\x00\x00\x00\x00" * 40_000)
            await asyncio.sleep(0.2)
    finally:
        peer.close()
        writer.transport.abort()


ATTACKS: Final[dict[str, Attack]] = {
    attack.__name__: attack
    for attack in (selectors, keys, unfinished, credit, logins, silent, links, addresses, rubbish, frames)
}


def attack(kind: str, ports: Ports, begun: Event) -> None:
    """What a hostile process does until it is ended: it begins anew whatever happened."""

    async def for_ever() -> None:
        begun.set()
        while True:
            with suppress(
                OSError, RuntimeError, TimeoutError, ValueError
            ):  # the server does not put up with it
                await asyncio.wait_for(ATTACKS[kind](ports), 20)
            await asyncio.sleep(0.01)

    asyncio.run(for_ever())
