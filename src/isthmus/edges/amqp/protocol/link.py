"""Links: one direction of a session, with credit (part 2, 2.6).

`Receiver` takes deliveries from the peer and grants it credit; `Sender` sends as long as it has credit.
Either may have been begun by the peer or by us. Flow frames are written when the connection's bytes are
fetched, so that any number of grants in between costs one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final

from isthmus.codecs.amqp import UByte, UInt, encode_value
from isthmus.edges.amqp.protocol.composite import Composite, interpret
from isthmus.edges.amqp.protocol.conditions import (
    INVALID_FIELD,
    MESSAGE_SIZE_EXCEEDED,
    NOT_ALLOWED,
    NOT_IMPLEMENTED,
    RESOURCE_LIMIT_EXCEEDED,
    TRANSFER_LIMIT_EXCEEDED,
    LinkFault,
)
from isthmus.edges.amqp.protocol.events import Delivery, Event, Flowed
from isthmus.edges.amqp.protocol.performatives import (
    FIRST,
    MIXED,
    RECEIVER,
    SENDER,
    UINT_MAX,
    Attach,
    Detach,
    Flow,
)
from isthmus.edges.amqp.protocol.terms import DELIVERY_STATES, Error, Source, Target, TransactionalState

if TYPE_CHECKING:
    from isthmus.edges.amqp.protocol.handler import LinkHandler
    from isthmus.edges.amqp.protocol.session import Session

MAX_TAG_BYTES: Final = 32


class Link(ABC):
    """What both kinds have in common."""

    role: bool

    def __init__(self, session: Session, name: str, handle: int) -> None:
        self.session = session
        self.name = name
        self.handle = handle
        self.remote_handle: int | None = None
        self.source: object = None
        self.target: object = None
        self.snd_settle_mode = MIXED
        self.rcv_settle_mode = FIRST
        self.max_message_size = 0
        """The largest message that the receiver of the two takes, in bytes; 0 is any."""
        self.credit = 0
        self.delivery_count = 0
        self.drain = False
        self.attach_sent = False
        self.detach_sent = False
        self.detached = False
        """Whether the peer has detached it, or the session is over."""
        self.unsettled: dict[int, Delivery] = {}
        """Its deliveries that are not settled, by their ids: the session's are those of all its links."""
        self.attach_bytes = 0
        """How large the peer's attach was, and so what is known of the link."""
        self._resumable: frozenset[bytes] = frozenset()
        """The tags of deliveries that we have told the peer to be unsettled."""
        self.handler: LinkHandler | None = None
        """Whoever is told what happens on the link. The application sets it."""

    @property
    def attached(self) -> bool:
        """Whether both sides have attached it, and neither has detached it."""
        return self.speaks and self.remote_handle is not None

    @property
    def speaks(self) -> bool:
        """Whether we may send frames for it. The peer's attach need not be there."""
        return self.attach_sent and not (self.detach_sent or self.detached)

    def attach(
        self,
        *,
        source: object,
        target: object,
        max_message_size: int = 0,
        unsettled: dict[Any, Any] | None = None,
        incomplete_unsettled: bool = False,
        properties: dict[Any, Any] | None = None,
        offered: tuple[str, ...] = (),
        desired: tuple[str, ...] = (),
    ) -> None:
        """Send attach, as the first or in answer to the peer's."""
        if self.attach_sent:
            raise RuntimeError(f"link {self.name} is attached already")
        self.attach_sent = True
        if self.remote_handle is None:
            self.session.expect_answer(self)
        self.source, self.target = source, target
        self._resumable = frozenset(unsettled or ())
        if self.role == RECEIVER:
            self.max_message_size = max_message_size
        self.session.write(
            Attach(
                name=self.name,
                handle=self.handle,
                role=self.role,
                snd_settle_mode=self.snd_settle_mode,
                rcv_settle_mode=self.rcv_settle_mode,
                source=source,
                target=target,
                unsettled=unsettled,
                incomplete_unsettled=incomplete_unsettled,
                initial_delivery_count=0 if self.role == SENDER else None,
                max_message_size=max_message_size,
                offered_capabilities=offered,
                desired_capabilities=desired,
                properties=properties,
            )
        )

    def refuse(self, condition: str, description: str) -> None:
        """Answer the peer's attach with one that has no terminus of ours, and a detach that says why."""
        if self.role == RECEIVER:
            self.attach(source=self.source, target=None)
        else:
            self.attach(source=None, target=self.target)
        self.detach(Error(condition, description))

    def detach(self, error: Error | None = None, *, closed: bool = True) -> None:
        """Send detach, as the first or in answer. Does nothing if that was done, or the session is over."""
        if self.detach_sent or not self.attach_sent or not self.session.writable:
            return
        self.session.flush()
        self.detach_sent = True
        self.session.write(Detach(self.handle, closed, error))
        self.session.forget(self)

    def suspend(self) -> None:
        """Answer a detach that did not close the link, and keep what is unsettled.

        The peer may still say something of it, as long as the session lasts (2.7.6).
        """
        if not self.detach_sent and self.attach_sent and self.session.writable:
            self.session.flush()
            self.detach_sent = True
            self.session.write(Detach(self.handle, False))
            self.session.suspend(self)

    @abstractmethod
    def on_flow(self, flow: Flow, events: list[Event]) -> None:
        """Take the peer's flow for this link."""


class Receiver(Link):
    """A link that messages come in on."""

    role = RECEIVER

    def __init__(self, session: Session, name: str, handle: int) -> None:
        super().__init__(session, name, handle)
        self._partial: Delivery | None = None
        self._last_state: tuple[object, object] = (None, None)
        """A state that was read, and what it stands for."""
        self._pieces = bytearray()

    def grant(self, credit: int) -> None:
        """Let the peer send that many more messages."""
        self.credit += credit
        self.session.flow_due(self)

    def ask_to_drain(self) -> None:
        """Ask the peer to use its credit up now, or to give it back."""
        self.drain = True
        self.session.flow_due(self)

    def revoke(self) -> None:
        """Take the credit back. Messages that are on their way then exceed it, so only use it with drain."""
        self.credit = 0
        self.session.flow_due(self)

    def on_flow(self, flow: Flow, events: list[Event]) -> None:  # noqa: ARG002
        """Take the sender's count: a drained link has used its credit up without sending."""
        if flow.delivery_count is not None:
            limit = self.delivery_count + self.credit
            used = (flow.delivery_count - self.delivery_count) & UINT_MAX
            if used > self.credit:
                raise LinkFault(INVALID_FIELD, "delivery-count is beyond the credit that was given")
            self.delivery_count = flow.delivery_count
            self.credit = (limit - flow.delivery_count) & UINT_MAX if used else self.credit
        if self.drain and self.credit == 0:
            self.drain = False
        if flow.echo:
            self.session.flow_due(self)

    def on_transfer(self, fields: list[Any], payload: bytes, events: list[Event]) -> None:
        """Take a transfer frame: the list of its fields, filled up to eleven, and what follows them."""
        _, id, tag, message_format, settled, more, mode, state, resume, aborted, _ = fields
        if self._partial is not None or more or aborted or resume or mode is not None:
            self._on_part(fields, payload, events)
            return
        if (
            type(id) is not UInt
            or type(tag) is not bytes
            or (settled is not None and type(settled) is not bool)
            or len(tag) > MAX_TAG_BYTES
        ):
            raise _bad_transfer(fields)
        if self.credit <= 0:
            raise LinkFault(TRANSFER_LIMIT_EXCEEDED, "a transfer beyond the credit of the link")
        if self.max_message_size and len(payload) > self.max_message_size:
            raise self._too_large(len(payload))
        self.credit -= 1
        self.delivery_count = (self.delivery_count + 1) & UINT_MAX
        delivery = Delivery(
            self,
            id,
            tag,
            payload,
            settled is True,
            None if state is None else self._state_of(state),
            message_format or 0,
            self.rcv_settle_mode,
        )
        self.session.began(delivery)
        events.append(delivery)

    def _state_of(self, value: object) -> object:
        """The state that a transfer has. All those of a transaction have the same."""
        if value == self._last_state[0]:
            return self._last_state[1]
        state = _delivery_state(value)
        if isinstance(state, TransactionalState):
            if state.outcome is not None or len(state.txn_id) > MAX_TAG_BYTES:
                # What outcome it has is the receiver's to say (4.4.1).
                return TransactionalState(state.txn_id)
            self._last_state = (value, state)
        return state

    def _on_part(self, fields: list[Any], payload: bytes, events: list[Event]) -> None:
        """Take a frame of a message of several, or one with a rare field."""
        _, id, tag, message_format, settled, more, mode, state, resume, aborted, _ = fields
        for flag in (settled, more, resume, aborted):
            if flag is not None and type(flag) is not bool:
                raise _bad_transfer(fields)
        if mode is not None and (type(mode) is not UByte or mode > self.rcv_settle_mode):
            raise LinkFault(INVALID_FIELD, "rcv-settle-mode is not the one that the link has")
        partial = self._partial
        if partial is None:
            if type(id) is not UInt or type(tag) is not bytes or len(tag) > MAX_TAG_BYTES:
                raise _bad_transfer(fields)
            if self.credit <= 0:
                raise LinkFault(TRANSFER_LIMIT_EXCEEDED, "a transfer beyond the credit of the link")
            self.credit -= 1
            self.delivery_count = (self.delivery_count + 1) & UINT_MAX
            partial = Delivery(
                self,
                id,
                tag,
                b"",
                message_format=message_format or 0,
                rcv_settle_mode=self.rcv_settle_mode if mode is None else mode,
                resumed=resume is True,
            )
            self.session.began(partial)
            self._partial = partial
        elif (id is not None and id != partial.id) or (tag is not None and tag != partial.tag):
            raise LinkFault(NOT_ALLOWED, "a message begins before the last one has ended")
        elif message_format is not None and message_format != partial.message_format:
            raise LinkFault(INVALID_FIELD, "message-format changes within a message")
        if settled:
            partial.settled = True
        if state is not None:
            partial.state = self._state_of(state)
        if aborted:
            self._ignore(partial)
            return
        self._pieces += payload
        connection = self.session.connection
        connection.partial_bytes += len(payload)
        if self.max_message_size and len(self._pieces) > self.max_message_size:
            raise self._too_large(len(self._pieces))
        if connection.partial_bytes > connection.limits.max_partial_bytes:
            raise LinkFault(RESOURCE_LIMIT_EXCEEDED, "too many unfinished messages on one connection")
        if not more:
            if partial.resumed and partial.tag not in self._resumable:  # is to be ignored (2.7.5)
                self._ignore(partial)
                return
            partial.data = bytes(self._pieces)
            self.drop_partial()
            if partial.settled:
                self.session.forget_delivery(partial)
            events.append(partial)

    @property
    def partial_state(self) -> object:
        """The state of an unfinished message, if there is one and it has one."""
        return None if self._partial is None else self._partial.state

    def drop_partial(self) -> None:
        """Forget what has arrived of an unfinished message."""
        self.session.connection.partial_bytes -= len(self._pieces)
        self._partial = None
        self._pieces = bytearray()

    def _ignore(self, partial: Delivery) -> None:
        """Forget a message that nobody is told of, and give its credit back."""
        self.drop_partial()
        self.session.forget_delivery(partial)
        if not self.drain:
            self.grant(1)

    def _too_large(self, size: int) -> LinkFault:
        return LinkFault(
            MESSAGE_SIZE_EXCEEDED,
            f"the message has {size} bytes or more; this link takes {self.max_message_size}",
        )


class Sender(Link):
    """A link that messages go out on."""

    role = SENDER

    def __init__(self, session: Session, name: str, handle: int) -> None:
        super().__init__(session, name, handle)
        self.available = 0
        """How many messages wait to be sent, which flow frames tell the receiver."""
        self.flow_properties: dict[Any, Any] | None = None
        """What the receiver's last flow has said besides."""
        self._unfinished: Delivery | None = None

    def on_flow(self, flow: Flow, events: list[Event]) -> None:
        """Take the receiver's credit."""
        if flow.link_credit is None:
            raise LinkFault(INVALID_FIELD, "flow for a link lacks its link-credit")
        # A receiver that has not seen our attach does not know the count, which begins with 0.
        used = (self.delivery_count - (flow.delivery_count or 0)) & UINT_MAX
        if used > UINT_MAX >> 1:
            raise LinkFault(INVALID_FIELD, "delivery-count is ahead of the sender")
        self.credit = max(0, flow.link_credit - used)
        self.drain = flow.drain
        self.flow_properties = flow.properties
        events.append(Flowed(self))
        if flow.echo:
            self.session.flow_due(self)

    def send(
        self,
        tag: bytes,
        data: bytes,
        *,
        settled: bool = False,
        state: Composite | None = None,
        message_format: int = 0,
        more: bool = False,
        resume: bool = False,
    ) -> Delivery:
        """Send a message, or with ``more`` the beginning of one. It needs credit.

        ``resume``: it is a delivery that was sent before the link was suspended, and not settled (2.6.13).
        Frames that the peer's window has no room for wait until it has.
        """
        if self.credit <= 0 or not self.attached or self._unfinished is not None:
            raise RuntimeError(f"link {self.name} has no credit, is not attached, or is in a message")
        self.credit -= 1
        self.delivery_count = (self.delivery_count + 1) & UINT_MAX
        delivery = self.session.new_outgoing(self, tag, settled, message_format)
        encoded_state = None if state is None else encode_value(state.described())
        self.session.write_transfer(delivery, data, more=more, first=True, state=encoded_state, resume=resume)
        self._unfinished = delivery if more else None
        return delivery

    def send_more(self, data: bytes, *, more: bool = False) -> None:
        """Go on with the message that was begun."""
        if self._unfinished is None:
            raise RuntimeError(f"link {self.name} is not in a message")
        self.session.write_transfer(self._unfinished, data, more=more, first=False, state=None)
        if not more:
            self._unfinished = None

    def abort(self) -> None:
        """Give up the message that was begun. The peer forgets it."""
        if self._unfinished is None:
            raise RuntimeError(f"link {self.name} is not in a message")
        self.session.write_abort(self._unfinished)
        self._unfinished = None

    def drained(self) -> None:
        """Give back credit that there are no messages for, as the receiver asked by drain."""
        self.delivery_count = (self.delivery_count + self.credit) & UINT_MAX
        self.credit = 0
        self.session.flow_due(self)


def _delivery_state(state: object) -> object:
    known = interpret(state)
    if not isinstance(known, DELIVERY_STATES):
        raise LinkFault(NOT_IMPLEMENTED, f"{known!r:.60} is not a delivery state")
    return known


def _bad_transfer(fields: list[Any]) -> LinkFault:
    if fields[1] is None or fields[2] is None:
        return LinkFault(INVALID_FIELD, "the first transfer of a message lacks its delivery-id or tag")
    return LinkFault(INVALID_FIELD, "a field of transfer is of the wrong type or too long")


def check_termini(attach: Attach) -> None:
    """Raise `LinkFault` for a source or target that is none."""
    if attach.source is not None and not isinstance(attach.source, Source):
        raise LinkFault(NOT_IMPLEMENTED, "the source is of an unknown kind")
    if attach.target is not None and not isinstance(attach.target, Composite):
        raise LinkFault(NOT_IMPLEMENTED, "the target is of an unknown kind")
    if isinstance(attach.target, Composite) and attach.target.CODE not in (Target.CODE, 0x30):
        raise LinkFault(INVALID_FIELD, f"{attach.target.SYMBOL} is not a target")
