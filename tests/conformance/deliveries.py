"""Every system with a delivery to it, behind one interface: what the suite does to one, and asks of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, ClassVar, Protocol

from nats.aio.client import Client
from nats.aio.msg import Msg
from tests.support.asynchronous import eventually, running
from tests.support.names import unique
from tests.support.nats.peers import bridge, peer

from isthmus.codecs.bridge_message import Property
from isthmus.config.model.brokers import BrokerSettings
from isthmus.converters import converter
from isthmus.edges.amqp.client import AmqpClient, AmqpDelivery
from isthmus.edges.amqp.client.translate import DUPLICATE_ID
from isthmus.edges.contract import Delivery, OutboundMessage
from isthmus.edges.mq.delivery import MqDelivery
from isthmus.edges.mq.names import STABLE_ID
from isthmus.edges.nats.client import NatsClient
from isthmus.edges.nats.delivery import NatsDelivery
from isthmus.edges.nats.translate import MESSAGE_ID
from isthmus.embedded.nats import EmbeddedNats
from isthmus.journal.layout import Record
from isthmus.testing.queue_manager import MemoryQueueManager

Received = tuple[str, bytes]
"""The stable id and the body of a message that the system has."""


class DeliverySystem(Protocol):
    """A system that a delivery hands messages to."""

    delivery: Delivery
    destination: str
    impossible: OutboundMessage
    """A message that can never be delivered there."""
    keeps: ClassVar[bool]
    """Whether it has a message until somebody takes it. NATS keeps nothing of plain subjects."""

    async def received(self) -> list[Received]:
        """What the system has at the destination, in order."""
        ...

    async def stop(self) -> None:
        """Make the system unavailable. It keeps what it has."""
        ...

    async def start(self) -> None:
        """Make it available again."""
        ...


def outbound(destination: str, number: int, body: bytes | None = None) -> OutboundMessage:
    return OutboundMessage(
        f"journal:0:{number}", destination, Record(None, b"%d" % number if body is None else body, [])
    )


class _Nats:
    keeps: ClassVar[bool] = True

    def __init__(self, server: EmbeddedNats, client: NatsClient, reader: Client, prefix: str) -> None:
        self.name = unique("delivered")
        self.destination = prefix + self.name
        self.delivery: Delivery = NatsDelivery(client)
        self.impossible = outbound("no subject", -1)
        self._server = server
        self.reader = reader

    async def stop(self) -> None:
        await asyncio.to_thread(self._server.stop)

    async def start(self) -> None:
        await asyncio.to_thread(self._server.start)
        await eventually(lambda: self.reader.is_connected)
        await self.reader.flush()  # then the server knows of subscriptions


class NatsSubject(_Nats):
    keeps = False

    def __init__(self, server: EmbeddedNats, client: NatsClient, reader: Client) -> None:
        super().__init__(server, client, reader, "core:")
        self._arrived: list[Received] = []

    async def subscribe(self) -> None:
        async def on_message(message: Msg) -> None:
            self._arrived.append(((message.headers or {})[MESSAGE_ID], message.data))

        await self.reader.subscribe(self.name, cb=on_message)
        await self.reader.flush()

    async def received(self) -> list[Received]:
        await self.reader.publish(self.name, b"end", headers={MESSAGE_ID: "end"})
        await eventually(lambda: ("end", b"end") in self._arrived)
        self._arrived.remove(("end", b"end"))
        return list(self._arrived)


class JetStream(_Nats):
    def __init__(self, server: EmbeddedNats, client: NatsClient, reader: Client) -> None:
        super().__init__(server, client, reader, "jetstream:")

    async def make_stream(self) -> None:
        await self.reader.jetstream().add_stream(name=self.name, subjects=[self.name])

    async def received(self) -> list[Received]:
        jetstream = self.reader.jetstream()
        state = (await jetstream.stream_info(self.name)).state
        found = [await jetstream.get_msg(self.name, seq) for seq in range(1, state.last_seq + 1)]
        return [((each.headers or {})[MESSAGE_ID], each.data or b"") for each in found]


class Mq:
    keeps: ClassVar[bool] = True

    def __init__(self) -> None:
        self.destination = "TEST.CONFORMANCE"
        self.impossible = outbound("NO.SUCH.QUEUE", -1)
        self._manager = MemoryQueueManager("MEMORY")
        self._manager.define_queue(self.destination)
        self.delivery = MqDelivery(self._manager, max_backoff_s=0.05)

    async def received(self) -> list[Received]:
        def browse() -> list[Received]:
            connection = self._manager.connect()
            source = connection.open_queue(self.destination)
            found = []
            while (message := source.get()) is not None:
                stable_id: Property = message.properties[STABLE_ID]
                found.append((str(stable_id.value), message.body))
            connection.backout()
            connection.disconnect()
            return found

        return await asyncio.to_thread(browse)

    async def stop(self) -> None:
        self._manager.stop()

    async def start(self) -> None:
        self._manager.start()


class AmqpBroker:
    keeps: ClassVar[bool] = True

    def __init__(self, broker: Any, client: AmqpClient) -> None:
        self.destination = "orders"
        self.impossible = outbound("raw-orders", -1, b"no message of AMQP")
        self._broker = broker
        self._client = client
        converters = {"raw-orders": converter("raw")}
        self.delivery = AmqpDelivery(client, lambda to: converters.get(to, converter("jms")))

    async def received(self) -> list[Received]:
        messages = list(self._broker.queues["orders"])
        return [(each.properties[DUPLICATE_ID], str(each.body).encode()) for each in messages]

    async def stop(self) -> None:
        await asyncio.to_thread(self._broker.stop)

    async def start(self) -> None:
        await asyncio.to_thread(self._broker.start)
        await eventually(lambda: self._client.connected)


@contextlib.asynccontextmanager
async def delivery_system(name: str, folder: Path) -> AsyncIterator[DeliverySystem]:
    """The system of that name, started."""
    match name:
        case "nats subject" | "jetstream":
            server = EmbeddedNats(folder)
            await asyncio.to_thread(server.start)
            try:
                async with bridge(server.url) as client, peer(server.url) as reader:
                    if name == "nats subject":
                        subject = NatsSubject(server, client, reader)
                        await subject.subscribe()
                        yield subject
                    else:
                        stream = JetStream(server, client, reader)
                        await stream.make_stream()
                        yield stream
            finally:
                await asyncio.to_thread(server.stop)
        case "mq":
            mq = Mq()
            try:
                yield mq
            finally:
                await mq.delivery.close()
        case _:
            from tests.support.amqp.broker import Broker

            broker = Broker()
            await asyncio.to_thread(broker.start)
            given = {"url": broker.url, "reconnect.max-wait": "100ms"}
            connecting = AmqpClient(BrokerSettings.of(given), name="b", container_id="isthmus.b")
            try:
                async with running(connecting):
                    await eventually(lambda: connecting.connected)
                    yield AmqpBroker(broker, connecting)
            finally:
                await asyncio.to_thread(broker.stop)
