"""JMS destinations at the AMQP server: what the journal is told of topics, and what they do not take."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

proton = pytest.importorskip("proton", reason="python-qpid-proton is not installed")

from proton import Message, int32, symbol  # noqa: E402
from proton.utils import BlockingConnection, LinkDetached, SendException  # noqa: E402
from tests.support.amqp.kafka_server import ServerOnKafka  # noqa: E402
from tests.support.amqp.server import RunningServer  # noqa: E402
from tests.support.kafka.topics import delete_topic, new_topic  # noqa: E402
from tests.support.names import unique  # noqa: E402
from tests.support.polling import eventually  # noqa: E402

from isthmus.edges.addresses import KafkaAddresses, KnownAddress  # noqa: E402
from isthmus.journal.layout import AddressTopic, topic_header  # noqa: E402
from isthmus.kafka.admin import KafkaAdmin  # noqa: E402
from isthmus.kafka.options import Kafka  # noqa: E402

ORDERS = AddressTopic("orders", 4, 5000, is_destination=True)


class Destinations:
    """Has the address ``orders``."""

    def known(self, address: str) -> KnownAddress | None:
        return KnownAddress(ORDERS, topic_header(ORDERS)) if address == "orders" else None

    async def find(self, address: str, *, jms: bool = False) -> str | None:
        return None if address == "orders" else "there is none"


@pytest.fixture
def server() -> Iterator[RunningServer]:
    with RunningServer(addresses=Destinations(), senders_choose=True) as server:
        yield server


def send(url: str, *messages: Message, address: str = "orders") -> None:
    connection = BlockingConnection(url, timeout=60)
    try:
        sender = connection.create_sender(address)
        for message in messages:
            sender.send(message)
    finally:
        connection.close()


def test_the_journal_is_told_which_topic_a_message_goes_to(server: RunningServer) -> None:
    chosen = Message("x", annotations={symbol("x-opt-bridge.partition"): int32(3)})
    send(server.url, Message("a text", id="ID:1"), Message({"a": "map"}), chosen)
    assert [entry.topic for entry in server.memory.entries] == [ORDERS] * 3


@pytest.mark.parametrize(
    "message",
    [
        Message("x" * 5000),
        Message(inferred=True, body=b"x" * 4500),
        Message("x", annotations={symbol("x-opt-bridge.partition"): int32(4)}),
    ],
    ids=["text", "bytes", "partition"],
)
def test_what_the_topic_does_not_take_is_refused(server: RunningServer, message: Message) -> None:
    with pytest.raises(SendException) as caught:
        send(server.url, message)
    assert caught.value.state == proton.Delivery.REJECTED
    assert server.memory.entries == []


def test_a_topic_that_is_deleted_or_changed_is_noticed(kafka_servers: str) -> None:
    kafka = Kafka(kafka_servers)
    topic = new_topic(kafka_servers, 2)
    admin = KafkaAdmin(kafka)
    addresses = KafkaAddresses(admin, [], keep=True, auto_create=False, refresh_s=0.01)
    with ServerOnKafka(kafka_servers) as server:
        server.amqp.addresses = addresses
        try:
            with pytest.raises(LinkDetached, match="amqp:not-found"):
                send(server.url, Message("x"), address=unique("nowhere"))
            connection = BlockingConnection(server.url, timeout=60)
            sender = connection.create_sender(topic)
            sender.send(Message("x"))
            [entry] = server.entries()
            assert entry.topic is not None
            assert (entry.topic.name, entry.topic.partitions) == (topic, 2)
            delete_topic(kafka_servers, topic)

            def refused() -> bool:
                try:
                    sender.send(Message("y"))
                except SendException as failure:
                    return bool(failure.state == proton.Delivery.REJECTED)
                return False

            eventually(refused)
            connection.close()
        finally:
            server.run(admin.close())
