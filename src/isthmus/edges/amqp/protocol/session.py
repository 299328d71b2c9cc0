"""Sessions: two windows, the links in them, and the deliveries that are not settled yet (part 2, 2.5).

Settling is gathered: as long as the ids follow each other and the state is the same, one disposition says
it for all of them when the connection's bytes are fetched.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

from isthmus.codecs.amqp import UInt, encode_value
from isthmus.edges.amqp.protocol.composite import Composite, interpret
from isthmus.edges.amqp.protocol.conditions import (
    ERRANT_LINK,
    FRAMING_ERROR,
    HANDLE_IN_USE,
    INVALID_FIELD,
    NOT_ALLOWED,
    RESOURCE_LIMIT_EXCEEDED,
    STOLEN,
    UNATTACHED_HANDLE,
    WINDOW_VIOLATION,
    ConnectionFault,
    LinkFault,
    SessionFault,
)
from isthmus.edges.amqp.protocol.events import (
    Delivery,
    Disposed,
    Event,
    Flowed,
    LinkAttached,
    LinkDetached,
    Undelivered,
)
from isthmus.edges.amqp.protocol.frames import encode_frame, wrap
from isthmus.edges.amqp.protocol.link import Link, Receiver, Sender, check_termini
from isthmus.edges.amqp.protocol.performatives import (
    RECEIVER,
    SENDER,
    UINT_MAX,
    Attach,
    Begin,
    Detach,
    Disposition,
    End,
    Flow,
)
from isthmus.edges.amqp.protocol.terms import ACCEPTED, DELIVERY_STATES, Error, Received
from isthmus.edges.amqp.protocol.transfers import encode_abort, encode_transfer

if TYPE_CHECKING:
    from isthmus.edges.amqp.protocol.connection import Connection

_NONE: Final[list[Any]] = [None] * 11
_ACCEPTED: Final = encode_value(ACCEPTED.described())
_ERRED_HANDLES_KEPT: Final = 64
MAX_FRUITLESS: Final = 200_000
"""How many deliveries may be looked for in vain, for what a peer sends at a time: some milliseconds."""


class Session:
    """One session."""

    def __init__(self, connection: Connection, channel: int) -> None:
        self.connection = connection
        self.channel = channel
        self.remote_channel: int | None = None
        self.links: dict[int, Link] = {}
        """The links by our handle."""
        self.suspended: dict[Link, None] = {}
        """Links that are detached, of which deliveries may be unsettled."""
        self.begin_sent = False
        self.end_sent = False
        self.ended = False
        """Whether the peer has ended it, or the connection is over."""
        self.handle_max = UINT_MAX
        self._window = connection.limits.incoming_window
        self._by_remote_handle: dict[int, Link] = {}
        self._begun: dict[tuple[str, bool], Link] = {}
        """The links that we have attached, and the peer has not answered yet, by their name and our role."""
        self._erred: deque[int] = deque(maxlen=_ERRED_HANDLES_KEPT)
        self._incoming: dict[int, Delivery] = {}
        self._outgoing: dict[int, Delivery] = {}
        self._incoming_window = self._window
        self._next_incoming_id: int | None = None
        self._next_delivery_id: int | None = None
        self._next_outgoing_id = 0
        self._remote_incoming_window = 0
        self._next_outgoing_delivery_id = 0
        self._waiting: deque[tuple[Link, bytes]] = deque()
        self._flows: dict[Link, None] = {}
        self._flow_due = False
        self._settling: tuple[bool, int, int, object] | None = None
        self._settling_link: Link | None = None
        """The link whose deliveries are settled in one run: a peer looks for its own there."""

    # What the application calls

    @property
    def writable(self) -> bool:
        """Whether frames of this session may still be sent."""
        return self.begin_sent and not self.end_sent and self.connection.writable

    @property
    def waiting_frames(self) -> int:
        """How many transfer frames wait for room in the peer's window."""
        return len(self._waiting)

    @property
    def unsettled(self) -> int:
        """How many incoming deliveries are not settled."""
        return len(self._incoming)

    def begin(self) -> None:
        """Send begin, as the first or in answer."""
        self.begin_sent = True
        self.write(
            Begin(
                remote_channel=self.remote_channel,
                next_outgoing_id=self._next_outgoing_id,
                incoming_window=self._incoming_window,
                outgoing_window=self._window,
                handle_max=self.connection.limits.handle_max,
            )
        )

    def end(self, error: Error | None = None) -> None:
        """Send end, as the first or in answer. Does nothing if that was done."""
        if self.writable:
            self.flush()
            self.end_sent = True
            self.connection.write(encode_frame(self.channel, End(error)))
        self._forget_all()
        if self.ended:
            self.connection.forget(self)

    def sender(self, name: str) -> Sender:
        """A new link to send on, to be attached with `Link.attach`."""
        link = Sender(self, name, self._free_handle())
        self.links[link.handle] = link
        return link

    def receiver(self, name: str) -> Receiver:
        """A new link to receive on, to be attached with `Link.attach`."""
        link = Receiver(self, name, self._free_handle())
        self.links[link.handle] = link
        return link

    def settle(self, delivery: Delivery, state: object) -> None:
        """Settle a delivery with a state; one that is settled already, or forgotten, is left alone."""
        role = delivery.link.role
        unsettled = self._incoming if role == RECEIVER else self._outgoing
        id = delivery.id
        if unsettled.pop(id, None) is not delivery:
            return
        delivery.link.unsettled.pop(id, None)
        delivery.settled = True
        run = self._settling
        if run is not None:
            follows = run[3] is state and id == (run[2] + 1) & UINT_MAX
            if follows and self._settling_link is delivery.link:
                self._settling = (role, run[1], id, state)
                return
            self._write_disposition(run)
        else:
            self.connection.due[self] = None
        self._settling = (role, id, id, state)
        self._settling_link = delivery.link

    def update(self, delivery: Delivery, state: Composite) -> None:
        """Tell the peer a state without settling: what a transaction's outcome will be, for one."""
        role = delivery.link.role
        unsettled = self._incoming if role == RECEIVER else self._outgoing
        if unsettled.get(delivery.id) is delivery:
            self.flush()
            self.write(Disposition(role, delivery.id, None, False, state))

    # What links call

    def expect_answer(self, link: Link) -> None:
        """Take the peer's next attach of the link's name for the answer to ours."""
        self._begun[link.name, link.role] = link

    def write(self, body: Composite) -> None:
        """Send a frame of this session."""
        if self.connection.writable and not self.end_sent:
            self.connection.write(encode_frame(self.channel, body))

    def flow_due(self, link: Link | None = None) -> None:
        """Send a flow, for a link or for the session alone, with the next bytes."""
        self._flow_due = True
        if link is not None:
            self._flows[link] = None
        self.connection.due[self] = None

    def flush(self) -> None:
        """Write what was gathered: dispositions first, since peers act on them; then flows."""
        if self._settling is not None:
            self._write_disposition(self._settling)
            self._settling = None
        if self._flow_due:
            self._flow_due = False
            links = [link for link in self._flows if link.speaks]
            self._flows.clear()
            for link in links or (None,):
                self._write_flow(link)

    def new_outgoing(self, link: Link, tag: bytes, settled: bool, message_format: int) -> Delivery:
        """Give an outgoing message its id."""
        id = self._next_outgoing_delivery_id
        self._next_outgoing_delivery_id = (id + 1) & UINT_MAX
        delivery = Delivery(link, id, tag, b"", settled, None, message_format)
        if not settled:
            self._outgoing[id] = link.unsettled[id] = delivery
        return delivery

    def write_transfer(
        self,
        delivery: Delivery,
        data: bytes,
        *,
        more: bool,
        first: bool,
        state: bytes | None,
        resume: bool = False,
    ) -> None:
        """Send (a part of) a message in as many frames as it needs.

        What was settled before goes before it: this may discharge the transaction that settling was part of.
        """
        if self._settling is not None:
            self._write_disposition(self._settling)
            self._settling = None
        for body in encode_transfer(
            delivery,
            data,
            more=more,
            first=first,
            state=state,
            room=self.connection.remote_max_frame_size - 8,
            resume=resume,
        ):
            self._waiting.append((delivery.link, body))
        self._pump()

    def write_abort(self, delivery: Delivery) -> None:
        """Tell the peer to forget a message that was begun."""
        self._outgoing.pop(delivery.id, None)
        delivery.link.unsettled.pop(delivery.id, None)
        self._waiting.append((delivery.link, encode_abort(delivery)))
        self._pump()

    def began(self, delivery: Delivery) -> None:
        """Note an incoming delivery by its id, which must be the next one."""
        due = self._next_delivery_id
        if due is not None and delivery.id != due:
            raise SessionFault(INVALID_FIELD, f"delivery-id {delivery.id} where {due} is due")
        self._next_delivery_id = (delivery.id + 1) & UINT_MAX
        if not delivery.settled:
            self._incoming[delivery.id] = delivery.link.unsettled[delivery.id] = delivery

    def forget_delivery(self, delivery: Delivery) -> None:
        """Forget an incoming delivery that the peer has settled or aborted."""
        delivery.settled = True
        self._incoming.pop(delivery.id, None)
        delivery.link.unsettled.pop(delivery.id, None)

    def suspend(self, link: Link) -> None:
        """Keep what is unsettled of a link that is detached."""
        self._waiting = deque(each for each in self._waiting if each[0] is not link)
        self._free_name(link)
        self.suspended[link] = None

    def forget(self, link: Link) -> None:
        """Forget what a link leaves behind that we have detached, or suspended."""
        if isinstance(link, Receiver):
            link.drop_partial()
        self.suspended.pop(link, None)
        if self._waiting:
            self._waiting = deque(each for each in self._waiting if each[0] is not link)
        unsettled = self._incoming if link.role == RECEIVER else self._outgoing
        for id in link.unsettled:
            unsettled.pop(id, None)
        link.unsettled.clear()
        if link.detached:
            self._remove(link)

    # What the peer sends

    def on_begin(self, begin: Begin, remote_channel: int) -> None:
        """Take the peer's begin."""
        self.remote_channel = remote_channel
        self.handle_max = min(begin.handle_max, self.connection.limits.handle_max)
        self._next_incoming_id = begin.next_outgoing_id
        self._remote_incoming_window = begin.incoming_window

    def on_end(self) -> None:
        """Take the peer's end."""
        self.ended = True
        self._forget_all()

    def receive_transfer(self, fields: list[Any], payload: bytes, events: list[Event]) -> None:
        """Take a transfer frame. What is wrong with one ends the link, the session or the connection."""
        if self._incoming_window <= 0:
            raise SessionFault(WINDOW_VIOLATION, "a transfer beyond the session's window")
        self._incoming_window -= 1
        self._next_incoming_id = ((self._next_incoming_id or 0) + 1) & UINT_MAX
        if self._incoming_window <= self._window >> 1:
            self._incoming_window = self._window
            self.flow_due()
        handle = fields[0] if fields else None
        if type(handle) is not UInt or len(fields) > 11:
            raise ConnectionFault(INVALID_FIELD, "transfer has no handle, or too many fields")
        link = self._by_remote_handle.get(handle)
        if not isinstance(link, Receiver):
            raise self._no_link(handle, link)
        if link.detach_sent:
            self._skip(link, fields, events)
            return
        try:
            link.on_transfer(fields + _NONE[len(fields) :], payload, events)
        except LinkFault as fault:
            self._skip(link, fields, events)
            self._fail_link(link, fault, events)

    def receive(self, body: Composite, events: list[Event]) -> None:
        """Take any other frame of the session."""
        if isinstance(body, Flow):
            self._on_flow(body, events)
        elif isinstance(body, Disposition):
            self._on_disposition(body, events)
        elif isinstance(body, Attach):
            self._on_attach(body, events)
        elif isinstance(body, Detach):
            self._on_detach(body, events)
        else:
            raise ConnectionFault(NOT_ALLOWED, f"{body.SYMBOL} is not a frame of a session")

    def _skip(self, link: Receiver, fields: list[Any], events: list[Event]) -> None:
        """Keep count of a delivery that nobody takes, and tell of it if it has a state."""
        id = fields[1] if len(fields) > 1 else None
        if type(id) is UInt and (self._next_delivery_id is None or id == self._next_delivery_id):
            self._next_delivery_id = (id + 1) & UINT_MAX
        state = interpret(fields[7]) if len(fields) > 7 else None
        if state is None:
            state = link.partial_state
        if state is not None:
            events.append(Undelivered(state))

    def _no_link(self, handle: int, link: Link | None) -> SessionFault:
        if link is not None:
            return SessionFault(NOT_ALLOWED, f"a transfer on link {link.name:.60}, which goes the other way")
        if handle in self._erred:
            return SessionFault(ERRANT_LINK, f"a frame for link {handle}, which was detached with an error")
        return SessionFault(UNATTACHED_HANDLE, f"no link has the handle {handle}")

    def _fail_link(self, link: Link, fault: LinkFault, events: list[Event]) -> None:
        error = Error(fault.condition, fault.description)
        if not link.attach_sent:
            link.refuse(fault.condition, fault.description)
        else:
            link.detach(error)
        events.append(LinkDetached(link, True, error, True))

    def _on_flow(self, flow: Flow, events: list[Event]) -> None:
        # Before the peer has seen our begin it does not know where we start.
        start = 0 if flow.next_incoming_id is None else flow.next_incoming_id
        in_flight = (self._next_outgoing_id - start) & UINT_MAX
        if in_flight > UINT_MAX >> 1:
            raise SessionFault(INVALID_FIELD, "next-incoming-id is ahead of what was sent")
        behind = ((self._next_incoming_id or 0) - flow.next_outgoing_id) & UINT_MAX
        if 0 < behind <= UINT_MAX >> 1:
            raise SessionFault(WINDOW_VIOLATION, "next-outgoing-id is behind what has arrived")
        self._next_incoming_id = flow.next_outgoing_id
        self._remote_incoming_window = max(0, flow.incoming_window - in_flight)
        if self._waiting:
            self._pump()
            if not self._waiting:  # whoever sends may have waited for that, too
                events.extend(Flowed(link) for link in self.links.values() if isinstance(link, Sender))
        if flow.handle is None:
            if flow.echo:
                self.flow_due()
            return
        link = self._by_remote_handle.get(flow.handle)
        if link is None:
            raise self._no_link(flow.handle, None)
        if link.detach_sent:
            return
        try:
            link.on_flow(flow, events)
        except LinkFault as fault:
            self._fail_link(link, fault, events)

    def _on_disposition(self, disposition: Disposition, events: list[Event]) -> None:
        state = disposition.state
        if state is not ACCEPTED and state is not None and not isinstance(state, DELIVERY_STATES):
            raise SessionFault(INVALID_FIELD, f"{state!r:.60} is not a delivery state")
        first = disposition.first
        span = 0 if disposition.last is None else (disposition.last - first) & UINT_MAX
        if span > UINT_MAX >> 1:
            raise SessionFault(INVALID_FIELD, "the last delivery of a disposition comes before its first")
        is_receiver = disposition.role == RECEIVER
        if not disposition.settled and (state is None or isinstance(state, Received) or not is_receiver):
            return  # nothing is decided by it
        unsettled = self._outgoing if is_receiver else self._incoming
        # The range is the peer's to choose: what is known bounds the work, not what it claims.
        if span < len(unsettled):
            ids = [id for n in range(span + 1) if (id := (first + n) & UINT_MAX) in unsettled]
        else:
            ids = [id for id in unsettled if (id - first) & UINT_MAX <= span]
        self.connection.fruitless += min(span + 1, len(unsettled)) - len(ids)
        if self.connection.fruitless > MAX_FRUITLESS:
            raise SessionFault(RESOURCE_LIMIT_EXCEEDED, "dispositions of deliveries that there are none of")
        for id in ids:
            delivery = unsettled[id]
            if disposition.settled:
                if state is not None:
                    delivery.state = state
                delivery.settled = True
                del unsettled[id]
                delivery.link.unsettled.pop(id, None)
            _tell_disposed(delivery, state, disposition.settled, events)

    def _on_attach(self, attach: Attach, events: list[Event]) -> None:
        limits = self.connection.limits
        if attach.handle > limits.handle_max:
            raise ConnectionFault(FRAMING_ERROR, f"handle {attach.handle} is above {limits.handle_max}")
        if attach.handle in self._by_remote_handle:
            raise SessionFault(HANDLE_IN_USE, f"handle {attach.handle} is in use")
        if attach.role == SENDER and attach.initial_delivery_count is None:
            raise SessionFault(INVALID_FIELD, "attach of a sender lacks its initial-delivery-count")
        if attach.snd_settle_mode > 2 or attach.rcv_settle_mode > 1:
            raise SessionFault(INVALID_FIELD, "attach has a settle mode that there is none of")
        self._steal(attach, events)
        link = self._begun.pop((attach.name, not attach.role), None)
        if link is None:
            link = self.receiver(attach.name) if attach.role == SENDER else self.sender(attach.name)
        self.connection.active[link.name, link.role] = link
        link.remote_handle = attach.handle
        self._by_remote_handle[attach.handle] = link
        link.snd_settle_mode, link.rcv_settle_mode = attach.snd_settle_mode, attach.rcv_settle_mode
        link.source, link.target = attach.source, attach.target
        self.connection.count_attach(link)
        if attach.role == SENDER:
            link.delivery_count = attach.initial_delivery_count or 0
        elif attach.max_message_size:
            link.max_message_size = attach.max_message_size
        try:
            check_termini(attach)
        except LinkFault as fault:
            self._fail_link(link, fault, events)
            return
        events.append(LinkAttached(link, attach))

    def _steal(self, attach: Attach, events: list[Event]) -> None:
        """Detach the link of the same name that the peer has attached before, in whatever session (2.6.1)."""
        link = self.connection.active.get((attach.name, not attach.role))
        if link is None or link.detached or link.detach_sent:
            return
        error = Error(STOLEN, "a link of the same name was attached")
        if link.attach_sent:
            link.detach(error)
        else:
            link.refuse(error.condition, "a link of the same name was attached")
        events.append(LinkDetached(link, True, error, True))

    def _on_detach(self, detach: Detach, events: list[Event]) -> None:
        link = self._by_remote_handle.pop(detach.handle, None)
        if link is None:
            raise self._no_link(detach.handle, None)
        link.detached = True
        link.credit = 0
        if detach.error is not None:
            self._erred.append(detach.handle)
        if link.detach_sent:
            self._remove(link)
            return
        if isinstance(link, Receiver):
            link.drop_partial()
        events.append(LinkDetached(link, detach.closed, detach.error, False))

    # Inside

    def _remove(self, link: Link) -> None:
        self._free_name(link)
        self.connection.uncount_attach(link)

    def _free_name(self, link: Link) -> None:
        """Let the link's handle and name be another's."""
        self.links.pop(link.handle, None)
        active = self.connection.active
        if active.get((link.name, link.role)) is link:
            del active[link.name, link.role]

    def _free_handle(self) -> int:
        handle = len(self.links)
        if handle > self.handle_max:
            raise SessionFault(RESOURCE_LIMIT_EXCEEDED, f"the session has {handle} links, and no handle left")
        while handle in self.links:  # of one number more than there are links, one is free
            handle -= 1
        return handle

    def _pump(self) -> None:
        """Send the waiting frames that the peer's window has room for."""
        if not self.writable:
            return
        waiting, room = self._waiting, self._remote_incoming_window
        while waiting and room > 0:
            self.connection.write(wrap(self.channel, waiting.popleft()[1]))
            self._next_outgoing_id = (self._next_outgoing_id + 1) & UINT_MAX
            room -= 1
        self._remote_incoming_window = room

    def _write_disposition(self, run: tuple[bool, int, int, object]) -> None:
        role, first, last, state = run
        if not self.writable:
            return
        if isinstance(state, Composite):
            encoded = _ACCEPTED if state is ACCEPTED else encode_value(state.described())
        else:
            encoded = b"\x40"
        fields = (
            (b"\x41" if role else b"\x42")
            + b"\x70" + first.to_bytes(4)
            + (b"\x40" if first == last else b"\x70" + last.to_bytes(4))
            + b"\x41"
            + encoded
        )  # fmt: skip
        if len(fields) < 255:
            head = b"\x00\x53\x15\xc0" + (len(fields) + 1).to_bytes() + b"\x05"
        else:
            head = b"\x00\x53\x15\xd0" + (len(fields) + 4).to_bytes(4) + b"\x00\x00\x00\x05"
        self.connection.write(wrap(self.channel, head + fields))

    def _write_flow(self, link: Link | None) -> None:
        if not self.writable:
            return
        of_link: dict[str, Any] = {}
        if link is not None:
            of_link = {
                "handle": link.handle,
                "delivery_count": None if link.remote_handle is None else link.delivery_count,
                "link_credit": link.credit,
                "available": link.available if isinstance(link, Sender) else None,
                "drain": link.drain,
            }
        flow = Flow(
            next_incoming_id=self._next_incoming_id,
            incoming_window=self._incoming_window,
            next_outgoing_id=self._next_outgoing_id,
            outgoing_window=self._window,
            **of_link,
        )
        self.connection.write(encode_frame(self.channel, flow))

    def _forget_all(self) -> None:
        for link in self.links.values():
            link.detached = True
            link.credit = 0  # so that nobody sends who has not heard of it yet
            if self.connection.active.get((link.name, link.role)) is link:
                del self.connection.active[link.name, link.role]
            if isinstance(link, Receiver):
                link.drop_partial()
        for link in (*self.links.values(), *self.suspended):
            link.unsettled.clear()
        for known in (self._incoming, self._outgoing, self._by_remote_handle, self._begun, self._flows):
            known.clear()
        self._waiting.clear()
        self._settling = None


def _tell_disposed(delivery: Delivery, state: object, settled: bool, events: list[Event]) -> None:
    """Add to what was told last, if that is the same of the same link: receivers decide one by one."""
    last = events[-1] if events else None
    if (
        isinstance(last, Disposed)
        and last.state is state
        and last.settled is settled
        and last.deliveries[0].link is delivery.link
    ):
        last.deliveries.append(delivery)
    else:
        events.append(Disposed([delivery], state, settled))
