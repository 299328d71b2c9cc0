"""What the engine tells: a delivery that has arrived in full, and everything else that a peer can do."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from isthmus.edges.amqp.protocol.performatives import FIRST, Attach, Open
from isthmus.edges.amqp.protocol.sasl import Identity, PasswordCheck
from isthmus.edges.amqp.protocol.terms import Error

if TYPE_CHECKING:
    from isthmus.edges.amqp.protocol.composite import Composite
    from isthmus.edges.amqp.protocol.link import Link, Sender
    from isthmus.edges.amqp.protocol.session import Session


class Delivery(msgspec.Struct, eq=False):
    """A message on its way, in or out.

    An incoming one is the event of its own arrival, all of its frames together, its bytes as they are, never
    decoded. Of an outgoing one the bytes are not kept.
    """

    link: Link
    id: int
    tag: bytes
    data: bytes
    settled: bool = False
    """Whether it is settled, by either side."""
    state: object = None
    """What the peer sent it with, or settled it with: a struct of `terms`, or None."""
    message_format: int = 0
    rcv_settle_mode: int = FIRST
    """Of an incoming one: whether we settle it first, or the peer does once it knows the outcome."""
    resumed: bool = False
    """Of an incoming one: whether the peer goes on with one that is in the link's unsettled map (2.6.13)."""

    def update(self, state: Composite) -> None:
        """Tell the peer a state without settling. Does nothing for one that is settled or forgotten."""
        self.link.session.update(self, state)

    def settle(self, state: object) -> None:
        """Settle it with a state. Does nothing for one that is settled, or whose link is gone."""
        self.link.session.settle(self, state)


class Authenticated(NamedTuple):
    """SASL ended well. Without SASL there is no such event."""

    identity: Identity


class PasswordGiven(NamedTuple):
    """A client showed a password. `Connection.password_checked` is to be told what the check says."""

    check: PasswordCheck


class Opened(NamedTuple):
    """The peer sent open. A server has answered it."""

    open: Open


class Closed(NamedTuple):
    """The connection is over: closed by either side, or broken off. ``error`` is what it failed with.

    ``local`` tells whether the error is ours. What `Connection.data_to_send` still has is to be sent, and
    then the transport closed.
    """

    error: Error | None
    local: bool


class SessionBegun(NamedTuple):
    """The peer began a session, or answered our begin."""

    session: Session


class SessionEnded(NamedTuple):
    """A session is over, its links and unsettled deliveries with it.

    If the peer ended it, it is answered with `Session.end`.
    """

    session: Session
    error: Error | None
    local: bool


class LinkAttached(NamedTuple):
    """The peer attached a link, or answered our attach.

    One that the peer began is answered with `Link.attach` or `Link.refuse`.
    """

    link: Link
    attach: Attach


class LinkDetached(NamedTuple):
    """The peer detached a link, to be answered with `Link.detach`; or a fault of the peer made us do so."""

    link: Link
    closed: bool
    error: Error | None
    local: bool


class Undelivered(NamedTuple):
    """A message with a state, as one of a transaction, was not taken: its link is over, or ends with it."""

    state: object


class Flowed(NamedTuple):
    """The receiver at the other end of a link changed its credit, or asks to drain it."""

    link: Sender


class Disposed(NamedTuple):
    """The peer said something of deliveries of one link, and ``settled`` them or not."""

    deliveries: list[Delivery]
    state: object
    settled: bool


Event = (
    Delivery
    | Authenticated
    | PasswordGiven
    | Opened
    | Closed
    | SessionBegun
    | SessionEnded
    | LinkAttached
    | LinkDetached
    | Undelivered
    | Flowed
    | Disposed
)
