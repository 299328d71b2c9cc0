"""The engine on asyncio, with a socket that only remembers what is done with it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from functools import wraps
from typing import Any

import pytest

from isthmus.edges.amqp.protocol import Attach, Closed, Connection, Delivery, Event, Limits, Link, Open
from isthmus.edges.amqp.protocol.terms import ACCEPTED, Error, Source, Target
from isthmus.edges.amqp.transport import AmqpTransport


class Socket(asyncio.Transport):
    def __init__(self, transport: AmqpTransport) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.calls: list[str] = []
        self._transport = transport

    def write(self, data: Any) -> None:
        self.written.append(bytes(data))

    def is_closing(self) -> bool:
        return "close" in self.calls or "abort" in self.calls

    def pause_reading(self) -> None:
        self.calls.append("pause")

    def resume_reading(self) -> None:
        self.calls.append("resume")

    def close(self) -> None:
        self.calls.append("close")

    def abort(self) -> None:
        self.calls.append("abort")
        self._transport.connection_lost(None)


class Handler:
    """Attaches what is attached to it, and remembers what it was told."""

    def __init__(self, link: Link, told: list[str]) -> None:
        self._link = link
        self._told = told
        self.raises = False

    def on_attach(self, attach: Attach) -> None:
        self._told.append(f"{self._link.name} on_attach")
        self._link.attach(source=attach.source, target=attach.target)
        if self._link.name.startswith("out"):
            self._link.grant(100)  # type: ignore[attr-defined]

    def on_delivery(self, delivery: Delivery) -> None:
        self._told.append(f"{self._link.name} on_delivery")
        if self.raises:
            raise ZeroDivisionError("on_delivery")
        delivery.settle(ACCEPTED)

    def on_flow(self) -> None:
        self._told.append(f"{self._link.name} on_flow")

    def on_disposition(self, deliveries: Sequence[Delivery], state: object, settled: bool) -> None:
        self._told.append(f"{self._link.name} on_disposition")

    def on_detach(self, *, closed: bool, error: Error | None, lost: bool) -> None:
        self._told.append(f"{self._link.name} on_detach closed={closed}")
        if self.raises:
            raise ZeroDivisionError("on_detach")
        self._link.detach(closed=closed)


class Server(AmqpTransport):
    """A server's end, with a client's engine at the other."""

    def __init__(self, **more: float) -> None:
        super().__init__(**more)
        self.engine = Connection.server(Limits(idle_timeout_s=20.0), answer=Open("server"))
        self.client = Connection.client(Limits())
        self.told: list[str] = []
        self.handlers: list[Handler] = []
        self.socket = Socket(self)
        self.connection_made(self.socket)
        self.client.open(Open("client"))
        self.session = self.client.begin()
        self.talk()

    def accept_link(self, link: Link, attach: Attach) -> Handler:
        self.handlers.append(Handler(link, self.told))
        return self.handlers[-1]

    def talk(self) -> list[Event]:
        """Bring the client's bytes here, and those that were written to it."""
        self.data_received(self.client.data_to_send())
        written, self.socket.written = b"".join(self.socket.written), []
        return self.client.receive_data(written, 0.0)

    def attach(self, name: str) -> Link:
        link = self.session.sender(name) if name.startswith("out") else self.session.receiver(name)
        link.attach(source=Source("q"), target=Target("q"))
        self.talk()
        return link


def on_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(test)
    def run(**given: Any) -> None:
        asyncio.run(test(**given))

    return run


@on_a_loop
async def test_what_is_decided_in_one_turn_is_sent_at_once() -> None:
    server = Server()
    link = server.attach("out")
    for number in range(10):
        link.send(number.to_bytes(), b"x")  # type: ignore[attr-defined]
    server.data_received(server.client.data_to_send())
    assert len(server.socket.written) == 1
    server.socket.written.clear()
    for _ in range(10):
        server.handlers[0]._link.grant(1)  # type: ignore[attr-defined]
        server.wake()
    assert server.socket.written == []
    await asyncio.sleep(0)
    assert len(server.socket.written) == 1


@on_a_loop
async def test_each_handler_is_told_of_the_end_once() -> None:
    server = Server()
    first = server.attach("out 1")
    server.attach("out 2")
    server.attach("in")
    first.detach()
    server.talk()
    server.connection_lost(None)
    server.connection_lost(None)
    assert [each for each in server.told if "on_detach" in each] == [
        "out 1 on_detach closed=True",
        "out 2 on_detach closed=False",
        "in on_detach closed=False",
    ]


@on_a_loop
async def test_a_session_that_ends_ends_its_links_and_is_answered() -> None:
    server = Server()
    server.attach("in")
    server.session.end()
    server.talk()
    assert server.told[-1] == "in on_detach closed=False"
    assert server.session.ended


@pytest.mark.parametrize("when", ["on_delivery", "on_detach"])
def test_what_a_handler_raises_closes_the_connection_with_one_traceback(
    when: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        server = Server()
        link, other = server.attach("out 1"), server.attach("out 2")
        server.handlers[0].raises = True
        if when == "on_delivery":
            link.send(b"1", b"x")  # type: ignore[attr-defined]
        else:
            link.session.end()
        [closed] = [event for event in server.talk() if isinstance(event, Closed)]
        assert closed.error is not None
        assert closed.error.condition == "amqp:internal-error"
        server.handlers[0].raises = False
        server.connection_lost(None)
        assert f"{other.name} on_detach closed=False" in server.told

    asyncio.run(run())
    [record] = [each for each in caplog.records if each.levelno >= logging.ERROR]
    assert record.exc_info is not None


@on_a_loop
async def test_a_peer_that_does_not_answer_close_is_cut_off() -> None:
    server = Server(close_s=0.0)
    server.attach("in")
    server.close_with(None)
    assert "abort" not in server.socket.calls
    async with asyncio.timeout(10):
        while not server.lost:
            await asyncio.sleep(0)
    assert server.socket.calls == ["abort"]
    assert server.told[-1] == "in on_detach closed=False"


@on_a_loop
async def test_a_peer_that_does_not_read_the_answer_to_its_close_is_cut_off() -> None:
    server = Server(close_s=0.0)
    server.client.close()
    server.talk()
    assert server.socket.calls == ["close"]
    async with asyncio.timeout(10):
        while not server.lost:
            await asyncio.sleep(0)


@on_a_loop
async def test_a_socket_that_takes_bytes_again_is_told_as_a_flow() -> None:
    server = Server()
    server.attach("in")
    server.told.clear()
    server.pause_writing()
    assert server.congested
    server.resume_writing()
    assert not server.congested
    assert server.told == ["in on_flow"]


@on_a_loop
async def test_a_peer_that_is_not_read_is_not_taken_for_silent() -> None:
    server = Server()
    now = server._loop.time()
    server._loop.time = lambda: now  # type: ignore[method-assign]
    server.set_reading(False)
    server.set_reading(False)
    for _ in range(10):
        now += 15.0
        server._tick()
    assert not server.engine.finished
    server.set_reading(True)
    assert server.socket.calls == ["pause", "resume"]
    now += 21.0
    server._tick()
    assert server.engine.finished
    server.connection_lost(None)


@on_a_loop
async def test_a_link_that_nobody_handles_is_refused() -> None:
    server = Server()
    server.accept_link = lambda *_: None  # type: ignore[assignment, method-assign]
    link = server.attach("out")
    assert link.detached
    server.connection_lost(None)
