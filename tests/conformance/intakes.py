"""Every system with an intake on it, behind one interface: what the suite does to one, and asks of it."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, ClassVar, Protocol

from nats.aio.client import Client
from tests.support.amqp.server import AnyAddress
from tests.support.asynchronous import eventually, running
from tests.support.journals import DeadLetterBox, MemoryJournal
from tests.support.names import unique
from tests.support.nats.peers import bridge, peer

from isthmus.codecs.amqp import AmqpMessage, AmqpValue
from isthmus.config.model.amqp import AmqpSettings
from isthmus.config.model.brokers import BrokerSettings, Node
from isthmus.config.model.mq import MqIntakeSettings
from isthmus.config.model.nats import NatsIntakeSettings
from isthmus.edges.amqp.client import AmqpClient, AmqpIntake
from isthmus.edges.amqp.client.outgoing_link import OutgoingLink
from isthmus.edges.amqp.protocol.terms import Accepted
from isthmus.edges.amqp.server.server import AmqpServer
from isthmus.edges.mq.descriptor import Mqmd, MqMessage
from isthmus.edges.mq.intake import MqIntake
from isthmus.edges.mq.port import QueueTarget
from isthmus.edges.nats.client import NatsClient
from isthmus.edges.nats.intake import StreamIntake, SubjectIntake
from isthmus.edges.running import Part
from isthmus.embedded.nats import EmbeddedNats
from isthmus.embedded.ports import free_port
from isthmus.errors import IsthmusError, Refused, Unreachable
from isthmus.journal import OnDone
from isthmus.journal.layout import Entry
from isthmus.testing.queue_manager import MemoryQueueManager

WINDOW = 8
"""How many messages may be in flight."""


class WatchedJournal(MemoryJournal):
    """Knows how many entries waited for it at once, and how many it has refused."""

    def __init__(self) -> None:
        super().__init__()
        self.most_waiting = 0
        self.refused = 0

    def put(self, entry: Entry, on_done: OnDone) -> None:
        def count(error: IsthmusError | None) -> None:
            self.refused += error is not None
            on_done(error)

        super().put(entry, count)
        self.most_waiting = max(self.most_waiting, self.waiting)


class IntakeSystem(Protocol):
    """A system whose messages an intake takes into `journal`."""

    redelivers: ClassVar[bool]
    """Whether it has a message until that is acknowledged. NATS keeps nothing of plain subjects."""
    dead_letters: ClassVar[bool]
    """Whether its intake dead-letters what can never be written. A client of the server is told instead."""
    finish_s: float
    """How long an intake that ends waits for the journal."""
    journal: WatchedJournal
    dead: DeadLetterBox

    def intake(self) -> Part:
        """A new intake, with the same journal. One runs at a time."""
        ...

    async def ready(self) -> None:
        """Return once the intake takes messages."""
        ...

    async def send(self, *bodies: bytes) -> None:
        """Have the system hand these out, in order."""
        ...

    async def unsettled(self) -> int:
        """How many messages the system still has: those that are in flight, and those that are not."""
        ...


class _System:
    redelivers: ClassVar[bool] = True
    dead_letters: ClassVar[bool] = True

    def __init__(self) -> None:
        self.finish_s = 30.0
        self.journal = WatchedJournal()
        self.dead = DeadLetterBox()


class NatsSubject(_System):
    redelivers = False

    def __init__(self, client: NatsClient, sender: Client) -> None:
        super().__init__()
        self._client = client
        self._sender = sender
        self._subject = unique("subject")

    def intake(self) -> Part:
        self._intake = SubjectIntake(
            self._client,
            self.journal,
            NatsIntakeSettings(subject=self._subject),
            dead_letters=self.dead,
            in_flight=WINDOW,
            finish_s=self.finish_s,
        )
        return self._intake

    async def ready(self) -> None:
        await self._intake.ready.wait()
        await self._client.live.flush()  # then the server knows of the subscription

    async def send(self, *bodies: bytes) -> None:
        for body in bodies:
            await self._sender.publish(self._subject, body)
        await self._sender.flush()

    async def unsettled(self) -> int:
        return 0


class JetStream(_System):
    def __init__(self, client: NatsClient, sender: Client, stream: str) -> None:
        super().__init__()
        self._client = client
        self._jetstream = sender.jetstream()
        self._stream = stream

    def intake(self) -> Part:
        self._intake = StreamIntake(
            self._client,
            self.journal,
            NatsIntakeSettings(subject=f"{self._stream}.>", durable="bridge", redelivery_limit=1_000),
            dead_letters=self.dead,
            ack_wait_s=1.0,
            in_flight=WINDOW,
            finish_s=self.finish_s,
        )
        return self._intake

    async def ready(self) -> None:
        await self._intake.ready.wait()

    async def send(self, *bodies: bytes) -> None:
        for body in bodies:
            await self._jetstream.publish(f"{self._stream}.a", body)

    async def unsettled(self) -> int:
        info = await self._jetstream.consumer_info(self._stream, "bridge")
        return (info.num_pending or 0) + (info.num_ack_pending or 0)


class Mq(_System):
    QUEUE = "TEST.CONFORMANCE"

    def __init__(self) -> None:
        super().__init__()
        self._manager = MemoryQueueManager("MEMORY")
        self._manager.define_queue(self.QUEUE)

    def intake(self) -> Part:
        self._intake = MqIntake(
            self._manager,
            MqIntakeSettings(queue=self.QUEUE, batch=WINDOW, backout_threshold=1_000),
            self.journal,
            self.dead,
            max_backoff_s=0.05,
            finish_s=self.finish_s,
        )
        return self._intake

    async def ready(self) -> None:
        await eventually(lambda: self._intake.client.connected)

    async def send(self, *bodies: bytes) -> None:
        def put() -> None:
            connection = self._manager.connect()
            for body in bodies:
                message = MqMessage(descriptor=Mqmd(Persistence=1), body=body)
                connection.put(QueueTarget(self.QUEUE), message)
            connection.commit()
            connection.disconnect()

        await asyncio.to_thread(put)

    async def unsettled(self) -> int:
        return self._manager.depth(self.QUEUE)


class AmqpBroker(_System):
    def __init__(self, broker: Any) -> None:
        super().__init__()
        self._broker = broker

    def intake(self) -> Part:
        given = {
            "url": self._broker.url,
            "reconnect.max-wait": "100ms",
            "intake.addresses": "orders",
            "intake.credit": str(WINDOW),
        }
        client = AmqpClient(BrokerSettings.of(given), name="b", container_id="isthmus.b")
        self._intake = AmqpIntake(
            client, self.journal, dead_letters=self.dead, max_message_size=100_000, finish_s=self.finish_s
        )
        return self._intake

    async def ready(self) -> None:
        await self._intake.ready.wait()

    async def send(self, *bodies: bytes) -> None:
        import proton

        self._broker.put("orders", *[proton.Message(body.decode(), id=f"ID:{body!r}") for body in bodies])

    async def unsettled(self) -> int:
        return len(self._broker.queues["orders"]) + len(self._broker.unsettled)


class AmqpServerSystem(_System):
    """The server, and an application that sends a message until it is accepted."""

    dead_letters = False

    def __init__(self) -> None:
        super().__init__()
        self._port = free_port()
        self._unsettled: dict[str, bytes] = {}
        self._client = AmqpClient(
            BrokerSettings.of({"url": f"amqp://127.0.0.1:{self._port}", "reconnect.max-wait": "100ms"}),
            name="application",
            container_id="application",
        )

    def intake(self) -> Part:
        settings = AmqpSettings(port=self._port, credit=WINDOW)
        finish_s = self.finish_s
        server = AmqpServer(
            settings, journal=self.journal, addresses=AnyAddress(), max_message_size=1_000_000
        )

        class Serving:
            async def run(self) -> None:
                await server.start()
                try:
                    await asyncio.Event().wait()
                finally:
                    await server.close(finish_s)

        return Serving()

    async def ready(self) -> None:
        await eventually(lambda: self._client.connected)

    async def send(self, *bodies: bytes) -> None:
        for body in bodies:
            self._unsettled[uuid.uuid4().hex] = body

    async def unsettled(self) -> int:
        return len(self._unsettled)

    async def run(self) -> None:
        """Be the application."""
        async with running(self._client):
            while True:
                with contextlib.suppress(Unreachable, Refused):
                    await self._send_all()
                await asyncio.sleep(0.02)

    async def _send_all(self) -> None:
        link = OutgoingLink(self._client.live, Node("orders"), uuid.uuid4().hex)
        await link.attached_within(10)
        while True:
            sent = []
            for id, body in list(self._unsettled.items()):
                await link.credit_within(60)
                outcome = link.send(AmqpMessage(body=AmqpValue(body.decode())).encode())
                sent.append((id, outcome))
            for id, outcome in sent:
                if isinstance(await outcome, Accepted):
                    del self._unsettled[id]
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def intake_system(name: str, folder: Path) -> AsyncIterator[IntakeSystem]:
    """The system of that name, started."""
    match name:
        case "nats subject" | "jetstream":
            server = EmbeddedNats(folder)
            await asyncio.to_thread(server.start)
            try:
                async with bridge(server.url) as client, peer(server.url) as sender:
                    if name == "nats subject":
                        yield NatsSubject(client, sender)
                    else:
                        stream = unique("stream")
                        await sender.jetstream().add_stream(name=stream, subjects=[f"{stream}.>"])
                        yield JetStream(client, sender, stream)
            finally:
                await asyncio.to_thread(server.stop)
        case "mq":
            yield Mq()
        case "amqp broker":
            from tests.support.amqp.broker import Broker

            broker = Broker()
            await asyncio.to_thread(broker.start)
            try:
                yield AmqpBroker(broker)
            finally:
                await asyncio.to_thread(broker.stop)
        case _:
            serving = AmqpServerSystem()
            async with running(serving):
                yield serving
