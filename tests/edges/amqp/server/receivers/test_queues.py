"""Receivers of a queue and Kafka's acknowledgements, with proton's client."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

proton = pytest.importorskip("proton", reason="python-qpid-proton is not installed")

from confluent_kafka import Producer  # noqa: E402
from proton import Delivery as ProtonDelivery  # noqa: E402
from proton import Timeout  # noqa: E402
from proton.reactor import AtMostOnce  # noqa: E402
from proton.utils import BlockingConnection, LinkDetached  # noqa: E402
from tests.support.amqp.kafka_server import answer, receiving_server  # noqa: E402
from tests.support.amqp.proton_queue import Queue, take  # noqa: E402
from tests.support.amqp.wire import Wire  # noqa: E402
from tests.support.kafka.topics import new_topic, publish  # noqa: E402

from isthmus.codecs.amqp import AmqpMessage, Data  # noqa: E402
from isthmus.edges.amqp.protocol import Delivery, Receiver, Sender  # noqa: E402
from isthmus.edges.amqp.protocol.terms import ACCEPTED, Source, Target, TransactionalState  # noqa: E402
from isthmus.embedded.kafka import EmbeddedKafka  # noqa: E402
from isthmus.kafka.blocking import QUIET  # noqa: E402

LOCK_S = 5.0


@contextmanager
def queue_and_transaction(servers: str, topic: str) -> Iterator[tuple[Wire, Delivery, Sender, bytes]]:
    """A client that has received one message and declared a transaction."""
    with receiving_server(servers) as server, Wire(server.port) as wire:
        link = wire.open().engine.begin().receiver("in")
        link.attach(source=Source(topic, capabilities=("queue",)), target=Target())
        link.grant(1)
        delivery = wire.until(Delivery)
        coordinator = wire.coordinator()
        yield wire, delivery, coordinator, wire.declare(coordinator)


def test_what_is_accepted_in_a_transaction_and_not_settled_is_settled_by_its_commit(
    kafka_servers: str,
) -> None:
    topic = new_topic(kafka_servers)
    publish(kafka_servers, topic, ["a"])
    with queue_and_transaction(kafka_servers, topic) as (wire, delivery, coordinator, id):
        delivery.link.session.update(delivery, TransactionalState(id, ACCEPTED))
        other = wire.declare(
            coordinator
        )  # answered behind what the server says to the acceptance, if anything
        assert not delivery.settled
        assert wire.discharge(coordinator, other) == ACCEPTED
        assert not delivery.settled
        assert wire.discharge(coordinator, id) == ACCEPTED
        wire.wait(lambda: delivery.settled)
        assert delivery.state == ACCEPTED


def test_what_is_not_settled_is_still_the_client_s_after_a_rollback(kafka_servers: str) -> None:
    topic = new_topic(kafka_servers)
    publish(kafka_servers, topic, ["a", "b"])
    with queue_and_transaction(kafka_servers, topic) as (wire, delivery, coordinator, id):
        link = delivery.link
        assert isinstance(link, Receiver)
        link.session.update(delivery, TransactionalState(id, ACCEPTED))
        assert wire.discharge(coordinator, id, fail=True) == ACCEPTED
        assert not delivery.settled
        delivery.settle(ACCEPTED)
        link.grant(1)
        assert AmqpMessage.decode(wire.until(Delivery).data).body == Data((b"b",))


def test_what_is_read_at_most_once_never_comes_again(kafka_servers: str) -> None:
    topic = new_topic(kafka_servers)
    publish(kafka_servers, topic, ["a", "b", "c"])
    with receiving_server(kafka_servers) as server:
        first = BlockingConnection(server.url, timeout=60)
        link = first.create_receiver(topic, credit=10, options=[Queue(), AtMostOnce()])
        message = link.receive(60)
        assert bytes(message.body) == b"a"
        first.close()
        publish(kafka_servers, topic, ["d"])
        second = BlockingConnection(server.url, timeout=60)
        assert take(second.create_receiver(topic, credit=10, options=Queue())) == "d"
        second.close()


def test_what_a_producer_rolled_back_is_not_in_a_queue(kafka_servers: str) -> None:
    topic = new_topic(kafka_servers)
    producer = Producer({"bootstrap.servers": kafka_servers, "transactional.id": topic}, logger=QUIET)
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, "rolled back")
    producer.flush(20)
    producer.abort_transaction(30)
    publish(kafka_servers, topic, ["kept"])
    with receiving_server(kafka_servers) as server:
        connection = BlockingConnection(server.url, timeout=60)
        assert take(connection.create_receiver(topic, credit=10, options=Queue())) == "kept"
        connection.close()


def test_a_dynamic_source_is_a_temporary_queue_that_goes_with_its_link(kafka_servers: str) -> None:
    with receiving_server(kafka_servers) as server:
        one, other = BlockingConnection(server.url, timeout=60), BlockingConnection(server.url, timeout=60)
        link = one.create_receiver(None, credit=10, dynamic=True)
        address = link.link.remote_source.address
        answer(kafka_servers, server.temporary_topic, address, "for you")
        message = link.receive(60)
        assert message.body == "for you"
        link.accept()
        other.create_receiver(address).close()
        link.close()
        with pytest.raises(LinkDetached, match="amqp:not-found"):
            one.create_receiver(address)
        one.close()
        other.close()


def test_what_is_undeliverable_at_one_receiver_goes_to_the_next_and_not_back(kafka_servers: str) -> None:
    topic = new_topic(kafka_servers)
    publish(kafka_servers, topic, ["a", "b"])
    with receiving_server(kafka_servers) as server:
        connection = BlockingConnection(server.url, timeout=60)
        link = connection.create_receiver(topic, credit=1, options=Queue())
        message = link.receive(60)
        assert bytes(message.body) == b"a"
        link.fetcher.unsettled[0].local.undeliverable = True
        link.settle(ProtonDelivery.MODIFIED)
        assert take(link) == "b"
        other = connection.create_receiver(topic, credit=1, options=Queue(), name="other")
        message = other.receive(60)
        assert bytes(message.body) == b"a"
        assert message.delivery_count == 0
        other.accept()
        connection.close()


def test_a_message_that_is_held_longer_than_kafka_s_lock_is_accepted_and_over(tmp_path: Path) -> None:
    lock_ms = str(round(LOCK_S * 1000))
    overrides = dict.fromkeys(
        ["group.share.record.lock.duration.ms", "group.share.min.record.lock.duration.ms"], lock_ms
    )
    with EmbeddedKafka(tmp_path, overrides=overrides) as kafka:
        servers = kafka.bootstrap_servers
        topic = new_topic(servers)
        publish(servers, topic, ["a"])
        with receiving_server(servers) as server, receiving_server(servers) as another:
            connection = BlockingConnection(server.url, timeout=60)
            link = connection.create_receiver(topic, credit=1, options=Queue())
            message = link.receive(60)
            assert bytes(message.body) == b"a"
            elsewhere = BlockingConnection(another.url, timeout=60)
            waiting = elsewhere.create_receiver(topic, credit=10, options=Queue())
            with pytest.raises(Timeout):
                waiting.receive(2 * LOCK_S)
            link.accept()
            publish(servers, topic, ["b"])
            assert take(waiting) == "b"
            connection.close()
            elsewhere.close()
            assert server.outgoing_links.not_acknowledged == 0
