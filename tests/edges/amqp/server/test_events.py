"""What the AMQP server tells of clients that are refused, and of those that have to wait."""

from __future__ import annotations

import pytest
from tests.support.amqp.server import RunningServer
from tests.support.amqp.wire import Wire, message
from tests.support.journals import refusing
from tests.support.polling import eventually

from isthmus import events
from isthmus.errors import HardFailure

REFUSED = HardFailure("not authorized", remedy="none")


@pytest.fixture(autouse=True)
def _count_from_zero() -> None:
    events.take_counts()


def test_clients_that_come_and_go_are_told_of(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "isthmus.amqp")
    with RunningServer() as server:
        with Wire(server.port) as wire:
            wire.open()
        eventually(lambda: events.counts()["amqp.client_disconnected"] == 1)
    assert events.counts()["amqp.client_connected"] == 1
    assert "'anonymous' has connected from 127.0.0.1 as " in caplog.text


def test_a_message_that_the_journal_refuses_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "isthmus.amqp")
    with RunningServer() as server, Wire(server.port) as wire:
        server.memory.refuse = refusing(REFUSED)
        delivery = wire.open().sender("orders").send(b"1", message("a"))
        wire.wait(lambda: delivery.settled)
    assert events.counts()["amqp.message_rejected"] == 1
    assert "a message for 'orders' was rejected: not authorized" in caplog.messages


def test_a_connection_beyond_the_limit_is_told_of() -> None:
    with RunningServer(max_connections=1) as server, Wire(server.port) as first:
        first.open()
        with Wire(server.port) as second:
            second.wait(lambda: second.lost)
    assert events.counts()["amqp.connection_turned_away"] == 1


def test_a_server_that_has_too_much_in_flight_says_so_and_when_it_has_not() -> None:
    with RunningServer(max_total_unsettled_bytes=100_000) as server, Wire(server.port) as wire:
        server.memory.held = True
        sender = wire.open().sender("orders")
        for number in range(4):
            sender.send(b"%d" % number, message("x" * 50_000))
            wire.pump()
        eventually(lambda: events.counts()["amqp.memory_full"] == 1)
        assert events.counts()["amqp.memory_freed"] == 0
        server.release()
        eventually(lambda: events.counts()["amqp.memory_freed"] == 1)
