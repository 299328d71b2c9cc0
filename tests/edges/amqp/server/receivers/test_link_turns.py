"""A receiver leaves others their turn, however long its messages take, and however long it looks for one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import pairwise

import pytest
from tests.support.amqp.server import RunningServer
from tests.support.amqp.wire import RawWire
from tests.support.polling import eventually

from isthmus.codecs.amqp import AmqpMessage
from isthmus.converters import KafkaRecord, ReceivedRecord, converter
from isthmus.edges.amqp.protocol.performatives import Attach, Flow, Transfer
from isthmus.edges.amqp.protocol.terms import Source, Target
from isthmus.edges.amqp.server.contract import ReceiverRequest
from isthmus.edges.amqp.server.receivers.outgoing_link import KafkaOutgoingLink, Wants, everything
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
    """Makes links, and notes in which turn of the loop each record was converted."""

    def __init__(self, wants: Wants = everything) -> None:
        self.records = Records()
        self.turns: list[int] = []
        self._turn = 0
        self._wants = wants
        self._form = converter("default")

    async def open(self, request: ReceiverRequest) -> KafkaOutgoingLink:
        self._next_turn()
        source = Source("prices")
        return KafkaOutgoingLink(request, self.records, self, source, wants=self._wants, turns=Turns(0))

    def to_kafka_record(self, message: AmqpMessage) -> KafkaRecord:
        raise AssertionError("nothing is sent")

    def to_amqp_message(self, address: str, record: ReceivedRecord) -> AmqpMessage:
        self.turns.append(self._turn)
        return self._form.to_amqp_message(address, record)

    def _next_turn(self) -> None:
        self._turn += 1
        if len(self.turns) < RECORDS:
            asyncio.get_running_loop().call_soon(self._next_turn)


def last(message: AmqpMessage) -> bool:
    return message.encode().endswith(b"%d" % (RECORDS - 1))


def strictly_increases(numbers: Sequence[int]) -> bool:
    return all(one < other for one, other in pairwise(numbers))


@pytest.mark.parametrize(("wants", "sent"), [(everything, RECORDS), (last, 1)])
def test_records_are_converted_in_many_turns(wants: Wants, sent: int) -> None:
    links = Links(wants)
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
        transfers = wire.until(Transfer, sent)
        assert len(transfers) == sent
        assert transfers[-1].delivery_tag == b"0_39"
        eventually(lambda: links.records.settled == list(range(RECORDS - sent)))
        assert strictly_increases(links.turns)
