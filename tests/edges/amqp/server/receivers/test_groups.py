"""Receivers of a consumer group, with proton's client and a real Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import pytest

proton = pytest.importorskip("proton", reason="python-qpid-proton is not installed")

from proton import int32, symbol, ulong  # noqa: E402
from proton.reactor import AtMostOnce, Filter, LinkOption  # noqa: E402
from proton.utils import BlockingConnection, BlockingReceiver, LinkDetached  # noqa: E402
from tests.support.amqp.kafka_server import ServerOnKafka, receiving_server  # noqa: E402
from tests.support.amqp.wire import Wire  # noqa: E402
from tests.support.kafka.topics import committed, new_topic, publish  # noqa: E402
from tests.support.polling import eventually  # noqa: E402

from isthmus.converters import ReceivedRecord  # noqa: E402
from isthmus.edges.amqp.protocol import Delivery  # noqa: E402
from isthmus.edges.amqp.protocol.terms import Accepted, Source  # noqa: E402
from isthmus.errors import SoftFailure  # noqa: E402


@pytest.fixture(scope="module")
def server(kafka_servers: str) -> Iterator[ServerOnKafka]:
    with receiving_server(kafka_servers) as server:
        yield server


@contextmanager
def receiver(
    server: ServerOnKafka, address: str, credit: int = 10, options: Any = None
) -> Iterator[BlockingReceiver]:
    connection = BlockingConnection(server.url, timeout=60)
    try:
        yield connection.create_receiver(address, credit=credit, options=options)
    finally:
        connection.close()


def take(link: BlockingReceiver, count: int) -> list[str]:
    bodies = []
    for _ in range(count):
        message = link.receive(60)  # held on to, since the body is a view of its memory
        bodies.append(bytes(message.body).decode())
        link.accept()
    return bodies


def test_a_group_gets_what_is_in_the_topic_and_commits_it(server: ServerOnKafka, kafka_servers: str) -> None:
    topic = new_topic(kafka_servers)
    publish(kafka_servers, topic, ["a", "b", "c"])
    with receiver(server, f"{topic}/group.id/g") as link:
        assert take(link, 3) == ["a", "b", "c"]
        publish(kafka_servers, topic, ["d"])
        assert take(link, 1) == ["d"]
    eventually(lambda: committed(kafka_servers, topic, "g") == 4, timeout_s=20)


def test_what_is_sent_to_receivers_and_who_comes_and_goes_is_counted(
    server: ServerOnKafka, kafka_servers: str
) -> None:
    topic = new_topic(kafka_servers)
    publish(kafka_servers, topic, ["a", "b", "c"])
    stats = server.amqp.stats
    before = asdict(stats)
    with receiver(server, f"{topic}/group.id/g") as link:
        take(link, 3)
    eventually(lambda: stats.disconnects == before["disconnects"] + 1, timeout_s=10)
    assert (stats.delivered - before["delivered"], stats.connects - before["connects"]) == (3, 1)


def test_a_message_tells_where_it_lies_and_where_it_was_sent(
    server: ServerOnKafka, kafka_servers: str
) -> None:
    topic = new_topic(kafka_servers)
    publish(kafka_servers, topic, ["a"])
    with receiver(server, f"{topic}/group.id/g") as link:
        message = link.receive(60)
        assert message.address == f"{topic}/group.id/g"
        assert message.annotations == {
            "x-opt-bridge.partition": 0,
            "x-opt-bridge.offset": 0,
            "x-opt-bridge.key": None,
            "x-opt-bridge.topic": topic,
        }
        assert link.fetcher.unsettled[0].tag == "0_0"


def test_more_than_one_window_of_credit_comes(server: ServerOnKafka, kafka_servers: str) -> None:
    topic = new_topic(kafka_servers)
    publish(kafka_servers, topic, [str(n) for n in range(100)])
    with receiver(server, f"{topic}/group.id/g", credit=7) as link:
        assert take(link, 100) == [str(n) for n in range(100)]


def test_what_was_not_settled_comes_again_to_the_next(server: ServerOnKafka, kafka_servers: str) -> None:
    topic = new_topic(kafka_servers)
    publish(kafka_servers, topic, ["a", "b"])
    with receiver(server, f"{topic}/group.id/g") as link:
        assert take(link, 1) == ["a"]
        link.receive(60)
    with receiver(server, f"{topic}/group.id/g") as link:
        assert take(link, 1) == ["b"]


def test_what_is_released_comes_again(server: ServerOnKafka, kafka_servers: str) -> None:
    topic = new_topic(kafka_servers)
    publish(kafka_servers, topic, ["a"])
    with receiver(server, f"{topic}/group.id/g") as link:
        assert link.receive(60).delivery_count == 0
        link.release(delivered=False)
        assert link.receive(60).delivery_count == 0
        link.release(delivered=True)  # modified, but not as failed
        assert link.receive(60).delivery_count == 0
        link.fetcher.unsettled[0].local.failed = True
        link.release(delivered=True)
        assert link.receive(60).delivery_count == 1
        assert committed(kafka_servers, topic, "g") < 0
        link.accept()
    eventually(lambda: committed(kafka_servers, topic, "g") == 1, timeout_s=20)


def test_what_is_rejected_is_put_away_and_done_with(kafka_servers: str) -> None:
    topic = new_topic(kafka_servers)
    publish(kafka_servers, topic, ["a", "b"])
    kept: list[tuple[bytes | None, str]] = []

    async def keep(record: ReceivedRecord, failure: SoftFailure) -> None:
        kept.append((record.value, failure.code))

    with (
        receiving_server(kafka_servers, undeliverable=keep) as server,
        receiver(server, f"{topic}/group.id/g") as link,
    ):
        link.receive(60)
        link.reject()
        assert take(link, 1) == ["b"]
    assert committed(kafka_servers, topic, "g") == 2
    assert kept == [(b"a", "refused")]


def test_a_malformed_record_does_not_end_the_receiver(kafka_servers: str) -> None:
    topic = new_topic(kafka_servers)
    publish(kafka_servers, topic, ["no json", '{"body":{"type":"amqpValue","section":"fine"}}'])
    with receiving_server(kafka_servers, "json") as server, receiver(server, f"{topic}/group.id/g") as link:
        assert link.receive(60).body == "fine"
        link.accept()
    assert committed(kafka_servers, topic, "g") == 2


def test_at_most_once_is_committed_before_it_is_sent(server: ServerOnKafka, kafka_servers: str) -> None:
    topic = new_topic(kafka_servers)
    publish(kafka_servers, topic, ["a", "b"])
    with receiver(server, f"{topic}/group.id/g", credit=1, options=AtMostOnce()) as link:
        link.receive(60)
        assert not link.fetcher.unsettled
        assert committed(kafka_servers, topic, "g") >= 1


def test_commits_go_as_far_as_nothing_is_missing(server: ServerOnKafka, kafka_servers: str) -> None:
    topic = new_topic(kafka_servers)
    publish(kafka_servers, topic, [str(n) for n in range(4)])
    with Wire(server.port) as wire:
        link = wire.open().engine.begin().receiver("in")
        link.attach(source=Source(f"{topic}/group.id/g"), target=None)
        link.grant(4)
        found = [wire.until(Delivery) for _ in range(4)]
        found[2].settle(Accepted())
        found[3].settle(Accepted())
        found[0].settle(Accepted())
        eventually(lambda: wire.pump() or committed(kafka_servers, topic, "g") == 1, timeout_s=20)
        found[1].settle(Accepted())
        eventually(lambda: wire.pump() or committed(kafka_servers, topic, "g") == 4, timeout_s=20)


def test_drain_gives_what_there_is_and_then_the_credit_back(
    server: ServerOnKafka, kafka_servers: str
) -> None:
    topic = new_topic(kafka_servers)
    publish(kafka_servers, topic, ["a", "b", "c"])
    with Wire(server.port) as wire:
        link = wire.open().engine.begin().receiver("in")
        link.attach(source=Source(f"{topic}/group.id/g"), target=None)
        link.grant(100)
        link.ask_to_drain()
        wire.wait(lambda: link.credit == 0 and not link.drain, timeout_s=20)
        assert sum(isinstance(event, Delivery) for event in wire.events) == 3


def place(partition: int, offset: int | None = None) -> list[LinkOption]:
    filters = {symbol("io.strimzi:partition-filter:int"): int32(partition)}
    if offset is not None:
        filters[symbol("io.strimzi:offset-filter:long")] = ulong(offset)
    return [Filter(filters)]


def test_a_partition_and_offset_can_be_chosen(server: ServerOnKafka, kafka_servers: str) -> None:
    topic = new_topic(kafka_servers, partitions=2)
    publish(kafka_servers, topic, ["x"], partition=0)
    publish(kafka_servers, topic, ["a", "b", "c"], partition=1)
    with receiver(server, f"{topic}/group.id/g", options=place(1, 1)) as link:
        assert take(link, 2) == ["b", "c"]
        link.close()  # is answered when what was accepted is committed
    with receiver(server, f"{topic}/group.id/g", options=place(1)) as link:
        publish(kafka_servers, topic, ["d"], partition=1)
        assert take(link, 1) == ["d"]


def test_a_partition_that_is_not_there_is_refused(server: ServerOnKafka, kafka_servers: str) -> None:
    topic = new_topic(kafka_servers)
    with (
        pytest.raises(LinkDetached, match=r"io\.strimzi:partition-not-exists"),
        receiver(server, f"{topic}/group.id/g", options=place(5)),
    ):
        pass


def test_a_topic_that_is_not_there_is_not_found(kafka_servers: str) -> None:
    with (
        receiving_server(kafka_servers, auto_create=False) as server,
        pytest.raises(LinkDetached, match="amqp:not-found"),
        receiver(server, "nowhere/group.id/g"),
    ):
        pass


def test_a_receiver_beyond_the_partitions_waits_and_takes_over(
    server: ServerOnKafka, kafka_servers: str
) -> None:
    topic = new_topic(kafka_servers)
    publish(kafka_servers, topic, ["a"])
    first = BlockingConnection(server.url, timeout=60)
    link = first.create_receiver(f"{topic}/group.id/g", credit=1)
    assert take(link, 1) == ["a"]
    with receiver(server, f"{topic}/group.id/g") as second:
        first.close()
        publish(kafka_servers, topic, ["b"])
        assert take(second, 1) == ["b"]
