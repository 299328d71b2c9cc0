from __future__ import annotations

import threading

from tests.support.amqp.server import RunningServer
from tests.support.amqp.wire import Wire, message
from tests.support.polling import eventually

from isthmus.edges.amqp.protocol import Closed, Limits
from isthmus.edges.amqp.protocol.frames import EMPTY_FRAME
from isthmus.edges.amqp.protocol.performatives import Detach
from isthmus.edges.amqp.protocol.terms import Accepted
from isthmus.telemetry.parts import Clients


def test_close_waits_for_what_is_under_way_and_says_goodbye() -> None:
    with RunningServer() as server, Wire(server.port) as wire:
        link = wire.open().sender("orders")
        server.memory.held = True
        sent = link.send(b"1", message("x"))
        wire.pump()
        eventually(lambda: server.memory.waiting == 1, timeout_s=5)
        closing = threading.Thread(target=lambda: server.run(server.amqp.close(grace_s=10)))
        closing.start()
        server.release()
        closed = wire.until(Closed)
        closing.join(10)
        assert sent.state == Accepted()
        assert closed.error is not None
        assert closed.error.condition == "amqp:connection:forced"


def test_close_does_not_wait_for_ever() -> None:
    with RunningServer() as server, Wire(server.port) as wire:
        link = wire.open().sender("orders")
        server.memory.held = True
        link.send(b"1", message("x"))
        wire.pump()
        eventually(lambda: server.memory.waiting == 1, timeout_s=5)
        server.run(server.amqp.close(grace_s=0.1), timeout_s=10)
        assert server.amqp.connections == 0


def test_heartbeats_keep_an_idle_connection() -> None:
    with RunningServer() as server, Wire(server.port, limits=Limits(idle_timeout_s=6)) as wire:
        wire.open()
        wire.received = b""
        wire.wait(lambda: wire.received == 2 * EMPTY_FRAME)


def test_a_silent_client_is_given_up() -> None:
    with RunningServer(idle_timeout_s=1.0) as server, Wire(server.port) as wire:
        wire.open()
        eventually(lambda: server.amqp.connections == 0, timeout_s=10)
        wire.pump()
        closed = wire.until(Closed)
        assert closed.error is not None
        assert closed.error.condition == "amqp:resource-limit-exceeded"


def test_a_detach_is_answered_after_the_messages_before_it() -> None:
    with RunningServer() as server, Wire(server.port) as wire:
        link = wire.open().sender("orders")
        server.memory.held = True
        sent = link.send(b"1", message("x"))
        wire.pump()
        eventually(lambda: server.memory.waiting == 1, timeout_s=5)
        link.detach_sent = True  # detach by hand: the engine's own would forget the delivery
        link.session.write(Detach(link.handle, True))
        wire.pump()
        assert not link.detached
        server.release()
        wire.wait(lambda: link.detached)
        assert sent.state == Accepted()


def test_a_client_that_drops_leaves_nothing_behind() -> None:
    with RunningServer() as server:
        for _ in range(5):
            with Wire(server.port) as wire:
                wire.open().sender("orders").send(b"1", message("x"))
                wire.pump()
        eventually(lambda: server.amqp.connections == 0, timeout_s=5)
        eventually(lambda: len(server.memory.entries) == 5, timeout_s=5)


def test_who_is_connected_is_told_with_what_goes_over_each_link() -> None:
    with RunningServer() as server, Wire(server.port) as wire:
        link = wire.open().sender("orders")
        server.memory.held = True
        link.send(b"1", message("x"))
        wire.pump()
        eventually(lambda: server.memory.waiting == 1, timeout_s=5)
        [client] = server.amqp.clients(10).shown
        assert (client.user, client.address) == ("anonymous", "127.0.0.1")
        [told] = client.links
        assert (told.address, told.direction, told.deliveries, told.in_flight) == ("orders", "in", 1, 1)
        assert told.credit > 0
    assert server.amqp.clients(10) == Clients()
