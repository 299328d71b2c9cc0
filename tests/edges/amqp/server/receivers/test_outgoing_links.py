"""What whoever fills receivers' links can rely on, with proton's client at the other end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence

import pytest

proton = pytest.importorskip("proton", reason="python-qpid-proton is not installed")

from proton.utils import BlockingConnection, LinkDetached  # noqa: E402
from tests.support.amqp.server import RunningServer  # noqa: E402
from tests.support.amqp.wire import Wire, message  # noqa: E402
from tests.support.polling import eventually  # noqa: E402

from isthmus.edges.amqp.protocol import Closed, Delivery, Link, LinkAttached  # noqa: E402
from isthmus.edges.amqp.protocol.terms import (  # noqa: E402
    Accepted,
    Rejected,
    Released,
    Source,
    Target,
    TransactionalState,
)
from isthmus.edges.amqp.server.contract import Client, ReceiverRequest  # noqa: E402
from isthmus.errors import Refused  # noqa: E402


class Numbers:
    """Sends numbers as long as there is credit, and remembers what was said of them."""

    def __init__(self, request: ReceiverRequest, count: int) -> None:
        self._request = request
        self._left = iter(range(count))
        self.said: list[tuple[bytes, object]] = []
        self.closed: list[bool] = []
        self.holds = True
        self.may_close = asyncio.Event()
        self.may_close.set()
        address = request.attach.source.address  # type: ignore[attr-defined]
        self.source = Source(address, outcomes=("amqp:accepted:list",))

    @property
    def unsettled(self) -> list[bytes]:
        return []

    def resume(self, request: ReceiverRequest, *, lost: bool) -> None: ...

    def on_flow(self) -> None:
        link = self._request.link
        while link.credit and (number := next(self._left, None)) is not None:
            link.send(f"0_{number}".encode(), message(str(number)))
        if link.drain:
            link.drained()
        self._request.wake()

    def on_disposition(self, deliveries: Sequence[Delivery], state: object, settled: bool) -> None:
        self.said += [(delivery.tag, state) for delivery in deliveries]
        if isinstance(state, TransactionalState):
            transaction = self._request.transactions.find(state.txn_id)
            assert transaction is not None
            transaction.enlist(self)
        if not settled:
            for delivery in deliveries:
                delivery.settle(state)
        self._request.wake()

    def can_commit(self) -> bool:
        return self.holds

    def commit(self) -> None:
        self.said.append((b"", "commit"))

    def roll_back(self) -> None:
        self.said.append((b"", "rollback"))

    async def close(self, *, detached: bool, lost: bool) -> None:
        await self.may_close.wait()
        self.closed.append(detached)


class AllNumbers:
    def __init__(self) -> None:
        self.made: list[Numbers] = []
        self.deleted: list[str] = []

    async def open(self, request: ReceiverRequest) -> Numbers:
        if request.attach.source.address == "nothing":  # type: ignore[attr-defined]
            raise Refused("io.strimzi:no-group-id", "Mandatory group.id not specified in the address")
        self.made.append(Numbers(request, 5))
        return self.made[-1]

    async def create_node(self, link: Link, client: Client) -> str:
        return f"temporary-{client.container_id}"

    async def leave_node(self, address: str) -> None:
        self.deleted.append(address)

    async def link_node(self, address: str, on_deleted: Callable[[], None]) -> None: ...
    async def unlink_node(self, address: str, on_deleted: Callable[[], None]) -> None: ...


@pytest.fixture
def outgoing_links() -> AllNumbers:
    return AllNumbers()


@pytest.fixture
def server(outgoing_links: AllNumbers) -> Iterator[RunningServer]:
    with RunningServer(outgoing_links=outgoing_links) as server:
        yield server


def test_messages_go_out_as_credit_allows(server: RunningServer, outgoing_links: AllNumbers) -> None:
    connection = BlockingConnection(server.url, timeout=60)
    receiver = connection.create_receiver("numbers", credit=2)
    bodies = []
    for _ in range(5):
        bodies.append(receiver.receive().body)
        receiver.accept()
    connection.close()
    assert bodies == ["0", "1", "2", "3", "4"]
    eventually(lambda: len(outgoing_links.made[0].said) == 5, timeout_s=5)
    assert outgoing_links.made[0].said[0] == (b"0_0", Accepted())
    eventually(lambda: outgoing_links.made[0].closed == [True], timeout_s=5)


def test_a_connection_s_close_is_answered_once_its_receivers_have_committed(
    server: RunningServer, outgoing_links: AllNumbers
) -> None:
    with Wire(server.port).open() as wire:
        receiver = wire.engine.begin().receiver("in")
        receiver.attach(source=Source("numbers"), target=Target())
        wire.until(LinkAttached)
        outgoing_link = outgoing_links.made[0]
        server.call(outgoing_link.may_close.clear)
        wire.engine.close()
        for _ in range(5):
            wire.pump()
        assert not any(isinstance(event, Closed) for event in wire.events)
        server.call(outgoing_link.may_close.set)
        wire.until(Closed)
        assert outgoing_link.closed == [True]


def test_what_is_released_is_told(server: RunningServer, outgoing_links: AllNumbers) -> None:
    connection = BlockingConnection(server.url, timeout=60)
    receiver = connection.create_receiver("numbers", credit=1)
    receiver.receive()
    receiver.release(delivered=False)
    connection.close()
    eventually(lambda: outgoing_links.made[0].said == [(b"0_0", Released())], timeout_s=5)


def test_a_receiver_that_is_refused_learns_why(server: RunningServer) -> None:
    connection = BlockingConnection(server.url, timeout=60)
    with pytest.raises(LinkDetached, match=r"Mandatory group\.id not specified"):
        connection.create_receiver("nothing")
    connection.close()


def test_a_closed_link_closes_what_fills_it(server: RunningServer, outgoing_links: AllNumbers) -> None:
    connection = BlockingConnection(server.url, timeout=60)
    connection.create_receiver("numbers", credit=1).close()
    assert outgoing_links.made[0].closed == [False]
    connection.close()


def test_drain_is_answered(server: RunningServer) -> None:
    with Wire(server.port) as wire:
        link = wire.open().engine.begin().receiver("in")
        link.attach(source=Source("numbers"), target=None)
        link.grant(100)
        link.ask_to_drain()
        wire.wait(lambda: link.credit == 0 and not link.drain)
        assert sum(isinstance(event, Delivery) for event in wire.events) == 5


@pytest.mark.parametrize(("fail", "outcome"), [(False, "commit"), (True, "rollback")])
def test_acknowledgements_in_a_transaction_hear_of_its_outcome(
    server: RunningServer, outgoing_links: AllNumbers, fail: bool, outcome: str
) -> None:
    with Wire(server.port) as wire:
        link = wire.open().engine.begin().receiver("in")
        link.attach(source=Source("numbers"), target=None)
        link.grant(1)
        delivery = wire.until(Delivery)
        coordinator = wire.coordinator()
        id = wire.declare(coordinator)
        delivery.settle(TransactionalState(id, Accepted()))
        wire.discharge(coordinator, id, fail=fail)
    assert outgoing_links.made[0].said[-1] == (b"", outcome)


def test_a_commit_of_what_is_not_held_any_more_is_refused(
    server: RunningServer, outgoing_links: AllNumbers
) -> None:
    with Wire(server.port) as wire:
        link = wire.open().engine.begin().receiver("in")
        link.attach(source=Source("numbers"), target=None)
        link.grant(1)
        delivery = wire.until(Delivery)
        coordinator = wire.coordinator()
        id = wire.declare(coordinator)
        delivery.settle(TransactionalState(id, Accepted()))
        eventually(lambda: wire.pump() or outgoing_links.made[0].said, timeout_s=5)
        outgoing_links.made[0].holds = False
        outcome = wire.discharge(coordinator, id, fail=False)
    assert isinstance(outcome, Rejected)
    assert outcome.error is not None
    assert outcome.error.condition == "amqp:transaction:rollback"
    assert outgoing_links.made[0].said[-1] == (b"", "rollback")
    assert server.memory.entries == []


def test_a_temporary_node_lives_as_long_as_its_link(
    server: RunningServer, outgoing_links: AllNumbers
) -> None:
    with Wire(server.port) as wire:
        link = wire.open().sender(None, dynamic=True)
        assert link.target.address == "temporary-wire"  # type: ignore[attr-defined]
        wire.outcome(link.send(b"1", message("x")))
        assert server.memory.entries[0].message.address == "temporary-wire"
        link.detach()
        eventually(lambda: wire.pump() or outgoing_links.deleted == ["temporary-wire"], timeout_s=5)


def test_a_temporary_node_goes_with_its_connection(server: RunningServer, outgoing_links: AllNumbers) -> None:
    with Wire(server.port) as wire:
        wire.open().sender(None, dynamic=True)
    eventually(lambda: outgoing_links.deleted == ["temporary-wire"], timeout_s=5)
