"""A link that a client receives on: an `OutgoingLink` fills it, as long as it is attached."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

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
from isthmus.edges.amqp.server.link import Granted, LinkState, ServerLink
from isthmus.edges.amqp.server.nodes import is_jms, lifetime_of, node_properties
from isthmus.edges.amqp.server.suspended import LINK_DETACH, NEVER, granted, lasts_s
from isthmus.edges.amqp.server.traffic import OUTGOING, LinkTraffic
from isthmus.edges.amqp.server.unsettled import told
from isthmus.errors import Refused

if TYPE_CHECKING:
    from isthmus.edges.amqp.server.connection import ServerConnection


TOPIC: Final = "topic"


class ReceiverLink(ServerLink):
    """Opens an `OutgoingLink`, tells it what the client does, and closes it."""

    def __init__(self, connection: ServerConnection, link: Sender) -> None:
        super().__init__(connection, link)
        self._sender = link
        most = connection.server.settings.max_receivers
        if connection.receivers >= most:
            self._beyond = f"the connection has {most} receivers"
        self._outgoing: OutgoingLink
        self._traffic: LinkTraffic
        self.node: str | None = None
        """The temporary node that was made for the link."""
        self._node_properties: dict[Any, Any] | None = None
        self._attach_asked: Attach

    async def open(self, attach: Attach) -> Granted:
        """Ask for what fills the link."""
        connection, outgoing_links = self._connection, self._connection.server.outgoing_links
        if outgoing_links is None:
            raise Refused(NOT_IMPLEMENTED, "nothing can be received here")
        source = attach.source if isinstance(attach.source, Source) else Source()
        if source.address and not connection.client.may_receive(source.address.partition("/group.id/")[0]):
            raise Refused(UNAUTHORIZED_ACCESS, f"you may not receive from {source.address!r:.300}")
        self._attach_asked = attach
        before = self.predecessor
        if isinstance(before, ReceiverLink) and before.is_resumed_by(attach):
            return self._resume(before, attach)
        attach = await self._take_over(attach)
        if source.dynamic:
            self._node_properties = node_properties(lifetime_of(source))
        self._outgoing = await outgoing_links.open(self._request(attach))
        if self._outgoing.source.dynamic:
            self.node = self._outgoing.source.address
        self._traffic = connection.server.traffic.join(OUTGOING, self._outgoing.source.address or "")
        return Granted(self._source, attach.target, unsettled=None if attach.unsettled is None else {})

    def on_attached(self) -> None:
        """Send what there is credit for already."""
        self._outgoing.on_flow()

    async def close(self, *, closed: bool, lost: bool) -> None:
        """Close what fills the link, and let go of the node that was made for it."""
        self._traffic.links -= 1
        try:
            await self._outgoing.close(detached=not closed, lost=lost)
        finally:
            if self.node is not None and self._connection.server.outgoing_links is not None:
                await self._connection.server.outgoing_links.leave_node(self.node)

    @property
    def keeps_state(self) -> bool:
        """Whether deliveries are unsettled, or a node was made; a durable subscription is kept elsewhere."""
        source = self._source
        if source.durable or source.expiry_policy == LINK_DETACH:
            return False
        return self.node is not None or bool(self._outgoing.unsettled)

    def kept_for_s(self, *, connected: bool) -> float:
        """As long as its source's time-out, from when its expiry policy says, if there is what to keep."""
        source = self._source
        if not self.keeps_state or (self.node is not None and is_jms(source)):
            return 0.0
        return lasts_s(source, connected=connected)

    def is_resumed_by(self, attach: Attach) -> bool:
        """Whether a client goes on with what this link has left, rather than begin anew (2.6.13)."""
        before, asked, now = self._attach_asked, self._attach_asked.source, attach.source
        if attach.unsettled is None or self.state is not LinkState.SUSPENDED:
            return False
        if not (isinstance(asked, Source) and isinstance(now, Source)):
            return False
        return (
            now.address in (asked.address, self._source.address)
            and (now.filter, now.distribution_mode, now.capabilities)
            == (asked.filter, asked.distribution_mode, asked.capabilities)
            and attach.snd_settle_mode == before.snd_settle_mode
        )

    def on_flow(self) -> None:
        """Send what there is credit for. Before the attach is answered, credit waits.

        A transaction that messages are to be acquired in must be there (4.4.3), and is of no consequence:
        what is acquired stays so, and only what is acknowledged in it depends on its outcome.
        """
        said, self._sender.flow_properties = self._sender.flow_properties, None
        id = (said or {}).get("txn-id")
        transactions = self._connection.transactions
        if id is not None and (not isinstance(id, bytes) or transactions.find(id) is None):
            self.detach(Error(UNKNOWN_TRANSACTION, "there is no such transaction, or it has ended"))
        elif self.state in (LinkState.ATTACHED, LinkState.SUSPENDED):
            self._outgoing.on_flow()

    def on_disposition(self, deliveries: Sequence[Delivery], state: object, settled: bool) -> None:
        """Tell what the client decided. In a transaction that there is none of, nothing can be."""
        if isinstance(state, TransactionalState) and self._connection.transactions.find(state.txn_id) is None:
            self.detach(Error(UNKNOWN_TRANSACTION, "there is no such transaction, or it has ended"))
            return
        self._outgoing.on_disposition(deliveries, state, settled)

    @property
    def _source(self) -> Source:
        """The source as it is granted: for how long it lasts, too, unless it is a durable one."""
        source = self._outgoing.source
        if self.node is not None:
            source = replace(source, dynamic=True, dynamic_node_properties=self._node_properties)
        if source.durable or (source.expiry_policy == NEVER and TOPIC in source.capabilities):
            return source
        return granted(source)

    def _request(self, attach: Attach) -> ReceiverRequest:
        connection = self._connection
        return ReceiverRequest(
            link=self._sender,
            attach=attach,
            client=connection.client,
            transactions=connection.transactions,
            wake=connection.wake,
            detach=self.detach,
            sign=connection.sign_messages,
            sent=self._count_sent,
            congested=lambda: connection.congested or self._sender.session.waiting_frames > 0,
        )

    def _resume(self, before: ReceiverLink, attach: Attach) -> Granted:
        """Go on with what fills a suspended link, and with what is unsettled of it."""
        self._outgoing = before._outgoing
        self._traffic = before._traffic
        self.node, before.node = before.node, None
        self._node_properties = before._node_properties
        unsettled, known = self._outgoing.unsettled, attach.unsettled or {}
        tags = sorted(unsettled, key=lambda tag: tag not in known)
        ours, incomplete = told(((tag, None) for tag in tags), self._room_for_map)
        self._outgoing.resume(self._request(attach), lost=before._lost)
        before.replaced()
        return Granted(
            self._source,
            attach.target,
            unsettled=ours,
            incomplete_unsettled=incomplete,
        )

    def _count_sent(self, messages: int, size: int) -> None:
        self._connection.server.count_delivered(messages, size)
        self._traffic.add(messages, size)

    async def _take_over(self, attach: Attach) -> Attach:
        """Go on where a suspended link of the name has stopped; the attach as if there had been none."""
        before = self.predecessor
        if not isinstance(before, ReceiverLink):
            return attach
        known = attach.unsettled or {}
        for delivery in list(before._link.unsettled.values()):
            outcome = interpret(known.get(delivery.tag))
            if isinstance(outcome, OUTCOMES):
                before.on_disposition([delivery], outcome, True)
        self.node, before.node = before.node, None
        self._node_properties = before._node_properties
        await self.end_predecessor()
        if self.node is None or not isinstance(attach.source, Source):
            return attach
        return replace(attach, source=replace(attach.source, address=self.node, dynamic=False))
