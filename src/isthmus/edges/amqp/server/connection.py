"""One connection of a client: the engine on a transport, and what each of its events leads to.

Bytes go out once per turn of the loop, however many messages were decided in it. A client whose messages
under way are too many bytes is read no further until some are decided; one that reads slowly is sent no more.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final

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
    Opened,
    Receiver,
    Sender,
    Session,
    SessionEnded,
)
from isthmus.edges.amqp.protocol.conditions import (
    INTERNAL_ERROR,
    NOT_FOUND,
    NOT_IMPLEMENTED,
    UNAUTHORIZED_ACCESS,
)
from isthmus.edges.amqp.protocol.performatives import FIRST, SENDER
from isthmus.edges.amqp.protocol.terms import RELEASED, Error, Source, Target
from isthmus.edges.amqp.protocol.terms import Coordinator as CoordinatorTarget
from isthmus.edges.amqp.server.addresses import QUEUE
from isthmus.edges.amqp.server.contract import Client, OutgoingLink, ReceiverRequest, Refused
from isthmus.edges.amqp.server.incoming_link import Coordinator, IncomingLink
from isthmus.edges.amqp.server.transactions import Transactions
from isthmus.errors import HardFailure

if TYPE_CHECKING:
    from isthmus.edges.amqp.server.server import AmqpServer

_NOBODY: Final = Identity("anonymous", "")
_LOCAL_TRANSACTIONS: Final = ("amqp:local-transactions",)


class ServerConnection(asyncio.Protocol):
    """A client of the server."""

    def __init__(self, server: AmqpServer) -> None:
        self.server = server
        self.client = Client(container_id="", identity=_NOBODY, user=None, connection_id=uuid.uuid4().hex)
        self.transactions = Transactions(server.journal)
        self.welcome = True
        """Whether it may go on sending: not while the server is closing."""
        self.signs_messages = False
        """Whether its messages say who sent them."""
        self.engine: Connection
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._login: asyncio.TimerHandle | None = None
        self._unsettled_bytes = 0
        self._reading = True
        self._congested = False
        self._gone = False
        self._letting_go = 0
        """How many outgoing_links are about to end."""
        self._tasks: set[asyncio.Task[None]] = set()

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.engine = self.server.new_engine(transport.get_extra_info("peercert"), self._encrypted)
        if not self.server.admit(self):
            transport.abort()
            return
        self._login = self._loop.call_later(self.server.settings.login_timeout_s, self._too_slow)

    def data_received(self, data: bytes) -> None:
        """The client has sent something."""
        for event in self.engine.receive_data(data, self._loop.time()):
            if type(event) is Delivery:
                self._on_delivery(event)
            elif type(event) is Disposed:
                self._on_disposed(event)
            else:
                self._on_event(event)
        self.flush()

    def pause_writing(self) -> None:
        """The client reads too slowly: what it sends would only make for more answers."""
        self._congested = True
        self.update_backpressure()

    def resume_writing(self) -> None:
        """The client has caught up."""
        self._congested = False
        self.update_backpressure()
        for outgoing_link in self._outgoing_links():
            outgoing_link.flowed()
        self.wake()

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002
        """The client is gone, with or without a word."""
        self._gone = True
        if self._login is not None:
            self._login.cancel()
        self.transactions.abandon()
        self._let_all_go()
        self.server.dismiss(self)

    # What the parts of the server call

    @property
    def in_flight(self) -> int:
        """How many of its messages are not decided yet."""
        return sum(
            link.context.in_flight
            for session in self.engine.sessions.values()
            for link in session.links.values()
            if isinstance(link.context, IncomingLink)
        )

    def hold(self, size: int) -> None:
        """Count a message that is under way."""
        self._unsettled_bytes += size
        self.server.hold(size)
        if self._unsettled_bytes > self.server.settings.max_unsettled_bytes:
            self.update_backpressure()

    def release(self, size: int) -> None:
        """Count a message that is decided."""
        self._unsettled_bytes -= size
        self.server.release(size)
        if not self._reading:
            self.update_backpressure()

    def update_backpressure(self) -> None:
        """Read on, or no further, by what is under way and by how the client reads."""
        limit = self.server.settings.max_unsettled_bytes
        reading = (
            not self._congested
            and not self.server.full
            and self._unsettled_bytes <= (limit if self._reading else limit >> 1)
        )
        if reading != self._reading and not self._transport.is_closing():
            self._reading = reading
            if reading:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def wake(self) -> None:
        """Send, at the end of this turn, what the engine has to send."""
        self.server.wake(self)

    def flush(self) -> None:
        """Send what the engine has to send, now."""
        if self._gone or (self._letting_go and self.engine.finished):
            return
        data = self.engine.data_to_send(self._loop.time())
        if data:
            self._transport.write(data)
        if self.engine.finished:
            self._transport.close()

    def tick(self, now: float) -> None:
        """Let time pass."""
        if not self._reading:
            self.engine.receive_data(b"", now)  # it is us who does not listen
        for event in self.engine.tick(now):
            self._on_event(event)
        self.flush()

    def close(self, error: Error) -> None:
        """Close the connection from our side."""
        self.engine.close(error)
        self.flush()

    def abort(self) -> None:
        """Cut the connection."""
        self._transport.abort()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something that takes a while. It ends with the connection."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # Inside

    @property
    def _encrypted(self) -> bool:
        return self._transport.get_extra_info("ssl_object") is not None

    def _too_slow(self) -> None:
        if self.engine.remote_open is None:
            self.abort()

    def _on_delivery(self, delivery: Delivery) -> None:
        context = delivery.link.context
        if context is not None:
            context.receive(delivery)
        else:
            delivery.settle(RELEASED)

    def _on_event(self, event: Event) -> None:
        match event:
            case Opened(open):
                self._on_opened(open.container_id)
            case LinkAttached(link, attach):
                self.spawn(self._attach(link, attach))
            case LinkDetached(link, closed, _, local):
                self._on_detached(link, closed=closed, local=local)
            case Flowed(link):
                if link.context is not None:
                    link.context.flowed()
            case SessionEnded(session):
                self._on_session_ended(session)
            case Authenticated(identity):
                self.client = self.server.recognize(self.client, identity)
            case Closed(_, local) if not local:
                self._let_all_go()  # before the client is answered: what it has accepted is committed then
            case Closed():
                pass  # the transport closes with what is left to send, and connection_lost does the rest
            case _:
                pass  # a session that began

    def _on_opened(self, container_id: str) -> None:
        if self._login is not None:
            self._login.cancel()
        if self.client.identity is _NOBODY:
            self.client = self.server.recognize(self.client, Identity("anonymous", "ANONYMOUS"))
        self.client = Client(
            container_id=container_id,
            identity=self.client.identity,
            user=self.client.user,
            connection_id=self.client.connection_id,
        )

    def _session_id(self, session: Session) -> str:
        """The journal's name for it."""
        return f"amqp:{self.client.connection_id}:{session.channel}"

    async def _attach(self, link: Link, attach: Attach) -> None:
        try:
            if isinstance(link, Receiver):
                await self._attach_incoming(link)
            else:
                assert isinstance(link, Sender)
                await self._attach_outgoing(link, attach)
        except Refused as refused:
            link.refuse(refused.condition, refused.description)
        except HardFailure as failure:
            link.refuse(INTERNAL_ERROR, str(failure))
        if link.detached and link.attach_sent:
            self._on_detached(link, closed=True, local=False)
        self.flush()

    async def _attach_incoming(self, link: Receiver) -> None:
        session = self._session_id(link.session)
        link.rcv_settle_mode = FIRST  # a message is settled once it is in the journal, in one step
        target = link.target
        if isinstance(target, CoordinatorTarget):
            link.context = Coordinator(self, link, session)
            link.attach(source=link.source, target=CoordinatorTarget(_LOCAL_TRANSACTIONS))
        else:
            target = await self._granted(target if isinstance(target, Target) else Target(), link)
            link.context = IncomingLink(self, link, target.address or "", session)
            link.attach(source=link.source, target=target, max_message_size=self.server.max_message_size)
            if self._gone:
                self._delete_node(link)
        link.context.start()

    async def _granted(self, target: Target, link: Receiver) -> Target:
        """The target as it is granted. Raises `Refused`."""
        if target.dynamic:
            if self.server.outgoing_links is None:
                raise Refused(NOT_IMPLEMENTED, "there are no temporary nodes")
            address = await self.server.outgoing_links.create_node(link, self.client)
            return Target(
                address, dynamic=True, expiry_policy=target.expiry_policy, capabilities=target.capabilities
            )
        if target.address:
            if not self.client.may_send(target.address):
                raise Refused(UNAUTHORIZED_ACCESS, f"you may not send to {target.address!r:.300}")
            problem = await self.server.addresses.find(target.address, queue=QUEUE in target.capabilities)
            if problem is not None:
                raise Refused(NOT_FOUND, problem)
        return target

    async def _attach_outgoing(self, link: Sender, attach: Attach) -> None:
        if self.server.outgoing_links is None:
            raise Refused(NOT_IMPLEMENTED, "nothing can be received here")
        source = attach.source if isinstance(attach.source, Source) else Source()
        if source.address and not self.client.may_receive(source.address.partition("/group.id/")[0]):
            raise Refused(UNAUTHORIZED_ACCESS, f"you may not receive from {source.address!r:.300}")
        outgoing_link = await self.server.outgoing_links.open(
            ReceiverRequest(
                link=link,
                attach=attach,
                client=self.client,
                transactions=self.transactions,
                wake=self.wake,
                sign=self._sign,
                sent=self._count_sent,
                congested=lambda: self._congested,
            )
        )
        link.context = outgoing_link
        if self._gone:
            await outgoing_link.close(detached=True)
            link.source = outgoing_link.source
            self._delete_node(link)
            return
        link.attach(source=outgoing_link.source, target=link.target)
        outgoing_link.flowed()

    def _count_sent(self, messages: int) -> None:
        self.server.stats.delivered += messages

    def _sign(self) -> None:
        self.signs_messages = True

    def _on_detached(self, link: Link, *, closed: bool, local: bool) -> None:
        if not link.attach_sent:
            return  # still being looked into: `_attach` answers
        if isinstance(link.context, IncomingLink | Coordinator) and not local:
            link.context.leave()
        elif link.context is None or local:
            link.detach(closed=closed)
        if not isinstance(link.context, IncomingLink | Coordinator):
            self._let_go(link, detached=not closed)
        self._delete_node(link)

    def _delete_node(self, link: Link) -> None:
        """Delete the temporary queue that was made for the link, if one was."""
        node = link.target if isinstance(link, Receiver) else link.source
        if isinstance(node, Target | Source) and node.dynamic and node.address and self.server.outgoing_links:
            link.target = link.source = None  # once is enough
            self.server.spawn(self.server.outgoing_links.delete_node(node.address))

    def _let_all_go(self) -> None:
        for session in self.engine.sessions.values():
            for link in session.links.values():
                self._let_go(link, detached=True)
                self._delete_node(link)

    def _let_go(self, link: Link, *, detached: bool) -> None:
        """End what fills a link, and answer a detach when that is done."""
        outgoing_link = link.context
        if outgoing_link is None or isinstance(outgoing_link, IncomingLink | Coordinator):
            return
        link.context = None

        async def let_go() -> None:
            try:
                await outgoing_link.close(detached=detached)
            finally:
                self._letting_go -= 1
                link.detach(closed=not detached)
                self.flush()

        self._letting_go += 1
        self.server.spawn(let_go())

    def _on_disposed(self, event: Disposed) -> None:
        link = event.deliveries[0].link
        if link.role == SENDER and link.context is not None:
            link.context.disposed(event.deliveries, event.state, event.settled)

    def _on_session_ended(self, session: Session) -> None:
        self.transactions.abandon(self._session_id(session))
        for link in session.links.values():
            self._let_go(link, detached=True)
            self._delete_node(link)
        session.end()

    def _outgoing_links(self) -> list[OutgoingLink]:
        return [
            link.context
            for session in self.engine.sessions.values()
            for link in session.links.values()
            if isinstance(link, Sender) and link.context is not None
        ]
