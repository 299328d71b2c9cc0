from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.amqp.server import Door
from tests.support.amqp.wire import Wire, message
from tests.support.journals import refusing
from tests.support.polling import eventually

from isthmus.codecs.amqp import AmqpMessage, AmqpValue
from isthmus.edges.amqp.protocol import Delivery, LinkDetached, Sender
from isthmus.edges.amqp.protocol.terms import (
    ACCEPTED,
    Accepted,
    Declare,
    Discharge,
    Error,
    Rejected,
    Source,
    TransactionalState,
)
from isthmus.errors import HardFailure, OversizeFailure
from isthmus.journal.layout import Op


@pytest.fixture
def door() -> Iterator[Door]:
    with Door() as door:
        yield door


@pytest.fixture
def wire(door: Door) -> Iterator[Wire]:
    with Wire(door.port) as wire:
        yield wire.open()


TOO_LARGE = OversizeFailure("too large")
GIVEN_UP = HardFailure("no answer", remedy="none", in_doubt=True)
"""What is said of a message that Kafka may have all the same."""
NOT_ALLOWED = HardFailure("not authorized", remedy="none")
"""What is said of a message that Kafka has refused."""


def send_and_commit(door: Door, wire: Wire, coordinator: Sender, id: bytes) -> Delivery:
    """Have a send and the commit behind it wait for the journal, which is held. Returns the discharge."""
    wire.sender("orders").send(b"1", message("a"), state=TransactionalState(id))
    word = AmqpMessage(body=AmqpValue(Discharge(id).described())).encode()
    discharge = coordinator.send(b"word", word)
    wire.pump()
    eventually(lambda: door.memory.waiting == 2, timeout_s=5)
    return discharge


def condition(state: object) -> str:
    assert isinstance(state, Rejected)
    assert state.error is not None
    return state.error.condition


def test_sends_in_a_transaction_are_recorded_with_it(door: Door, wire: Wire) -> None:
    link = wire.sender("orders")
    coordinator = wire.coordinator()
    id = wire.declare(coordinator)
    state = wire.outcome(link.send(b"1", message("a"), state=TransactionalState(id)))
    assert state == TransactionalState(id, ACCEPTED)
    link.send(b"2", message("b"), state=TransactionalState(id))
    assert wire.discharge(coordinator, id) == Accepted()
    assert [(entry.op, entry.sequence) for entry in door.memory.entries] == [
        ("ADD_TX", 0),
        ("ADD_TX", 1),
        ("COMMIT", 2),
    ]
    assert {entry.transaction for entry in door.memory.entries} == {id.hex()}


def test_commit_waits_for_the_journal(door: Door, wire: Wire) -> None:
    link = wire.sender("orders")
    coordinator = wire.coordinator()
    id = wire.declare(coordinator)
    door.memory.held = True
    link.send(b"1", message("a"), state=TransactionalState(id))
    wire.pump()
    eventually(lambda: door.memory.waiting == 1, timeout_s=5)
    word = AmqpMessage(body=AmqpValue(Discharge(id).described())).encode()
    discharge = coordinator.send(b"word", word)
    wire.pump()
    eventually(lambda: door.memory.waiting == 2, timeout_s=5)
    assert not discharge.settled
    door.release()
    assert wire.outcome(discharge) == Accepted()
    assert door.memory.operations == ["ADD_TX", "COMMIT"]


def test_a_message_that_is_not_taken_turns_commit_into_rollback(door: Door, wire: Wire) -> None:
    link = wire.sender("orders")
    coordinator = wire.coordinator()
    id = wire.declare(coordinator)
    link.send(b"1", message("a"), state=TransactionalState(id))
    refused = link.send(b"2", message("b", to="no-where"), state=TransactionalState(id))
    assert condition(wire.outcome(refused)) == "amqp:not-found"
    assert condition(wire.discharge(coordinator, id)) == "amqp:transaction:rollback"
    assert door.memory.operations == ["ADD_TX", "ROLLBACK"]


def test_two_transactions_do_not_disturb_each_other(door: Door, wire: Wire) -> None:
    link = wire.sender("orders")
    coordinator = wire.coordinator()
    first, second = wire.declare(coordinator), wire.declare(coordinator)
    for number, id in enumerate([first, second, first]):
        link.send(bytes([number]), message("x"), state=TransactionalState(id))
    assert wire.discharge(coordinator, first, fail=True) == Accepted()
    assert wire.discharge(coordinator, second) == Accepted()
    assert [(entry.op, entry.sequence) for entry in door.memory.entries[3:]] == [
        ("ROLLBACK", 2),
        ("COMMIT", 1),
    ]


def test_an_unknown_transaction_is_refused(door: Door, wire: Wire) -> None:
    link = wire.sender("orders")
    coordinator = wire.coordinator()
    assert condition(wire.discharge(coordinator, b"nothing")) == "amqp:transaction:unknown-id"
    sent = link.send(b"1", message("a"), state=TransactionalState(b"nothing"))
    assert condition(wire.outcome(sent)) == "amqp:transaction:unknown-id"
    assert door.memory.entries == []


def test_a_transaction_ends_once(door: Door, wire: Wire) -> None:
    coordinator = wire.coordinator()
    id = wire.declare(coordinator)
    assert wire.discharge(coordinator, id) == Accepted()
    assert condition(wire.discharge(coordinator, id)) == "amqp:transaction:unknown-id"
    assert door.memory.operations == ["COMMIT"]


def test_the_coordinator_takes_nothing_else(wire: Wire) -> None:
    coordinator = wire.coordinator()
    assert condition(wire.say(coordinator, Source("x"))) == "amqp:not-allowed"
    assert condition(wire.say(coordinator, Declare("global"))) == "amqp:not-implemented"
    assert condition(wire.outcome(coordinator.send(b"t", b"\xff"))) == "amqp:decode-error"


def test_what_the_journal_refuses_fails_the_transaction(door: Door, wire: Wire) -> None:
    link = wire.sender("orders")
    coordinator = wire.coordinator()
    id = wire.declare(coordinator)
    door.memory.refuse = refusing(GIVEN_UP)
    assert isinstance(wire.outcome(link.send(b"1", message("a"), state=TransactionalState(id))), Rejected)
    door.memory.refuse = refusing(None)
    assert condition(wire.discharge(coordinator, id)) == "amqp:transaction:rollback"
    assert door.memory.operations == ["ROLLBACK"]


def test_a_commit_behind_a_send_that_the_journal_refuses_is_taken_back(door: Door, wire: Wire) -> None:
    coordinator = wire.coordinator()
    id = wire.declare(coordinator)
    door.memory.held = True
    door.memory.refuse = refusing(TOO_LARGE, Op.ADD_TX)
    discharge = send_and_commit(door, wire, coordinator, id)
    door.release()
    assert condition(wire.outcome(discharge)) == "amqp:transaction:rollback"
    eventually(lambda: len(door.memory.entries) == 2, timeout_s=5)
    assert [(entry.op, entry.sequence) for entry in door.memory.entries] == [("COMMIT", 1), ("ROLLBACK", 1)]


@pytest.mark.parametrize("lost", [Op.ADD_TX, Op.COMMIT])
def test_a_commit_of_which_kafka_may_have_all_is_in_doubt(door: Door, wire: Wire, lost: Op) -> None:
    coordinator = wire.coordinator()
    id, other = wire.declare(coordinator), wire.declare(coordinator)
    door.memory.held = True
    door.memory.refuse = refusing(GIVEN_UP, lost)
    discharge = send_and_commit(door, wire, coordinator, id)
    door.release()
    detached = wire.until(LinkDetached)
    assert detached.link is coordinator
    text = "whether the transaction is committed is not known: no answer"
    assert detached.error == Error("amqp:internal-error", text)
    assert not discharge.settled  # a client would take a rejection for a rollback
    eventually(lambda: len(door.memory.entries) == 3, timeout_s=5)
    ended = [(entry.op, entry.transaction) for entry in door.memory.entries[1:]]
    assert set(ended) == {("ROLLBACK", id.hex()), ("ROLLBACK", other.hex())}


@pytest.mark.parametrize("refused", [Op.ADD_TX, Op.COMMIT])
def test_a_commit_that_kafka_refuses_is_rolled_back_and_not_in_doubt(
    door: Door, wire: Wire, refused: Op
) -> None:
    coordinator = wire.coordinator()
    id = wire.declare(coordinator)
    door.memory.held = True
    door.memory.refuse = refusing(NOT_ALLOWED, refused)
    discharge = send_and_commit(door, wire, coordinator, id)
    door.release()
    assert condition(wire.outcome(discharge)) == "amqp:transaction:rollback"


@pytest.mark.parametrize("to", ["somewhere", "no-where"])
def test_commit_waits_for_a_send_whose_address_is_asked_for(door: Door, wire: Wire, to: str) -> None:
    link = wire.sender("")
    coordinator = wire.coordinator()
    id = wire.declare(coordinator)
    link.send(b"1", message("a", to=to), state=TransactionalState(id))
    link.send(b"2", message("b", to=to), state=TransactionalState(id))
    outcome = wire.discharge(coordinator, id)
    if to == "somewhere":
        assert outcome == Accepted()
        assert door.memory.operations == ["ADD_TX", "ADD_TX", "COMMIT"]
    else:
        assert condition(outcome) == "amqp:transaction:rollback"
        assert door.memory.operations == ["ROLLBACK"]


@pytest.mark.parametrize("how", ["detach", "end", "close", "drop"])
def test_what_is_left_open_is_rolled_back(door: Door, wire: Wire, how: str) -> None:
    link = wire.sender("orders")
    coordinator = wire.coordinator()
    id = wire.declare(coordinator)
    wire.outcome(link.send(b"1", message("a"), state=TransactionalState(id)))
    if how == "detach":
        coordinator.detach()
    elif how == "end":
        coordinator.session.end()
    elif how == "close":
        wire.engine.close()
    else:
        wire.socket.close()
    if how != "drop":
        wire.pump()
    eventually(lambda: door.memory.operations == ["ADD_TX", "ROLLBACK"], timeout_s=10)


def test_a_transaction_may_span_sessions(door: Door, wire: Wire) -> None:
    first, second = wire.sender("orders", "first"), wire.sender("orders", "second")
    assert first.session is not second.session
    coordinator = wire.coordinator()
    id = wire.declare(coordinator)
    for link in (first, second):
        wire.outcome(link.send(b"1", message("a"), state=TransactionalState(id)))
    assert wire.discharge(coordinator, id) == Accepted()
    assert len({entry.message.session for entry in door.memory.entries}) == 1
