"""One connection of a client: who it is, what it may use, and who handles its links.

A client whose messages in flight are too many bytes is read no further until some are decided; one that reads
slowly is sent no more, and read no further either. The end of a session and the close of the connection are
answered when what their links had open is closed.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Coroutine, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from isthmus.codecs.amqp import Symbol
from isthmus.edges.amqp.protocol import (
    Attach,
    Identity,
    Link,
    LinkHandler,
    Open,
    PasswordCheck,
    Receiver,
    Sender,
    Session,
)
from isthmus.edges.amqp.protocol.conditions import INVALID_FIELD, NOT_ALLOWED, UNAUTHORIZED_ACCESS
from isthmus.edges.amqp.protocol.terms import Coordinator as CoordinatorTarget
from isthmus.edges.amqp.protocol.terms import Error, TransactionalState
from isthmus.edges.amqp.server.contract import Client
from isthmus.edges.amqp.server.coordinator import Coordinator
from isthmus.edges.amqp.server.incoming_link import IncomingLink
from isthmus.edges.amqp.server.link import ServerLink
from isthmus.edges.amqp.server.receiver_link import ReceiverLink
from isthmus.edges.amqp.server.transactions import Transactions
from isthmus.edges.amqp.server.users import User
from isthmus.edges.amqp.transport import AmqpTransport
from isthmus.errors import Refused
from isthmus.events.amqp import ClientConnected, ClientDisconnected, ConnectionEvicted, LoginRefused
from isthmus.telemetry.parts import ClientReport

if TYPE_CHECKING:
    from isthmus.edges.amqp.server.server import AmqpServer

ID_IN_USE: Final = Error(
    INVALID_FIELD,
    "another connection has the container id",
    {Symbol("invalid-field"): Symbol("container-id"), Symbol("invalid-hint"): Symbol("container-id")},
)
"""What Qpid JMS takes for an invalid client id."""
MAX_OPENING: Final = 8
"""How many links of a connection are opened at a time: Kafka has others to serve, too."""
_NOBODY: Final = Identity("anonymous", "")
_NO_USER: Final = User("anonymous", send=(), receive=())


class ServerConnection(AmqpTransport):
    """A client of the server."""

    def __init__(self, server: AmqpServer) -> None:
        super().__init__()
        self.server = server
        self.client = Client(container_id="", identity=_NOBODY, user=_NO_USER, connection_id=uuid.uuid4().hex)
        self.transactions = Transactions(server.journal, self)
        self.accepting = True
        """Whether it may go on sending: not while the server is closing."""
        self.signs_messages = False
        """Whether its messages say who sent them."""
        self.links: dict[ServerLink, None] = {}
        """Its links, until nothing is left of them."""
        self.opening = asyncio.Semaphore(MAX_OPENING)
        self._suspended: dict[tuple[str, bool], ServerLink] = {}
        self.receivers = 0
        """How many of them the client receives on."""
        self.answered = 0
        """How many of its messages have their outcome, and wait for the client to settle them."""
        self.address = ""
        """The network address that the client comes from."""
        self.is_open = False
        """Whether the client has said who it is, and opened the connection."""
        self._is_sole = False
        """Whether it alone has its container id."""
        self._checking = False
        self._login: asyncio.TimerHandle | None = None
        self._unsettled_bytes = 0
        self.unfinished_bytes = 0
        """What has arrived of messages that have not arrived in full."""

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client can speak, over TLS if it is to be."""
        encrypted = transport.get_extra_info("ssl_object") is not None
        self.engine = self.server.new_engine(transport.get_extra_info("peercert"), encrypted)
        if self._login is not None or self.arrive(transport):
            self.server.greet(self)
        super().connection_made(transport)

    def on_received(self) -> None:
        """Count what is left when all that is whole is handled."""
        if self.engine.held_bytes != self.unfinished_bytes:
            self._count_unfinished()

    def pause_writing(self) -> None:
        """Read no further: what the client sends would only make for more answers."""
        super().pause_writing()
        self.update_backpressure()

    def resume_writing(self) -> None:
        """Read on, and send on."""
        super().resume_writing()
        self.update_backpressure()

    def connection_lost(self, error: Exception | None) -> None:
        """Roll back and close what is open."""
        self.transactions.abandon()
        super().connection_lost(error)
        self._count_unfinished()
        if self.is_open:
            ClientDisconnected(self.address, self.client.container_id).emit()
        if self._is_sole:
            self.spawn(self._give_up_id())
        self.depart()

    # What whoever accepts connections calls

    def arrive(self, transport: asyncio.BaseTransport) -> bool:
        """Take a place, with TLS before its handshake. False, and it is cut off, if there is none."""
        assert isinstance(transport, asyncio.Transport)
        self._socket = transport
        self.address = str((transport.get_extra_info("peername") or ("",))[0])
        self._login = self._loop.call_later(self.server.settings.login_timeout_s, self.cut_off)
        if not self.server.admit(self):
            self.cut_off()
            return False
        return True

    def cut_off(self) -> None:
        """Be rid of a client that has not said who it is."""
        self.depart()
        self.abort()

    def depart(self) -> None:
        """Give the place back."""
        if self._login is not None:
            self._login.cancel()
        self.server.forget(self)

    # What the transport calls

    def on_password(self, check: PasswordCheck) -> None:
        """Check it elsewhere, and read on when that is done."""
        self._wait(True)
        self.spawn(self._check(check))

    def accept_link(self, link: Link, attach: Attach) -> LinkHandler:
        """Who handles a link. What is left of a suspended one of its name is for it."""
        handler: ServerLink
        if isinstance(link, Sender):
            handler = ReceiverLink(self, link)
            self.receivers += 1
        else:
            assert isinstance(link, Receiver)
            kind = Coordinator if isinstance(link.target, CoordinatorTarget) else IncomingLink
            handler = kind(self, link)
        before = self._suspended.pop((link.name, link.role), None)
        if before is None:
            before = self.server.find_suspended(self, handler.key, resumes=attach.unsettled is not None)
        handler.predecessor = before
        self.server.latest[handler.key] = handler
        self.links[handler] = None
        return handler

    def on_authenticated(self, identity: Identity) -> None:
        """Note who the client is."""
        self.client = self.server.recognize(self.client, identity)

    def on_opened(self, open: Open) -> None:
        """Note the client's name for itself."""
        self.is_open = True
        if self._login is not None:
            self._login.cancel()
        if self.client.identity is _NOBODY:
            self.client = self.server.recognize(self.client, Identity("anonymous", "ANONYMOUS"))
        self.client = replace(self.client, container_id=open.container_id)
        ClientConnected(self.address, self.client.user.name, open.container_id).emit()
        if self.engine.opening:
            self._wait(True)
            self.spawn(self._be_sole(open.container_id))

    def on_undelivered(self, state: object) -> None:
        """Have a transaction not commit without a message that was sent in it."""
        if isinstance(state, TransactionalState):
            transaction = self.transactions.find(state.txn_id)
            if transaction is not None:
                transaction.fail(Refused(NOT_ALLOWED, "the link of one of its messages was detached"))

    def on_session_ended(self, session: Session, error: Error | None, *, local: bool) -> None:  # noqa: ARG002
        """Roll back what the session left open, and answer when its links are closed."""
        self.transactions.abandon(self.session_id(session))
        links = [each for each in self.links if each.session is session]
        self.end_links(session, lost=local)
        if not local:
            self.spawn(self._answer_end(session, links))

    def on_closed(self, error: Error | None, *, local: bool) -> None:
        """Close the links before the client is answered: what it has accepted is committed then."""
        if local and error is not None and error.condition == UNAUTHORIZED_ACCESS and not self.is_open:
            LoginRefused(self.address).emit()
        self.end_links(lost=local or error is not None)
        if not (local or self.closing) and (self.links or self._is_sole):
            self.answer_held = True
            self.spawn(self._answer_close())

    # What the parts of the server call

    @property
    def in_flight(self) -> int:
        """How many of its messages are not decided yet."""
        return sum(link.in_flight for link in self.links)

    def report(self) -> ClientReport:
        """Who it is, and on which links."""
        client = self.client
        links = tuple(link.report() for link in list(self.links))
        return ClientReport(client.container_id, client.identity.user, self.address, links)

    def suspend_link(self, link: Link, handler: ServerLink) -> None:
        """Remember a link that may be attached again."""
        self._suspended[link.name, link.role] = handler

    def forget_link(self, link: ServerLink) -> None:
        """Forget a link of which nothing is left."""
        if self.links.pop(link, link) is None and isinstance(link, ReceiverLink):
            self.receivers -= 1
        if self.server.latest.get(link.key) is link:
            del self.server.latest[link.key]
        name = link.key.name, link.key.role
        if self._suspended.get(name) is link:
            del self._suspended[name]

    def session_id(self, session: Session) -> str:
        """The journal's name for a session."""
        return f"amqp:{self.client.connection_id}:{session.channel}"

    def sign_messages(self) -> None:
        """Have its messages say who sent them, from now on."""
        self.signs_messages = True

    def hold(self, size: int) -> None:
        """Count a message that is in flight, or held by a transaction."""
        self._unsettled_bytes += size
        self.server.hold(size)
        if self.server.full or self._unsettled_bytes > self.server.settings.max_unsettled_bytes:
            self.update_backpressure()

    def release(self, size: int) -> None:
        """Count a message that is done."""
        self._unsettled_bytes -= size
        self.server.release(size)
        if not self.reading:
            self.update_backpressure()

    def update_backpressure(self) -> None:
        """Read on, or no further, by what is in flight and by how the client reads."""
        limit = self.server.settings.max_unsettled_bytes
        full = self.server.full or self._unsettled_bytes > (limit if self.reading else limit >> 1)
        if full:  # the commit of what is held could not be read
            self.transactions.spill()
        self.set_reading(not (self.congested or full or self._checking or self.busy))

    def evict(self, error: Error) -> None:
        """Close the connection, and free what it holds without waiting for the client."""
        ConnectionEvicted(self.address, error.description).emit()
        self.close_with(error)
        self.end_links()
        self.engine.abandon()
        self._count_unfinished()
        self.flush()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something that takes a while, and may outlive the connection. What it raises ends that."""
        self.server.spawn(work, self.fail)

    # Inside

    def _count_unfinished(self) -> None:
        before, self.unfinished_bytes = self.unfinished_bytes, self.engine.held_bytes
        self.server.count_unfinished(self.unfinished_bytes - before)

    def _wait(self, waits: bool) -> None:
        """Read no further until it is known who the client is, or whether it may come in."""
        self._checking = waits
        self.update_backpressure()

    async def _check(self, check: PasswordCheck) -> None:
        fits = await self.server.aside(check.fits)
        self._wait(False)
        self.on_checked(fits)

    async def _answer_end(self, session: Session, links: Iterable[ServerLink]) -> None:
        await _all_over(links)
        session.end()
        self.wake()

    async def _answer_close(self) -> None:
        await _all_over(self.links)
        await self._give_up_id()
        self.answer_held = False
        self.flush()

    async def _be_sole(self, container_id: str) -> None:
        """Let a client in if no other connection has its container id."""
        self._is_sole = await self.server.client_ids.take(container_id, self._on_id_lost)
        if self.lost:
            await self._give_up_id()
        elif not self.closing:
            self._wait(False)
            self.answer_open(None if self._is_sole else ID_IN_USE)

    async def _give_up_id(self) -> None:
        if self._is_sole:
            self._is_sole = False
            await self.server.client_ids.give_up(self.client.container_id)

    def _on_id_lost(self) -> None:
        """Another process turned out to have it."""
        self._is_sole = False
        self.close_with(ID_IN_USE)


async def _all_over(links: Iterable[ServerLink]) -> None:
    """Return when no client need wait for the links any longer, which each of them sees to."""
    waited_for = [link.over for link in links]
    if waited_for:
        await asyncio.wait(waited_for)
