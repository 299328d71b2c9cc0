"""Receivers that resume their link: what is unsettled is neither lost nor delivered twice (2.6.13)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.amqp.kafka_server import receiving_server
from tests.support.amqp.server import RunningServer
from tests.support.amqp.wire import RawWire, message
from tests.support.kafka.topics import new_topic, publish
from tests.support.polling import eventually

from isthmus.codecs.amqp import Described, UInt, ULong
from isthmus.config.model.amqp import AmqpsSettings
from isthmus.converters import ReceivedRecord, converter
from isthmus.edges.amqp.protocol.performatives import Attach, Begin, Detach, Disposition, End, Flow, Transfer
from isthmus.edges.amqp.protocol.terms import ACCEPTED, Accepted, Error, Source, Target
from isthmus.edges.amqp.server.contract import ReceiverRequest
from isthmus.edges.amqp.server.receivers.outgoing_link import KafkaOutgoingLink
from isthmus.edges.amqp.server.receivers.record_source import Acknowledgement, RecordSink
from isthmus.edges.amqp.server.users import User, Users
from isthmus.errors import SoftFailure
from isthmus.kafka.records import PolledRecord

ACCEPT, RELEASE, FAIL = Acknowledgement.ACCEPT, Acknowledgement.RELEASE, Acknowledgement.FAIL
KEPT = Source("prices", expiry_policy="never")


class Records:
    """Hands out forty records, each once, and notes what becomes of them."""

    def __init__(self, told: list[tuple[str, Acknowledgement]]) -> None:
        self.told = told
        self._left = iter(range(40))
        self._requested = 0
        self._sink: RecordSink

    def start(self, sink: RecordSink) -> None:
        self._sink = sink

    def request(self, count: int, *, drain: bool = False) -> None:
        self._requested = count
        asyncio.get_running_loop().call_soon(self._hand_over)

    def _hand_over(self) -> None:
        offsets = [offset for _, offset in zip(range(self._requested), self._left, strict=False)]
        self._requested -= len(offsets)
        if offsets:
            self._sink.on_records(
                [PolledRecord("q", 0, ReceivedRecord("q", 0, each, None, b"%d" % each)) for each in offsets]
            )

    def holds(self, record: PolledRecord) -> bool:
        return True

    def settle(self, record: PolledRecord, acknowledgement: Acknowledgement) -> None:
        self.told.append((record.tag.decode(), acknowledgement))

    def decline(self, record: PolledRecord, *, failed: bool) -> bool:
        return False

    async def close(self) -> None:
        self._requested = 0


class Links:
    """Fills links with records, as with those of Kafka."""

    def __init__(self) -> None:
        self.opened = 0
        self.dead: list[tuple[int, str]] = []
        self.told: list[tuple[str, Acknowledgement]] = []

    async def open(self, request: ReceiverRequest) -> KafkaOutgoingLink:
        self.opened += 1
        source = request.attach.source
        assert isinstance(source, Source)
        records = Records(self.told)
        return KafkaOutgoingLink(request, records, converter("default"), source, undeliverable=self._keep)

    async def _keep(self, record: ReceivedRecord, failure: SoftFailure) -> None:
        self.dead.append((record.offset, failure.code))


@pytest.fixture
def links() -> Links:
    return Links()


@pytest.fixture
def server(links: Links) -> Iterator[RunningServer]:
    with RunningServer(outgoing_links=links) as server:
        yield server


@pytest.fixture
def wire(server: RunningServer) -> Iterator[RawWire]:
    with RawWire(server.port) as wire:
        yield wire.open()


class Frames:
    """A receiver called ``in``, and what came over it since it was attached.

    ``elsewhere`` is how many transfers came in sessions before this one.
    """

    def __init__(
        self, wire: RawWire, credit: int, source: Source = KEPT, *, elsewhere: int = 0, **attach: Any
    ) -> None:
        self._wire = wire
        self._elsewhere = elsewhere
        self._before = len(wire.all(Transfer))
        attached = len(wire.all(Attach))
        wire.send(Attach("in", 0, True, source=source, target=Target(), **attach))
        self.answer = wire.until(Attach, attached + 1)[-1]
        self.flow(credit)

    def flow(self, credit: int) -> None:
        window = {"incoming_window": 1000, "next_outgoing_id": 0, "outgoing_window": 0}
        next_id = len(self._wire.all(Transfer))
        self._wire.send(
            Flow(
                next_incoming_id=next_id - self._elsewhere,
                **window,
                handle=0,
                delivery_count=next_id - self._before,
                link_credit=credit,
            )
        )

    def transfers(self, count: int) -> list[Transfer]:
        return self._wire.until(Transfer, self._before + count)[self._before :]


def seen(transfers: list[Transfer]) -> list[tuple[str, bool, bool]]:
    return [((each.delivery_tag or b"").decode(), each.resume, bool(each.settled)) for each in transfers]


def test_what_is_unsettled_is_sent_again_as_resumed_and_what_is_decided_is_only_settled(
    wire: RawWire, links: Links
) -> None:
    Frames(wire, 3).transfers(3)
    wire.send(Detach(0))
    wire.until(Detach)
    again = Frames(wire, 10, unsettled={b"0_0": None, b"0_1": ACCEPTED.described(), b"0_2": None})
    assert again.answer.unsettled == {b"0_0": None, b"0_1": None, b"0_2": None}
    assert not again.answer.incomplete_unsettled
    first, second, third, fourth = again.transfers(4)[:4]
    assert seen([first, second, third, fourth]) == [
        ("0_0", True, False),
        ("0_1", True, True),
        ("0_2", True, False),
        ("0_3", False, False),
    ]
    assert isinstance(second.state, Accepted)
    assert links.opened == 1
    assert links.told == [("0_1", ACCEPT)]
    wire.send(Disposition(True, first.delivery_id or 0, third.delivery_id, True, ACCEPTED))
    eventually(lambda: links.told[1:] == [("0_0", ACCEPT), ("0_2", ACCEPT)])


def test_what_the_client_does_not_know_is_delivered_anew(wire: RawWire, links: Links) -> None:
    Frames(wire, 2).transfers(2)
    wire.send(Detach(0))
    wire.until(Detach)
    again = Frames(wire, 1, unsettled={b"0_1": None})
    assert seen(again.transfers(1)) == [("0_1", True, False)]
    assert links.told == [("0_0", RELEASE)]


def test_who_attaches_without_a_map_begins_anew(wire: RawWire, links: Links) -> None:
    Frames(wire, 2).transfers(2)
    wire.send(Detach(0))
    wire.until(Detach)
    again = Frames(wire, 1)
    assert again.answer.unsettled is None
    assert not again.transfers(1)[0].resume
    assert links.told == [("0_0", RELEASE), ("0_1", RELEASE)]
    assert links.opened == 2


def test_another_source_is_another_link(wire: RawWire, links: Links) -> None:
    Frames(wire, 1).transfers(1)
    wire.send(Detach(0))
    wire.until(Detach)
    again = Frames(wire, 1, Source("other"), unsettled={b"0_0": None})
    assert again.answer.unsettled == {}
    assert links.told == [("0_0", RELEASE)]


def test_with_an_incomplete_map_nothing_new_is_sent_and_the_rest_is_kept(wire: RawWire, links: Links) -> None:
    Frames(wire, 3).transfers(3)
    wire.send(Detach(0))
    wire.until(Detach)
    some = Frames(wire, 10, unsettled={b"0_1": None}, incomplete_unsettled=True)
    [resumed] = some.transfers(1)
    assert seen([resumed]) == [("0_1", True, False)]
    wire.send(Disposition(True, resumed.delivery_id or 0, None, True, ACCEPTED))
    eventually(lambda: links.told == [("0_1", ACCEPT)])
    wire.send(Detach(0))
    wire.until(Detach, 2)
    rest = Frames(wire, 3, unsettled={b"0_0": None, b"0_2": None})
    assert seen(rest.transfers(3)) == [("0_0", True, False), ("0_2", True, False), ("0_3", False, False)]


def test_a_map_that_does_not_fit_into_a_frame_is_incomplete(server: RunningServer) -> None:
    with RawWire(server.port) as wire:
        wire.open(max_frame_size=512)
        Frames(wire, 40).transfers(40)
        wire.send(Detach(0))
        wire.until(Detach)
        again = Frames(wire, 10, unsettled={b"0_39": None}, incomplete_unsettled=True)
        told = again.answer.unsettled or {}
        assert again.answer.incomplete_unsettled
        assert b"0_39" in told
        assert 1 < len(told) < 40
        assert seen(again.transfers(1)) == [("0_39", True, False)]


@pytest.mark.parametrize("policy", ["never", "connection-close"])
def test_a_link_is_resumed_in_another_session(wire: RawWire, links: Links, policy: str) -> None:
    source = Source("prices", expiry_policy=policy)
    Frames(wire, 1, source).transfers(1)
    wire.send(End())
    wire.until(End)
    wire.send(Begin(next_outgoing_id=0, incoming_window=1000, outgoing_window=1000))
    wire.until(Begin, 2)
    again = Frames(wire, 1, source, elsewhere=1, unsettled={b"0_0": None})
    assert seen(again.transfers(1)) == [("0_0", True, False)]
    assert links.told == []


@pytest.mark.parametrize(
    ("asked", "granted"),
    [
        (KEPT, ("connection-close", 60)),
        (Source("prices", timeout=30), ("session-end", 30)),
        (Source("prices", timeout=4000), ("session-end", 60)),
    ],
)
def test_a_link_is_resumed_after_its_connection_was_lost(
    server: RunningServer, links: Links, asked: Source, granted: tuple[str, int]
) -> None:
    with RawWire(server.port) as lost:
        first = Frames(lost.open(), 2, asked)
        assert isinstance(first.answer.source, Source)
        assert (first.answer.source.expiry_policy, first.answer.source.timeout) == granted
        first.transfers(2)
        lost.drop()
    eventually(lambda: server.amqp.connections == 0)
    with RawWire(server.port) as wire:
        again = Frames(wire.open(), 3, asked, unsettled={b"0_0": None, b"0_1": ACCEPTED.described()})
        expected = [("0_0", True, False), ("0_1", True, True), ("0_2", False, False)]
        assert seen(again.transfers(3)) == expected
        assert links.told == [("0_1", ACCEPT)]


def test_a_link_of_a_connection_that_is_not_known_to_be_lost_is_stolen(
    server: RunningServer, links: Links
) -> None:
    with RawWire(server.port) as silent, RawWire(server.port) as wire:
        Frames(silent.open(), 1).transfers(1)
        again = Frames(wire.open(), 1, unsettled={b"0_0": None})
        assert seen(again.transfers(1)) == [("0_0", True, False)]
        error = silent.until(Detach)[0].error
        assert isinstance(error, Error)
        assert error.condition == "amqp:link:stolen"
        assert links.told == []


def test_what_is_stolen_from_a_user_whose_rights_have_changed_is_delivered_anew(links: Links) -> None:
    server = RunningServer(outgoing_links=links, users=Users({"anonymous": User("anonymous")}))
    with server, RawWire(server.port) as silent:
        Frames(silent.open(), 1).transfers(1)
        server.memory.held = True  # the connection stays for a while, for the sake of what is in flight
        flows = len(silent.all(Flow))
        silent.send(Attach("out", 1, False, target=Target("orders"), initial_delivery_count=0))
        silent.until(Flow, flows + 1)
        silent.frame(Transfer(handle=UInt(1), delivery_id=UInt(0), delivery_tag=b"0"), message("late"))
        eventually(lambda: server.memory.waiting)
        now = Users({"anonymous": User("anonymous", send=())})
        server.call(lambda: server.amqp.change(now, AmqpsSettings()))
        eventually(lambda: server.call(lambda: not any(each.accepting for each in server.amqp._connections)))
        with RawWire(server.port) as wire:
            again = Frames(wire.open(), 1, unsettled={b"0_0": None})
            assert again.answer.unsettled == {}
            eventually(lambda: links.told == [("0_0", FAIL)])
            assert links.opened == 2


def test_a_suspended_link_of_a_connection_that_is_still_open_is_resumed_by_another(
    server: RunningServer, links: Links
) -> None:
    with RawWire(server.port) as silent, RawWire(server.port) as wire:
        Frames(silent.open(), 1).transfers(1)
        silent.send(Detach(0))
        silent.until(Detach)
        again = Frames(wire.open(), 1, unsettled={b"0_0": None})
        assert seen(again.transfers(1)) == [("0_0", True, False)]
        silent.send(End())
        silent.until(End)
        assert links.told == []


def test_a_resumption_that_is_refused_leaves_nothing_behind(server: RunningServer, links: Links) -> None:
    with RawWire(server.port) as lost:
        Frames(lost.open(), 2).transfers(2)
        lost.drop()
    eventually(lambda: server.amqp.connections == 0)
    no_state = Described(ULong(0x24), "accepted has a list of fields")
    with RawWire(server.port) as wire:
        wire.open()
        unsettled = {b"0_0": ACCEPTED.described(), b"0_1": no_state}
        wire.send(Attach("in", 0, True, source=KEPT, target=Target(), unsettled=unsettled))
        error = wire.until(Detach)[0].error
        assert error is not None
        assert error.condition == "amqp:decode-error"
        eventually(lambda: links.told == [("0_0", FAIL), ("0_1", FAIL)])


def test_nothing_is_kept_for_a_client_that_did_not_ask_for_it(server: RunningServer, links: Links) -> None:
    with RawWire(server.port) as lost:
        Frames(lost.open(), 1, Source("prices")).transfers(1)
        lost.drop()
    eventually(lambda: links.told == [("0_0", FAIL)])


def test_what_nobody_resumes_in_time_is_redelivered(server: RunningServer, links: Links) -> None:
    with RawWire(server.port) as lost:
        Frames(lost.open(), 1, Source("prices", timeout=1)).transfers(1)
        lost.drop()
    eventually(lambda: links.told == [("0_0", FAIL)])


def test_too_many_kept_links_make_room(server: RunningServer, links: Links) -> None:
    server.call(lambda: setattr(server.amqp.suspended, "_max_kept", 1))
    for container_id in ("one", "two"):
        with RawWire(server.port) as lost:
            Frames(lost.open(container_id=container_id), 1).transfers(1)
            lost.drop()
        eventually(lambda: server.amqp.connections == 0)
    eventually(lambda: links.told == [("0_0", FAIL)])
    with RawWire(server.port) as wire:
        again = Frames(wire.open(container_id="two"), 1, unsettled={b"0_0": None})
        assert seen(again.transfers(1)) == [("0_0", True, False)]


def test_a_message_that_is_larger_than_the_client_takes_is_not_sent(wire: RawWire, links: Links) -> None:
    small = Frames(wire, 1, max_message_size=1)
    eventually(lambda: (0, "oversize") in links.dead)
    eventually(lambda: ("0_0", Acknowledgement.REJECT) in links.told)
    assert small.transfers(0) == []
    wire.send(Detach(0, True))
    wire.until(Detach)
    assert Frames(wire, 1, max_message_size=100_000).transfers(1)


def test_a_queue_keeps_for_a_lost_client_what_it_has_and_gives_others_the_rest(kafka_servers: str) -> None:
    topic = new_topic(kafka_servers)
    publish(kafka_servers, topic, ["a", "b", "c"])
    source = Source(topic, capabilities=("queue",), timeout=30)
    with receiving_server(kafka_servers) as server:
        with RawWire(server.port) as lost:
            Frames(lost.open(), 2, source).transfers(2)
            lost.drop()
        eventually(lambda: server.amqp.connections == 0)
        with RawWire(server.port) as other:
            others = Frames(other.open(container_id="other"), 5, source)
            assert seen(others.transfers(1)) == [("0_2", False, False)]
            with RawWire(server.port) as wire:
                known = {b"0_0": ACCEPTED.described(), b"0_1": None}
                again = Frames(wire.open(), 5, source, unsettled=known)
                first, second = again.transfers(2)
                assert seen([first, second]) == [("0_0", True, True), ("0_1", True, False)]
                wire.send(Disposition(True, second.delivery_id or 0, None, True, ACCEPTED), Detach(0, True))
                wire.until(Detach)
            publish(kafka_servers, topic, ["d"])
            assert seen(others.transfers(2)[1:]) == [("0_3", False, False)]
