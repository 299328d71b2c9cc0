"""What the AMQP server needs of others, and what it hands to them.

Senders' messages go to a `isthmus.edges.contract.Journal`. `OutgoingLinks` is the seam for receivers: the
server hands every link that a client wants to receive on to it, and gets an `OutgoingLink` that fills the
link.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from isthmus.edges.amqp.protocol import Attach, Delivery, Identity, Sender
from isthmus.edges.amqp.protocol.terms import Error, Source, Target
from isthmus.edges.amqp.server.transactions import Transactions
from isthmus.edges.amqp.server.users import User
from isthmus.routing.reserved import BY_PREFIX, ReservedTopics
from isthmus.routing.route import TEMPORARY_PREFIX

ERROR_PREFIX = "io.strimzi:"
"""Before conditions that are not AMQP's own, for clients that know them from that bridge."""
ERROR_TO_KAFKA = f"{ERROR_PREFIX}error-to-kafka"
PARTITION_NOT_EXISTS = f"{ERROR_PREFIX}partition-not-exists"


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """Who is connected."""

    container_id: str
    """What JMS calls the client id."""
    identity: Identity
    user: User
    connection_id: str
    """Unique to the connection."""
    reserved: ReservedTopics = BY_PREFIX

    @property
    def may_anything(self) -> bool:
        """Whether there is anything at all that the client may send to or receive from."""
        return self.user is None or bool(self.user.send or self.user.receive)

    def may_send(self, address: str) -> bool:
        """Whether the client may send to an address. Who knows that of a temporary queue may answer there."""
        return address.startswith(TEMPORARY_PREFIX) or self.user.may_send(address, self.reserved)

    def may_receive(self, address: str) -> bool:
        """Whether the client may receive from an address; a temporary queue asks who made it."""
        return address.startswith(TEMPORARY_PREFIX) or self.user.may_receive(address, self.reserved)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverRequest:
    """A client's wish to receive."""

    link: Sender
    """The engine's end of the link, to send on: ``link.send(tag, data, settled=…)`` while ``link.credit``,
    ``link.drained()`` when ``link.drain`` and there is nothing to send."""
    attach: Attach
    """What the client asked for: source with filters and capabilities, settle modes, properties."""
    client: Client
    transactions: Transactions
    """Where an acknowledgement in a transaction finds it: `Transactions.find`, `Transaction.enlist`."""
    wake: Callable[[], None]
    """To be called, on the loop, after anything was sent, settled or drained: bytes go out once a turn."""
    detach: Callable[[Error], None]
    """To be called when nothing more can come: detaches the link, and closes the `OutgoingLink`."""
    sign: Callable[[], None]
    """To be called for a receiver that wants nothing of its own client's: from then on what the connection
    sends says who sent it."""
    sent: Callable[[int, int], None]
    """To be told how many messages were sent, and their bytes, however many at a time."""
    congested: Callable[[], bool]
    """Whether the client reads too slowly: send no more until `OutgoingLink.on_flow` is called."""


class OutgoingLink(Protocol):
    """Fills one link. All is called on the loop."""

    @property
    def source(self) -> Source:
        """What the client is answered: the source as it was granted, with filters that are honoured."""
        ...

    def on_flow(self) -> None:
        """Credit, or the wish to drain, has changed: see the link. Called once after attach, too."""
        ...

    def on_disposition(self, deliveries: Sequence[Delivery], state: object, settled: bool) -> None:
        """The client said something of deliveries: an outcome, or a transactional-state.

        Those that it did not settle are to be settled with ``delivery.settle(state)``.
        """
        ...

    @property
    def unsettled(self) -> list[bytes]:
        """The tags of what was sent and is not settled."""
        ...

    def resume(self, request: ReceiverRequest, *, lost: bool) -> None:
        """Go on over another link of the same name and source, which the client has resumed (2.6.13).

        The client's view of what is unsettled is in the attach: outcomes in it hold, what it has without one
        is sent again as resumed, and what it lacks is delivered anew; as delivered before, if the link that
        was before this one was ``lost``.
        """
        ...

    async def close(self, *, detached: bool, lost: bool) -> None:
        """The link is over: commit what can be, release the rest. Called once, after whatever else was.

        A client's detach is answered when it returns, or after some seconds. ``detached`` tells that the
        client did not close the link: it may come back to a durable subscription. ``lost`` tells that it did
        not detach it either: it may have read what it has not decided on.
        """
        ...


class OutgoingLinks(Protocol):
    """Makes outgoing links, and nodes that live as long as their lifetime policy says."""

    async def open(self, request: ReceiverRequest) -> OutgoingLink:
        """What fills a link. Raises `Refused` for one that cannot be had; attach is answered for you.

        The client may be gone when it returns. It is closed then, without another call.
        """
        ...

    async def create_node(self, target: Target, client: Client) -> str:
        """The address of a new node, for a dynamic target of a sender. Raises `Refused`."""
        ...

    async def leave_node(self, address: str) -> None:
        """The link that made the node is gone."""
        ...

    async def link_node(self, address: str, on_deleted: Callable[[], None]) -> None:
        """One more sender is linked to an address, which may be a node: it is told when that is deleted."""
        ...

    async def unlink_node(self, address: str, on_deleted: Callable[[], None]) -> None:
        """A sender that was to be told so is gone."""
        ...
