"""Brokers that behave oddly: the client neither breaks nor believes them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.support.asynchronous import eventually, running

from isthmus.codecs.amqp import Symbol
from isthmus.config.model.brokers import BrokerSettings
from isthmus.converters import converter
from isthmus.edges.amqp.client import AmqpClient, AmqpDelivery
from isthmus.edges.amqp.protocol import (
    Connection,
    Delivery,
    Event,
    Limits,
    LinkAttached,
    Open,
    Opened,
    Receiver,
    SaslServer,
    SessionBegun,
)
from isthmus.edges.amqp.protocol.terms import ACCEPTED, Error
from isthmus.edges.contract import OutboundMessage
from isthmus.errors import HardFailure, Unreachable
from isthmus.journal.layout import Record

Odd = Callable[[Connection, Event], None]


class _Misfit(asyncio.Protocol):
    def __init__(self, odd: Odd, answer: Open) -> None:
        self._odd = odd
        self._engine = Connection.server(Limits(), SaslServer(["ANONYMOUS"]), answer=answer)

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        for event in self._engine.receive_data(data, 0):
            self._odd(self._engine, event)
        self._transport.write(self._engine.data_to_send())
        if self._engine.finished:
            self._transport.close()


@asynccontextmanager
async def misfit(odd: Odd, answer: Open | None = None) -> AsyncIterator[AmqpClient]:
    """A client of a broker on our own engine, which a function makes do odd things."""
    opening = answer or Open("misfit")
    server = await asyncio.get_running_loop().create_server(lambda: _Misfit(odd, opening), "127.0.0.1", 0)
    async with server:
        url = f"amqp://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        given = {"url": url, "reconnect.max-wait": "100ms"}
        yield AmqpClient(BrokerSettings.of(given), name="odd", container_id="c")


def accept(event: LinkAttached) -> None:
    event.link.attach(source=event.link.source, target=event.link.target)
    assert isinstance(event.link, Receiver)
    event.link.grant(10)


def messages(count: int) -> list[OutboundMessage]:
    return [OutboundMessage(f"j:0:{n}", "orders", Record(None, b"x", ())) for n in range(count)]


def test_an_open_that_says_that_it_fails_is_a_refusal() -> None:
    def odd(engine: Connection, event: Event) -> None:
        if isinstance(event, Opened):
            engine.close(Error("amqp:unauthorized-access", "not you"))

    async def scenario() -> None:
        failing = Open("misfit", properties={Symbol("amqp:connection-establishment-failed"): True})
        async with misfit(odd, failing) as client:
            with pytest.raises(HardFailure, match="refuses the bridge: amqp:unauthorized-access: not you"):
                await asyncio.wait_for(client.run(), 60)

    asyncio.run(scenario())


def test_a_session_that_the_broker_ends_is_begun_anew_with_another_connection() -> None:
    begun = []

    def odd(engine: Connection, event: Event) -> None:
        if isinstance(event, SessionBegun):
            begun.append(event.session)
            if len(begun) == 1:
                event.session.end(Error("amqp:internal-error", "a mishap"))

    async def scenario() -> None:
        async with misfit(odd) as client, running(client):
            await eventually(lambda: len(begun) == 2 and client.connected)
            assert client.counts.disconnects == 1

    asyncio.run(scenario())


def test_an_outcome_that_comes_with_a_detach_does_no_harm() -> None:
    taken: list[Delivery] = []

    def odd(engine: Connection, event: Event) -> None:
        if isinstance(event, LinkAttached):
            accept(event)
        elif isinstance(event, Delivery):
            taken.append(event)
            if len(taken) == 1:
                event.link.detach(Error("amqp:internal-error", "a mishap"))
            else:
                event.settle(ACCEPTED)

    async def scenario() -> None:
        async with misfit(odd) as client, running(client):
            await eventually(lambda: client.connected)
            delivery = AmqpDelivery(client, lambda _: converter("jms"))
            with pytest.raises(Unreachable, match="a mishap"):
                await delivery.deliver(messages(3))
            assert await delivery.deliver(messages(3)) == [None] * 3

    asyncio.run(scenario())


def test_a_message_that_the_broker_finds_too_large_is_refused_and_those_behind_it_arrive() -> None:
    taken: list[bytes] = []

    def odd(engine: Connection, event: Event) -> None:
        if isinstance(event, LinkAttached):
            accept(event)
        elif isinstance(event, Delivery):
            if b"large" in event.data:
                event.link.detach(Error("amqp:link:message-size-exceeded", "too large"))
            elif not event.link.detach_sent:
                taken.append(event.data)
                event.settle(ACCEPTED)

    async def scenario() -> None:
        async with misfit(odd) as client, running(client):
            await eventually(lambda: client.connected)
            delivery = AmqpDelivery(client, lambda _: converter("jms"))
            large, small = OutboundMessage("j:0:9", "orders", Record(None, b"large", ())), messages(2)
            batch = [small[0], large, small[1]]
            with pytest.raises(Unreachable):
                await delivery.deliver(batch)
            first, refused, last = await delivery.deliver(batch)
            assert (first, last) == (None, None)
            assert refused is not None
            assert refused.code == "oversize"

    asyncio.run(scenario())
    assert len(taken) == 2


def test_something_that_does_not_speak_amqp_is_a_refusal() -> None:
    async def scenario() -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(8)
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            writer.close()

        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            url = f"amqp://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            client = AmqpClient(BrokerSettings(url=url), name="odd", container_id="c")
            with pytest.raises(HardFailure, match="protocol header"):
                await asyncio.wait_for(client.run(), 60)

    asyncio.run(scenario())
