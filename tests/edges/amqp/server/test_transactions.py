from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.amqp.server import RunningServer
from tests.support.amqp.wire import Wire, message
from tests.support.journals import refusing
from tests.support.polling import eventually

from isthmus.codecs.amqp import AmqpMessage, AmqpValue
from isthmus.edges.amqp.protocol import Delivery, LinkDetached, Sender
from isthmus.edges.amqp.protocol.composite import interpret
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
from isthmus.journal.layout import Entry, Op
from isthmus.telemetry.parts import AddressTraffic


@pytest.fixture
def server() -> Iterator[RunningServer]:
    with RunningServer() as server:
        yield server


@pytest.fixture
def wire(server: RunningServer) -> Iterator[Wire]:
    with Wire(server.port) as wire:
        yield wire.open()


TOO_LARGE = OversizeFailure("too large")
GIVEN_UP = HardFailure("no answer", remedy="none", in_doubt=True)
"""What is said of a message that Kafka may have all the same."""
NOT_ALLOWED = HardFailure("not authorized", remedy="none")
"""What is said of a message that Kafka has refused."""


def discharging(coordinator: Sender, id: bytes) -> Delivery:
    """A commit that is asked for, and not waited for."""
    word = AmqpMessage(body=AmqpValue(Discharge(id).described())).encode()
    return coordinator.send(b"word", word)


def send_and_commit(
    server: RunningServer, wire: Wire, coordinator: Sender, id: bytes, *, writes: int
) -> Delivery:
    """Have a send and the commit behind it wait for the journal, which is held. Returns the discharge."""
    wire.sender("orders").send(b"1", message("a"), state=TransactionalState(id))
    discharge = discharging(coordinator, id)
    wire.pump()
    eventually(lambda: server.memory.waiting == writes, timeout_s=5)
    return discharge


def condition(state: object) -> str:
    if isinstance(state, TransactionalState):
        state = interpret(state.outcome)
    assert isinstance(state, Rejected)
    assert state.error is not None
    return state.error.condition


def bodies(entries: list[Entry]) -> list[bytes]:
    return [entry.message.body.slice(entry.message.value) or b"" for entry in entries]


def held_bytes(server: RunningServer) -> int:
    return server.call(lambda: server.amqp._unsettled_bytes)


def spill_everything(server: RunningServer) -> None:
    """Leave no transaction room to be held in."""
    server.memory.batch_bytes = 0


def test_what_is_sent_in_a_transaction_is_one_write_at_its_commit(server: RunningServer, wire: Wire) -> None:
    link = wire.sender("orders")
    coordinator = wire.coordinator()
    id = wire.declare(coordinator)
    state = wire.outcome(link.send(b"1", message("a"), state=TransactionalState(id)))
    assert state == TransactionalState(id, ACCEPTED)
    for tag in (b"2", b"3"):
        wire.outcome(link.send(tag, message(f"b{tag[0]}"), state=TransactionalState(id)))
    assert server.memory.writes == []
    assert wire.discharge(coordinator, id) == Accepted()
    [together] = server.memory.writes
    assert [(entry.op, entry.transaction) for entry in together] == [(Op.ADD, None)] * 3
    assert bodies(together) == [b"a", b"b50", b"b51"]
    assert held_bytes(server) == 0


def test_a_transaction_has_its_place_among_the_other_messages_of_its_session(
    server: RunningServer, wire: Wire
) -> None:
    link = wire.sender("orders")
    coordinator = wire.coordinator()
    id = wire.declare(coordinator)
    link.send(b"1", message("in it"), state=TransactionalState(id))
    link.send(b"2", message("before"))
    discharging(coordinator, id)
    wire.outcome(link.send(b"3", message("behind")))
    assert server.memory.bodies == [b"before", b"in it", b"behind"]
    assert len({entry.message.session for entry in server.memory.entries}) == 1


def test_commit_waits_for_the_journal(server: RunningServer, wire: Wire) -> None:
    link = wire.sender("orders")
    coordinator = wire.coordinator()
    id = wire.declare(coordinator)
    server.memory.held = True
    wire.outcome(link.send(b"1", message("a"), state=TransactionalState(id)))
    discharge = discharging(coordinator, id)
    wire.pump()
    eventually(lambda: server.memory.waiting == 1, timeout_s=5)
    assert not discharge.settled
    server.release()
    assert wire.outcome(discharge) == Accepted()
    assert server.memory.operations == ["ADD"]


def test_the_commit_of_a_larger_one_waits_for_the_journal(server: RunningServer, wire: Wire) -> None:
    spill_everything(server)
    coordinator = wire.coordinator()
    id = wire.declare(coordinator)
    server.memory.held = True
    discharge = send_and_commit(server, wire, coordinator, id, writes=2)
    assert not discharge.settled
    server.release()
    assert wire.outcome(discharge) == Accepted()
    assert server.memory.operations == ["ADD_TX", "COMMIT"]


def test_what_does_not_fit_into_a_batch_goes_to_the_ledger_in_order(
    server: RunningServer, wire: Wire
) -> None:
    server.memory.batch_bytes = 2_000
    link = wire.sender("orders")
    coordinator = wire.coordinator()
    id = wire.declare(coordinator)
    sent = [link.send(bytes([n]), message(f"{n}" * 400), state=TransactionalState(id)) for n in range(7)]
    assert {wire.outcome(delivery) for delivery in sent} == {TransactionalState(id, ACCEPTED)}
    assert server.memory.operations == ["ADD_TX"] * 7
    assert wire.discharge(coordinator, id) == Accepted()
    assert [entry.sequence for entry in server.memory.entries] == [0, 1, 2, 3, 4, 5, 6, 7]
    assert [body[:1] for body in server.memory.bodies] == [b"%d" % n for n in range(7)] + [b""]
    assert {entry.transaction for entry in server.memory.entries} == {id.hex()}
    assert server.memory.operations[-1] == "COMMIT"
    assert held_bytes(server) == 0


def test_a_transaction_behind_a_larger_one_of_its_session_does_not_overtake_it(
    server: RunningServer, wire: Wire
) -> None:
    link = wire.sender("orders")
    coordinator = wire.coordinator()
    first, early = wire.declare(coordinator), wire.declare(coordinator)
    wire.outcome(link.send(b"1", message("early"), state=TransactionalState(early)))
    server.memory.batch_bytes = 0  # of which those know that are declared from now on
    large = wire.declare(coordinator)
    wire.outcome(link.send(b"2", message("large"), state=TransactionalState(large)))
    server.memory.batch_bytes = 1_000_000
    assert wire.discharge(coordinator, first) == Accepted()
    assert wire.discharge(coordinator, large) == Accepted()
    assert wire.discharge(coordinator, early) == Accepted()
    late = wire.declare(coordinator)
    wire.outcome(link.send(b"3", message("late"), state=TransactionalState(late)))
    assert wire.discharge(coordinator, late) == Accepted()
    ended = [entry.transaction for entry in server.memory.entries if entry.op is Op.COMMIT]
    assert ended == [large.hex(), early.hex(), late.hex()]
    assert Op.ADD not in server.memory.operations


def test_a_larger_one_that_is_rolled_back_leaves_those_behind_it_as_they_are(
    server: RunningServer, wire: Wire
) -> None:
    link = wire.sender("orders")
    coordinator = wire.coordinator()
    server.memory.batch_bytes = 0
    large = wire.declare(coordinator)
    wire.outcome(link.send(b"1", message("large"), state=TransactionalState(large)))
    assert wire.discharge(coordinator, large, fail=True) == Accepted()
    server.memory.batch_bytes = 1_000_000
    small = wire.declare(coordinator)
    wire.outcome(link.send(b"2", message("small"), state=TransactionalState(small)))
    assert wire.discharge(coordinator, small) == Accepted()
    assert server.memory.operations == ["ADD_TX", "ROLLBACK", "ADD"]


@pytest.mark.parametrize("limit", ["max_unsettled_bytes", "max_total_unsettled_bytes"])
def test_transactions_for_which_there_is_no_memory_go_to_the_ledger_and_can_still_commit(limit: str) -> None:
    with RunningServer(**{limit: 30_000}) as server, Wire(server.port) as wire:
        link = wire.open().sender("orders")
        coordinator = wire.coordinator()
        ids = [wire.declare(coordinator) for _ in range(30)]
        for number, id in enumerate(ids):
            wire.outcome(link.send(bytes([number]), message("x" * 1_500), state=TransactionalState(id)))
        for id in ids:
            assert wire.discharge(coordinator, id) == Accepted()
        assert "ADD_TX" in server.memory.operations
        adds = sum(op in ("ADD", "ADD_TX") for op in server.memory.operations)
        commits = server.memory.operations.count("COMMIT")
        assert adds == 30
        assert commits == server.memory.operations.count("ADD_TX")
        assert held_bytes(server) == 0


def test_a_transaction_without_sends_writes_nothing(server: RunningServer, wire: Wire) -> None:
    coordinator = wire.coordinator()
    assert wire.discharge(coordinator, wire.declare(coordinator)) == Accepted()
    assert wire.discharge(coordinator, wire.declare(coordinator), fail=True) == Accepted()
    assert server.memory.writes == []


@pytest.mark.parametrize("spilled", [False, True])
def test_a_message_that_is_not_taken_turns_commit_into_rollback(
    server: RunningServer, wire: Wire, spilled: bool
) -> None:
    if spilled:
        spill_everything(server)
    link = wire.sender("orders")
    coordinator = wire.coordinator()
    id = wire.declare(coordinator)
    link.send(b"1", message("a"), state=TransactionalState(id))
    refused = link.send(b"2", message("b", to="no-where"), state=TransactionalState(id))
    assert condition(wire.outcome(refused)) == "amqp:not-found"
    assert condition(wire.discharge(coordinator, id)) == "amqp:transaction:rollback"
    assert server.memory.operations == (["ADD_TX", "ROLLBACK"] if spilled else [])
    assert held_bytes(server) == 0


def test_a_message_that_ends_its_link_turns_commit_into_rollback(server: RunningServer, wire: Wire) -> None:
    link = wire.sender("orders")
    coordinator = wire.coordinator()
    id, other = wire.declare(coordinator), wire.declare(coordinator)
    link.send(b"1", message("a"), state=TransactionalState(id))
    link.send(b"2", message("x" * 1_100_000), state=TransactionalState(id))
    link.send(b"3", message("behind it"), state=TransactionalState(other))
    error = wire.until(LinkDetached).error
    assert error is not None
    assert error.condition == "amqp:link:message-size-exceeded"
    assert condition(wire.discharge(coordinator, id)) == "amqp:transaction:rollback"
    assert condition(wire.discharge(coordinator, other)) == "amqp:transaction:rollback"
    assert server.memory.operations == []


def test_two_transactions_do_not_disturb_each_other(server: RunningServer, wire: Wire) -> None:
    link = wire.sender("orders")
    coordinator = wire.coordinator()
    first, second = wire.declare(coordinator), wire.declare(coordinator)
    for number, id in enumerate([first, second, first, second]):
        link.send(bytes([number]), message(f"{number}"), state=TransactionalState(id))
    assert wire.discharge(coordinator, first, fail=True) == Accepted()
    assert wire.discharge(coordinator, second) == Accepted()
    assert [bodies(together) for together in server.memory.writes] == [[b"1", b"3"]]


def test_two_larger_transactions_do_not_disturb_each_other(server: RunningServer, wire: Wire) -> None:
    spill_everything(server)
    link = wire.sender("orders")
    coordinator = wire.coordinator()
    first, second = wire.declare(coordinator), wire.declare(coordinator)
    for number, id in enumerate([first, second, first]):
        link.send(bytes([number]), message("x"), state=TransactionalState(id))
    assert wire.discharge(coordinator, first, fail=True) == Accepted()
    assert wire.discharge(coordinator, second) == Accepted()
    assert [(entry.op, entry.sequence) for entry in server.memory.entries[3:]] == [
        ("ROLLBACK", 2),
        ("COMMIT", 1),
    ]


def test_an_unknown_transaction_is_refused(server: RunningServer, wire: Wire) -> None:
    link = wire.sender("orders")
    coordinator = wire.coordinator()
    assert condition(wire.discharge(coordinator, b"nothing")) == "amqp:transaction:unknown-id"
    link.send(b"1", message("a"), state=TransactionalState(b"nothing"))
    error = wire.until(LinkDetached).error
    assert error is not None
    assert error.condition == "amqp:transaction:unknown-id"
    assert server.memory.entries == []


def test_a_transaction_ends_once(server: RunningServer, wire: Wire) -> None:
    link = wire.sender("orders")
    coordinator = wire.coordinator()
    id = wire.declare(coordinator)
    link.send(b"1", message("a"), state=TransactionalState(id))
    assert wire.discharge(coordinator, id) == Accepted()
    assert condition(wire.discharge(coordinator, id)) == "amqp:transaction:unknown-id"
    assert server.memory.operations == ["ADD"]


def test_the_coordinator_takes_nothing_else(wire: Wire) -> None:
    coordinator = wire.coordinator()
    assert condition(wire.say(coordinator, Source("x"))) == "amqp:not-allowed"
    assert condition(wire.say(coordinator, Declare("global"))) == "amqp:not-implemented"
    assert condition(wire.outcome(coordinator.send(b"t", b"\xff"))) == "amqp:decode-error"


def test_what_the_journal_refuses_fails_the_transaction(server: RunningServer, wire: Wire) -> None:
    spill_everything(server)
    link = wire.sender("orders")
    coordinator = wire.coordinator()
    id = wire.declare(coordinator)
    server.memory.refuse = refusing(GIVEN_UP)
    sent = link.send(b"1", message("a"), state=TransactionalState(id))
    assert condition(wire.outcome(sent)) == "io.strimzi:error-to-kafka"
    server.memory.refuse = refusing(None)
    assert condition(wire.discharge(coordinator, id)) == "amqp:transaction:rollback"
    assert server.memory.operations == ["ROLLBACK"]


def test_a_commit_that_the_journal_refuses_is_a_rollback(server: RunningServer, wire: Wire) -> None:
    link = wire.sender("orders")
    coordinator = wire.coordinator()
    id = wire.declare(coordinator)
    wire.outcome(link.send(b"1", message("a"), state=TransactionalState(id)))
    server.memory.refuse = refusing(TOO_LARGE)
    assert condition(wire.discharge(coordinator, id)) == "amqp:transaction:rollback"
    assert server.memory.writes == []
    assert held_bytes(server) == 0


def test_a_commit_behind_a_send_that_the_journal_refuses_is_taken_back(
    server: RunningServer, wire: Wire
) -> None:
    spill_everything(server)
    coordinator = wire.coordinator()
    id = wire.declare(coordinator)
    server.memory.held = True
    server.memory.refuse = refusing(TOO_LARGE, Op.ADD_TX)
    discharge = send_and_commit(server, wire, coordinator, id, writes=2)
    server.release()
    assert condition(wire.outcome(discharge)) == "amqp:transaction:rollback"
    eventually(lambda: len(server.memory.entries) == 2, timeout_s=5)
    assert [(entry.op, entry.sequence) for entry in server.memory.entries] == [("COMMIT", 1), ("ROLLBACK", 1)]


def detached_in_doubt(wire: Wire, coordinator: Sender, discharge: Delivery) -> None:
    detached = wire.until(LinkDetached)
    assert detached.link is coordinator
    text = "whether the transaction is committed is not known: no answer"
    assert detached.error == Error("amqp:internal-error", text)
    assert not discharge.settled  # a client would take a rejection for a rollback


def test_a_commit_that_kafka_refuses_is_rolled_back_and_not_in_doubt(
    server: RunningServer, wire: Wire
) -> None:
    coordinator = wire.coordinator()
    id = wire.declare(coordinator)
    server.memory.held = True
    server.memory.refuse = refusing(NOT_ALLOWED)
    discharge = send_and_commit(server, wire, coordinator, id, writes=1)
    server.release()
    assert condition(wire.outcome(discharge)) == "amqp:transaction:rollback"


@pytest.mark.parametrize("refused", [Op.ADD_TX, Op.COMMIT])
def test_a_larger_commit_that_kafka_refuses_is_rolled_back_and_not_in_doubt(
    server: RunningServer, wire: Wire, refused: Op
) -> None:
    spill_everything(server)
    coordinator = wire.coordinator()
    id = wire.declare(coordinator)
    server.memory.held = True
    server.memory.refuse = refusing(NOT_ALLOWED, refused)
    discharge = send_and_commit(server, wire, coordinator, id, writes=2)
    server.release()
    assert condition(wire.outcome(discharge)) == "amqp:transaction:rollback"


def test_a_commit_whose_batch_kafka_may_have_is_in_doubt(server: RunningServer, wire: Wire) -> None:
    coordinator = wire.coordinator()
    id = wire.declare(coordinator)
    server.memory.held = True
    server.memory.refuse = refusing(GIVEN_UP)
    discharge = send_and_commit(server, wire, coordinator, id, writes=1)
    server.release()
    detached_in_doubt(wire, coordinator, discharge)
    assert server.memory.writes == []
    assert held_bytes(server) == 0


@pytest.mark.parametrize("lost", [Op.ADD_TX, Op.COMMIT])
def test_a_larger_commit_of_which_kafka_may_have_all_is_in_doubt(
    server: RunningServer, wire: Wire, lost: Op
) -> None:
    spill_everything(server)
    coordinator = wire.coordinator()
    id = wire.declare(coordinator)
    server.memory.held = True
    server.memory.refuse = refusing(GIVEN_UP, lost)
    discharge = send_and_commit(server, wire, coordinator, id, writes=2)
    server.release()
    detached_in_doubt(wire, coordinator, discharge)
    eventually(lambda: len(server.memory.entries) == 2, timeout_s=5)
    assert (server.memory.entries[1].op, server.memory.entries[1].transaction) == ("ROLLBACK", id.hex())


@pytest.mark.parametrize("spilled", [False, True])
@pytest.mark.parametrize("to", ["somewhere", "no-where"])
def test_commit_waits_for_a_send_whose_address_is_asked_for(
    server: RunningServer, wire: Wire, to: str, spilled: bool
) -> None:
    if spilled:
        spill_everything(server)
    link = wire.sender("")
    coordinator = wire.coordinator()
    id = wire.declare(coordinator)
    link.send(b"1", message("a", to=to), state=TransactionalState(id))
    link.send(b"2", message("b", to=to), state=TransactionalState(id))
    outcome = wire.discharge(coordinator, id)
    if to == "somewhere":
        assert outcome == Accepted()
        assert server.memory.operations == (["ADD_TX", "ADD_TX", "COMMIT"] if spilled else ["ADD", "ADD"])
    else:
        assert condition(outcome) == "amqp:transaction:rollback"
        assert server.memory.operations == []


@pytest.mark.parametrize("spilled", [False, True])
@pytest.mark.parametrize("how", ["detach", "end", "close", "drop"])
def test_what_is_left_open_is_rolled_back(server: RunningServer, wire: Wire, how: str, spilled: bool) -> None:
    if spilled:
        spill_everything(server)
    link = wire.sender("orders")
    coordinator = wire.coordinator()
    id = wire.declare(coordinator)
    wire.outcome(link.send(b"1", message("a"), state=TransactionalState(id)))
    assert (held_bytes(server) > 0) is not spilled
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
    if spilled:
        eventually(lambda: server.memory.operations == ["ADD_TX", "ROLLBACK"], timeout_s=10)
    else:
        eventually(lambda: held_bytes(server) == 0, timeout_s=10)
        assert server.memory.writes == []


@pytest.mark.parametrize("spilled", [False, True])
def test_a_transaction_may_span_sessions(server: RunningServer, wire: Wire, spilled: bool) -> None:
    if spilled:
        spill_everything(server)
    first, second = wire.sender("orders", "first"), wire.sender("orders", "second")
    assert first.session is not second.session
    coordinator = wire.coordinator()
    id = wire.declare(coordinator)
    for link in (first, second):
        wire.outcome(link.send(b"1", message("a"), state=TransactionalState(id)))
    assert wire.discharge(coordinator, id) == Accepted()
    assert len({entry.message.session for entry in server.memory.entries}) == 1
    assert len(server.memory.writes) == (3 if spilled else 1)


def test_the_coordinator_takes_small_messages_only(wire: Wire) -> None:
    coordinator = wire.coordinator()
    coordinator.send(b"word", AmqpMessage(body=AmqpValue("x" * 2000)).encode())
    error = wire.until(LinkDetached).error
    assert error is not None
    assert error.condition == "amqp:link:message-size-exceeded"


def test_a_connection_has_a_limited_number_of_transactions_open(wire: Wire) -> None:
    coordinator = wire.coordinator()
    last: object = None
    for _ in range(1001):
        last = wire.say(coordinator, Declare())
    assert isinstance(last, Rejected)
    assert last.error is not None
    assert last.error.condition == "amqp:resource-limit-exceeded"


def test_open_transactions_are_counted_until_they_are_discharged(server: RunningServer, wire: Wire) -> None:
    assert server.amqp.transactions == (0, 0.0)
    coordinator = wire.coordinator()
    first, second = wire.declare(coordinator), wire.declare(coordinator)
    count, oldest_s = server.amqp.transactions
    assert count == 2
    assert oldest_s > 0
    wire.discharge(coordinator, first)
    assert server.amqp.transactions[0] == 1
    wire.discharge(coordinator, second, fail=True)
    assert server.amqp.transactions == (0, 0.0)


def test_a_link_counts_its_messages_under_its_address_while_it_is_open(
    server: RunningServer, wire: Wire
) -> None:
    sender = wire.sender("orders")
    data = message("a")
    sent = [sender.send(tag, data) for tag in (b"1", b"2")]
    wire.wait(lambda: all(each.settled for each in sent))
    [link] = [each for each in server.amqp.traffic.reports() if each.address == "orders"]
    assert link == AddressTraffic("in", "orders", 1, 2, 2 * len(data))
    sender.detach()
    wire.pump()
    eventually(lambda: [each.links for each in server.amqp.traffic.reports()] == [0], timeout_s=5)
