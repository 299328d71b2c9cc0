"""What the specification forbids, and the condition that it is answered with."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.support.amqp.engines import RawPeer, attach_of_sender

from isthmus.codecs.amqp import Described, Symbol, UInt, ULong, UShort, encode_value
from isthmus.edges.amqp.protocol import Closed, Limits, LinkDetached, SessionEnded
from isthmus.edges.amqp.protocol.frames import AMQP_HEADER, encode_frame, wrap
from isthmus.edges.amqp.protocol.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Open,
    SaslInit,
)
from isthmus.edges.amqp.protocol.terms import Error, Source, Target

BEGIN = Begin(next_outgoing_id=0, incoming_window=100, outgoing_window=100)
FLOW = Flow(next_incoming_id=0, incoming_window=1, next_outgoing_id=0, outgoing_window=1)


def flow(**fields: int) -> Flow:
    given = {"next_incoming_id": 0, "incoming_window": 1, "next_outgoing_id": 0, "outgoing_window": 1}
    return Flow(**{**given, **fields})


def raw(value: object, payload: bytes = b"") -> bytes:
    return wrap(0, encode_value(value) + payload)


def conditions(peer: RawPeer, kind: type[Closed | SessionEnded | LinkDetached]) -> list[str]:
    return [
        event.error.condition
        for event in peer.events
        if isinstance(event, kind) and event.local and event.error is not None
    ]


Step = Callable[[RawPeer], object]

CONNECTION_ENDS: dict[str, tuple[Step, str]] = {
    "a size below that of the header": (
        lambda peer: peer.send(b"\x00\x00\x00\x07\x02\x00\x00\x00"),
        "amqp:connection:framing-error",
    ),
    "a data offset below two": (
        lambda peer: peer.send(b"\x00\x00\x00\x08\x01\x00\x00\x00"),
        "amqp:connection:framing-error",
    ),
    "a data offset beyond the frame": (
        lambda peer: peer.send(b"\x00\x00\x00\x08\x03\x00\x00\x00"),
        "amqp:connection:framing-error",
    ),
    "a frame of SASL": (
        lambda peer: peer.send(encode_frame(0, SaslInit("PLAIN"), frame_type=1)),
        "amqp:connection:framing-error",
    ),
    "a body that is no value": (lambda peer: peer.send(wrap(0, b"\x00\x53")), "amqp:decode-error"),
    "a body that is cut off": (
        lambda peer: peer.send(wrap(0, b"\x00\x53\x18\xc0\x09\x01")),
        "amqp:decode-error",
    ),
    "a body without a descriptor": (lambda peer: peer.send(raw(["x"])), "amqp:decode-error"),
    "an unknown performative": (lambda peer: peer.send(raw(Described(ULong(0x99), []))), "amqp:decode-error"),
    "a performative that is no list": (
        lambda peer: peer.send(raw(Described(ULong(0x18), {}))),
        "amqp:decode-error",
    ),
    "a transfer that is no list": (
        lambda peer: peer.send(raw(Described(ULong(0x14), "x"))),
        "amqp:decode-error",
    ),
    "bytes after a performative": (
        lambda peer: peer.send(raw(BEGIN.described(), b"x")),
        "amqp:decode-error",
    ),
    "a term where a performative is due": (
        lambda peer: peer.send(raw(Source().described())),
        "amqp:not-allowed",
    ),
    "text that is not UTF-8": (
        lambda peer: peer.send(wrap(0, b"\x00\x53\x10\xc0\x04\x01\xa1\x01\xff")),
        "amqp:decode-error",
    ),
    "a second open": (lambda peer: peer.frame(Open("again")), "amqp:not-allowed"),
    "a field of the wrong type": (
        lambda peer: peer.send(raw(Described(ULong(0x11), [None, "x", UInt(0), UInt(0)]))),
        "amqp:invalid-field",
    ),
    "a frame on a channel without a session": (lambda peer: peer.frame(FLOW, 5), "amqp:not-allowed"),
    "an end without a session": (lambda peer: peer.frame(End(), 5), "amqp:not-allowed"),
    "a transfer without a session": (lambda peer: peer.transfer(), "amqp:not-allowed"),
    "an answer to no begin": (
        lambda peer: peer.send(
            raw(Described(ULong(0x11), [UShort(9), UInt(0), UInt(0), UInt(0)])),
        ),
        "amqp:not-allowed",
    ),
    "two sessions on one channel": (
        lambda peer: (peer.frame(BEGIN), peer.frame(BEGIN)),
        "amqp:not-allowed",
    ),
    "a transfer without a handle": (
        lambda peer: (peer.frame(BEGIN), peer.send(raw(Described(ULong(0x14), [])))),
        "amqp:invalid-field",
    ),
}

SESSION_ENDS: dict[str, tuple[Step, str]] = {
    "a handle that is in use": (
        lambda peer: peer.frame(attach_of_sender(0, "other")),
        "amqp:session:handle-in-use",
    ),
    "a flow that goes back": (
        lambda peer: (peer.transfer(), peer.frame(FLOW)),
        "amqp:session:window-violation",
    ),
    "a sender without a count": (
        lambda peer: peer.frame(attach_of_sender(1, "other", initial_delivery_count=None)),
        "amqp:invalid-field",
    ),
    "an unknown settle mode": (
        lambda peer: peer.frame(attach_of_sender(1, "other", rcv_settle_mode=2)),
        "amqp:invalid-field",
    ),
    "a transfer on an unknown handle": (
        lambda peer: peer.transfer(handle=9),
        "amqp:session:unattached-handle",
    ),
    "a transfer on a link that was detached with an error": (
        lambda peer: (peer.frame(Detach(0, True, Error("x:y"))), peer.transfer()),
        "amqp:session:errant-link",
    ),
    "a transfer on a link that goes the other way": (
        lambda peer: (
            peer.frame(Attach("back", 1, True, source=Source("a"), target=Target())),
            peer.transfer(handle=1),
        ),
        "amqp:not-allowed",
    ),
    "a detach of an unknown handle": (
        lambda peer: peer.frame(Detach(9)),
        "amqp:session:unattached-handle",
    ),
    "a flow for an unknown handle": (
        lambda peer: peer.frame(flow(handle=9, link_credit=1)),
        "amqp:session:unattached-handle",
    ),
    "a flow that is ahead of us": (
        lambda peer: peer.frame(flow(next_incoming_id=7)),
        "amqp:invalid-field",
    ),
    "a delivery id out of order": (
        lambda peer: (peer.transfer(), peer.transfer(delivery_id=2)),
        "amqp:invalid-field",
    ),
    "a range that runs backwards": (
        lambda peer: peer.frame(Disposition(False, 5, 4)),
        "amqp:invalid-field",
    ),
    "a state that is none": (
        lambda peer: peer.frame(Disposition(False, 0, state=Target("x"))),
        "amqp:invalid-field",
    ),
}

LINK_DETACHES: dict[str, tuple[Step, str]] = {
    "a transfer without an id": (lambda peer: peer.transfer(delivery_id=None), "amqp:invalid-field"),
    "a transfer without a tag": (lambda peer: peer.transfer(delivery_tag=None), "amqp:invalid-field"),
    "a tag of more than 32 bytes": (lambda peer: peer.transfer(delivery_tag=b"x" * 33), "amqp:invalid-field"),
    "a message in the middle of another": (
        lambda peer: (peer.transfer(more=True), peer.transfer(delivery_id=1, delivery_tag=b"2")),
        "amqp:not-allowed",
    ),
    "a mode that the link does not have": (
        lambda peer: peer.transfer(rcv_settle_mode=1),
        "amqp:invalid-field",
    ),
    "a state that is none": (lambda peer: peer.transfer(state=Target("x")), "amqp:not-implemented"),
    "a count beyond the credit": (
        lambda peer: peer.frame(flow(handle=0, delivery_count=101)),
        "amqp:invalid-field",
    ),
    "a flow without credit": (
        lambda peer: (
            peer.frame(Attach("back", 1, True, source=Source("a"), target=Target())),
            peer.frame(flow(handle=1)),
        ),
        "amqp:invalid-field",
    ),
    "settled as a number": (
        lambda peer: peer.send(
            raw(Described(ULong(0x14), [UInt(0), UInt(0), b"t", UInt(0), UInt(1)])),
        ),
        "amqp:invalid-field",
    ),
}


@pytest.mark.parametrize("what", CONNECTION_ENDS)
def test_the_connection_is_closed_for(what: str) -> None:
    step, condition = CONNECTION_ENDS[what]
    peer = RawPeer()
    peer.open()
    step(peer)
    assert conditions(peer, Closed) == [condition]
    assert peer.connection.finished


@pytest.mark.parametrize("what", SESSION_ENDS)
def test_the_session_is_ended_for(what: str) -> None:
    step, condition = SESSION_ENDS[what]
    peer = RawPeer()
    peer.attached()
    step(peer)
    assert conditions(peer, SessionEnded) == [condition]
    assert conditions(peer, Closed) == []


@pytest.mark.parametrize("what", LINK_DETACHES)
def test_the_link_is_detached_for(what: str) -> None:
    step, condition = LINK_DETACHES[what]
    peer = RawPeer()
    peer.attached()
    step(peer)
    assert conditions(peer, LinkDetached) == [condition]
    assert conditions(peer, SessionEnded) == conditions(peer, Closed) == []


def test_a_transfer_beyond_the_credit_detaches_the_link() -> None:
    peer = RawPeer(credit=1)
    peer.attached()
    peer.transfer()
    peer.transfer(delivery_id=1, delivery_tag=b"2")
    assert conditions(peer, LinkDetached) == ["amqp:link:transfer-limit-exceeded"]


def test_a_transfer_beyond_the_window_ends_the_session() -> None:
    peer = RawPeer(Limits(incoming_window=0))
    peer.attached()
    peer.transfer()
    assert conditions(peer, SessionEnded) == ["amqp:session:window-violation"]


def test_nothing_may_come_before_open() -> None:
    peer = RawPeer()
    peer.send(AMQP_HEADER)
    answers = peer.frame(BEGIN)
    assert [type(each) for each in answers] == [Open, Close]
    assert conditions(peer, Closed) == ["amqp:not-allowed"]


def test_a_frame_size_below_the_least_is_refused() -> None:
    peer = RawPeer()
    peer.send(AMQP_HEADER)
    peer.frame(Open("peer", max_frame_size=511))
    assert conditions(peer, Closed) == ["amqp:connection:framing-error"]


def test_links_beyond_the_peer_s_handles_end_the_session() -> None:
    peer = RawPeer()
    peer.open()
    peer.frame(Begin(next_outgoing_id=0, incoming_window=100, outgoing_window=100, handle_max=1))
    for handle in range(3):
        peer.attach(handle, f"link {handle}")
    assert conditions(peer, SessionEnded) == ["amqp:resource-limit-exceeded"]


def test_links_whose_detach_is_not_answered_yet_count_as_links() -> None:
    peer = RawPeer(Limits(handle_max=1))
    peer.begin()
    for number in range(3):
        peer.attach(0, f"link {number}")
        peer.frame(Detach(0))
    assert conditions(peer, SessionEnded) == ["amqp:resource-limit-exceeded"]


def test_what_attaches_may_take_is_limited_for_all_links_together_and_freed_with_them() -> None:
    peer = RawPeer(Limits(max_attach_bytes=1000))
    peer.begin()
    large = {Symbol("what"): "x" * 600}
    for n in range(3):
        peer.frame(attach_of_sender(n % 2, f"link {n}", properties=large))
        peer.connection.sessions[0].links[0].detach()
        peer.frame(Detach(n % 2, True))
    assert peer.connection.attach_bytes == 0
    peer.frame(attach_of_sender(0, "one", properties=large))
    peer.frame(End())
    peer.connection.sessions[0].end()
    assert peer.connection.attach_bytes == 0
    peer.frame(BEGIN)
    peer.frame(attach_of_sender(0, "one", properties=large))
    assert conditions(peer, Closed) == []
    peer.frame(attach_of_sender(1, "other", properties=large))
    assert conditions(peer, Closed) == ["amqp:resource-limit-exceeded"]
