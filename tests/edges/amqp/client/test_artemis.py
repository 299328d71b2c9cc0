"""With Apache Artemis as the remote broker: nothing lost whatever restarts, and doubles dropped."""

from __future__ import annotations

import asyncio
import subprocess
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

proton = pytest.importorskip("proton", reason="python-qpid-proton is not installed")

from confluent_kafka import Producer  # noqa: E402
from proton.reactor import ReceiverOption, SenderOption  # noqa: E402
from proton.utils import BlockingConnection  # noqa: E402
from tests.support.asynchronous import eventually, running  # noqa: E402
from tests.support.certificates import make_certificates  # noqa: E402
from tests.support.journals import MemoryJournal  # noqa: E402
from tests.support.names import unique  # noqa: E402

from isthmus.config.model.brokers import BrokerSettings  # noqa: E402
from isthmus.converters import converter  # noqa: E402
from isthmus.edges.amqp.client import AmqpClient, AmqpDelivery, AmqpIntake  # noqa: E402
from isthmus.edges.contract import OutboundMessage  # noqa: E402
from isthmus.edges.outbox import DESTINATION, Outbox  # noqa: E402
from isthmus.embedded.ports import free_port  # noqa: E402
from isthmus.errors import SoftFailure  # noqa: E402
from isthmus.journal import layout  # noqa: E402
from isthmus.journal.layout import Record  # noqa: E402
from isthmus.kafka.blocking import create_topics  # noqa: E402
from isthmus.kafka.options import Kafka  # noqa: E402
from isthmus.message import Message  # noqa: E402
from isthmus.testing.artemis import Artemis  # noqa: E402

_ACCEPTOR = """\
      <acceptor name="amqps">tcp://127.0.0.1:{port}?protocols=AMQP;sslEnabled=true;keyStorePath={store};\
keyStorePassword=changeit;keyStoreType=PKCS12</acceptor>
"""


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_certificates(tmp_path_factory.mktemp("tls"))
    command = ["openssl", "pkcs12", "-export", "-in", "server.pem", "-inkey", "server.key"]
    to = ["-out", "server.p12", "-passout", "pass:changeit"]
    subprocess.run([*command, *to], cwd=folder, check=True, capture_output=True)
    return folder


class Broker:
    """An Artemis, with and without TLS."""

    def __init__(self, folder: Path, tls: Path) -> None:
        self.tls_port = free_port()
        acceptor = _ACCEPTOR.format(port=self.tls_port, store=quote(str(tls / "server.p12")))
        self.artemis = Artemis(folder, acceptors=acceptor)

    @property
    def url(self) -> str:
        return self.artemis.url

    def put(self, address: str, *bodies: str, capability: str = "queue") -> None:
        with self.connection() as connection:
            sender = connection.create_sender(address, options=_Asking(capability))
            for body in bodies:
                sender.send(proton.Message(body, durable=True))

    def all_of(self, address: str, count: int = 0) -> list[Any]:
        """What is in a queue, which is then empty. So many are waited for; any more must be there already."""
        found = []
        with self.connection() as connection:
            receiver = connection.create_receiver(address, credit=1000, options=_Asking("queue"))
            while True:
                try:
                    found.append(receiver.receive(timeout=60 if len(found) < count else 1))
                    receiver.accept()
                except proton.Timeout:
                    return found

    @contextmanager
    def connection(self) -> Iterator[BlockingConnection]:
        connection = BlockingConnection(self.url, timeout=60)
        try:
            yield connection
        finally:
            connection.close()


class _Asking(SenderOption, ReceiverOption):  # type: ignore[misc]
    """Asks for a queue or a topic."""

    def __init__(self, capability: str) -> None:
        self._capability = capability

    def apply(self, link: Any) -> None:
        terminus = link.target if link.is_sender else link.source
        terminus.capabilities.put_object(proton.symbol(self._capability))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, tls: Path) -> Iterator[Broker]:
    broker = Broker(tmp_path_factory.mktemp("artemis"), tls)
    with broker.artemis:
        yield broker


def client(url: str, **settings: Any) -> AmqpClient:
    given = {"url": url, "reconnect.max-wait": "500ms", **settings}
    return AmqpClient(BrokerSettings.of(given), name="main", container_id="isthmus.test.main")


async def never(message: Message | OutboundMessage, failure: SoftFailure) -> None:
    raise AssertionError(f"{message} is a dead letter: {failure}")


@asynccontextmanager
async def taking(
    url: str, addresses: str, **settings: Any
) -> AsyncIterator[tuple[AmqpIntake, MemoryJournal]]:
    """An intake, and its journal."""
    journal = MemoryJournal()
    connecting = client(url, **{"intake.addresses": addresses, **settings})
    intake = AmqpIntake(connecting, journal, dead_letters=never, max_message_size=1_000_000)
    async with running(intake):
        await asyncio.wait_for(intake.ready.wait(), 60)
        yield intake, journal


def bodies(journal: MemoryJournal) -> list[str]:
    messages = [entry.message for entry in journal.entries]
    return [(each.body.slice(each.value) or b"").decode() for each in messages]


def release(journal: MemoryJournal) -> None:
    journal.release()


def test_nothing_is_lost_when_artemis_restarts_in_the_middle(broker: Broker) -> None:
    queue = unique("orders")
    sent = [f"m{number}" for number in range(300)]

    async def scenario() -> None:
        async with taking(broker.url, queue, **{"intake.credit": "50"}) as (intake, journal):
            journal.held = True
            await asyncio.to_thread(broker.put, queue, *sent)
            await eventually(lambda: journal.waiting == 50)
            await asyncio.to_thread(broker.artemis.stop)
            release(journal)
            await asyncio.to_thread(broker.artemis.start)
            await eventually(lambda: set(bodies(journal)) == set(sent))
            assert intake.client.counts.reconnects == 1
            assert len(bodies(journal)) > 300  # what Artemis did not hear of came again
            assert list(dict.fromkeys(bodies(journal))) == sent

    asyncio.run(scenario())
    assert broker.all_of(queue) == []


def test_a_durable_subscription_has_what_was_published_while_the_bridge_did_not_run(broker: Broker) -> None:
    topic = unique("news")
    address = f"topic://{topic}"

    async def scenario(expected: list[str]) -> None:
        async with taking(broker.url, address, **{"intake.durable": "bridge"}) as (_, journal):
            await asyncio.to_thread(broker.put, topic, "last", capability="topic")
            await eventually(lambda: bodies(journal) == expected)

    asyncio.run(scenario(["last"]))
    broker.put(topic, "meanwhile", capability="topic")
    asyncio.run(scenario(["meanwhile", "last"]))


def outbound(number: int, destination: str) -> OutboundMessage:
    return OutboundMessage(f"{destination}:0:{number}", destination, Record(None, b"%d" % number, ()))


def test_artemis_drops_messages_that_come_twice(broker: Broker) -> None:
    queue = unique("orders")

    async def scenario() -> None:
        connecting = client(broker.url)
        async with running(connecting):
            await eventually(lambda: connecting.connected)
            delivery = AmqpDelivery(connecting, lambda _: converter("jms"))
            messages = [outbound(number, queue) for number in range(100)]
            assert await delivery.deliver(messages) == [None] * 100
            assert await delivery.deliver(messages[50:]) == [None] * 50

    asyncio.run(scenario())
    messages = broker.all_of(queue, 100)
    assert [message.body for message in messages] == [str(number) for number in range(100)]
    assert messages[7].properties == {"_AMQ_DUPL_ID": f"{queue}:0:7"}


def test_an_outbox_is_delivered_once_although_artemis_restarts(broker: Broker, kafka_servers: str) -> None:
    queue, topic = unique("orders"), unique("outbox")
    kafka = Kafka(kafka_servers)
    create_topics(kafka, [topic], 1)
    _write(kafka, topic, queue, 500)

    async def scenario() -> None:
        connecting = client(broker.url)
        delivery = AmqpDelivery(connecting, lambda _: converter("jms"))
        outbox = Outbox(kafka, topic, delivery, dead_letters=never, batch=100, longest_wait_s=0.5)
        async with running(connecting, outbox):
            await eventually(lambda: outbox.counts.delivered >= 100)
            await asyncio.to_thread(broker.artemis.stop)
            await asyncio.to_thread(_write, kafka, topic, queue, 500, start=500)
            await eventually(lambda: outbox.counts.retries > 0)
            await asyncio.to_thread(broker.artemis.start)
            await eventually(lambda: outbox.counts.delivered == 1_000)

    asyncio.run(scenario())
    assert sorted(int(message.body) for message in broker.all_of(queue, 1_000)) == list(range(1_000))


def _write(kafka: Kafka, topic: str, queue: str, count: int, start: int = 0) -> None:
    producer = Producer(kafka.python_options())
    for number in range(start, start + count):
        headers = [
            (DESTINATION, queue.encode()),
            (layout.STABLE_ID, f"{topic}:0:{number}".encode()),
        ]
        producer.produce(topic, value=b"%d" % number, headers=headers)
        producer.poll(0)
    assert producer.flush(30) == 0


def test_a_request_is_answered_on_the_requesters_temporary_queue(broker: Broker) -> None:
    queue = unique("requests")

    async def answer() -> None:
        """Do as a responder on Kafka does, whose answer the router has brought to the outbox."""
        async with taking(broker.url, queue) as (_, journal):
            asked.set()
            await eventually(lambda: journal.entries)
            request = journal.entries[0].message.headers
        headers = {"Destination": request["ReplyTo"], "CorrelationId": request["CorrelationId"]}
        connecting = client(broker.url)
        async with running(connecting):
            await eventually(lambda: connecting.connected)
            delivery = AmqpDelivery(connecting, lambda _: converter("jms"))
            record = Record(None, b"answer", layout.encode_headers(headers))
            assert await delivery.deliver([OutboundMessage(f"{queue}:0:0", "*", record)]) == [None]

    asked = threading.Event()
    responder = threading.Thread(target=asyncio.run, args=(answer(),))
    responder.start()
    with broker.connection() as connection:
        inbox = connection.create_receiver(None, dynamic=True)
        address = inbox.link.remote_source.address
        assert asked.wait(60)
        connection.create_sender(queue, options=_Asking("queue")).send(
            proton.Message("question", reply_to=address, correlation_id="c-1")
        )
        got = inbox.receive(timeout=60)
        inbox.accept()
    responder.join(60)
    assert (got.body, got.correlation_id, got.address) == ("answer", "c-1", address)


def test_artemis_is_reached_over_tls_with_a_password(broker: Broker, tls: Path) -> None:
    queue = unique("orders")
    broker.put(queue, "secret")
    url = f"amqps://bridge:pw@localhost:{broker.tls_port}"

    async def scenario() -> None:
        async with taking(url, queue, **{"tls.ca": str(tls / "server.pem")}) as (_, journal):
            await eventually(lambda: bodies(journal) == ["secret"])

    asyncio.run(scenario())
