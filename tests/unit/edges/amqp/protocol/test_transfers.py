from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.amqp.engines import Pair, RawPeer, one, performatives

from isthmus.codecs.amqp import Described, Reader, Symbol, UInt, ULong, encode_value
from isthmus.edges.amqp.protocol import (
    Closed,
    Delivery,
    Disposed,
    Limits,
    LinkAttached,
    LinkDetached,
    Sender,
    SessionEnded,
)
from isthmus.edges.amqp.protocol.composite import interpret
from isthmus.edges.amqp.protocol.frames import accepts_one, encode_frame
from isthmus.edges.amqp.protocol.performatives import Detach, Disposition, Flow, Transfer
from isthmus.edges.amqp.protocol.terms import (
    ACCEPTED,
    Accepted,
    Error,
    Modified,
    Rejected,
    Released,
    TransactionalState,
)
from isthmus.errors import DecodeError, Fault


def test_a_message_arrives_as_it_was_sent() -> None:
    pair = Pair()
    pair.sender().send(b"tag", b"the message")
    pair.talk()
    [delivery] = pair.arrived()
    assert (delivery.id, delivery.tag, delivery.data, delivery.settled) == (0, b"tag", b"the message", False)


@pytest.mark.parametrize("size", [0, 1, 511, 512, 513, 5_000, 100_000])
def test_a_message_of_many_frames_arrives_whole(size: int) -> None:
    pair = Pair(Limits(max_frame_size=512))
    data = bytes(n % 251 for n in range(size))
    pair.sender().send(b"tag", data)
    pair.talk()
    assert [each.data for each in pair.arrived()] == [data]


def test_frames_wait_for_the_window_of_the_peer() -> None:
    pair = Pair(Limits(max_frame_size=512, incoming_window=4))
    link = pair.sender()
    link.send(b"tag", b"x" * 50_000)
    assert link.session.waiting_frames > 90
    pair.talk()
    assert link.session.waiting_frames == 0
    assert len(pair.arrived()[0].data) == 50_000


def test_settled_and_unsettled_messages_share_a_link() -> None:
    pair = Pair()
    link = pair.sender()
    deliveries = [link.send(bytes([n]), b"x", settled=n % 2 == 0) for n in range(4)]
    pair.talk()
    assert [each.settled for each in pair.arrived()] == [True, False, True, False]
    for each in pair.arrived():
        each.settle(ACCEPTED)
    pair.talk()
    told = [d for event in pair.at_client if isinstance(event, Disposed) for d in event.deliveries]
    assert told == [deliveries[1], deliveries[3]]


def test_one_disposition_settles_messages_in_a_row() -> None:
    peer = RawPeer()
    peer.attached()
    for n in range(5):
        peer.transfer(delivery_id=n, delivery_tag=bytes([n]))
    for event in peer.events:
        if isinstance(event, Delivery):
            event.settle(ACCEPTED)
    assert peer.send(b"") == [Disposition(True, 0, 4, True, Accepted())]


def test_another_state_or_a_gap_begins_another_disposition() -> None:
    peer = RawPeer()
    peer.attached()
    for n in range(6):
        peer.transfer(delivery_id=n, delivery_tag=bytes([n]))
    arrived = [event for event in peer.events if isinstance(event, Delivery)]
    rejected = Rejected(Error("amqp:invalid-field", "why"))
    for n, state in [(0, ACCEPTED), (1, ACCEPTED), (2, rejected), (3, ACCEPTED), (5, ACCEPTED)]:
        arrived[n].settle(state)
    assert peer.send(b"") == [
        Disposition(True, 0, 1, True, Accepted()),
        Disposition(True, 2, None, True, rejected),
        Disposition(True, 3, None, True, Accepted()),
        Disposition(True, 5, None, True, Accepted()),
    ]


def test_what_was_settled_before_a_message_is_told_before_it() -> None:
    pair = Pair()
    receiver, sender = pair.receiver()
    out = receiver.session.sender("out")
    out.attach(source=None, target=None)
    receiver.grant(1)
    pair.talk()
    sender.send(b"in", b"x")
    pair.talk()
    one(pair.at_client, Delivery).settle(ACCEPTED)
    out.send(b"out", b"y")
    kinds = [type(each) for each in performatives(pair.client.data_to_send())]
    assert kinds == [Disposition, Transfer]


def test_settling_twice_says_so_once() -> None:
    peer = RawPeer()
    peer.attached()
    peer.transfer()
    delivery = one(peer.events, Delivery)
    delivery.settle(ACCEPTED)
    delivery.settle(Released())
    assert peer.send(b"") == [Disposition(True, 0, None, True, Accepted())]


def test_an_outcome_reaches_the_sender_with_its_error() -> None:
    pair = Pair()
    sent = pair.sender().send(b"tag", b"x")
    pair.talk()
    pair.arrived()[0].settle(Rejected(Error("amqp:not-found", "no such topic " + "x" * 300)))
    pair.talk()
    assert sent.settled
    assert isinstance(sent.state, Rejected)
    assert sent.state.error is not None
    assert sent.state.error.condition == "amqp:not-found"


def test_a_state_can_be_told_before_it_is_settled() -> None:
    pair = Pair()
    receiver, sender = pair.receiver()
    receiver.grant(1)
    pair.talk()
    sent = sender.send(b"tag", b"x")
    pair.talk()
    arrived = one(pair.at_client, Delivery)
    receiver.session.update(arrived, TransactionalState(b"tx", ACCEPTED))
    pair.talk()
    told = one(pair.at_server, Disposed)
    assert (told.deliveries, told.settled) == ([sent], False)
    assert told.state == TransactionalState(b"tx", ACCEPTED)
    sent.settle(ACCEPTED)
    pair.talk()
    assert arrived.settled


def test_a_transaction_goes_with_a_transfer() -> None:
    pair = Pair(Limits(max_frame_size=512))
    pair.sender().send(b"tag", b"x" * 1000, state=TransactionalState(b"tx"))
    pair.talk()
    assert pair.arrived()[0].state == TransactionalState(b"tx")


def test_what_a_peer_says_besides_is_not_kept_with_each_delivery() -> None:
    pair = Pair()
    link = pair.sender()
    large = Modified(message_annotations={Symbol("why"): "x" * 1000})
    sent = link.send(b"tag", b"x", state=TransactionalState(b"tx", large.described()))
    pair.talk()
    [arrived] = pair.arrived()
    assert arrived.state == TransactionalState(b"tx")
    arrived.update(TransactionalState(b"tx", large.described()))
    pair.talk()
    assert sent.state is None


def test_a_message_may_be_sent_bit_by_bit() -> None:
    pair = Pair()
    link = pair.sender()
    link.send(b"tag", b"one ", more=True)
    link.send_more(b"two ", more=True)
    pair.talk()
    assert pair.arrived() == []
    link.send_more(b"three")
    pair.talk()
    assert pair.arrived()[0].data == b"one two three"


def test_an_aborted_message_never_arrives_and_the_next_one_does() -> None:
    pair = Pair()
    link = pair.sender()
    link.send(b"1", b"one ", more=True)
    link.abort()
    link.send(b"2", b"two")
    pair.talk()
    assert [each.data for each in pair.arrived()] == [b"two"]
    assert pair.server.partial_bytes == 0
    assert pair.arrived()[0].link.session.unsettled == 1


def test_an_aborted_message_gives_its_credit_back() -> None:
    pair = Pair(credit=2)
    link = pair.sender()
    for n in range(5):
        link.send(b"%d" % n, b"one ", more=True)
        link.abort()
        pair.talk()
    assert link.credit == 2


def test_a_delivery_that_is_resumed_and_not_known_to_be_unsettled_is_ignored() -> None:
    pair = Pair(credit=1)
    link = pair.sender()
    link.send(b"1", b"one", resume=True)
    pair.talk()
    assert link.credit == 1
    link.send(b"2", b"two")
    pair.talk()
    assert [each.data for each in pair.arrived()] == [b"two"]
    assert pair.arrived()[0].link.session.unsettled == 1


def two_links(pair: Pair) -> tuple[Sender, Sender]:
    first = pair.sender("first")
    second = first.session.sender("second")
    second.attach(source=None, target=first.target)
    pair.talk()
    return first, second


def test_messages_of_two_links_may_be_interleaved() -> None:
    pair = Pair()
    first, second = two_links(pair)
    first.send(b"1", b"one ", more=True)
    second.send(b"2", b"two")
    first.send_more(b"three")
    pair.talk()
    assert [each.data for each in pair.arrived()] == [b"two", b"one three"]


def test_a_range_settles_what_is_known_however_large_it_is() -> None:
    peer = RawPeer()
    peer.attached()
    for n in range(3):
        peer.transfer(delivery_id=n, delivery_tag=bytes([n]))
    peer.frame(Disposition(False, 1, 2**31 - 1, True, Released()))
    told = one(peer.events, Disposed)
    assert [each.id for each in told.deliveries] == [1, 2]
    assert told.settled


def test_what_a_range_says_of_two_links_is_told_in_its_order() -> None:
    pair = Pair()
    first, second = two_links(pair)
    for link, tag in ((first, b"0"), (second, b"1"), (first, b"2")):
        link.send(tag, b"x")
    pair.talk()
    for delivery in pair.arrived():
        delivery.settle(ACCEPTED)
    pair.talk()
    told = [event for event in pair.at_client if isinstance(event, Disposed)]
    assert [[each.tag for each in event.deliveries] for event in told] == [[b"0"], [b"1"], [b"2"]]


def test_what_is_said_of_one_link_after_another_is_told_at_once() -> None:
    pair = Pair()
    receiver, sender = pair.receiver()
    receiver.grant(4)
    pair.talk()
    for n in range(4):
        sender.send(bytes([n]), b"x")
    pair.talk()
    first, second, third, last = [event for event in pair.at_client if isinstance(event, Delivery)]
    for delivery, state in ((first, ACCEPTED), (third, ACCEPTED), (second, Released()), (last, ACCEPTED)):
        delivery.settle(state)
    pair.talk()
    told = [event for event in pair.at_server if isinstance(event, Disposed)]
    assert [[each.id for each in event.deliveries] for event in told] == [[0, 2], [1], [3]]


def disposition(*fields: object) -> bytes:
    return encode_value(Described(ULong(0x15), list(fields)))


def decoded(body: bytes) -> object:
    reader = Reader(body)
    try:
        said = interpret(reader.value())
    except (Fault, DecodeError, IndexError, UnicodeDecodeError):
        return None
    return said if reader.pos == len(body) else None


ACCEPTED_AS_READ = Described(ULong(0x24), [])
USUAL = [
    disposition(role, UInt(first), last, True, ACCEPTED_AS_READ, *batchable)
    for role in (True, False)
    for first in (0, 1, 255, 256, 2**32 - 1)
    for last in (None, UInt(first))
    for batchable in ([], [None], [True], [False])
]


@pytest.mark.parametrize("body", USUAL)
def test_one_that_is_accepted_is_seen_without_decoding(body: bytes) -> None:
    said, meant = accepts_one(b"ab" + body + b"cd", 2, 2 + len(body)), decoded(body)
    assert isinstance(said, Disposition)
    assert isinstance(meant, Disposition)
    assert said == Disposition(meant.role, meant.first, None, True, ACCEPTED)


@pytest.mark.parametrize(
    "body",
    [
        disposition(True, UInt(1), UInt(2), True, ACCEPTED_AS_READ),
        disposition(True, UInt(1), None, False, ACCEPTED_AS_READ),
        disposition(True, UInt(1), None, True, Described(ULong(0x26), [])),
        disposition(True, UInt(1), None, True, Described(UInt(0x24), [])),
        disposition(True, UInt(1), None, True, Described(ULong(0x24), [UInt(1)])),
        disposition(True, UInt(1), None, True),
        disposition(True, None, None, True, ACCEPTED_AS_READ),
        disposition(True, ULong(1), None, True, ACCEPTED_AS_READ),
        disposition(UInt(1), UInt(1), None, True, ACCEPTED_AS_READ),
        encode_value(Described(ULong(0x15), 7)),
        b"\x00\x53\x15",
        b"",
    ],
)
def test_any_other_is_to_be_decoded(body: bytes) -> None:
    assert accepts_one(body, 0, len(body)) is None


@given(st.sampled_from(USUAL), st.data())
def test_what_is_taken_for_one_that_is_accepted_is_that(body: bytes, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(body) - 1))
        cut = data.draw(st.integers(0, 2))
        body = body[:place] + data.draw(st.binary(max_size=2)) + body[place + cut :]
    said = accepts_one(body, 0, len(body))
    if said is not None:
        meant = decoded(body)
        assert isinstance(meant, Disposition)
        assert meant.last in (None, meant.first)
        assert said == Disposition(meant.role, meant.first, None, True, ACCEPTED)


def test_delivery_ids_go_round() -> None:
    peer = RawPeer()
    peer.attached()
    for n, id in enumerate([2**32 - 1, 0, 1]):
        peer.transfer(delivery_id=id, delivery_tag=bytes([n]))
    for event in peer.events:
        if isinstance(event, Delivery):
            event.settle(ACCEPTED)
    assert peer.send(b"") == [Disposition(True, 2**32 - 1, 1, True, Accepted())]


def test_the_window_is_opened_again_before_it_is_used_up() -> None:
    peer = RawPeer(Limits(incoming_window=4))
    peer.attached()
    answers = [peer.transfer(delivery_id=n, delivery_tag=bytes([n])) for n in range(2)]
    assert answers[0] == []
    [flow] = answers[1]
    assert isinstance(flow, Flow)
    assert (flow.incoming_window, flow.next_incoming_id) == (4, 2)


@pytest.mark.parametrize("frames", [1, 3])
def test_a_message_larger_than_the_link_takes_detaches_it(frames: int) -> None:
    peer = RawPeer(max_message_size=100)
    peer.attached()
    for n in range(frames):
        size = 101 if frames == 1 else 40
        answers = peer.transfer(b"x" * size, more=n < frames - 1)
    [detach] = answers
    assert isinstance(detach, Detach)
    assert detach.error is not None
    assert detach.error.condition == "amqp:link:message-size-exceeded"
    assert one(peer.events, LinkDetached).local
    assert peer.connection.partial_bytes == 0
    assert not any(isinstance(event, Delivery) for event in peer.events)


def test_transfers_on_a_link_that_we_detached_are_ignored() -> None:
    peer = RawPeer(max_message_size=10)
    peer.attached()
    peer.attach(1, "other")
    peer.transfer(b"x" * 11)
    assert peer.transfer(delivery_id=1, delivery_tag=b"2") == []
    peer.transfer(handle=1, delivery_id=2, delivery_tag=b"3")
    assert one(peer.events, Delivery).id == 2


def test_unfinished_messages_cannot_fill_the_memory() -> None:
    peer = RawPeer(Limits(max_partial_bytes=1000))
    peer.attached()
    peer.transfer(b"x" * 900, more=True)
    [detach] = peer.transfer(b"x" * 101, more=True)
    assert isinstance(detach, Detach)
    assert detach.error is not None
    assert detach.error.condition == "amqp:resource-limit-exceeded"


def test_a_detached_link_leaves_nothing_unsettled() -> None:
    pair = Pair()
    link = pair.sender()
    link.send(b"1", b"x")
    pair.talk()
    [delivery] = pair.arrived()
    link.detach()
    pair.talk()
    end = one(pair.at_server, LinkDetached).link
    delivery.settle(ACCEPTED)  # what was decided before the answer still reaches the sender
    end.detach()
    pair.talk()
    assert end.session.unsettled == 0
    assert not any(isinstance(event, Closed | SessionEnded) for event in pair.at_client + pair.at_server)


def test_a_hundred_links_do_not_disturb_each_other() -> None:
    pair = Pair()
    session = pair.opened()
    links = [session.sender(f"link {n}") for n in range(100)]
    for link in links:
        link.attach(source=None, target=None)
    pair.talk()
    for link in links:
        link.send(b"t", link.name.encode())
    pair.talk()
    assert [each.data.decode() for each in pair.arrived()] == [link.name for link in links]
    assert sum(isinstance(event, LinkAttached) for event in pair.at_client) == 100


def test_dispositions_that_decide_nothing_cannot_keep_the_engine_busy() -> None:
    pair = Pair(credit=2000)
    link = pair.sender()
    for number in range(1000):
        link.send(number.to_bytes(4), b"x")
    pair.talk()
    decides_nothing = encode_frame(0, Disposition(False, 0, 999, False, ACCEPTED)) * 5000
    assert pair.server.receive_data(decides_nothing, 0.0) == []
    in_vain = encode_frame(0, Disposition(False, 5000, 5999, True, ACCEPTED)) * 5000
    ended = one(pair.server.receive_data(in_vain, 0.0), SessionEnded)
    assert ended.error is not None
    assert ended.error.condition == "amqp:resource-limit-exceeded"


def test_a_link_knows_what_is_unsettled_of_it_and_of_no_other() -> None:
    pair = Pair()
    first, second = two_links(pair)
    for n in range(3):
        first.send(b"%d" % n, b"x")
    second.send(b"3", b"y")
    pair.talk()
    at_server = [each.link for each in pair.arrived()]
    assert [len(link.unsettled) for link in (first, second, at_server[0], at_server[3])] == [3, 1, 3, 1]
    pair.arrived()[1].settle(ACCEPTED)
    pair.talk()
    assert [len(link.unsettled) for link in (first, second, at_server[0], at_server[3])] == [2, 1, 2, 1]
    at_server[0].detach()
    assert (len(at_server[0].unsettled), at_server[0].session.unsettled) == (0, 1)
    first.session.end()
    assert [len(link.unsettled) for link in (first, second)] == [0, 0]
