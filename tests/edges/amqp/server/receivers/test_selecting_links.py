"""A receiver with a selector leaves others their turn, however long it looks for what it wants."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import pairwise

from tests.support.amqp.server import RunningServer
from tests.support.amqp.wire import RawWire
from tests.support.polling import eventually

from isthmus.codecs.amqp import AmqpMessage
from isthmus.converters import ReceivedRecord, converter
from isthmus.edges.amqp.protocol.performatives import Attach, Flow, Transfer
from isthmus.edges.amqp.protocol.terms import Source, Target
from isthmus.edges.amqp.server.contract import ReceiverRequest
from isthmus.edges.amqp.server.receivers.outgoing_link import KafkaOutgoingLink
from isthmus.edges.amqp.server.receivers.record_source import Acknowledgement, RecordSink
from isthmus.edges.amqp.server.receivers.turns import Turns
from isthmus.kafka.records import PolledRecord

RECORDS = 40


class Records:
    """Hands out forty records at once."""

    def __init__(self) -> None:
        self.settled: list[int] = []
        self._sink: RecordSink
        self._left = range(RECORDS)

    def start(self, sink: RecordSink) -> None:
        self._sink = sink

    def request(self, count: int, *, drain: bool = False) -> None:
        left, self._left = self._left, range(0)
        records = [PolledRecord("q", 0, ReceivedRecord("q", 0, n, None, b"%d" % n)) for n in left]
        if records:
            asyncio.get_running_loop().call_soon(self._sink.on_records, records)

    def holds(self, record: PolledRecord) -> bool:
        return True

    def settle(self, record: PolledRecord, acknowledgement: Acknowledgement) -> None:
        self.settled.append(record.offset)

    def decline(self, record: PolledRecord, *, failed: bool) -> bool:
        return False

    async def close(self) -> None: ...


class Links:
    """Makes links that want the last record, and notes in which turn of the loop each was looked at."""

    def __init__(self) -> None:
        self.records = Records()
        self.turns: list[int] = []
        self._turn = 0

    async def open(self, request: ReceiverRequest) -> KafkaOutgoingLink:
        loop = asyncio.get_running_loop()

        def next_turn() -> None:
            self._turn += 1
            if len(self.turns) < RECORDS:
                loop.call_soon(next_turn)

        def wants(message: AmqpMessage) -> bool:
            self.turns.append(self._turn)
            return len(self.turns) == RECORDS

        next_turn()
        source = Source("prices")
        form = converter("default")
        return KafkaOutgoingLink(request, self.records, form, source, wants=wants, turns=Turns(0))


def strictly_increases(numbers: Sequence[int]) -> bool:
    return all(one < other for one, other in pairwise(numbers))


def test_what_is_not_wanted_is_passed_over_in_many_turns() -> None:
    links = Links()
    with RunningServer(outgoing_links=links) as server, RawWire(server.port) as wire:
        wire.open()
        flow = Flow(
            next_incoming_id=0,
            incoming_window=1000,
            next_outgoing_id=0,
            outgoing_window=0,
            handle=0,
            delivery_count=0,
            link_credit=100,
        )
        wire.send(Attach("in", 0, True, source=Source("prices"), target=Target()), flow)
        [transfer] = wire.until(Transfer)
        assert transfer.delivery_tag == b"0_39"
        eventually(lambda: links.records.settled == list(range(RECORDS - 1)))
        assert strictly_increases(links.turns)
