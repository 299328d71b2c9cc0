from __future__ import annotations

import pytest
from tests.support.amqp.engines import Pair, RawPeer, one, performatives

from isthmus.edges.amqp.protocol import Closed, Connection, Limits, Open, Opened, SessionBegun, SessionEnded
from isthmus.edges.amqp.protocol.frames import (
    AMQP_HEADER,
    EMPTY_FRAME,
    SASL_HEADER,
    TLS_HEADER,
    encode_frame,
)
from isthmus.edges.amqp.protocol.performatives import Begin, Close, End
from isthmus.edges.amqp.protocol.sasl import SaslServer
from isthmus.edges.amqp.protocol.terms import Error


def test_both_sides_learn_what_the_other_is() -> None:
    pair = Pair()
    pair.opened()
    assert one(pair.at_server, Opened).open.container_id == "client"
    assert one(pair.at_client, Opened).open.container_id == "server"


def test_a_client_need_not_wait_for_any_answer() -> None:
    peer = RawPeer()
    peer.send(
        AMQP_HEADER
        + encode_frame(0, Open("peer"))
        + encode_frame(0, Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1))
    )
    assert one(peer.events, SessionBegun).session.channel == 0


def test_close_is_answered_and_told() -> None:
    pair = Pair()
    pair.opened()
    pair.client.close(Error("amqp:connection:forced", "enough"))
    pair.talk()
    closed = one(pair.at_server, Closed)
    assert (closed.local, closed.error and closed.error.description) == (False, "enough")
    assert pair.client.finished
    assert pair.server.finished


def test_a_session_does_not_hold_back_what_links_have_credit_for() -> None:
    peer = RawPeer()
    peer.open()
    [begun] = peer.frame(Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1))
    assert isinstance(begun, Begin)
    assert begun.incoming_window == 2**31 - 1


def test_what_is_on_its_way_when_we_close_is_ignored() -> None:
    peer = RawPeer()
    peer.begin()
    peer.connection.close()
    peer.connection.data_to_send()
    assert peer.frame(Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1), channel=1) == []
    assert not peer.connection.finished
    peer.frame(Close())
    assert peer.connection.finished


@pytest.mark.parametrize(
    "header", [TLS_HEADER, b"AMQP\x00\x00\x09\x01", b"HTTP/1.1", b"\x16\x03\x01\x00\xa5\x01\x00\x00"]
)
def test_another_protocol_is_answered_with_ours_and_closed(header: bytes) -> None:
    server = Connection.server(Limits(), answer=Open("server"))
    [closed] = server.receive_data(header, 0.0)
    assert isinstance(closed, Closed)
    assert server.data_to_send() == AMQP_HEADER
    assert server.finished


def test_a_server_that_needs_sasl_says_so() -> None:
    server = Connection.server(Limits(), SaslServer(["PLAIN"]), answer=Open("server"))
    server.receive_data(AMQP_HEADER, 0.0)
    assert server.data_to_send() == SASL_HEADER
    assert server.finished


def test_sasl_may_be_left_out_where_nobody_asks_for_it() -> None:
    server = Connection.server(Limits(), SaslServer(["ANONYMOUS"]), answer=Open("server"), needs_sasl=False)
    events = server.receive_data(AMQP_HEADER + encode_frame(0, Open("peer")), 0.0)
    assert one(events, Opened).open.container_id == "peer"


def test_a_silent_peer_is_given_up() -> None:
    pair = Pair(Limits(idle_timeout_s=10))
    pair.opened()
    assert pair.server.tick(9.0) == []
    closed = one(pair.server.tick(11.0), Closed)
    assert closed.error is not None
    assert closed.error.condition == "amqp:resource-limit-exceeded"
    assert pair.server.finished


def test_empty_frames_keep_a_connection_alive() -> None:
    pair = Pair(Limits(idle_timeout_s=10))
    pair.opened()
    for second in range(1, 60):
        pair.now = float(second)
        assert pair.client.tick(pair.now) == []
        assert pair.server.tick(pair.now) == []
        pair.talk()
    assert not pair.server.finished


def test_an_empty_frame_is_sent_no_sooner_than_due() -> None:
    pair = Pair(Limits(idle_timeout_s=10))  # told as 5 s, so that 2.5 s are due
    pair.opened()
    pair.client.tick(2.0)
    assert pair.client.data_to_send(2.0) == b""
    pair.client.tick(2.5)
    assert pair.client.data_to_send(2.5) == EMPTY_FRAME


def test_a_session_ends_and_its_channel_is_free_again() -> None:
    pair = Pair()
    session = pair.opened()
    session.end()
    pair.talk()
    ended = one(pair.at_server, SessionEnded)
    ended.session.end()
    pair.talk()
    assert pair.client.sessions == pair.server.sessions == {}
    assert pair.client.begin().channel == 0


def test_frames_for_a_session_that_we_ended_are_ignored() -> None:
    peer = RawPeer()
    peer.attached()
    [session] = peer.connection.sessions.values()
    session.end(Error("amqp:internal-error"))
    peer.connection.data_to_send()
    assert peer.transfer() == []
    peer.frame(End())
    assert peer.connection.sessions == {}


def test_more_sessions_than_allowed_are_refused() -> None:
    peer = RawPeer(Limits(channel_max=1))
    peer.begin()
    begin = Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1)
    assert isinstance(peer.frame(begin, 1)[0], Begin)
    [close] = peer.frame(begin, 2)
    assert isinstance(close, Close)
    assert close.error is not None
    assert close.error.condition == "amqp:connection:framing-error"


def test_a_frame_larger_than_agreed_is_refused_before_it_is_there() -> None:
    peer = RawPeer(Limits(max_frame_size=1024))
    peer.open()
    [close] = peer.send((1025).to_bytes(4) + b"\x02\x00\x00\x00")
    assert isinstance(close, Close)
    assert close.error is not None
    assert close.error.condition == "amqp:connection:framing-error"


def test_closing_before_open_sends_both() -> None:
    server = Connection.server(Limits(), answer=Open("server"))
    server.receive_data(AMQP_HEADER, 0.0)
    server.close(Error("amqp:resource-limit-exceeded", "too slow"))
    assert [type(each) for each in performatives(server.data_to_send())] == [Open, Close]


def test_a_peer_that_sends_much_at_a_time_is_heard_in_pieces() -> None:
    peer = RawPeer(Limits(max_frames=3))
    peer.open()
    begins = b"".join(
        encode_frame(channel, Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1))
        for channel in range(7)
    )
    assert len(peer.connection.receive_data(begins[:-5], 0.0)) == 3
    assert peer.connection.has_more
    assert peer.connection.receive_data(begins[-5:], 0.0) == []
    assert len(peer.connection.receive_more()) == 3
    assert len(peer.connection.receive_more()) == 1
    assert not peer.connection.has_more
    assert peer.connection.held_bytes == 0
