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
are not settled, or a temporary node. It lasts as long as its session. Until then the client may settle what
it has, and a link of the same name takes over: of deliveries that the client knows the outcome of, that
outcome holds; the others are delivered anew. So no delivery is left to be resumed.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from isthmus.codecs.amqp import Array, Symbol
from isthmus.edges.amqp.protocol import Attach, Delivery, Link, Session
from isthmus.edges.amqp.protocol.composite import interpret
from isthmus.edges.amqp.protocol.conditions import INTERNAL_ERROR, INVALID_FIELD, RESOURCE_LIMIT_EXCEEDED
from isthmus.edges.amqp.protocol.terms import LIFETIME_POLICIES, RELEASED, DeleteOnClose, Error, Source
from isthmus.edges.log_limit import LogLimit
from isthmus.errors import Fault, IsthmusError, Refused

if TYPE_CHECKING:
    from isthmus.edges.amqp.server.connection import ServerConnection

log = logging.getLogger(__name__)
log.addFilter(LogLimit())


MAX_LINKS: Final = 4096
"""How many links the sessions of a connection may have together."""
REJECTED: Final = "amqp:rejected:list"


LINK_DETACH: Final = "link-detach"
"""The expiry policy of a terminus of which nothing is kept."""
LIFETIME: Final = {Symbol("lifetime-policy"): DeleteOnClose().described()}
"""What every temporary node has, whatever was asked for: it is deleted with the link that made it."""


def check_node_properties(properties: dict[Any, Any] | None) -> None:
    """Raises `Refused` for properties of a node that are not of their type (3.5.9)."""
    asked = properties or {}
    policy, modes = asked.get("lifetime-policy"), asked.get("supported-dist-modes")
    if policy is not None and not isinstance(interpret(policy), LIFETIME_POLICIES):
        raise Refused(INVALID_FIELD, f"{policy!r:.100} is not a lifetime policy")
    of_symbols = isinstance(modes, Symbol) or (isinstance(modes, Array) and modes.type == "symbol")
    if modes is not None and not of_symbols:
        raise Refused(INVALID_FIELD, f"{modes!r:.100} are not distribution modes")


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
        self._beyond = f"the connection has {MAX_LINKS} links" if len(connection.links) >= MAX_LINKS else None
        """Which limit of the connection the link exceeds."""
        self._granted: Granted | None = None
        self.predecessor: ServerLink | None = None
        """A suspended link of the same name, which this one takes over from."""
        self._closed = False
        self._lost = False
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

    def on_detach(self, *, closed: bool, error: Error | None, lost: bool) -> None:  # noqa: ARG002
        """Close what is behind the link, or have it closed once it is open."""
        over = closed or lost or self.session.ended
        if self.state is LinkState.ATTACHED and not over and self.keeps_state:
            self._suspend()
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

    async def end_predecessor(self) -> None:
        """Let go of what a suspended link of the same name has left."""
        if self.predecessor is not None:
            self.predecessor.on_detach(closed=False, error=None, lost=False)
            await self.predecessor.over

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
            log.warning("link %.100s was not closed in good order: %s", self._link.name, failure)
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
        self._answer()

    def _answer_overdue(self) -> None:
        log.warning(
            "link %.100s is not closed after %g s: its client waits no longer",
            self._link.name,
            self._connection.server.link_close_s,
        )
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
        source, target, max_message_size, unsettled = self._granted or Granted(None, None)
        self._link.attach(
            source=source, target=target, max_message_size=max_message_size, unsettled=unsettled
        )
