"""Bytes arrive in any pieces, and any bytes may arrive."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.support.amqp.engines import Pair, RawPeer, accept

from isthmus.edges.amqp.protocol import (
    Closed,
    Connection,
    Disposed,
    Limits,
    LinkAttached,
    Open,
    SaslServer,
)
from isthmus.edges.amqp.protocol.frames import AMQP_HEADER, SASL_HEADER
from isthmus.edges.amqp.protocol.terms import ACCEPTED, Source, Target

SMALL = Limits(max_frame_size=512, incoming_window=8, max_partial_bytes=10_000)


@given(
    messages=st.lists(st.tuples(st.binary(max_size=2000), st.booleans()), max_size=20),
    sizes=st.lists(st.integers(1, 700), min_size=1, max_size=10),
    credit=st.integers(1, 5),
)
def test_messages_arrive_in_order_however_the_bytes_are_cut(
    messages: list[tuple[bytes, bool]], sizes: list[int], credit: int
) -> None:
    def cut(data: bytes) -> list[bytes]:
        pieces, turn = [], 0
        while data:
            size = sizes[turn % len(sizes)]
            pieces.append(data[:size])
            data = data[size:]
            turn += 1
        return pieces

    pair = Pair(SMALL, credit=credit, cut=cut)
    link = pair.sender()
    settled = 0
    for number, (data, at_once) in enumerate(messages):
        if link.credit == 0:
            pair.talk()
            arrived = pair.arrived()
            for delivery in arrived[settled:]:
                delivery.settle(ACCEPTED)
            end = arrived[-1].link
            end.grant(len(arrived) - settled)  # type: ignore[attr-defined]
            settled = len(arrived)
            pair.talk()
        link.send(number.to_bytes(2), data, settled=at_once)
    pair.talk()
    assert [(each.data, each.tag) for each in pair.arrived()] == [
        (data, number.to_bytes(2)) for number, (data, _) in enumerate(messages)
    ]
    for delivery in pair.arrived()[settled:]:
        delivery.settle(ACCEPTED)
    pair.talk()
    told = [d.tag for event in pair.at_client if isinstance(event, Disposed) for d in event.deliveries]
    assert told == [n.to_bytes(2) for n, (_, at_once) in enumerate(messages) if not at_once]


def feed(connection: Connection, pieces: list[bytes]) -> None:
    for piece in pieces:
        for event in connection.receive_data(piece, 0.0):
            if isinstance(event, LinkAttached):
                accept(event)
        connection.data_to_send()


@given(st.lists(st.binary(max_size=100), max_size=20))
def test_garbage_raises_nothing(pieces: list[bytes]) -> None:
    for header in (b"", AMQP_HEADER, SASL_HEADER):
        sasl = SaslServer(["PLAIN", "SCRAM-SHA-256"]) if header == SASL_HEADER else None
        connection = Connection.server(SMALL, sasl, answer=Open("server"))
        feed(connection, [header, *pieces])
        assert connection._buffer.held_bytes <= 4096


@given(st.data())
def test_a_conversation_with_wrong_bytes_in_it_ends_and_raises_nothing(data: st.DataObject) -> None:
    pair = Pair(SMALL)
    pair.client.open(Open("client"))
    link = pair.client.begin().sender("out")
    link.attach(source=Source("x"), target=Target("orders"))
    spoken = bytearray(pair.client.data_to_send())
    for _ in range(data.draw(st.integers(1, 8))):
        spoken[data.draw(st.integers(0, len(spoken) - 1))] = data.draw(st.integers(0, 255))
    feed(pair.server, [bytes(spoken)])


@given(st.data())
def test_wrong_bytes_in_transfers_raise_nothing(data: st.DataObject) -> None:
    peer = RawPeer(SMALL)
    peer.attached()
    pair = Pair()
    link = pair.sender()
    for n in range(3):
        link.send(bytes([n]), b"payload", settled=n == 1)
    spoken = bytearray(pair.client.data_to_send())
    for _ in range(data.draw(st.integers(1, 5))):
        spoken[data.draw(st.integers(0, len(spoken) - 1))] = data.draw(st.integers(0, 255))
    peer.send(bytes(spoken))
    for event in peer.events:
        if isinstance(event, Closed):
            assert event.error is not None
            assert event.error.condition.startswith("amqp:")
