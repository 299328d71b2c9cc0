"""A link that messages come in on, for the journal.

A delivery is accepted once the journal has it, never before, and rejected with a condition and a description
if it never will. One in a transaction may be accepted earlier, which says nothing before the transaction's
commit. The credit that a delivery used is given back with that. What a client sets in a message's ``to``
outranks the link's target.

In ``rcv-settle-mode`` second a delivery has its outcome then, and the client settles it. What is unsettled of
a link that is suspended is kept for whoever resumes it: such a delivery is in the journal once, however often
it is sent.

Over the anonymous relay an error says which delivery it is of; a client that has settled the message already,
or does not know the outcome ``rejected``, is told by a detach (Anonymous Terminus, 2.2.2).
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from isthmus.codecs.amqp import Symbol
from isthmus.codecs.jms import to_message
from isthmus.codecs.jms.names import DESTINATION_TYPE
from isthmus.edges.addresses import JMS, KEPT
from isthmus.edges.amqp.entry import entry_of
from isthmus.edges.amqp.protocol import Attach, Delivery, Receiver
from isthmus.edges.amqp.protocol.composite import Composite
from isthmus.edges.amqp.protocol.conditions import (
    DECODE_ERROR,
    INTERNAL_ERROR,
    MESSAGE_SIZE_EXCEEDED,
    NOT_ALLOWED,
    NOT_FOUND,
    NOT_IMPLEMENTED,
    RESOURCE_DELETED,
    RESOURCE_LIMIT_EXCEEDED,
    UNAUTHORIZED_ACCESS,
    UNKNOWN_TRANSACTION,
)
from isthmus.edges.amqp.protocol.performatives import SECOND
from isthmus.edges.amqp.protocol.terms import ACCEPTED, Error, Rejected, Target, TransactionalState
from isthmus.edges.amqp.server.contract import ERROR_TO_KAFKA, PARTITION_NOT_EXISTS, OutgoingLinks
from isthmus.edges.amqp.server.link import Granted, LinkState, ServerLink
from isthmus.edges.amqp.server.nodes import is_jms, lifetime_of, node_properties
from isthmus.edges.amqp.server.suspended import LINK_DETACH, granted, lasts_s
from isthmus.edges.amqp.server.traffic import INCOMING, LinkTraffic
from isthmus.edges.amqp.server.transactions import Transaction
from isthmus.edges.amqp.server.unsettled import Unsettled, told
from isthmus.errors import DecodeError, Fault, HardFailure, IsthmusError, Refused, SoftFailure
from isthmus.events.amqp import MessageRejected
from isthmus.journal.fast_path import EncodedEntry, FastPath
from isthmus.journal.layout import (
    CLIENT,
    HEADER_PREFIX,
    AddressTopic,
    Op,
    encode,
    partition_asked_for,
)
from isthmus.message import Header
from isthmus.routing.route import TEMPORARY_PREFIX
from isthmus.routing.size import MARKS_BYTES, record_size

if TYPE_CHECKING:
    from isthmus.edges.amqp.server.connection import ServerConnection


MAX_ANSWERED: Final = 10_000
"""How many deliveries of a connection may wait for the client to settle them."""
OUTCOME_BYTES: Final = 64
"""What an outcome and its tag have, roughly."""
_DESTINATION_HEADER: Final = f"{HEADER_PREFIX}{DESTINATION_TYPE}"
_DELIVERY_TAG: Final = Symbol("delivery-tag")
_END_THE_LINK: Final = (UNKNOWN_TRANSACTION, NOT_IMPLEMENTED)
"""The errors that a client is told by a detach, whichever outcomes it knows."""


class IncomingLink(ServerLink):
    """Takes the messages of one link. An empty address is that of an anonymous relay."""

    def __init__(self, connection: ServerConnection, link: Receiver) -> None:
        super().__init__(connection, link)
        self._receiver = link
        self._session = connection.session_id(link.session)
        self._address = ""
        self._fast_path: FastPath
        self._traffic: LinkTraffic
        self._checked: set[str] = set()
        """Addresses that the client may send to."""
        self._held: deque[tuple[Delivery, Transaction | None]] = deque()
        """What waits for an address that is looked up, and the transactions that wait with it."""
        self._returned = 0
        self._window = connection.server.settings.credit
        self._count = 0
        self._node: str | None = None
        """The temporary node that was made for the link."""
        self._asked = Target()
        self._target = Target()
        """What was granted."""
        self._unsettled = Unsettled()
        self._keeps_unsettled = False
        """Whether what is unsettled is of any use to the client."""
        self._answered: dict[Delivery, None] = {}
        """What has its outcome, and is to be settled by the client."""
        self._idle: asyncio.Event | None = None
        """Set when the last message is decided, once somebody waits for that."""

    async def open(self, attach: Attach) -> Granted:
        """Check the target, or make the temporary queue that is asked for."""
        self._asked = attach.target if isinstance(attach.target, Target) else Target()
        unsettled, incomplete = self._take_over(attach)
        await self.end_predecessor()
        target = self._target = granted(await self._grant(self._asked))
        lasts = lasts_s(target, connected=True) > 0
        self._keeps_unsettled = lasts or self._receiver.rcv_settle_mode == SECOND
        self._address = target.address or ""
        self._fast_path = FastPath(self._address, self._session)
        if self._address:
            self._checked.add(self._address)
        if self._is_linked:
            await self._outgoing_links.link_node(self._address, self._on_node_deleted)
        self._traffic = self._connection.server.traffic.join(INCOMING, self._address)
        return Granted(
            attach.source,
            target,
            self._connection.server.max_message_size,
            unsettled,
            incomplete,
        )

    def on_attached(self) -> None:
        """Grant the first credit."""
        self._receiver.grant(self._window)

    async def close(self, *, closed: bool, lost: bool) -> None:  # noqa: ARG002
        """Wait, for a client that waits, until all that came over the link is decided."""
        self._traffic.links -= 1
        self._connection.answered -= len(self._answered)
        self._answered.clear()
        if self.in_flight and self._awaited:
            self._idle = asyncio.Event()
            await self._idle.wait()
        if self._is_linked:
            await self._outgoing_links.unlink_node(self._address, self._on_node_deleted)
        if self._node is not None:
            await self._outgoing_links.leave_node(self._node)

    @property
    def keeps_state(self) -> bool:
        """Whether a node was made that outlasts the link, or there is what the client has to settle.

        All else is decided before a detach is answered.
        """
        is_settled = not (self._unsettled and self._receiver.rcv_settle_mode == SECOND)
        return self._target.expiry_policy != LINK_DETACH and (self._node is not None or not is_settled)

    def kept_for_s(self, *, connected: bool) -> float:
        """As its target asks, if there is what to keep."""
        is_any = self._unsettled if self._node is None else not is_jms(self._target)
        return lasts_s(self._target, connected=connected) if is_any else 0.0

    @property
    def kept_bytes(self) -> int:
        """With the outcomes that the client may ask for."""
        return super().kept_bytes + OUTCOME_BYTES * len(self._unsettled)

    def on_delivery(self, delivery: Delivery) -> None:
        """Take a message."""
        if delivery.resumed:
            self._resume(delivery)
            return
        self.in_flight += 1
        self._connection.hold(len(delivery.data))
        if self._keeps_unsettled and delivery.state is None and not delivery.settled:
            self._unsettled.add(delivery.tag)
        transaction: Transaction | None = None
        if delivery.state is not None:
            try:
                transaction = self._transaction(delivery.state)
            except Fault as problem:
                self._refuse_delivery(delivery, None, problem)
                return
        if self._held:
            self._hold(delivery, transaction)
        else:
            self._take(delivery, transaction)

    def on_disposition(self, deliveries: Sequence[Delivery], state: object, settled: bool) -> None:  # noqa: ARG002
        """Forget what the client has settled."""
        if not settled:
            return
        for delivery in deliveries:
            self._unsettled.forget(delivery.tag)
            if delivery in self._answered:
                del self._answered[delivery]
                self._connection.answered -= 1
                self._return_credit()
        self._connection.wake()

    def _take_over(self, attach: Attach) -> tuple[dict[bytes, object] | None, bool]:
        """Go on with what a suspended link of the name has left, and tell what is unsettled of it."""
        before = self.predecessor
        if isinstance(before, IncomingLink):
            self._node, before._node = before._node, None
            is_resumed = attach.unsettled is not None and before.state is LinkState.SUSPENDED
            if is_resumed and self._asked.address in (before._asked.address, before._address):
                self._unsettled = before._unsettled
        if attach.unsettled is None:
            return None, False
        ours = self._unsettled.compare(attach.unsettled, incomplete=attach.incomplete_unsettled)
        return told(ours, self._room_for_map)

    def _resume(self, delivery: Delivery) -> None:
        """Tell the outcome of a message that came before the link was resumed, and is not taken again.

        One that is not unsettled here is to be ignored (2.7.5).
        """
        if delivery.settled:
            self._unsettled.forget(delivery.tag)
            self._return_credit()
            return
        self.in_flight += 1
        if not self._unsettled.resume(delivery.tag, partial(self._tell_resumed, delivery)):
            delivery.link.session.forget_delivery(delivery)
            self._tell(delivery, None)

    def _tell_resumed(self, delivery: Delivery, outcome: Composite) -> None:
        if delivery.rcv_settle_mode != SECOND and self.state is LinkState.ATTACHED:
            self._unsettled.forget(delivery.tag)
        self._tell(delivery, outcome)

    @property
    def _outgoing_links(self) -> OutgoingLinks:
        outgoing_links = self._connection.server.outgoing_links
        if outgoing_links is None:
            raise Refused(NOT_IMPLEMENTED, "there are no temporary nodes")
        return outgoing_links

    @property
    def _is_linked(self) -> bool:
        """Whether the link is one to a temporary node."""
        return (
            self._address.startswith(TEMPORARY_PREFIX) and self._connection.server.outgoing_links is not None
        )

    async def _grant(self, target: Target) -> Target:
        """The target as it is granted. Raises `Refused`."""
        connection, server = self._connection, self._connection.server
        if target.dynamic:
            lifetime = lifetime_of(target)
            if self._node is None:
                self._node = await self._outgoing_links.create_node(target, connection.client)
            return Target(
                self._node,
                dynamic=True,
                expiry_policy=target.expiry_policy,
                timeout=target.timeout,
                dynamic_node_properties=node_properties(lifetime),
                capabilities=target.capabilities,
            )
        if target.address:
            if not connection.client.may_send(target.address):
                raise Refused(UNAUTHORIZED_ACCESS, f"you may not send to {target.address!r:.300}")
            jms = not JMS.isdisjoint(target.capabilities)
            problem = await server.addresses.find(target.address, jms=jms)
            if problem is not None:
                raise Refused(NOT_FOUND, problem)
        return target

    def _on_node_deleted(self) -> None:
        """Tell the client that what it sends goes nowhere any more."""
        self.detach(Error(RESOURCE_DELETED, f"the temporary node {self._address} was deleted"))

    def _hold(self, delivery: Delivery, transaction: Transaction | None) -> None:
        self._held.append((delivery, transaction))
        if transaction is not None:
            transaction.hold()

    def _take(self, delivery: Delivery, transaction: Transaction | None) -> None:
        try:
            entry = self._entry(delivery.data)
            if entry.address not in self._checked:
                self._check(entry.address)
            address = self._connection.server.addresses.known(entry.address)
            if address is None:
                self._hold(delivery, transaction)
                self._connection.spawn(self._look_up(entry.address, jms=_is_jms(entry)))
                return
            if address.topic is not None and address.header is not None:
                if address.topic.is_destination:
                    self._check_destination(entry, address.topic, len(delivery.data))
                entry.set_topic(address.header)
            self._write(delivery, transaction, entry)
        except (Fault, SoftFailure) as problem:
            self._refuse_delivery(delivery, transaction, problem)

    def _entry(self, data: bytes) -> EncodedEntry:
        if not data:  # a message has a body at least (3.2)
            raise Refused(NOT_IMPLEMENTED, "there is no message in the delivery")
        as_json = self._connection.server.as_json
        if not (as_json or self._connection.signs_messages):
            encoded = self._fast_path.read(data)
            if encoded is not None:
                return encoded
        self._count += 1
        now_ms = int(time.time() * 1000)
        message = to_message(
            data,
            target=self._address,
            fallback_id=f"ID:{self._session}:{self._link.handle}:{self._count}",
            session=self._session,
            received_ms=now_ms,
        )
        entry = entry_of(message, data, as_json=as_json)
        delivery_time = message.headers.get("DeliveryTime")
        if delivery_time is not None and int(delivery_time.text) > now_ms:
            entry = entry._replace(op=Op.DELAY)
        if self._connection.signs_messages:
            sender = Header(self._connection.client.container_id)
            entry = entry._replace(message=replace(message, headers={**message.headers, CLIENT: sender}))
        return EncodedEntry(message.address, encode(entry))

    def _check_destination(self, entry: EncodedEntry, topic: AddressTopic, size: int) -> None:
        """Raises `Refused` for what the JMS destination does not take: then the sender knows of it."""
        limit = topic.max_message_bytes
        if 2 * size > limit and (bound := record_size(entry.record()) + MARKS_BYTES) > limit:
            said = f"the record would have up to {bound} bytes, and {topic.name} takes {limit}"
            raise Refused(MESSAGE_SIZE_EXCEEDED, said)
        if self._connection.server.senders_choose:
            asked_for = partition_asked_for(entry.record())
            if asked_for is not None and int(asked_for) >= topic.partitions:
                raise Refused(PARTITION_NOT_EXISTS, f"{topic.name} has no partition {asked_for}")

    def _check(self, address: str) -> None:
        """Raises `Refused` if the client may not send to an address."""
        if not self._connection.client.may_send(address):
            raise Refused(UNAUTHORIZED_ACCESS, f"you may not send to {address!r:.300}")
        if len(self._checked) >= KEPT:  # one who answers requests has a new address for each
            self._checked.clear()
        self._checked.add(address)

    async def _look_up(self, address: str, *, jms: bool) -> None:
        """Ask for an address that a message names. Those that came after it wait, to keep their order."""
        refusal: Fault | None = None
        try:
            problem = await self._connection.server.addresses.find(address, jms=jms)
            if problem is not None:
                refusal = Refused(NOT_FOUND, problem)
        except HardFailure as failure:
            refusal = Refused(ERROR_TO_KAFKA, str(failure))
        except BaseException:
            self._refuse_held(Refused(INTERNAL_ERROR, "the address was not looked up"))
            raise
        held, self._held = self._held, deque()
        while held:
            if self._held:
                self._held.extend(held)
                break
            delivery, transaction = held.popleft()
            if refusal is not None:
                self._refuse_delivery(delivery, transaction, refusal)
                refusal = None
            else:
                self._take(delivery, transaction)
            if transaction is not None:
                transaction.release()
        self._connection.wake()

    def _refuse_held(self, refusal: Refused) -> None:
        held, self._held = self._held, deque()
        for delivery, transaction in held:
            self._refuse_delivery(delivery, transaction, refusal)
            if transaction is not None:
                transaction.release()

    def _write(self, delivery: Delivery, transaction: Transaction | None, entry: EncodedEntry) -> None:
        if transaction is None:
            on_done = partial(self._on_done, delivery, ACCEPTED)
            self._connection.server.journal.put_record(entry.record(), self._session, on_done)
        else:
            transaction.add(entry, partial(self._on_done, delivery, transaction.accepted))

    def _transaction(self, state: object) -> Transaction:
        if not isinstance(state, TransactionalState):
            raise Refused(NOT_ALLOWED, "a message is sent with a state that only a receiver can give it")
        transaction = self._connection.transactions.find(state.txn_id)
        if transaction is None:
            raise Refused(UNKNOWN_TRANSACTION, "there is no such transaction, or it has ended")
        return transaction

    def _on_done(self, delivery: Delivery, state: Composite, failure: IsthmusError | None) -> None:
        stats = self._connection.server.stats
        if failure is not None:
            rejected = Rejected(Error(ERROR_TO_KAFKA, str(failure)))
            state = (
                TransactionalState(state.txn_id, rejected)
                if isinstance(state, TransactionalState)
                else rejected
            )
            stats.rejected += 1
            MessageRejected(self._address, ERROR_TO_KAFKA, str(failure)).emit()
        else:
            size = len(delivery.data)
            stats.accepted += 1
            stats.accepted_bytes += size
            traffic = self._traffic
            traffic.messages += 1
            traffic.bytes += size
        self._settle(delivery, state)

    def _refuse_delivery(
        self,
        delivery: Delivery,
        transaction: Transaction | None,
        problem: Fault | SoftFailure,
    ) -> None:
        if isinstance(problem, Fault):
            condition, description = problem.condition, problem.description
        else:
            condition = DECODE_ERROR if isinstance(problem, DecodeError) else NOT_ALLOWED
            description = str(problem)
        error = Error(condition, description, None if self._address else {_DELIVERY_TAG: delivery.tag})
        self._connection.server.stats.rejected += 1
        MessageRejected(self._address, condition, description).emit()
        if transaction is not None:
            transaction.fail(problem)
        if condition in _END_THE_LINK or not (self._address or self._can_tell(delivery, transaction)):
            self._settle(delivery, None)
            self.detach(error)
        elif transaction is not None:
            self._settle(delivery, TransactionalState(transaction.id, Rejected(error)))
        else:
            self._settle(delivery, Rejected(error))

    def _can_tell(self, delivery: Delivery, transaction: Transaction | None) -> bool:
        """Whether a client learns that a message was refused, by its outcome or when the transaction ends."""
        return transaction is not None if delivery.settled else self._can_reject

    def _settle(self, delivery: Delivery, state: Composite | None) -> None:
        """Be done with a message. Without a state the client is not told: the link is about to end."""
        self._connection.release(len(delivery.data))
        if self._keeps_unsettled:
            if delivery.rcv_settle_mode == SECOND or self.state is not LinkState.ATTACHED:
                self._unsettled.decide(delivery.tag, state)
            else:
                self._unsettled.forget(delivery.tag)
        self._tell(delivery, state)

    def _tell(self, delivery: Delivery, state: Composite | None) -> None:
        """Tell the client an outcome, and settle, unless it is the client who does."""
        self.in_flight -= 1
        if state is None or delivery.settled or delivery.rcv_settle_mode != SECOND:
            if state is not None:
                delivery.settle(state)
            self._return_credit()
        else:
            delivery.data = b""
            if self.state is LinkState.ATTACHED:
                delivery.update(state)
            self._answered[delivery] = None
            self._connection.answered += 1
            if self._connection.answered > MAX_ANSWERED:
                self.detach(Error(RESOURCE_LIMIT_EXCEEDED, f"{MAX_ANSWERED} messages are not settled"))
        if self._idle is not None and not self.in_flight:
            self._idle.set()
        self._connection.wake()

    def _return_credit(self) -> None:
        """Let the client send on, once half of what it may is used up."""
        self._returned += 1
        if self._idle is None and self._receiver.credit <= self._window >> 1 and self._connection.accepting:
            self._receiver.grant(self._returned)
            self._returned = 0


def _is_jms(entry: EncodedEntry) -> bool:
    """Whether a message says of itself that it was sent to a JMS destination, as JMS clients' do."""
    return any(name == _DESTINATION_HEADER for name, _ in entry.record().headers)
