"""What the specification asks of a server where clients err or are strict, with frames by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from tests.support.amqp.server import RunningServer
from tests.support.amqp.wire import RawWire, message
from tests.support.polling import eventually

from isthmus.codecs.amqp import AmqpMessage, AmqpValue, Symbol, UInt
from isthmus.edges.amqp.protocol import Delivery
from isthmus.edges.amqp.protocol.composite import Composite, interpret
from isthmus.edges.amqp.protocol.performatives import (
    RECEIVER,
    SENDER,
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Open,
    Transfer,
)
from isthmus.edges.amqp.protocol.terms import (
    ACCEPTED,
    LIFETIME_POLICIES,
    Coordinator,
    Declare,
    Declared,
    DeleteOnClose,
    Discharge,
    Error,
    Rejected,
    Source,
    Target,
    TransactionalState,
)
from isthmus.edges.amqp.server.contract import ReceiverRequest

BOTH = ("amqp:accepted:list", "amqp:rejected:list")
ACCEPTED_ONLY = ("amqp:accepted:list",)


@pytest.fixture
def wire() -> Iterator[RawWire]:
    with RunningServer(outgoing_links=Ones()) as server, RawWire(server.port) as wire:
        yield wire.open()


class One:
    """Sends one message."""

    def __init__(self, request: ReceiverRequest) -> None:
        self.source = Source("prices")
        self.unsettled: list[bytes] = []
        self._request = request
        self._sent = False

    def resume(self, request: ReceiverRequest, *, lost: bool) -> None: ...

    def on_flow(self) -> None:
        if self._request.link.credit and not self._sent:
            self._sent = True
            self._request.link.send(b"tag", message("x"))
            self.unsettled.append(b"tag")
            self._request.wake()

    def on_disposition(self, deliveries: Sequence[Delivery], state: object, settled: bool) -> None: ...

    async def close(self, *, detached: bool, lost: bool) -> None: ...


class Ones:
    async def open(self, request: ReceiverRequest) -> One:
        return One(request)


def attach_sender(
    wire: RawWire, address: str | None, outcomes: tuple[str, ...] = (), *, handle: int = 0, name: str = ""
) -> None:
    flows = len(wire.all(Flow))
    wire.send(
        Attach(
            name or f"link-{handle}",
            handle,
            False,
            source=Source(outcomes=outcomes),
            target=Target(address),
            initial_delivery_count=0,
        )
    )
    wire.until(Flow, flows + 1)


def attach_coordinator(wire: RawWire, outcomes: tuple[str, ...] = BOTH) -> None:
    """On handle 9."""
    wire.send(
        Attach(
            "tx", 9, False, source=Source(outcomes=outcomes), target=Coordinator(), initial_delivery_count=0
        )
    )
    wire.until(Flow)


def say(wire: RawWire, id: int, word: Composite) -> None:
    data = AmqpMessage(body=AmqpValue(word.described())).encode()
    wire.frame(Transfer(9, id, id.to_bytes(4), 0), data)


def declare(wire: RawWire) -> bytes:
    say(wire, 0, Declare())
    state = wire.until(Disposition)[0].state
    assert isinstance(state, Declared)
    return state.txn_id


def send(wire: RawWire, id: int, to: str, *, settled: bool = False, transaction: bytes | None = None) -> None:
    state = None if transaction is None else TransactionalState(transaction)
    wire.frame(Transfer(0, id, b"my-tag", 0, settled, state=state), message("x", to=to))


def rejection(state: object) -> Error:
    assert isinstance(state, Rejected)
    assert state.error is not None
    return state.error


def test_a_settled_message_to_an_unknown_address_detaches_the_relay(wire: RawWire) -> None:
    attach_sender(wire, None)
    send(wire, 0, "no-where", settled=True)
    error = wire.until(Detach)[0].error
    assert error is not None
    assert (error.condition, error.info) == ("amqp:not-found", {"delivery-tag": b"my-tag"})


def test_the_relay_rejects_a_message_to_an_unknown_address_and_says_which(wire: RawWire) -> None:
    attach_sender(wire, None, BOTH)
    send(wire, 0, "no-where")
    error = rejection(wire.until(Disposition)[0].state)
    assert (error.condition, error.info) == ("amqp:not-found", {"delivery-tag": b"my-tag"})


def test_the_relay_detaches_a_client_that_does_not_know_rejected(wire: RawWire) -> None:
    attach_sender(wire, None, ACCEPTED_ONLY)
    send(wire, 0, "no-where")
    error = wire.until(Detach)[0].error
    assert error is not None
    assert (error.condition, error.info) == ("amqp:not-found", {"delivery-tag": b"my-tag"})
    assert not wire.all(Disposition)


def test_a_settled_message_in_a_transaction_fails_that_and_not_the_link(wire: RawWire) -> None:
    attach_coordinator(wire)
    id = declare(wire)
    attach_sender(wire, None)
    send(wire, 1, "no-where", settled=True, transaction=id)
    say(wire, 2, Discharge(id))
    assert rejection(wire.until(Disposition, 2)[1].state).condition == "amqp:transaction:rollback"
    assert not wire.all(Detach)


def test_a_rejected_message_of_a_transaction_has_a_transactional_state(wire: RawWire) -> None:
    attach_coordinator(wire)
    id = declare(wire)
    attach_sender(wire, None, BOTH)
    send(wire, 1, "no-where", transaction=id)
    state = wire.until(Disposition, 2)[1].state
    assert isinstance(state, TransactionalState)
    assert state.txn_id == id
    assert rejection(interpret(state.outcome)).condition == "amqp:not-found"


def test_a_message_in_an_unknown_transaction_detaches_its_link(wire: RawWire) -> None:
    attach_sender(wire, "orders")
    send(wire, 0, "orders", transaction=b"unknown")
    error = wire.until(Detach)[0].error
    assert error is not None
    assert error.condition == "amqp:transaction:unknown-id"


def test_the_coordinator_detaches_a_client_that_does_not_know_rejected(wire: RawWire) -> None:
    attach_coordinator(wire, ACCEPTED_ONLY)
    say(wire, 0, Discharge(b"unknown"))
    error = wire.until(Detach)[0].error
    assert error is not None
    assert error.condition == "amqp:transaction:unknown-id"


@pytest.mark.parametrize("word", [Declare(), Discharge(b"any")])
def test_the_coordinator_detaches_a_client_that_does_not_wait_for_its_word(
    wire: RawWire, word: Composite
) -> None:
    attach_coordinator(wire)
    data = AmqpMessage(body=AmqpValue(word.described())).encode()
    wire.frame(Transfer(9, 0, b"word", 0, True), data)
    error = wire.until(Detach)[0].error
    assert error is not None
    assert error.condition == "amqp:illegal-state"


def test_an_acceptance_in_an_unknown_transaction_is_answered(wire: RawWire) -> None:
    wire.send(Attach("in", 0, True, source=Source("prices"), target=Target()))
    wire.until(Attach)
    wire.send(
        Flow(
            next_incoming_id=0,
            incoming_window=10,
            next_outgoing_id=0,
            outgoing_window=0,
            handle=0,
            delivery_count=0,
            link_credit=1,
        )
    )
    id = wire.until(Transfer)[0].delivery_id
    assert id is not None
    wire.send(Disposition(True, id, None, True, TransactionalState(b"unknown", ACCEPTED)))
    error = wire.until(Detach)[0].error
    assert error is not None
    assert error.condition == "amqp:transaction:unknown-id"


@pytest.mark.parametrize("other", [None, b"unknown", [1]])
def test_credit_in_a_transaction_is_for_one_that_is_there(wire: RawWire, other: object) -> None:
    attach_coordinator(wire)
    declared = declare(wire)
    id = declared if other is None else other
    wire.send(Attach("in", 0, True, source=Source("prices"), target=Target()))
    window = {"next_incoming_id": 0, "incoming_window": 10, "next_outgoing_id": 1, "outgoing_window": 0}
    credit = {"handle": 0, "delivery_count": 0, "link_credit": 1, "properties": {Symbol("txn-id"): id}}
    wire.send(Flow(**window, **credit))
    if other is None:
        wire.until(Transfer)
        return
    error = wire.until(Detach)[0].error
    assert error is not None
    assert error.condition == "amqp:transaction:unknown-id"


def test_a_delivery_without_a_message_ends_its_link(wire: RawWire) -> None:
    attach_sender(wire, "orders", BOTH)
    wire.frame(Transfer(0, 0, b"tag", 0))
    error = wire.until(Detach)[0].error
    assert error is not None
    assert error.condition == "amqp:not-implemented"
    assert not wire.all(Disposition)


def test_a_disposition_is_of_one_link() -> None:
    with RunningServer() as server, RawWire(server.port) as wire:
        attach_sender(wire.open(), "orders")
        attach_sender(wire, "orders", handle=1)
        server.memory.held = True
        for id, handle in enumerate((0, 0, 1, 1)):
            wire.frame(Transfer(handle, id, b"%d" % id, 0), message("x"))
        eventually(lambda: server.memory.waiting == 4, timeout_s=5)
        server.release()
        runs = [(each.first, each.last) for each in wire.until(Disposition, 2)]
    assert runs == [(0, 1), (2, 3)]


def test_a_message_has_one_format(wire: RawWire) -> None:
    attach_sender(wire, "orders")
    whole = message("x")
    wire.frame(Transfer(0, 0, b"tag", 0, more=True), whole[:4])
    wire.frame(Transfer(0, message_format=1), whole[4:])
    error = wire.until(Detach)[0].error
    assert error is not None
    assert error.condition == "amqp:invalid-field"


def test_open_is_for_channel_0() -> None:
    with RunningServer() as server, RawWire(server.port) as wire:
        wire.header()
        wire.frame(Open("raw"), channel=1)
        error = wire.until(Close)[0].error
        assert error is not None
        assert error.condition == "amqp:connection:framing-error"


def test_a_link_is_stolen_by_another_of_its_name(wire: RawWire) -> None:
    attach_sender(wire, "orders", name="same")
    attach_sender(wire, "orders", name="same", handle=1)
    [stolen] = wire.until(Detach)
    assert stolen.error is not None
    assert stolen.error.condition == "amqp:link:stolen"
    wire.frame(Transfer(1, 0, b"tag", 0), message("x"))
    assert wire.until(Disposition)[0].state == ACCEPTED


def test_a_link_is_stolen_from_another_session(wire: RawWire) -> None:
    attach_sender(wire, "orders", name="same")
    wire.frame(Begin(next_outgoing_id=0, incoming_window=100, outgoing_window=100), channel=1)
    attach = Attach("same", 0, False, source=Source(), target=Target("orders"), initial_delivery_count=0)
    wire.frame(attach, channel=1)
    [stolen] = wire.until(Detach)
    assert stolen.error is not None
    assert stolen.error.condition == "amqp:link:stolen"
    wire.until(Attach, 2)


def test_a_receiver_and_a_sender_may_have_the_same_name(wire: RawWire) -> None:
    attach_sender(wire, "orders", name="same")
    wire.send(Attach("same", 1, True, source=Source("prices"), target=Target()))
    wire.until(Attach, 2)
    assert not wire.all(Detach)


def test_a_connection_has_a_limited_number_of_receivers() -> None:
    with RunningServer(outgoing_links=Ones(), max_receivers=2) as server, RawWire(server.port) as wire:
        wire.open()
        for handle in range(3):
            wire.send(Attach(f"in-{handle}", handle, True, source=Source("prices"), target=Target()))
        error = wire.until(Detach)[0].error
        assert error is not None
        assert error.condition == "amqp:resource-limit-exceeded"
        wire.send(Detach(2), Detach(0, True))
        wire.until(Detach, 2)
        wire.send(Attach("in-3", 3, True, source=Source("prices"), target=Target()))
        wire.wait(lambda: any(each.name == "in-3" and each.source for each in wire.all(Attach)))
        assert len(wire.all(Detach)) == 2


PRICES = Source("prices")


class Kept(One):
    """Sends one message, and remembers what it was told of it."""

    def __init__(self, request: ReceiverRequest, told: list[str]) -> None:
        super().__init__(request)
        asked = request.attach.source
        assert isinstance(asked, Source)
        address = "isthmus.temporary.1" if asked.dynamic else asked.address
        self.source = Source(address, dynamic=asked.dynamic, expiry_policy=asked.expiry_policy)
        self._told = told

    def on_disposition(self, deliveries: Sequence[Delivery], state: object, settled: bool) -> None:
        self._told.append(type(state).__name__)
        self.unsettled.clear()

    async def close(self, *, detached: bool, lost: bool) -> None:
        self._told.append("lost" if lost else "detached" if detached else "closed")


class Keeps:
    def __init__(self) -> None:
        self.told: list[str] = []
        self.linked: list[Callable[[], None]] = []

    async def open(self, request: ReceiverRequest) -> Kept:
        return Kept(request, self.told)

    async def create_node(self, link: object, client: object) -> str:
        self.told.append("node made")
        return "isthmus.temporary.2"

    async def leave_node(self, address: str) -> None:
        self.told.append("node left")

    async def link_node(self, address: str, on_deleted: Callable[[], None]) -> None:
        self.linked.append(on_deleted)

    async def unlink_node(self, address: str, on_deleted: Callable[[], None]) -> None:
        self.linked.remove(on_deleted)


@pytest.fixture
def keeps() -> Keeps:
    return Keeps()


@pytest.fixture
def kept(keeps: Keeps) -> Iterator[RawWire]:
    with RunningServer(outgoing_links=keeps) as server, RawWire(server.port) as wire:
        yield wire.open()


def receive_one(wire: RawWire, source: Source = PRICES, *, sent: int = 0, **attach: Any) -> int:
    """Attach a receiver on handle 0, after ``sent`` transfers: the id of the delivery that comes."""
    transfers = len(wire.all(Transfer))
    wire.send(Attach("in", 0, True, source=source, target=Target(), **attach))
    window = {"incoming_window": 10, "next_outgoing_id": sent, "outgoing_window": 0}
    credit = {"handle": 0, "delivery_count": 0, "link_credit": 1}
    wire.send(Flow(next_incoming_id=transfers, **window, **credit))
    id = wire.until(Transfer, transfers + 1)[-1].delivery_id
    assert id is not None
    return id


def test_what_a_client_settles_after_a_detach_holds(kept: RawWire, keeps: Keeps) -> None:
    attach_coordinator(kept)
    transaction = declare(kept)
    id = receive_one(kept, sent=1)
    kept.send(Detach(0))
    [answer] = kept.until(Detach)
    assert (answer.closed, answer.error) == (False, None)
    kept.send(Disposition(True, id, None, True, TransactionalState(transaction, ACCEPTED)), End())
    kept.until(End)
    assert keeps.told == ["TransactionalState", "detached"]


def test_nothing_is_kept_of_a_link_whose_session_ends(kept: RawWire, keeps: Keeps) -> None:
    receive_one(kept)
    kept.send(End())
    kept.until(End)
    assert keeps.told == ["detached"]


def test_nothing_is_kept_of_a_link_that_is_closed_or_expires_with_its_detach(
    kept: RawWire, keeps: Keeps
) -> None:
    receive_one(kept)
    kept.send(Detach(0, True))
    kept.until(Detach)
    receive_one(kept, Source("prices", expiry_policy="link-detach"))
    kept.send(Detach(0))
    kept.until(Detach, 2)
    assert keeps.told == ["closed", "detached"]


@pytest.mark.parametrize("policy", LIFETIME_POLICIES)
def test_a_dynamic_node_outlives_a_detach_and_its_link_knows_its_lifetime(
    kept: RawWire, keeps: Keeps, policy: type[Composite]
) -> None:
    lifetime = {Symbol("lifetime-policy"): policy().described()}
    dynamic = Source(dynamic=True, dynamic_node_properties=lifetime)
    receive_one(kept, dynamic)
    granted = kept.all(Attach)[-1].source
    assert isinstance(granted, Source)
    assert granted.dynamic_node_properties == lifetime
    kept.send(Detach(0))
    kept.until(Detach)
    receive_one(kept, dynamic)
    again = kept.all(Attach)[-1].source
    assert isinstance(again, Source)
    assert (again.address, again.dynamic) == (granted.address, True)
    assert again.dynamic_node_properties == lifetime
    assert "node left" not in keeps.told
    kept.send(Detach(0, True))
    kept.until(Detach, 2)
    assert keeps.told.count("node left") == 1


def test_a_dynamic_target_outlives_a_detach_and_not_its_session(kept: RawWire, keeps: Keeps) -> None:
    attach = Attach("out", 0, False, source=Source(), target=Target(dynamic=True), initial_delivery_count=0)
    kept.send(attach)
    kept.until(Attach)
    kept.send(Detach(0), attach)
    addresses = [each.target.address for each in kept.until(Attach, 2) if isinstance(each.target, Target)]
    assert addresses == ["isthmus.temporary.2"] * 2
    assert keeps.told == ["node made"]
    kept.send(Detach(0), End())
    kept.until(End)
    assert keeps.told == ["node made", "node left"]


def test_who_sends_to_a_node_is_detached_when_it_is_deleted(keeps: Keeps) -> None:
    with RunningServer(outgoing_links=keeps) as server, RawWire(server.port) as wire:
        wire.open()
        target = Target("isthmus.temporary.7")
        wire.send(Attach("out", 0, False, source=Source(), target=target, initial_delivery_count=0))
        wire.until(Attach)
        server.call(keeps.linked[0])
        [detach] = wire.until(Detach)
        assert detach.error is not None
        assert (detach.closed, detach.error.condition) == (True, "amqp:resource-deleted")
        wire.send(Detach(0, True), End())
        wire.until(End)
        assert keeps.linked == []


@pytest.mark.parametrize("policy", LIFETIME_POLICIES)
@pytest.mark.parametrize("capability", ["temporary-queue", None])
def test_a_dynamic_target_gets_the_lifetime_that_it_asks_for_unless_it_is_jms_s(
    kept: RawWire, policy: type[Composite], capability: str | None
) -> None:
    target = Target(
        dynamic=True,
        dynamic_node_properties={Symbol("lifetime-policy"): policy().described()},
        capabilities=(capability,) if capability else (),
    )
    kept.send(Attach("out", 0, False, source=Source(), target=target, initial_delivery_count=0))
    granted = kept.until(Attach)[0].target
    assert isinstance(granted, Target)
    expected = DeleteOnClose if capability else policy
    assert granted.dynamic_node_properties == {Symbol("lifetime-policy"): expected().described()}


@pytest.mark.parametrize("name", ["lifetime-policy", "supported-dist-modes"])
@pytest.mark.parametrize("role", [SENDER, RECEIVER])
def test_properties_of_a_node_that_are_none_are_refused(kept: RawWire, name: str, role: bool) -> None:
    properties = {Symbol(name): UInt(0)}
    source = Source(dynamic=role, dynamic_node_properties=properties if role else None)
    target = Target(dynamic=not role, dynamic_node_properties=None if role else properties)
    kept.send(Attach("link", 0, role, source=source, target=target, initial_delivery_count=0))
    error = kept.until(Detach)[0].error
    assert error is not None
    assert error.condition == "amqp:invalid-field"
