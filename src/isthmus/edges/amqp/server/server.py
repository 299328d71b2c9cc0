"""An AMQP 1.0 server for JMS and AMQP clients, on asyncio.

What senders send goes to the journal, and is accepted once it is there. What receivers get comes from the
`OutgoingLinks` that the server is given. `close` takes no more connections, waits for what is in flight, and
tells clients that it is not their fault. It returns in time, whatever hangs.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from isthmus.codecs.amqp import Symbol, UInt
from isthmus.config.model.amqp import AmqpSettings, AmqpsSettings
from isthmus.edges.addresses import AddressBook
from isthmus.edges.amqp.protocol import Connection, Identity, Limits, Open, SaslServer
from isthmus.edges.amqp.protocol.conditions import CONNECTION_FORCED, RESOURCE_LIMIT_EXCEEDED
from isthmus.edges.amqp.protocol.connection import SOLE_CONNECTION
from isthmus.edges.amqp.protocol.sasl import ANONYMOUS, EXTERNAL, PLAIN, SCRAM_SHA_256, SCRAM_SHA_512
from isthmus.edges.amqp.protocol.terms import Error
from isthmus.edges.amqp.server.connection import ServerConnection
from isthmus.edges.amqp.server.contract import Client, OutgoingLinks
from isthmus.edges.amqp.server.link import ServerLink
from isthmus.edges.amqp.server.suspended import LinkKey, SuspendedLinks
from isthmus.edges.amqp.server.tls import TlsHandshake
from isthmus.edges.amqp.server.traffic import Traffic
from isthmus.edges.amqp.server.users import ANYTHING, User, Users
from isthmus.edges.contract import Journal
from isthmus.events.amqp import ConnectionTurnedAway, LinksGivenUp, MemoryFreed, MemoryFull
from isthmus.kafka.name_locks import NameLocks
from isthmus.routing.reserved import BY_PREFIX, ReservedTopics
from isthmus.telemetry.parts import Clients

CAPABILITIES: Final = ("ANONYMOUS-RELAY", "SHARED-SUBS", "DELAYED_DELIVERY", SOLE_CONNECTION)
PROPERTIES: Final = {
    Symbol("sole-connection-enforcement-policy"): UInt(0),
    Symbol("sole-connection-detection-policy"): UInt(1),
}
"""A connection is refused if another has its container id, and if both ask to be the only one: `weak`
detection. Who reads neither would take it for strong."""
MAX_FRAMES: Final = 256
"""How many frames of a client are handled in one turn of the loop."""
OVERHEAD_BYTES: Final = 4096
"""What a message in flight takes in memory beside its bytes, roughly."""


@dataclass(slots=True)
class Stats:
    """What was counted since the start."""

    accepted: int = 0
    accepted_bytes: int = 0
    rejected: int = 0
    delivered: int = 0
    """Messages that were sent to receivers."""
    delivered_bytes: int = 0
    connects: int = 0
    disconnects: int = 0
    turned_away: int = 0
    """Connections beyond a limit: new ones, or silent ones that made room."""


class AmqpServer:
    """Takes connections until it is closed."""

    def __init__(
        self,
        settings: AmqpSettings,
        amqps: AmqpsSettings | None = None,
        *,
        journal: Journal,
        addresses: AddressBook,
        max_message_size: int,
        container_id: str = "isthmus",
        users: Users | None = None,
        reserved: ReservedTopics = BY_PREFIX,
        outgoing_links: OutgoingLinks | None = None,
        client_ids: NameLocks | None = None,
        as_json: bool = False,
        senders_choose: bool = False,
        link_close_s: float = 5.0,
    ) -> None:
        """``link_close_s`` is how long a client waits at most for a link of its to be closed."""
        self.settings = settings
        self.journal = journal
        self.addresses = addresses
        self.max_message_size = settings.max_message_size or max_message_size
        self.outgoing_links = outgoing_links
        self.client_ids = client_ids or NameLocks()
        """The client ids that are in use."""
        self.as_json = as_json
        """Whether any route needs the document of the ``json`` converter."""
        self.senders_choose = senders_choose
        """Whether senders may name the partition of a JMS destination."""
        self.link_close_s = link_close_s
        self.stats = Stats()
        self.traffic = Traffic()
        self._amqps = amqps or AmqpsSettings()
        self._context: ssl.SSLContext | None = None
        """What TLS goes by, once it is listened for."""
        self._users = users
        self._reserved = reserved
        self._limits = Limits(
            max_frame_size=settings.max_frame_size,
            channel_max=settings.max_sessions - 1,
            handle_max=settings.max_links - 1,
            idle_timeout_s=settings.idle_timeout_s,
            max_frames=MAX_FRAMES,
            max_partial_bytes=max(settings.max_unsettled_bytes, 2 * self.max_message_size),
        )
        self.suspended = SuspendedLinks()
        """What is kept of links whose connection is over."""
        self.latest: dict[LinkKey, ServerLink] = {}
        """The link of a key that was attached last, in whichever connection."""
        self._answer = Open(container_id, offered_capabilities=CAPABILITIES, properties=PROPERTIES)
        self.full = False
        """Whether the messages in flight are too many bytes for anybody to be read further."""
        self._unsettled_bytes = 0
        self._unfinished_bytes = 0
        self._max_unfinished_bytes = max(settings.max_total_unsettled_bytes // 2, 2 * self.max_message_size)
        self._admitted: dict[ServerConnection, None] = {}
        """All that have a place, the oldest first: also those that are in TLS' handshake."""
        self._addresses: Counter[str] = Counter()
        self._connections: dict[ServerConnection, None] = {}
        self._aside = ThreadPoolExecutor(max_workers=2, thread_name_prefix="amqp-login")
        self._tasks: set[asyncio.Task[None]] = set()
        self._servers: list[asyncio.Server] = []
        self._loop: asyncio.AbstractEventLoop

    async def start(self, *, reuse_port: bool = False) -> None:
        """Begin to listen. With ``reuse_port`` several processes share the port."""
        self._loop = asyncio.get_running_loop()
        if self.settings.enabled:
            await self._listen(self.settings.port, None, reuse_port)
        if self._amqps.port is not None:
            await self._listen(self._amqps.port, self._amqps, reuse_port)
        if self.settings.ws_port is not None:
            await self._listen_for_websockets(self.settings.ws_port, None, reuse_port)
        if self._amqps.ws_port is not None:
            await self._listen_for_websockets(self._amqps.ws_port, self._amqps, reuse_port)

    @property
    def ports(self) -> list[int]:
        """The ports that it listens on: without TLS first, and those for WebSocket behind the others."""
        return [server.sockets[0].getsockname()[1] for server in self._servers]

    @property
    def connections(self) -> int:
        """How many clients are connected."""
        return len(self._connections)

    def clients(self, most: int) -> Clients:
        """Who is connected, and on which links; so many are shown at most. Other threads may ask."""
        connected = [each for each in list(self._connections) if each.is_open]
        return Clients(len(connected), tuple(each.report() for each in connected[:most]))

    @property
    def transactions(self) -> tuple[int, float]:
        """How many transactions are open, and for how long the oldest is. Other threads may ask."""
        connections = [each.transactions for each in self._connections.copy()]
        begun = [began for each in connections if (began := each.oldest) is not None]
        return sum(map(len, connections)), time.monotonic() - min(begun) if begun else 0.0

    @property
    def unsettled_bytes(self) -> int:
        """What messages in flight take, and those that have not arrived in full."""
        return self._unsettled_bytes

    def change(self, users: Users | None, amqps: AmqpsSettings) -> None:
        """Go by other users and certificates from now on.

        Connections stay, but for those of users that are gone or have other rights or another password: they
        are closed once what they have sent is decided. Raises `ConfigError` for certificates that cannot be
        used: then nothing changes.
        """
        if self._context is not None:
            self._context = amqps.context()
        self._amqps = amqps
        before, self._users = self._users, users
        if before is None or users is None:
            return
        for connection in list(self._connections):
            name = connection.client.identity.user
            if before.find(name) != users.find(name):
                self.spawn(self._let_go(connection), connection.fail)

    async def _let_go(self, connection: ServerConnection, grace_s: float = 4.0) -> None:
        connection.accepting = False
        await self._until(lambda: not connection.in_flight, grace_s)
        if connection in self._connections:
            connection.close_with(Error(CONNECTION_FORCED, "the rights of this user have changed"))

    async def close(self, grace_s: float = 4.0) -> None:
        """Take no more connections, wait for what is in flight, and close those that there are.

        Returns after ``grace_s`` and four seconds at the latest. What has not ended by then is given up.
        """
        for server in self._servers:
            server.close()
        for connection in self._admitted.keys() - self._connections.keys():
            connection.cut_off()
        for connection in self._connections:
            connection.accepting = False
        self.suspended.close()
        await self._until(lambda: not any(each.in_flight for each in self._connections), grace_s)
        for connection in list(self._connections):
            connection.close_with(Error(CONNECTION_FORCED, "the server is shutting down"))
        await self._until(lambda: not self._connections, 2.0)
        for connection in list(self._connections):
            connection.abort()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=1.5)
        if self._tasks:
            LinksGivenUp(len(self._tasks)).emit()
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks, timeout=0.5)
        self._aside.shutdown(wait=False, cancel_futures=True)
        for server in self._servers:
            await server.wait_closed()

    # What connections call

    def new_engine(self, certificate: dict[str, Any] | None, encrypted: bool) -> Connection:
        """The engine for a connection, with the mechanisms that suit it."""
        external = _common_name(certificate)
        mechanisms = [EXTERNAL] if external else []
        if self._users is not None:
            mechanisms += [SCRAM_SHA_512, SCRAM_SHA_256]
            if encrypted or self.settings.plain_without_tls:
                mechanisms.append(PLAIN)
        anonymous = self.settings.allows_anonymous
        if anonymous:
            mechanisms.append(ANONYMOUS)
        sasl = SaslServer(mechanisms, self._users, external)
        return Connection.server(
            self._limits, sasl, answer=self._answer, needs_sasl=not anonymous, holds_open=True
        )

    def admit(self, connection: ServerConnection) -> bool:
        """Whether there is room for one more, which whoever is silent for the longest makes if need be."""
        address = connection.address
        if self._addresses[address] >= self.settings.max_connections_per_address:
            has_room = self._make_room(address)
        else:
            has_room = len(self._admitted) < self.settings.max_connections or self._make_room(None)
        if not has_room:
            self._turned_away(connection)
            return False
        self._admitted[connection] = None
        self._addresses[address] += 1
        return True

    def greet(self, connection: ServerConnection) -> None:
        """Count one that can speak."""
        self._connections[connection] = None
        self.stats.connects += 1

    def forget(self, connection: ServerConnection) -> None:
        """Forget one that is gone."""
        if connection in self._admitted:
            del self._admitted[connection]
            self._addresses[connection.address] -= 1
            if not self._addresses[connection.address]:
                del self._addresses[connection.address]
        if connection in self._connections:
            del self._connections[connection]
            self.stats.disconnects += 1

    def find_suspended(
        self, connection: ServerConnection, key: LinkKey, *, resumes: bool
    ) -> ServerLink | None:
        """What is kept of a link of another connection of the same client, one that is still open if need be.

        Only who ``resumes`` it takes a link away from an open connection: others may have its name by chance.
        """
        latest = self.latest.get(key)
        if resumes and latest is not None and latest not in connection.links:
            latest.steal()
        return self.suspended.take(key)

    async def aside(self, check: Callable[[], bool]) -> bool:
        """Do what takes long in a thread."""
        return await self._loop.run_in_executor(self._aside, check)

    def hold(self, size: int) -> None:
        """Count a message that is in flight."""
        self._unsettled_bytes += size + OVERHEAD_BYTES
        if not self.full and self._unsettled_bytes > self.settings.max_total_unsettled_bytes:
            self._set_full(True)

    def release(self, size: int) -> None:
        """Count a message that is decided."""
        self._unsettled_bytes -= size + OVERHEAD_BYTES
        if self.full and self._has_room:
            self._set_full(False)

    def count_unfinished(self, change: int) -> None:
        """Count what arrives of messages that have not arrived in full.

        It is bounded for itself: who does not finish what it sends would keep everybody else from being read.
        The one that holds the most has to go.
        """
        self._unfinished_bytes += change
        self._unsettled_bytes += change
        if self._unfinished_bytes > self._max_unfinished_bytes:
            greediest = max(self._connections, key=lambda each: each.unfinished_bytes)
            greediest.evict(Error(RESOURCE_LIMIT_EXCEEDED, "too many bytes of unfinished messages"))
        elif change < 0 and self.full and self._has_room:
            self._set_full(False)

    def recognize(self, client: Client, identity: Identity) -> Client:
        """The client, now that it is known who it is: with a users file, whoever is not in it may nothing.

        Where nobody has a name there is nobody to grant the dead letters to, so all may read them.
        """
        name = identity.user
        if self._users is None:
            dead_letters = self._reserved.dead_letters
            user = User(name, receive=ANYTHING if dead_letters is None else (*ANYTHING, dead_letters))
        else:
            user = self._users.find(name) or User(name, send=(), receive=())
        return replace(client, identity=identity, user=user, reserved=self._reserved)

    def count_delivered(self, messages: int, size: int) -> None:
        """Count messages that were sent to receivers."""
        self.stats.delivered += messages
        self.stats.delivered_bytes += size

    def spawn(self, work: Coroutine[Any, Any, None], failed: Callable[[BaseException], None]) -> None:
        """Do something that may outlive a connection; ``failed`` is told of what it raises."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(partial(self._on_done, failed))

    # Inside

    @property
    def _has_room(self) -> bool:
        """Whether those who wait can be read again: once half is free, or all that can become so."""
        settings = self.settings
        return self._unsettled_bytes <= max(settings.max_total_unsettled_bytes >> 1, self._unfinished_bytes)

    def _on_done(self, failed: Callable[[BaseException], None], task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            failed(error)

    async def _until(self, condition: Callable[[], bool], timeout_s: float) -> None:
        """Return when the condition holds, or when the time is over."""
        deadline = self._loop.time() + timeout_s
        while not condition() and self._loop.time() < deadline:
            await asyncio.sleep(0.01)

    def _set_full(self, full: bool) -> None:
        self.full = full
        (MemoryFull(self._unsettled_bytes) if full else MemoryFreed()).emit()
        for connection in self._connections:
            connection.update_backpressure()

    def _make_room(self, address: str | None) -> bool:
        """Cut off the connection that has not been opened for the longest, of an address or of any."""
        for connection in self._admitted:
            if not connection.is_open and address in (None, connection.address):
                self._turned_away(connection)
                connection.cut_off()
                return True
        return False

    def _turned_away(self, connection: ServerConnection) -> None:
        self.stats.turned_away += 1
        ConnectionTurnedAway(connection.address).emit()

    async def _listen_for_websockets(self, port: int, amqps: AmqpsSettings | None, reuse_port: bool) -> None:
        from isthmus.edges.amqp.server.websocket import Origins, WebSocketProtocol

        # A page has no password, but its browser may have a certificate.
        all_log_in = not self.settings.allows_anonymous and self._amqps.client_ca is None
        origins = Origins(self.settings.ws_origins, all_log_in=all_log_in)
        await self._listen(port, amqps, reuse_port, lambda inner: WebSocketProtocol(inner, origins))

    async def _listen(
        self,
        port: int,
        amqps: AmqpsSettings | None,
        reuse_port: bool,
        wrap: Callable[[ServerConnection], asyncio.Protocol] = lambda connection: connection,
    ) -> None:
        """``wrap`` gives what is spoken on the socket, or inside TLS, for what is spoken inside that."""
        if amqps is not None and self._context is None:
            self._context = amqps.context()

        def accept() -> asyncio.Protocol:
            connection = ServerConnection(self)
            spoken = wrap(connection)
            if amqps is None or self._context is None:
                return spoken
            return TlsHandshake(connection, self._context, spoken)

        server = await self._loop.create_server(
            accept,
            self.settings.host,
            port,
            reuse_port=reuse_port or None,
            backlog=1024,
        )
        self._servers.append(server)


def _common_name(certificate: dict[str, Any] | None) -> str | None:
    for part in (certificate or {}).get("subject", ()):
        for name, value in part:
            if name == "commonName":
                return str(value)
    return None
