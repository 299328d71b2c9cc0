"""Senders that resume their link: the journal has each message once, and they learn its outcome (2.6.13)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.amqp.server import RunningServer
from tests.support.amqp.wire import RawWire, message
from tests.support.polling import eventually

from isthmus.codecs.amqp import UInt
from isthmus.edges.amqp.protocol.performatives import (
    FIRST,
    SECOND,
    Attach,
    Begin,
    Detach,
    Disposition,
    End,
    Flow,
    Transfer,
)
from isthmus.edges.amqp.protocol.terms import ACCEPTED, Accepted, Error, Rejected, Target
from isthmus.edges.amqp.server import incoming_link
from isthmus.edges.amqp.server.suspended import LinkKey

HOUR = Target("orders", timeout=3600)


@pytest.fixture
def server() -> Iterator[RunningServer]:
    with RunningServer() as server:
        yield server


@pytest.fixture
def wire(server: RunningServer) -> Iterator[RawWire]:
    with RawWire(server.port) as wire:
        yield wire.open()


class Link:
    """A sender called ``out`` on handle 0, the first delivery of which has an id."""

    def __init__(
        self, wire: RawWire, target: Target = HOUR, *, mode: int = SECOND, id: int = 0, **attach: Any
    ) -> None:
        self._wire = wire
        self._id = id
        attached, flows = len(wire.all(Attach)), len(wire.all(Flow))
        wire.send(
            Attach("out", 0, False, rcv_settle_mode=mode, target=target, initial_delivery_count=0, **attach)
        )
        self.answer = wire.until(Attach, attached + 1)[-1]
        wire.until(Flow, flows + 1)

    def send(self, tag: bytes, data: bytes, **transfer: Any) -> int:
        id, self._id = self._id, self._id + 1
        body = Transfer(handle=UInt(0), delivery_id=UInt(id), delivery_tag=tag, **transfer)
        self._wire.frame(body, data)
        return id

    def settle(self, id: int) -> None:
        self._wire.send(Disposition(False, id, None, True, ACCEPTED))

    def outcome(self, id: int) -> Disposition:
        def found() -> list[Disposition]:
            return [
                each for each in self._wire.all(Disposition) if each.first <= id <= (each.last or each.first)
            ]

        self._wire.wait(found)
        return found()[-1]


def texts(server: RunningServer) -> list[bytes]:
    return [entry.message.value for entry in server.memory.entries]


def accepted(tag: bytes) -> dict[bytes, object]:
    return {tag: ACCEPTED.described()}


def test_in_mode_second_a_message_has_its_outcome_and_the_client_settles(
    server: RunningServer, wire: RawWire
) -> None:
    link = Link(wire)
    assert link.answer.rcv_settle_mode == SECOND
    told = link.outcome(link.send(b"1", message("one")))
    assert isinstance(told.state, Accepted)
    assert not told.settled
    link.settle(0)
    wire.send(Detach(0))
    wire.until(Detach)
    again = Link(wire, unsettled={})
    assert again.answer.unsettled == {}
    assert texts(server) == [message("one")]


def test_a_transfer_may_be_settled_first_on_a_link_of_mode_second(wire: RawWire) -> None:
    link = Link(wire)
    assert link.outcome(link.send(b"1", message("one"), rcv_settle_mode=FIRST)).settled


def test_who_did_not_hear_the_outcome_learns_it_and_the_message_is_not_taken_again(
    server: RunningServer,
) -> None:
    with RawWire(server.port) as lost:
        link = Link(lost.open())
        granted = link.answer.target
        assert isinstance(granted, Target)
        assert granted.timeout == 60
        link.outcome(link.send(b"1", message("one")))
        link.outcome(link.send(b"2", message("two")))
        link.settle(1)
        lost.drop()
    eventually(lambda: server.amqp.connections == 0)
    with RawWire(server.port) as wire:
        again = Link(wire.open(), unsettled={b"1": None, b"3": None})
        assert again.answer.unsettled == accepted(b"1")
        told = again.outcome(again.send(b"1", message("one"), resume=True))
        assert isinstance(told.state, Accepted)
        again.settle(0)
        again.outcome(again.send(b"3", message("three")))
        assert texts(server) == [message("one"), message("two"), message("three")]


@pytest.mark.parametrize("mode", [FIRST, SECOND])
def test_what_the_journal_had_not_taken_when_the_connection_was_lost_is_answered_when_it_has(
    server: RunningServer, mode: int
) -> None:
    server.memory.held = True
    with RawWire(server.port) as lost:
        Link(lost.open(), mode=mode).send(b"1", message("one"))
        eventually(lambda: server.memory.waiting)
        lost.drop()
    eventually(lambda: server.amqp.connections == 0)
    with RawWire(server.port) as wire:
        again = Link(wire.open(), mode=mode, unsettled={b"1": None})
        assert again.answer.unsettled == {b"1": None}
        id = again.send(b"1", message("one"), resume=True)
        server.release()
        told = again.outcome(id)
        assert isinstance(told.state, Accepted)
        assert told.settled is (mode == FIRST)
        assert texts(server) == [message("one")]


def test_who_resumes_a_link_is_not_compared_with_all_others(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with RawWire(server.port) as many, RawWire(server.port) as wire:
        many.open()
        attaches = [Attach(f"link {n}", n, False, target=HOUR, initial_delivery_count=0) for n in range(100)]
        many.send(*attaches)
        many.until(Attach, 100)
        wire.open()
        keys = 0
        made = LinkKey.of.__func__

        def counted(cls: type[LinkKey], *parts: Any) -> LinkKey:
            nonlocal keys
            keys += 1
            key: LinkKey = made(cls, *parts)
            return key

        monkeypatch.setattr(LinkKey, "of", classmethod(counted))
        Link(wire, unsettled={})
        assert 0 < keys < 10


def test_what_is_decided_before_the_client_is_back_is_told_in_the_map(server: RunningServer) -> None:
    server.memory.held = True
    with RawWire(server.port) as lost:
        Link(lost.open(), mode=FIRST).send(b"1", message("one"))
        eventually(lambda: server.memory.waiting)
        lost.drop()
    eventually(lambda: server.amqp.connections == 0)
    server.release()
    with RawWire(server.port) as wire:
        again = Link(wire.open(), mode=FIRST, unsettled={b"1": None})
        assert again.answer.unsettled == accepted(b"1")
        again.send(b"1", b"", resume=True, settled=True, state=ACCEPTED.described())
        wire.send(Detach(0))
        wire.until(Detach)
        assert texts(server) == [message("one")]


@pytest.mark.parametrize("over", [Detach(0), End()])
def test_a_link_is_resumed_on_the_same_connection(
    server: RunningServer, wire: RawWire, over: Detach | End
) -> None:
    target = Target("orders", expiry_policy="connection-close")
    link = Link(wire, target)
    link.outcome(link.send(b"1", message("one")))
    wire.send(over)
    wire.until(type(over))
    if isinstance(over, End):
        wire.send(Begin(next_outgoing_id=0, incoming_window=1000, outgoing_window=1000))
        wire.until(Begin, 2)
    again = Link(wire, target, id=0 if isinstance(over, End) else 1, unsettled={b"1": None})
    assert again.answer.unsettled == accepted(b"1")
    again.send(b"1", b"", resume=True, settled=True, state=ACCEPTED.described())
    again.outcome(again.send(b"2", message("two")))
    assert texts(server) == [message("one"), message("two")]


def test_who_is_not_known_to_be_lost_is_resumed_elsewhere(server: RunningServer) -> None:
    with RawWire(server.port) as silent, RawWire(server.port) as wire:
        link = Link(silent.open())
        link.outcome(link.send(b"1", message("one")))
        again = Link(wire.open(), unsettled={b"1": None})
        assert again.answer.unsettled == accepted(b"1")
        error = silent.until(Detach)[0].error
        assert isinstance(error, Error)
        assert error.condition == "amqp:link:stolen"


@pytest.mark.parametrize(
    ("target", "attach"),
    [
        (HOUR, {}),
        (Target("elsewhere", timeout=3600), {"unsettled": {b"1": None}}),
        (HOUR, {"unsettled": {}}),
    ],
)
def test_who_begins_anew_or_has_settled_finds_nothing(
    server: RunningServer, target: Target, attach: dict[str, Any]
) -> None:
    with RawWire(server.port) as lost:
        link = Link(lost.open())
        link.outcome(link.send(b"1", message("one")))
        lost.drop()
    eventually(lambda: server.amqp.connections == 0)
    with RawWire(server.port) as wire:
        assert not Link(wire.open(), target, **attach).answer.unsettled
        wire.send(Detach(0))
        wire.until(Detach)
        assert Link(wire, target, unsettled={b"1": None}).answer.unsettled == {}


def test_nothing_is_kept_for_a_sender_that_did_not_ask_for_it(server: RunningServer) -> None:
    with RawWire(server.port) as lost:
        link = Link(lost.open(), Target("orders"))
        link.outcome(link.send(b"1", message("one")))
        lost.drop()
    eventually(lambda: server.amqp.connections == 0)
    with RawWire(server.port) as wire:
        assert Link(wire.open(), unsettled={b"1": None}).answer.unsettled == {}


def test_a_tag_that_is_used_again_is_another_message(server: RunningServer, wire: RawWire) -> None:
    link = Link(wire)
    for n in range(3):
        link.outcome(link.send(b"1", message(str(n))))
        link.settle(n)
    assert texts(server) == [message("0"), message("1"), message("2")]


def test_a_rejection_is_kept_with_its_error(server: RunningServer) -> None:
    with RawWire(server.port) as lost:
        link = Link(lost.open())
        link.outcome(link.send(b"1", message("x", to="no-such")))
        lost.drop()
    eventually(lambda: server.amqp.connections == 0)
    with RawWire(server.port) as wire:
        again = Link(wire.open(), unsettled={b"1": None})
        assert set(again.answer.unsettled or {}) == {b"1"}
        state = again.outcome(again.send(b"1", b"", resume=True)).state
        assert isinstance(state, Rejected)
        assert state.error is not None
        assert state.error.condition == "amqp:not-found"


def test_too_many_kept_outcomes_make_room(server: RunningServer) -> None:
    server.call(lambda: setattr(server.amqp.suspended, "_max_bytes", 300))
    for container_id in ("one", "two"):
        with RawWire(server.port) as lost:
            link = Link(lost.open(container_id=container_id))
            link.outcome(link.send(b"1", message("one")))
            link.outcome(link.send(b"2", message("two")))
            lost.drop()
        eventually(lambda: server.amqp.connections == 0)
    for container_id, kept in (("one", 0), ("two", 2)):
        with RawWire(server.port) as wire:
            again = Link(wire.open(container_id=container_id), unsettled={b"1": None, b"2": None})
            assert len(again.answer.unsettled or {}) == kept


def test_a_map_that_does_not_fit_into_a_frame_is_incomplete(server: RunningServer) -> None:
    with RawWire(server.port) as lost:
        link = Link(lost.open())
        for n in range(40):
            link.outcome(link.send(b"tag-%d" % n, message("x")))
        lost.drop()
    eventually(lambda: server.amqp.connections == 0)
    with RawWire(server.port) as wire:
        wire.open(max_frame_size=512)
        again = Link(wire, unsettled={b"tag-39": None}, incomplete_unsettled=True)
        told = again.answer.unsettled or {}
        assert again.answer.incomplete_unsettled
        assert b"tag-39" in told
        assert 1 < len(told) < 40


def test_a_client_that_settles_nothing_runs_out_of_credit(wire: RawWire, server: RunningServer) -> None:
    link = Link(wire)
    flows = len(wire.all(Flow))
    for n in range(1100):
        link.send(b"%d" % n, message("x"))
    link.outcome(1099)
    assert len(wire.all(Flow)) == flows
    wire.send(Disposition(False, 0, 1099, True, ACCEPTED))
    wire.until(Flow, flows + 1)


def test_a_connection_may_leave_only_so_much_unsettled(
    wire: RawWire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incoming_link, "MAX_ANSWERED", 3)
    link = Link(wire)
    for n in range(4):
        link.send(b"%d" % n, message("x"))
    error = wire.until(Detach)[0].error
    assert isinstance(error, Error)
    assert error.condition == "amqp:resource-limit-exceeded"
