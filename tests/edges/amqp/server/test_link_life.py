"""A link's life at the server, in frames by hand: whatever comes in the middle of it, nothing is left."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator, Sequence

import pytest
from tests.support.amqp.server import AnyAddress, RunningServer
from tests.support.amqp.wire import RawWire, message
from tests.support.polling import eventually

from isthmus.codecs.amqp import UInt
from isthmus.edges.amqp.protocol import Delivery, Link
from isthmus.edges.amqp.protocol.performatives import Attach, Close, Detach, End, Flow, Transfer
from isthmus.edges.amqp.protocol.terms import Error, Source, Target
from isthmus.edges.amqp.server.connection import MAX_OPENING
from isthmus.edges.amqp.server.contract import Client, ReceiverRequest
from isthmus.errors import HardFailure, Refused


class Filler:
    """Fills a link with one message for each credit. It opens and closes when it is allowed to."""

    def __init__(self, links: Fillers, request: ReceiverRequest) -> None:
        self.request = request
        self.sent = 0
        self._links = links
        asked = request.attach.source
        assert isinstance(asked, Source)
        self.source = Source(asked.address or "made", dynamic=asked.dynamic)

    @property
    def unsettled(self) -> list[bytes]:
        return []

    def resume(self, request: ReceiverRequest, *, lost: bool) -> None: ...

    def on_flow(self) -> None:
        if self.source.address == "on_flow":
            raise ZeroDivisionError(self.source.address)
        while self.request.link.credit > 0:
            self.sent += 1
            self.request.link.send(self.sent.to_bytes(4), message("x"), settled=True)

    def on_disposition(self, deliveries: Sequence[Delivery], state: object, settled: bool) -> None: ...

    async def close(self, *, detached: bool, lost: bool) -> None:
        await self._links.may_close.wait()
        self._links.closed.append(detached)
        if self.source.address == "close":
            raise ZeroDivisionError(self.source.address)
        if self.source.address == "unlucky":
            raise HardFailure("Kafka does not answer", remedy="none")


class Fillers:
    """Counts what was opened and what was closed."""

    def __init__(self) -> None:
        self.asked = 0
        self.opened: list[Filler] = []
        self.closed: list[bool] = []
        """One for each that was closed: whether the client did not close the link."""
        self.nodes: list[str] = []
        self.deleted: list[str] = []
        self.may_open = asyncio.Event()
        self.may_close = asyncio.Event()
        self.may_open.set()
        self.may_close.set()

    async def open(self, request: ReceiverRequest) -> Filler:
        self.asked += 1
        await self.may_open.wait()
        source = request.attach.source
        assert isinstance(source, Source)
        if source.address == "missing":
            raise Refused("amqp:not-found", "there is none")
        if source.address == "open":
            raise ZeroDivisionError(source.address)
        self.opened.append(Filler(self, request))
        if source.address == "failing":
            request.detach(Error("amqp:internal-error", "it failed while it was opened"))
        return self.opened[-1]

    async def create_node(self, link: Link, client: Client) -> str:
        self.asked += 1
        await self.may_open.wait()
        self.nodes.append(f"node-{len(self.nodes)}")
        return self.nodes[-1]

    async def leave_node(self, address: str) -> None:
        self.deleted.append(address)

    async def link_node(self, address: str, on_deleted: Callable[[], None]) -> None: ...
    async def unlink_node(self, address: str, on_deleted: Callable[[], None]) -> None: ...


class BrokenAddresses(AnyAddress):
    async def find(self, address: str, *, jms: bool = False) -> str | None:
        await asyncio.sleep(0)
        if address == "broken":
            raise ZeroDivisionError("find")
        return await super().find(address)


@pytest.fixture
def fillers() -> Fillers:
    return Fillers()


@pytest.fixture
def server(fillers: Fillers) -> Iterator[RunningServer]:
    with RunningServer(outgoing_links=fillers, addresses=BrokenAddresses()) as server:
        yield server


@pytest.fixture
def impatient(fillers: Fillers) -> Iterator[RunningServer]:
    """A server whose clients wait for a moment only."""
    with RunningServer(outgoing_links=fillers, link_close_s=0.2) as server:
        yield server
        server.call(fillers.may_open.set)
        server.call(fillers.may_close.set)
        nothing_is_left(server, fillers)


def nothing_is_left(server: RunningServer, fillers: Fillers) -> None:
    """No open source or node, no task, no handler."""
    eventually(lambda: len(fillers.closed) == len(fillers.opened), timeout_s=10, what="a source is open")
    eventually(lambda: sorted(fillers.deleted) == sorted(fillers.nodes), timeout_s=10, what="a node is left")

    def tasks() -> int:
        return len(asyncio.all_tasks()) - 1  # the one that counts

    eventually(lambda: server.call(tasks) == 0, timeout_s=10, what="a task is left")
    connections = list(server.amqp._connections)
    assert not [link for each in connections for link in each.links]
    engines = [each.engine for each in connections]
    links = [
        link for each in engines for session in each.sessions.values() for link in session.links.values()
    ]
    assert not [link for link in links if link.handler is not None or link.detached]


def receive(name: str, handle: int = 0, address: str | None = "q", *, dynamic: bool = False) -> Attach:
    return Attach(name, handle, True, source=Source(address, dynamic=dynamic), target=Target())


def send(name: str, handle: int = 0, address: str | None = "q", *, dynamic: bool = False) -> Attach:
    target = Target(address, dynamic=dynamic)
    return Attach(name, handle, False, source=Source(), target=target, initial_delivery_count=UInt(0))


def flow(handle: int, credit: int | None) -> Flow:
    return Flow(
        next_incoming_id=0,
        incoming_window=1000,
        next_outgoing_id=0,
        outgoing_window=1000,
        handle=handle,
        link_credit=credit,
    )


def hold(server: RunningServer, fillers: Fillers) -> None:
    server.call(fillers.may_open.clear)


def let_open(server: RunningServer, fillers: Fillers, asked: int = 1) -> None:
    eventually(lambda: fillers.asked >= asked, timeout_s=10)
    server.call(fillers.may_open.set)


# While it is attaching


def test_the_latest_credit_counts_that_comes_before_the_answer(
    server: RunningServer, fillers: Fillers
) -> None:
    with RawWire(server.port).open() as wire:
        hold(server, fillers)
        wire.send(receive("in"), flow(0, 5), flow(0, 0), flow(0, 2))
        let_open(server, fillers)
        wire.until(Transfer, 2)
        assert fillers.opened[0].sent == 2
    nothing_is_left(server, fillers)


def test_a_flow_without_credit_refuses_the_link_and_closes_what_was_opened(
    server: RunningServer, fillers: Fillers
) -> None:
    with RawWire(server.port).open() as wire:
        hold(server, fillers)
        wire.send(receive("in"), flow(0, None))
        [detach] = wire.until(Detach)
        assert detach.error is not None
        assert detach.error.condition == "amqp:invalid-field"
        [attach] = wire.all(Attach)
        assert attach.source is None
        let_open(server, fillers)
        wire.send(Detach(0))
        nothing_is_left(server, fillers)
        assert fillers.closed == [True]
        wire.send(receive("again"), flow(0, 1))
        wire.until(Transfer)
    nothing_is_left(server, fillers)


@pytest.mark.parametrize("closed", [True, False])
def test_a_detach_is_answered_behind_the_attach_once_all_is_closed(
    server: RunningServer, fillers: Fillers, closed: bool
) -> None:
    with RawWire(server.port).open() as wire:
        hold(server, fillers)
        wire.send(receive("in"), flow(0, 0), Detach(0, closed))
        let_open(server, fillers)
        [detach] = wire.until(Detach)
        assert [type(each) for each in wire.answers[-2:]] == [Attach, Detach]
        assert (detach.closed, detach.error) == (closed, None)
        assert fillers.closed == [not closed]
        nothing_is_left(server, fillers)


def test_a_refusal_of_a_link_that_is_detached_already_says_why(
    server: RunningServer, fillers: Fillers
) -> None:
    with RawWire(server.port).open() as wire:
        hold(server, fillers)
        wire.send(receive("in", address="missing"), Detach(0, True))
        let_open(server, fillers)
        [detach] = wire.until(Detach)
        assert detach.error == Error("amqp:not-found", "there is none")
        nothing_is_left(server, fillers)


def test_a_source_that_fails_while_it_is_opened_is_detached_and_closed(
    server: RunningServer, fillers: Fillers
) -> None:
    with RawWire(server.port).open() as wire:
        wire.send(receive("in", address="failing"), flow(0, 3))
        [detach] = wire.until(Detach)
        assert [type(each) for each in wire.answers[-2:]] == [Attach, Detach]
        assert detach.closed
        assert detach.error == Error("amqp:internal-error", "it failed while it was opened")
        wire.send(Detach(0))
        nothing_is_left(server, fillers)
        assert fillers.closed == [True]


def test_the_end_of_the_session_closes_what_was_opened(server: RunningServer, fillers: Fillers) -> None:
    with RawWire(server.port).open() as wire:
        hold(server, fillers)
        wire.send(receive("in"), receive("other", 1), send("out", 2, None, dynamic=True), End())
        let_open(server, fillers, 3)
        wire.until(End)
        assert fillers.closed == [True, True]
        assert fillers.deleted == ["node-0"]
        assert wire.all(Attach) == []
        nothing_is_left(server, fillers)


def test_the_close_of_the_connection_closes_what_was_opened(server: RunningServer, fillers: Fillers) -> None:
    with RawWire(server.port).open() as wire:
        hold(server, fillers)
        wire.send(receive("in"), send("out", 1, None, dynamic=True), Close())
        let_open(server, fillers, 2)
        wire.until(Close)
        assert fillers.closed == [True]
        assert fillers.deleted == ["node-0"]
    nothing_is_left(server, fillers)


def test_a_client_that_drops_closes_what_was_opened(server: RunningServer, fillers: Fillers) -> None:
    wire = RawWire(server.port).open()
    hold(server, fillers)
    wire.send(receive("in"), receive("made", 1, None, dynamic=True), send("out", 2, None, dynamic=True))
    eventually(lambda: fillers.asked == 3, timeout_s=10)
    wire.drop()
    eventually(lambda: server.amqp.connections == 0, timeout_s=10)
    fillers.nodes.append("made")  # the source's own
    server.call(fillers.may_open.set)
    nothing_is_left(server, fillers)
    assert fillers.closed == [True, True]


def test_a_sender_that_detaches_at_once_is_answered(server: RunningServer, fillers: Fillers) -> None:
    with RawWire(server.port).open() as wire:
        wire.send(send("out"), Detach(0, True), send("relay", 0, None), Detach(0, True))
        detaches = wire.until(Detach, 2)
        assert [each.error for each in detaches] == [None, None]
        assert [type(each) for each in wire.answers[-4:]] == [Attach, Detach] * 2
        nothing_is_left(server, fillers)


# Many of them


def test_two_hundred_links_that_come_and_go_at_once_leave_nothing(
    server: RunningServer, fillers: Fillers
) -> None:
    with RawWire(server.port).open() as wire:
        for number in range(200):
            wire.send(receive(f"in {number}"), Detach(0, True))
        wire.until(Detach, 200)
        assert len(fillers.closed) == 200
        nothing_is_left(server, fillers)


def test_two_hundred_links_with_flows_in_between_leave_nothing(
    server: RunningServer, fillers: Fillers
) -> None:
    with RawWire(server.port).open() as wire:
        hold(server, fillers)
        for number in range(200):
            credit = (0, None, 5)[number % 3]
            wire.send(receive(f"in {number}"), flow(0, credit), Detach(0, number % 2 == 0))
        let_open(server, fillers, MAX_OPENING)
        wire.until(Detach, 200)
        assert len(wire.all(Attach)) == 200
        nothing_is_left(server, fillers)
        assert len(fillers.closed) == 200


def test_a_connection_opens_a_few_links_at_a_time_and_no_other_waits_for_them(
    server: RunningServer, fillers: Fillers
) -> None:
    with RawWire(server.port).open() as wire, RawWire(server.port).open() as other:
        hold(server, fillers)
        for number in range(50):
            wire.send(receive(f"in {number}", number))
        eventually(lambda: fillers.asked == MAX_OPENING, timeout_s=10)
        other.send(receive("in"))
        eventually(lambda: fillers.asked == MAX_OPENING + 1, timeout_s=10)
        let_open(server, fillers)
        other.until(Attach)
        wire.until(Attach, 50)
        assert fillers.asked == 51


def test_what_waits_to_be_opened_when_the_connection_is_lost_is_not(
    server: RunningServer, fillers: Fillers
) -> None:
    with RawWire(server.port).open() as wire:
        hold(server, fillers)
        for number in range(50):
            wire.send(receive(f"in {number}", number))
        eventually(lambda: fillers.asked == MAX_OPENING, timeout_s=10)
    eventually(lambda: server.amqp.connections == 0, timeout_s=10)
    let_open(server, fillers)
    nothing_is_left(server, fillers)
    assert fillers.asked == MAX_OPENING


def test_connections_that_attach_and_close_at_once_leave_nothing(
    server: RunningServer, fillers: Fillers
) -> None:
    for number in range(100):
        with RawWire(server.port).open() as wire:
            wire.send(receive("in"), receive("other", 1), send("out", 2), Close())
            if number % 2:
                wire.until(Close)
    eventually(lambda: server.amqp.connections == 0, timeout_s=10)
    nothing_is_left(server, fillers)
    assert set(fillers.closed) == {True}


# What hangs


def test_a_detach_is_answered_in_time_though_opening_hangs(
    impatient: RunningServer, fillers: Fillers
) -> None:
    with RawWire(impatient.port).open() as wire:
        hold(impatient, fillers)
        wire.send(receive("in"), Detach(0, True))
        [detach] = wire.until(Detach)
        [attach] = wire.all(Attach)
        assert attach.source is None
        assert detach.closed
        assert fillers.opened == []


def test_detach_end_and_close_are_answered_in_time_though_closing_hangs(
    impatient: RunningServer, fillers: Fillers, caplog: pytest.LogCaptureFixture
) -> None:
    impatient.call(fillers.may_close.clear)
    with RawWire(impatient.port).open() as wire:
        wire.send(receive("one"), receive("two", 1), Detach(0, True))
        wire.until(Detach)
        wire.send(End())
        wire.until(End)
    with RawWire(impatient.port).open() as wire:
        wire.send(receive("three"))
        wire.until(Attach)
        wire.send(Close())
        wire.until(Close)
    assert fillers.closed == []
    assert "link one is not closed after 0.2 s" in caplog.text


def test_a_sender_s_detach_is_answered_in_time_though_the_journal_hangs(
    impatient: RunningServer, fillers: Fillers
) -> None:
    impatient.memory.held = True
    with RawWire(impatient.port).open() as wire:
        wire.send(send("out"))
        wire.until(Flow)
        wire.transfer(message("x"))
        eventually(lambda: impatient.memory.waiting == 1, timeout_s=10)
        wire.send(Detach(0, True))
        wire.until(Detach)
        impatient.release()
        eventually(lambda: len(impatient.memory.entries) == 1, timeout_s=10)


def test_the_server_closes_in_time_though_closing_hangs(
    fillers: Fillers, caplog: pytest.LogCaptureFixture
) -> None:
    with RunningServer(outgoing_links=fillers) as server:
        server.call(fillers.may_close.clear)
        wires = [RawWire(server.port).open() for _ in range(3)]
        for wire in wires:
            wire.send(receive("in"), receive("other", 1))
            wire.until(Attach, 2)
        closing = threading.Thread(target=lambda: server.run(server.amqp.close(), timeout_s=8))
        closing.start()
        for wire in wires:
            wire.until(Close)
            wire.send(Close())
        closing.join(10)
        assert not closing.is_alive()
        assert "6 links are given up that do not close" in caplog.text
        assert server.call(lambda: len(asyncio.all_tasks())) == 1
        for wire in wires:
            wire.drop()


# What nobody expected


def tracebacks(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [each for each in caplog.records if each.levelno >= logging.ERROR]


@pytest.mark.parametrize("where", ["open", "on_flow"])
def test_an_unexpected_error_closes_that_connection_and_no_other(
    server: RunningServer, fillers: Fillers, caplog: pytest.LogCaptureFixture, where: str
) -> None:
    with RawWire(server.port).open() as other, RawWire(server.port).open() as wire:
        wire.send(receive("in", address=where))
        [close] = wire.until(Close)
        assert close.error is not None
        assert close.error.condition == "amqp:internal-error"
        wire.send(Close())
        eventually(lambda: server.amqp.connections == 1, timeout_s=10)
        [traceback] = tracebacks(caplog)
        assert where in str(traceback.exc_info)
        other.send(receive("in"), flow(0, 1))
        other.until(Transfer)
    nothing_is_left(server, fillers)


def test_an_unexpected_error_while_closing_closes_the_connection_too(
    server: RunningServer, fillers: Fillers, caplog: pytest.LogCaptureFixture
) -> None:
    with RawWire(server.port).open() as wire:
        hold(server, fillers)
        wire.send(receive("in", address="close"), Detach(0, True))
        let_open(server, fillers)
        [close] = wire.until(Close)
        assert close.error is not None
        assert close.error.condition == "amqp:internal-error"
        assert wire.all(Detach), "the detach is answered first"
    assert len(tracebacks(caplog)) == 1
    nothing_is_left(server, fillers)


def test_a_failure_of_kafka_while_closing_leaves_the_connection_open(
    server: RunningServer, fillers: Fillers, caplog: pytest.LogCaptureFixture
) -> None:
    with RawWire(server.port).open() as wire:
        wire.send(receive("in", address="unlucky"), Detach(0, True))
        wire.until(Detach)
        wire.send(receive("other"))
        wire.until(Attach, 2)
    assert "link in was not closed in good order: Kafka does not answer" in caplog.text
    assert tracebacks(caplog) == []
    nothing_is_left(server, fillers)


def test_an_unexpected_error_while_an_address_is_looked_up_holds_no_message_for_ever(
    server: RunningServer, fillers: Fillers, caplog: pytest.LogCaptureFixture
) -> None:
    with RawWire(server.port).open() as wire:
        wire.send(send("relay", 0, None))
        wire.until(Flow)
        for number in range(3):
            wire.transfer(message("x", to="broken"), number)
        [close] = wire.until(Close)
        assert close.error is not None
        assert close.error.condition == "amqp:internal-error"
    assert len(tracebacks(caplog)) == 1
    eventually(lambda: server.amqp.connections == 0, timeout_s=10)
    assert server.amqp._unsettled_bytes == 0
    nothing_is_left(server, fillers)


def test_a_fault_of_the_client_s_does_not_end_its_subscription(
    server: RunningServer, fillers: Fillers
) -> None:
    with RawWire(server.port).open() as wire:
        wire.send(receive("in"))
        wire.until(Attach)
        wire.send(flow(0, None))
        wire.until(Detach)
        eventually(lambda: fillers.closed == [True], timeout_s=10)
        wire.send(Detach(0))
        nothing_is_left(server, fillers)
