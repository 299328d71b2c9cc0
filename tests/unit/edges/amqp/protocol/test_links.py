from __future__ import annotations

import pytest
from tests.support.amqp.engines import Pair, RawPeer, attach_of_sender, one

from isthmus.edges.amqp.protocol import Flowed, Limits, LinkAttached, LinkDetached, Receiver, Sender
from isthmus.edges.amqp.protocol.conditions import NOT_FOUND
from isthmus.edges.amqp.protocol.performatives import Attach, Detach, Flow
from isthmus.edges.amqp.protocol.terms import Coordinator, Error, Source, Target


def test_a_sender_gets_the_credit_that_the_receiver_grants() -> None:
    assert Pair(credit=7).sender().credit == 7


def test_grants_between_two_writes_cost_one_flow() -> None:
    peer = RawPeer(credit=0)
    peer.attached()
    [link] = [event.link for event in peer.events if isinstance(event, LinkAttached)]
    assert isinstance(link, Receiver)
    for _ in range(10):
        link.grant(3)
    [flow] = peer.send(b"")
    assert isinstance(flow, Flow)
    assert flow.link_credit == 30


def test_a_link_that_is_refused_has_no_target_and_says_why() -> None:
    pair = Pair()
    session = pair.opened()
    link = session.sender("out")
    link.attach(source=Source(), target=Target("nowhere"))
    for event in pair.server.receive_data(pair.client.data_to_send(), 0.0):
        if isinstance(event, LinkAttached):
            event.link.refuse(NOT_FOUND, "no topic 'nowhere'")
    pair.at_client += pair.client.receive_data(pair.server.data_to_send(), 0.0)
    assert one(pair.at_client, LinkAttached).attach.target is None
    detached = one(pair.at_client, LinkDetached)
    assert detached.error == Error(NOT_FOUND, "no topic 'nowhere'")
    assert detached.closed


def test_detach_is_told_and_answered_by_the_application() -> None:
    pair = Pair()
    link = pair.sender()
    link.detach()
    pair.talk()
    detached = one(pair.at_server, LinkDetached)
    assert detached.link.session.links
    detached.link.detach()
    pair.talk()
    assert link.session.links == detached.link.session.links == {}


def test_a_handle_can_be_used_again_after_detach() -> None:
    pair = Pair()
    first = pair.sender("first")
    first.detach()
    pair.talk()
    one(pair.at_server, LinkDetached).link.detach()
    pair.talk()
    second = first.session.sender("second")
    second.attach(source=Source(), target=Target("orders"))
    pair.talk()
    assert second.handle == first.handle
    assert second.credit == 100


def test_the_handle_of_any_link_that_is_gone_is_used_again() -> None:
    session = Pair().opened()
    links = [session.sender(name) for name in "abc"]
    session.handle_max = 2
    del session.links[links[1].handle]
    assert session.sender("d").handle == links[1].handle


def test_drain_takes_back_what_is_not_used() -> None:
    pair = Pair()
    receiver, sender = pair.receiver()
    receiver.grant(10)
    receiver.ask_to_drain()
    pair.talk()
    assert one(pair.at_server, Flowed).link is sender
    assert (sender.credit, sender.drain) == (10, True)
    sender.send(b"1", b"last")
    sender.drained()
    pair.talk()
    assert (receiver.credit, receiver.drain, receiver.delivery_count) == (0, False, 10)


def test_credit_counts_from_what_the_receiver_has_seen() -> None:
    pair = Pair()
    receiver, sender = pair.receiver()
    receiver.grant(2)
    pair.talk()
    sender.send(b"1", b"one")  # on its way while the receiver grants more
    receiver.grant(1)
    pair.at_server += pair.server.receive_data(pair.client.data_to_send(), 0.0)
    assert sender.credit == 2


def test_sending_without_credit_is_a_mistake_of_the_caller() -> None:
    _, sender = Pair().receiver()
    with pytest.raises(RuntimeError, match="no credit"):
        sender.send(b"1", b"one")


def test_credit_may_be_granted_before_the_link_is_answered() -> None:
    pair = Pair()
    receiver = pair.opened().receiver("in")
    receiver.attach(source=Source("prices"), target=Target())
    receiver.grant(5)
    pair.talk()
    sender = one(pair.at_server, LinkAttached).link
    assert sender.credit == receiver.credit == 5


def test_an_echo_is_answered() -> None:
    peer = RawPeer()
    peer.attached()
    asked = Flow(
        next_incoming_id=0, incoming_window=9, next_outgoing_id=0, outgoing_window=9, handle=0,
        delivery_count=0, echo=True,
    )  # fmt: skip
    [flow] = peer.frame(asked)
    assert isinstance(flow, Flow)
    assert flow.link_credit == 100


def test_the_session_answers_an_echo_of_its_own() -> None:
    peer = RawPeer()
    peer.begin()
    [flow] = peer.frame(Flow(incoming_window=9, next_outgoing_id=0, outgoing_window=9, echo=True))
    assert isinstance(flow, Flow)
    assert flow.handle is None


def test_a_coordinator_is_a_target() -> None:
    peer = RawPeer()
    peer.begin()
    peer.frame(attach_of_sender(target=Coordinator(("amqp:local-transactions",))))
    assert isinstance(one(peer.events, LinkAttached).link.target, Coordinator)


def test_a_terminus_of_an_unknown_kind_is_refused() -> None:
    peer = RawPeer()
    peer.begin()
    answers = peer.frame(attach_of_sender(target=Source("x")))
    assert [type(each) for each in answers] == [Attach, Detach]
    assert isinstance(answers[1], Detach)
    assert answers[1].error is not None
    assert answers[1].error.condition == "amqp:invalid-field"


def test_the_same_name_may_be_used_once_in_each_direction() -> None:
    pair = Pair()
    session = pair.opened()
    out, back = session.sender("same"), session.receiver("same")
    out.attach(source=Source(), target=Target("orders"))
    back.attach(source=Source("orders"), target=Target())
    pair.talk()
    kinds = {type(event.link) for event in pair.at_server if isinstance(event, LinkAttached)}
    assert kinds == {Receiver, Sender}
    assert out.attached
    assert back.attached


def test_more_links_than_allowed_are_refused() -> None:
    peer = RawPeer(Limits(handle_max=0))
    peer.attached()
    peer.attach(1, "second")
    assert peer.closed.error is not None
    assert peer.closed.error.condition == "amqp:connection:framing-error"


def test_the_largest_message_is_what_the_receiver_says() -> None:
    assert Pair(max_message_size=1234).sender().max_message_size == 1234
