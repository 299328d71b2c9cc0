"""The life of a link that a client attached::

    attaching ──► attached ──► detaching ──► gone
        │             └► suspended ─▲
        └───────────────────────────┘

To open what is behind a link takes a while, and so does closing it. What happens meanwhile is not lost:
credit waits in the engine; a detach, or the end of the session or of the connection, lets the opening finish,
and then what it opened is closed. So whatever was opened is closed, and once.

A client's detach is answered when all is closed, behind the answer to its attach if that is still due. Where
something hangs it is answered in time all the same, and what hangs is waited for in the background.

A link that the client detached and did not close is suspended if there is anything to keep: deliveries that
are not settled, or a temporary node. It lasts as long as its session, or longer if its expiry policy says so
(`suspended`). Until then the client may settle what it has, and a link of the same name takes over, from this
connection or another of the same client. With a map of what the client knows to be unsettled it *resumes* the
deliveries; without one they are delivered anew.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from isthmus.edges.amqp.protocol import Attach, Delivery, Link, Session
from isthmus.edges.amqp.protocol.conditions import INTERNAL_ERROR, RESOURCE_LIMIT_EXCEEDED, STOLEN
from isthmus.edges.amqp.protocol.performatives import SENDER
from isthmus.edges.amqp.protocol.terms import RELEASED, Error, Source
from isthmus.edges.amqp.server.suspended import LinkKey
from isthmus.errors import Fault, IsthmusError, Refused
from isthmus.events.amqp import LinkNotClosed, LinkOverdue
from isthmus.telemetry.parts import LinkReport

if TYPE_CHECKING:
    from isthmus.edges.amqp.server.connection import ServerConnection


MAX_LINKS: Final = 4096
"""How many links the sessions of a connection may have together."""
REJECTED: Final = "amqp:rejected:list"


class LinkState(Enum):
    """Where a link is in its life."""

    ATTACHING = auto()
    """What is behind it is being opened."""
    ATTACHED = auto()
    SUSPENDED = auto()
    """The client has detached it, and what it has of it is kept."""
    DETACHING = auto()
    """It is over for the client; what is behind it is being closed, or opened first."""
    GONE = auto()
    """Nothing is left of it."""


class Granted(NamedTuple):
    """What an attach is answered with."""

    source: object
    target: object
    max_message_size: int = 0
    unsettled: dict[Any, Any] | None = None
    incomplete_unsettled: bool = False


class ServerLink(ABC):
    """A link's handler, as `isthmus.edges.amqp.protocol.LinkHandler`.

    Subclasses say how to open and close what is behind the link.
    """

    def __init__(self, connection: ServerConnection, link: Link) -> None:
        self.state = LinkState.ATTACHING
        self.in_flight = 0
        """How many messages of the client are not decided yet."""
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the client need not wait for the link any longer."""
        self._link = link
        self._connection = connection
        self.key = LinkKey.of(connection.client, link.name, link.role)
        """What tells it apart from links of other clients, and of other names."""
        self._beyond = f"the connection has {MAX_LINKS} links" if len(connection.links) >= MAX_LINKS else None
        """Which limit of the connection the link exceeds."""
        self._granted: Granted | None = None
        self.predecessor: ServerLink | None = None
        """A suspended link of the same name, which this one takes over from."""
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when nothing is left of it."""
        self._closed = False
        self._lost = False
        self._expired = False
        self._error: Error | None = None
        self._overdue: asyncio.TimerHandle | None = None

    # What a subclass says

    @abstractmethod
    async def open(self, attach: Attach) -> Granted:
        """Open what is behind the link. Raises `Refused`, or another `IsthmusError`: then nothing is open."""

    @abstractmethod
    def on_attached(self) -> None:
        """The attach was answered: begin."""

    @abstractmethod
    async def close(self, *, closed: bool, lost: bool) -> None:
        """Close what `open` has opened.

        ``closed`` tells that the client closed the link for good, ``lost`` that it did not detach it at all.
        """

    @property
    def keeps_state(self) -> bool:
        """Whether there is anything to keep of a link that the client detaches without closing it."""
        return False

    def kept_for_s(self, *, connected: bool) -> float:  # noqa: ARG002
        """How long it outlives its session, or if not ``connected`` its connection."""
        return 0.0

    @property
    def kept_bytes(self) -> int:
        """Roughly what is kept of it for a client that resumes it, beside messages."""
        return self._link.attach_bytes

    # What the transport calls

    def on_attach(self, attach: Attach) -> None:
        """Open what is behind the link."""
        self._connection.spawn(self._open(attach))

    def on_delivery(self, delivery: Delivery) -> None:
        """Only links that messages come in on have these."""
        delivery.settle(RELEASED)

    def on_flow(self) -> None:  # noqa: B027
        """Only links that messages go out on have this."""

    def on_disposition(  # noqa: B027
        self, deliveries: Sequence[Delivery], state: object, settled: bool
    ) -> None:
        """Only links that messages go out on have these."""

    def on_detach(self, *, closed: bool, error: Error | None, lost: bool) -> None:
        """Close what is behind the link, or have it closed once it is open."""
        detached = not (closed or lost or self.session.ended)
        if self.state is LinkState.ATTACHED and detached and self.keeps_state:
            self._suspend()
            return
        if not (closed or detached) and error is None and self._outlives(lost=lost):
            return
        was, self.state = self.state, LinkState.DETACHING
        self._closed = closed
        self._lost = lost
        wait_s = self._connection.server.link_close_s
        self._overdue = self.over.get_loop().call_later(wait_s, self._answer_overdue)
        if was in (LinkState.ATTACHED, LinkState.SUSPENDED):
            self._connection.spawn(self._close())

    @property
    def session(self) -> Session:
        """The session that it is of."""
        return self._link.session

    def report(self) -> LinkReport:
        """How it stands."""
        link = self._link
        sends = link.role == SENDER
        terminus = link.source if sends else link.target
        return LinkReport(
            address=str(getattr(terminus, "address", None) or ""),
            direction="out" if sends else "in",
            credit=link.credit,
            deliveries=link.delivery_count,
            in_flight=self.in_flight,
        )

    # What the link itself calls

    @property
    def _can_reject(self) -> bool:
        """Whether the client knows the outcome ``rejected``, as one that lists no outcomes is taken to."""
        source = self._link.source
        outcomes = source.outcomes if isinstance(source, Source) else ()
        return not outcomes or REJECTED in outcomes

    def detach(self, error: Error) -> None:
        """End the link from our side, unless it is over."""
        if self.state in (LinkState.ATTACHING, LinkState.ATTACHED):
            self._link.handler = None
            self._error = error
            self._link.detach(error)  # does nothing before attach: `_answer` sends both then
            self._connection.wake()
            self.on_detach(closed=False, error=None, lost=True)
        else:
            self.expire()

    def expire(self) -> None:
        """Keep nothing any longer of a link that is suspended."""
        if self.state is LinkState.SUSPENDED:
            self._expired = True
            self.on_detach(closed=False, error=None, lost=self._lost)

    def steal(self) -> None:
        """Give way to a link of the same name, on another connection of the same client, that resumes it."""
        is_there = self.state in (LinkState.ATTACHED, LinkState.SUSPENDED)
        if is_there and self.kept_for_s(connected=False):
            self._link.handler = None
            self._link.detach(Error(STOLEN, "a link of the same name was attached"))
            self._connection.wake()
            self.on_detach(closed=False, error=None, lost=True)  # closed, if nothing is kept any more

    def replaced(self) -> None:
        """Be over: another link goes on with what was behind this one."""
        self._end()

    async def end_predecessor(self) -> None:
        """Let go of what a suspended link of the same name has left."""
        before = self.predecessor
        if before is not None and before.state is LinkState.SUSPENDED:
            before.expire()
            await asyncio.wait([before.ended], timeout=self._connection.server.link_close_s)

    @property
    def _room_for_map(self) -> int:
        """How many bytes a map of what is unsettled may have in the attach."""
        return self._link.session.connection.remote_max_frame_size // 4

    @property
    def _awaited(self) -> bool:
        """Whether a client waits for the answer to its detach."""
        session = self._link.session
        return not (self._link.detach_sent or session.ended or session.end_sent or self._connection.lost)

    # Inside

    async def _open(self, attach: Attach) -> None:
        try:
            if self._beyond is not None:
                raise Refused(RESOURCE_LIMIT_EXCEEDED, self._beyond)
            opening = self._connection.opening
            waits = opening.locked()
            async with opening:
                if waits and (self.session.ended or self._connection.lost):
                    self._end()  # nobody has heard of it
                    return
                self._granted = await self.open(attach)
        except Fault as refused:
            self._refuse(refused.condition, refused.description)
        except IsthmusError as failure:
            self._refuse(INTERNAL_ERROR, str(failure))
        except BaseException:
            self._end()
            raise
        else:
            if self.state is LinkState.ATTACHING:
                self.state = LinkState.ATTACHED
                self._attach()
                self.on_attached()
                self._connection.wake()
            else:
                await self._close()
        finally:
            before, self.predecessor = self.predecessor, None  # else each would hold on to all before it
            if before is not None:
                before.expire()  # unless this one goes on with it

    def _outlives(self, *, lost: bool) -> bool:
        """Whether it is kept though its session or connection is over."""
        connection = self._connection
        is_kept = self.state in (LinkState.ATTACHED, LinkState.SUSPENDED) and self._error is None
        if not is_kept or self._expired or not connection.accepting:
            return False
        connected = self.session.ended and connection.engine.writable
        seconds = self.kept_for_s(connected=connected)
        if not seconds:
            return False
        self.state = LinkState.SUSPENDED
        self._lost = lost
        self._link.handler = None
        self._link.credit = 0
        connection.forget_link(self)
        connection.server.suspended.keep(self.key, self, seconds)
        if not self.over.done():
            self.over.set_result(None)
        self.on_flow()
        return True

    def _suspend(self) -> None:
        self.state = LinkState.SUSPENDED
        self._link.handler = self
        self._link.suspend()
        self._connection.suspend_link(self._link, self)
        self.on_flow()  # there is no credit any longer
        self._connection.wake()

    async def _close(self) -> None:
        try:
            await self.close(closed=self._closed, lost=self._lost)
        except IsthmusError as failure:
            LinkNotClosed(self._link.name, failure).emit()
        finally:
            self._end()

    def _refuse(self, condition: str, description: str) -> None:
        if self._awaited and not self._link.attach_sent:
            self._link.refuse(condition, description)
        self._end()

    def _end(self) -> None:
        self.state = LinkState.GONE
        if self._overdue is not None:
            self._overdue.cancel()
        self._link.handler = None
        if self._link.detach_sent:
            self._link.session.forget(self._link)
        self._connection.forget_link(self)
        if not self.ended.done():
            self.ended.set_result(None)
        self._answer()

    def _answer_overdue(self) -> None:
        LinkOverdue(self._link.name, self._connection.server.link_close_s).emit()
        self._answer()

    def _answer(self) -> None:
        if not self.over.done():
            self.over.set_result(None)
        if self._awaited:
            if not self._link.attach_sent:
                self._attach()
            self._link.detach(self._error, closed=self._closed or self._error is not None)
            self._connection.wake()

    def _attach(self) -> None:
        granted = self._granted or Granted(None, None)
        self._link.attach(
            source=granted.source,
            target=granted.target,
            max_message_size=granted.max_message_size,
            unsettled=granted.unsettled,
            incomplete_unsettled=granted.incomplete_unsettled,
        )
