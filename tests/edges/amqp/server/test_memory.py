"""What clients can make the server hold, and that it is let go of."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tests.support.amqp.server import RunningServer
from tests.support.amqp.wire import RawWire, Wire, message
from tests.support.polling import eventually

from isthmus.codecs.amqp import Symbol, UInt
from isthmus.converters import ReceivedRecord, converter
from isthmus.edges.amqp.protocol import Delivery
from isthmus.edges.amqp.protocol.performatives import Attach, Close, Flow, Transfer
from isthmus.edges.amqp.protocol.terms import Modified, Source, Target, TransactionalState
from isthmus.edges.amqp.server.contract import ReceiverRequest
from isthmus.edges.amqp.server.receivers.outgoing_link import KafkaOutgoingLink
from isthmus.edges.amqp.server.receivers.record_source import Acknowledgement, RecordSink
from isthmus.kafka.records import PolledRecord

MEGABYTE = 1 << 20


def begin_message(wire: RawWire, size: int) -> None:
    """Attach a sender, and send the beginning of a message that never ends."""
    wire.send(
        Attach(
            "out", UInt(0), False, source=Source(), target=Target("orders"), initial_delivery_count=UInt(0)
        )
    )
    wire.until(Flow)
    piece = bytes(100_000)
    for sent in range(0, size, len(piece)):
        first = {"delivery_id": UInt(0), "delivery_tag": b"t"} if not sent else {}
        wire.frame(Transfer(handle=UInt(0), more=True, **first), piece)


def test_an_unfinished_message_is_let_go_of_with_its_connection() -> None:
    with RunningServer(max_message_size=8 * MEGABYTE) as server:
        with RawWire(server.port) as wire:
            begin_message(wire.open(), 4 * MEGABYTE)
            eventually(lambda: server.call(lambda: server.amqp.unsettled_bytes) > 4_000_000)
            engine = next(iter(server.call(lambda: list(server.amqp._connections)))).engine
        eventually(lambda: server.call(lambda: server.amqp.unsettled_bytes) == 0)
        assert engine.held_bytes == 0


def test_who_holds_most_of_what_is_unfinished_has_to_go() -> None:
    with (
        RunningServer(max_message_size=2 * MEGABYTE, max_total_unsettled_bytes=4 * MEGABYTE) as server,
        Wire(server.port) as honest,
        RawWire(server.port) as first,
        RawWire(server.port) as second,
        RawWire(server.port) as third,
    ):
        link = honest.open().sender("orders")
        begin_message(first.open(), 1_500_000)
        begin_message(second.open(), 1_900_000)
        begin_message(third.open(), 1_500_000)
        error = second.until(Close)[0].error
        assert error is not None
        assert error.condition == "amqp:resource-limit-exceeded"
        honest.outcome(link.send(b"1", message("x")))
        assert not first.all(Close)


class Flood:
    """Sends as much as it may."""

    def __init__(self, request: ReceiverRequest) -> None:
        self.source = Source("prices")
        self.sent = 0
        self._request = request

    def on_flow(self) -> None:
        while self._request.link.credit and not self._request.congested():
            self._request.link.send(self.sent.to_bytes(8), bytes(1000), settled=True)
            self.sent += 1
        self._request.wake()

    def on_disposition(self, deliveries: Sequence[Delivery], state: object, settled: bool) -> None: ...

    async def close(self, *, detached: bool, lost: bool) -> None: ...


class Floods:
    def __init__(self) -> None:
        self.open_links: list[Flood] = []

    async def open(self, request: ReceiverRequest) -> Flood:
        self.open_links.append(Flood(request))
        return self.open_links[-1]


def test_what_a_clients_window_has_no_room_for_is_not_made() -> None:
    floods = Floods()
    with RunningServer(outgoing_links=floods) as server, RawWire(server.port) as wire:
        wire.open(incoming_window=10)
        windows = {"next_outgoing_id": UInt(0), "outgoing_window": UInt(10)}
        credit = {"handle": UInt(0), "delivery_count": UInt(0), "link_credit": UInt(100_000)}
        wire.send(Attach("in", UInt(0), True, source=Source("prices"), target=Target()))
        wire.send(Flow(next_incoming_id=UInt(0), incoming_window=UInt(10), **windows, **credit))
        wire.until(Transfer, 10)
        assert floods.open_links[0].sent == 11
        wire.send(Flow(next_incoming_id=UInt(10), incoming_window=UInt(50), **windows))
        wire.until(Transfer, 60)
        assert floods.open_links[0].sent == 61


class OneRecord:
    """Hands out one record."""

    def start(self, sink: RecordSink) -> None:
        record = PolledRecord("q", 0, ReceivedRecord("q", 0, 0, None, b"x"))
        asyncio.get_running_loop().call_soon(sink.on_records, [record])

    def request(self, count: int, *, drain: bool = False) -> None: ...

    def holds(self, record: PolledRecord) -> bool:
        return True

    def settle(self, record: PolledRecord, acknowledgement: Acknowledgement) -> None: ...

    def decline(self, record: PolledRecord, *, failed: bool) -> bool:
        return False

    async def close(self) -> None: ...


class KafkaLinks:
    def __init__(self) -> None:
        self.made: list[KafkaOutgoingLink] = []

    async def open(self, request: ReceiverRequest) -> KafkaOutgoingLink:
        self.made.append(KafkaOutgoingLink(request, OneRecord(), converter("default"), Source("q")))
        return self.made[-1]


def test_what_a_client_says_beside_an_outcome_is_not_kept_with_its_transaction() -> None:
    links = KafkaLinks()
    with RunningServer(outgoing_links=links) as server, Wire(server.port) as wire:
        id = wire.declare(wire.open().coordinator())
        receiver = wire.engine.begin().receiver("in")
        receiver.attach(source=Source("q"), target=Target())
        receiver.grant(1)
        delivery = wire.until(Delivery)
        modified = Modified(True, message_annotations={Symbol("why"): "x" * 10_000})
        delivery.update(TransactionalState(id, modified.described()))
        wire.pump()
        [made] = links.made
        eventually(lambda: made._in_transactions)
        [acknowledgements] = made._in_transactions.values()
        [(_, outcome)] = acknowledgements._decided.values()
        assert outcome == Modified(delivery_failed=True)
