"""One bridge between all systems, and a client of each: for the tests of what goes from where to where."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from tests.support.commands import Running
from tests.support.kafka.topics import produce
from tests.support.names import unique
from tests.support.nats.peers import connect

from isthmus.codecs.bridge_message import Property
from isthmus.config import load
from isthmus.edges.mq.descriptor import Mqmd, MqMessage
from isthmus.edges.mq.port import QueueTarget, Target
from isthmus.edges.mq.translate import HEADER_TYPES
from isthmus.edges.nats.translate import Arrived, from_nats
from isthmus.edges.service import EdgeService
from isthmus.embedded.nats import EmbeddedNats
from isthmus.journal import layout
from isthmus.journal.layout import Record
from isthmus.kafka.blocking import create_topics, read_topic
from isthmus.kafka.options import Kafka
from isthmus.kafka.own_topics import make_own_topics
from isthmus.message import Header, HeaderType
from isthmus.testing.queue_manager import MemoryQueueManager, shared_queue_manager


class Seen(NamedTuple):
    """A message at the end of its way."""

    body: bytes
    headers: Mapping[str, Header]


class Systems:
    """Clients of every system that the bridge speaks to."""

    def __init__(self, kafka: Kafka, mq: MemoryQueueManager, edges: EdgeService, nats: EmbeddedNats) -> None:
        self.kafka = kafka
        self.nats = nats
        self.mq = mq
        self.edges = edges

    def send_to_kafka(self, topic: str, body: bytes, headers: Mapping[str, Header]) -> None:
        produce(self.kafka.servers, topic, Record(b"k", body, layout.encode_headers(headers)))

    def send_over_amqp(self, address: str, body: str, headers: Mapping[str, Header]) -> None:
        message = amqp_message(body, headers)
        from proton.utils import BlockingConnection

        connection = BlockingConnection(f"amqp://127.0.0.1:{self.edges.amqp_ports[0]}", timeout=30)
        try:
            connection.create_sender(address).send(message)
        finally:
            connection.close()

    def received_over_amqp(self, source: str) -> Seen:
        """The next message of a source."""
        pytest.importorskip("proton", reason="python-qpid-proton is not installed")
        from proton.utils import BlockingConnection

        connection = BlockingConnection(f"amqp://127.0.0.1:{self.edges.amqp_ports[0]}", timeout=60)
        try:
            receiver = connection.create_receiver(source)
            message = receiver.receive(timeout=60)
            receiver.accept()
        finally:
            connection.close()
        return seen_in_amqp(message)

    def send_to_nats(self, subject: str, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        async def publish(client: Client) -> None:
            await client.publish(subject, body, headers=dict(headers or {}))

        self.with_nats(publish)

    def with_nats(self, work: Callable[[Client], object]) -> None:
        async def run() -> None:
            client = await connect(self.nats.url)
            try:
                await work(client)  # type: ignore[misc]
                await client.flush()
            finally:
                await client.close()

        asyncio.run(run())

    @contextmanager
    def subscribed(self, subject: str) -> Iterator[Callable[[], list[Seen]]]:
        """What is published to a subject meanwhile."""
        loop = asyncio.new_event_loop()
        seen: list[Seen] = []

        async def subscribe() -> Client:
            async def take(message: Msg) -> None:
                arrived = Arrived(message.subject, message.data, message.headers, message.reply)
                seen.append(Seen(message.data, from_nats(arrived, "").headers))

            client = await connect(self.nats.url)
            await client.subscribe(subject, cb=take)
            await client.flush()
            return client

        def look() -> list[Seen]:
            loop.run_until_complete(asyncio.sleep(0.05))
            return seen

        client = loop.run_until_complete(subscribe())
        try:
            yield look
        finally:
            loop.run_until_complete(client.close())
            loop.close()

    def put(
        self,
        target: Target,
        body: bytes,
        properties: Mapping[str, Property] | None = None,
        descriptor: Mqmd | None = None,
    ) -> Mqmd:
        connection = self.mq.connect()
        try:
            done = connection.put(
                target,
                MqMessage(descriptor=descriptor or Mqmd(), body=body, properties=dict(properties or {})),
            )
            connection.commit()
            return done
        finally:
            connection.disconnect()

    def get(self, queue: str, wait_s: float = 30) -> MqMessage | None:
        connection = self.mq.connect()
        try:
            message = connection.open_queue(queue).get(wait_s)
            connection.commit()
            return message
        finally:
            connection.disconnect()

    def got(self, queue: str) -> Seen | None:
        message = self.get(queue)
        if message is None:
            return None
        headers = {
            name: Header.of(each.value, HEADER_TYPES[each.type]) for name, each in message.properties.items()
        }
        return Seen(message.body, headers)

    def in_topic(self, topic: str) -> list[Seen]:
        found = []
        for message in read_topic(self.kafka, topic):
            record = Record(message.key(), message.value(), message.headers() or [])  # type: ignore[arg-type]
            found.append(Seen(record.value or b"", layout.decode_headers(record.headers)))
        return found

    def reasons(self, topic: str) -> list[str]:
        """Why the messages of a dead-letter topic are there."""
        return [
            dict(message.headers() or [])[layout.ERROR_MESSAGE].decode()  # type: ignore[union-attr]
            for message in read_topic(self.kafka, topic)
        ]


@contextmanager
def running_bridge(
    folder: Path, kafka_servers: str, configuration: str, topics: tuple[str, ...]
) -> Iterator[Systems]:
    """The router in a process of its own; the edges here, where the queue manager in memory is."""
    bridge_id, manager = unique("b"), f"QM{uuid.uuid4().hex[:8].upper()}"
    kafka = Kafka(kafka_servers)
    create_topics(kafka, topics, 2)
    with EmbeddedNats(folder / "nats") as server:
        file = folder / "bridge.properties"
        file.write_text(
            f"bridge.id={bridge_id}\nkafka.bootstrap.servers={kafka_servers}\nstate.dir={folder}/state\n"
            f"nats.servers={server.url}\nmq.client=memory\nmq.queue-manager={manager}\n"
            f"pipeline.master=local[2]\njournal.partitions=1\n{configuration}"
        )
        settings = load(file, {})
        make_own_topics(settings, kafka)
        with Running(folder, file, command="pipeline") as router, EdgeService(settings, kafka) as edges:
            router.wait_until_ready()
            yield Systems(kafka, shared_queue_manager(manager), edges, server)
            edges.poll()


def amqp_message(body: str, headers: Mapping[str, Header]) -> Any:
    """A message of proton's."""
    proton = pytest.importorskip("proton", reason="python-qpid-proton is not installed")
    types = {
        HeaderType.BYTE: proton.byte,
        HeaderType.SHORT: proton.short,
        HeaderType.INT: proton.int32,
        HeaderType.FLOAT: proton.float32,
    }
    properties = {
        name: types.get(header.type, lambda value: value)(header.value) for name, header in headers.items()
    }
    return proton.Message(body, properties=properties)


def seen_in_amqp(message: Any) -> Seen:
    """What a message of proton's has."""
    import proton

    types = {
        proton.byte: HeaderType.BYTE,
        proton.short: HeaderType.SHORT,
        proton.int32: HeaderType.INT,
        int: HeaderType.LONG,
        proton.float32: HeaderType.FLOAT,
    }
    body = message.body if isinstance(message.body, bytes) else str(message.body).encode()
    headers = {
        name: Header.of(_plain(value), types.get(type(value))) for name, value in message.properties.items()
    }
    return Seen(body, headers)


def _plain(value: object) -> Any:
    """A value without proton's own type; its binary is a memoryview."""
    if isinstance(value, bool):
        return value
    for plain in (int, float, str):
        if isinstance(value, plain):
            return plain(value)
    return bytes(value) if isinstance(value, bytes | memoryview) else value


def queue(name: str) -> QueueTarget:
    return QueueTarget(name)
