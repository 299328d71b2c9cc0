"""A link that a client receives on: an `OutgoingLink` fills it, as long as it is attached."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from isthmus.edges.amqp.protocol import Attach, Delivery, Sender
from isthmus.edges.amqp.protocol.composite import interpret
from isthmus.edges.amqp.protocol.conditions import (
    NOT_IMPLEMENTED,
    UNAUTHORIZED_ACCESS,
    UNKNOWN_TRANSACTION,
)
from isthmus.edges.amqp.protocol.terms import OUTCOMES, Error, Source, TransactionalState
from isthmus.edges.amqp.server.contract import OutgoingLink, ReceiverRequest
from isthmus.edges.amqp.server.link import (
    LIFETIME,
    LINK_DETACH,
    Granted,
    LinkState,
    ServerLink,
    check_node_properties,
)
from isthmus.errors import Refused

if TYPE_CHECKING:
    from isthmus.edges.amqp.server.connection import ServerConnection


class ReceiverLink(ServerLink):
    """Opens an `OutgoingLink`, tells it what the client does, and closes it."""

    def __init__(self, connection: ServerConnection, link: Sender) -> None:
        super().__init__(connection, link)
        self._sender = link
        most = connection.server.settings.max_receivers
        if connection.receivers >= most:
            self._beyond = f"the connection has {most} receivers"
        self._outgoing: OutgoingLink
        self.node: str | None = None
        """The temporary node that was made for the link, if it is to be deleted with it."""

    async def open(self, attach: Attach) -> Granted:
        """Ask for what fills the link."""
        connection, outgoing_links = self._connection, self._connection.server.outgoing_links
        if outgoing_links is None:
            raise Refused(NOT_IMPLEMENTED, "nothing can be received here")
        attach = await self._take_over(attach)
        source = attach.source if isinstance(attach.source, Source) else Source()
        if source.dynamic:
            check_node_properties(source.dynamic_node_properties)
        if source.address and not connection.client.may_receive(source.address.partition("/group.id/")[0]):
            raise Refused(UNAUTHORIZED_ACCESS, f"you may not receive from {source.address!r:.300}")
        self._outgoing = await outgoing_links.open(
            ReceiverRequest(
                link=self._sender,
                attach=attach,
                client=connection.client,
                transactions=connection.transactions,
                wake=connection.wake,
                detach=self.detach,
                sign=connection.sign_messages,
                sent=connection.server.count_delivered,
                congested=lambda: connection.congested or self._sender.session.waiting_frames > 0,
            )
        )
        granted = self._outgoing.source
        if granted.dynamic:
            self.node = granted.address
        if self.node is not None:
            granted = replace(granted, dynamic=True, dynamic_node_properties=LIFETIME)
        return Granted(granted, attach.target, unsettled=None if attach.unsettled is None else {})

    def on_attached(self) -> None:
        """Send what there is credit for already."""
        self._outgoing.on_flow()

    async def close(self, *, closed: bool, lost: bool) -> None:
        """Close what fills the link, and delete the temporary queue that was made for it."""
        try:
            await self._outgoing.close(detached=not closed, lost=lost)
        finally:
            if self.node is not None and self._connection.server.outgoing_links is not None:
                await self._connection.server.outgoing_links.delete_node(self.node)

    @property
    def keeps_state(self) -> bool:
        """Whether deliveries are unsettled, or a node was made; a durable subscription is kept elsewhere."""
        source = self._outgoing.source
        if source.durable or source.expiry_policy == LINK_DETACH:
            return False
        return self.node is not None or bool(self._link.session.unsettled_of(self._link))

    def on_flow(self) -> None:
        """Send what there is credit for. Before the attach is answered, credit waits."""
        if self.state in (LinkState.ATTACHED, LinkState.SUSPENDED):
            self._outgoing.on_flow()

    def on_disposition(self, deliveries: Sequence[Delivery], state: object, settled: bool) -> None:
        """Tell what the client decided. In a transaction that there is none of, nothing can be."""
        if isinstance(state, TransactionalState) and self._connection.transactions.find(state.txn_id) is None:
            self.detach(Error(UNKNOWN_TRANSACTION, "there is no such transaction, or it has ended"))
            return
        self._outgoing.on_disposition(deliveries, state, settled)

    async def _take_over(self, attach: Attach) -> Attach:
        """Go on where a suspended link of the name has stopped; the attach as if there had been none."""
        before = self.predecessor
        if not isinstance(before, ReceiverLink):
            return attach
        known = attach.unsettled or {}
        for delivery in before.session.unsettled_of(before._link):
            outcome = interpret(known.get(delivery.tag))
            if isinstance(outcome, OUTCOMES):
                before.on_disposition([delivery], outcome, True)
        self.node, before.node = before.node, None
        await self.end_predecessor()
        if self.node is None or not isinstance(attach.source, Source):
            return attach
        return replace(attach, source=replace(attach.source, address=self.node, dynamic=False))
