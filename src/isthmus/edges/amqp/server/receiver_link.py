"""A link that a client receives on: an `OutgoingLink` fills it, as long as it is attached."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from isthmus.edges.amqp.protocol import Attach, Delivery, Sender
from isthmus.edges.amqp.protocol.conditions import NOT_IMPLEMENTED, UNAUTHORIZED_ACCESS
from isthmus.edges.amqp.protocol.terms import Source
from isthmus.edges.amqp.server.contract import OutgoingLink, ReceiverRequest
from isthmus.edges.amqp.server.link import Granted, LinkState, ServerLink
from isthmus.errors import Refused

if TYPE_CHECKING:
    from isthmus.edges.amqp.server.connection import ServerConnection


class ReceiverLink(ServerLink):
    """Opens an `OutgoingLink`, tells it what the client does, and closes it."""

    def __init__(self, connection: ServerConnection, link: Sender) -> None:
        super().__init__(connection, link)
        self._sender = link
        self._outgoing: OutgoingLink

    async def open(self, attach: Attach) -> Granted:
        """Ask for what fills the link."""
        connection, outgoing_links = self._connection, self._connection.server.outgoing_links
        if outgoing_links is None:
            raise Refused(NOT_IMPLEMENTED, "nothing can be received here")
        source = attach.source if isinstance(attach.source, Source) else Source()
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
        return Granted(self._outgoing.source, attach.target)

    def on_attached(self) -> None:
        """Send what there is credit for already."""
        self._outgoing.on_flow()

    async def close(self, *, closed: bool, lost: bool) -> None:
        """Close what fills the link, and delete the temporary queue that was made for it."""
        try:
            await self._outgoing.close(detached=not closed, lost=lost)
        finally:
            source, outgoing_links = self._outgoing.source, self._connection.server.outgoing_links
            if source.dynamic and source.address and outgoing_links is not None:
                await outgoing_links.delete_node(source.address)

    def on_flow(self) -> None:
        """Send what there is credit for. Before the attach is answered, credit waits."""
        if self.state is LinkState.ATTACHED:
            self._outgoing.on_flow()

    def on_disposition(self, deliveries: Sequence[Delivery], state: object, settled: bool) -> None:
        """Tell what the client decided."""
        self._outgoing.on_disposition(deliveries, state, settled)
