"""Qpid JMS sends through the AMQP server, and a real Kafka has it all."""

from __future__ import annotations

import pytest
from tests.support.amqp.kafka_server import ServerOnKafka
from tests.support.amqp.server import RunningServer
from tests.support.jms.qpid import QpidJms
from tests.support.journals import refusing
from tests.support.kafka.topics import batches
from tests.support.names import unique
from tests.support.polling import eventually

from isthmus.codecs.amqp import decode_values
from isthmus.errors import HardFailure, OversizeFailure
from isthmus.journal.layout import Entry, Op
from isthmus.message import BodyKind


def address() -> str:
    return unique("orders")


def body(entry: Entry) -> bytes | None:
    return entry.message.body.slice(entry.message.value)


def test_every_kind_of_message_is_in_the_journal(kafka_server: ServerOnKafka, qpid: QpidJms) -> None:
    where = address()
    assert qpid.run(kafka_server.url, "kinds", where) == ["done"]
    text, octets, mapping, stream, serialized, empty = kafka_server.entries()
    assert [each.message.body.kind for each in (text, octets, mapping, stream, serialized, empty)] == [
        BodyKind.TEXT, BodyKind.BYTES, BodyKind.MAP, BodyKind.STREAM, BodyKind.OBJECT, BodyKind.EMPTY,
    ]  # fmt: skip
    assert body(text) == "Grüße".encode()
    assert text.message.headers["region"].text == "EU"
    assert text.message.headers["count"].value == 7
    assert text.message.headers["CorrelationId"].text == "order-1"
    assert text.message.headers["DeliveryMode"].text == "PERSISTENT"
    assert body(octets) == b"\x00\x01\xff"
    assert decode_values(body(mapping) or b"") == [{"number": 5, "name": "x"}]
    assert decode_values(body(stream) or b"") == [[1, "two"]]
    assert (body(serialized) or b"").startswith(b"\xac\xed")
    assert {each.message.address for each in (text, octets, mapping)} == {where}


def test_synchronous_sends_arrive_in_order(kafka_server: ServerOnKafka, qpid: QpidJms) -> None:
    assert qpid.run(kafka_server.url, "sync", address(), 200)[-1] == "done"
    assert [body(entry) for entry in kafka_server.entries()] == [f"message {n}".encode() for n in range(200)]


def test_asynchronous_sends_all_complete_and_arrive_in_order(
    kafka_server: ServerOnKafka, qpid: QpidJms
) -> None:
    lines = qpid.run(kafka_server.url, "async", address(), 5000)
    assert lines[-2:] == ["failed 0", "done"]
    assert [body(entry) for entry in kafka_server.entries()] == [f"message {n}".encode() for n in range(5000)]


@pytest.mark.parametrize("sync", ["false", "true"])
def test_a_committed_transaction_is_one_batch_of_plain_records(
    kafka_server: ServerOnKafka, qpid: QpidJms, kafka_servers: str, sync: str
) -> None:
    url = f"{kafka_server.url}?jms.forceSyncSend={sync}"
    assert qpid.run(url, "commit", address(), 50) == ["done"]
    entries = kafka_server.entries()
    assert {(entry.op, entry.transaction) for entry in entries} == {(Op.ADD, None)}
    assert [body(entry) for entry in entries] == [f"message {n}".encode() for n in range(50)]
    [together] = batches(kafka_servers, kafka_server.topic, 4)
    assert together == [entry.message.value for entry in entries]


def test_a_transaction_that_is_too_large_for_a_batch_has_its_sequence_and_its_outcome(
    kafka_server: ServerOnKafka, qpid: QpidJms
) -> None:
    assert qpid.run(kafka_server.url, "commit", address(), 5000) == ["done"]
    *sends, outcome = kafka_server.entries()[:5001]
    assert {entry.op for entry in sends} == {Op.ADD_TX}
    assert [entry.sequence for entry in sends] == list(range(5000))
    assert [body(entry) for entry in sends] == [f"message {n}".encode() for n in range(5000)]
    assert (outcome.op, outcome.sequence) == (Op.COMMIT, 5000)
    assert {(entry.transaction, entry.message.session) for entry in sends} == {
        (outcome.transaction, outcome.message.session)
    }


def test_a_transaction_that_is_rolled_back_leaves_nothing(kafka_server: ServerOnKafka, qpid: QpidJms) -> None:
    assert qpid.run(kafka_server.url, "rollback", address(), 5) == ["done"]
    assert kafka_server.entries() == []


def test_jms_tells_a_commit_in_doubt_from_one_rolled_back(qpid: QpidJms) -> None:
    with RunningServer() as server:
        server.memory.refuse = refusing(OversizeFailure("too large"))
        [said] = qpid.run(server.url, "commit", "orders", 3)
        assert "rolled back" in said
        assert "amqp:transaction:rollback" in said
        server.memory.refuse = refusing(HardFailure("no answer", remedy="none", in_doubt=True))
        [said] = qpid.run(server.url, "commit", "orders", 3)
        assert said.startswith("JMSException")
        assert "whether the transaction is committed is not known" in said


def test_a_client_that_is_killed_leaves_nothing(kafka_server: ServerOnKafka, qpid: QpidJms) -> None:
    with qpid.start(kafka_server.url, "hang", address(), 5) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "sent\n"
        program.kill()
    eventually(lambda: kafka_server.amqp.connections == 0, timeout_s=20)
    assert kafka_server.entries() == []


def test_an_anonymous_producer_reaches_every_destination(kafka_server: ServerOnKafka, qpid: QpidJms) -> None:
    where = address()
    assert qpid.run(kafka_server.url, "anonymous", where, 10) == ["done"]
    assert [entry.message.address for entry in kafka_server.entries()] == [
        f"{where}.{n % 2}" for n in range(10)
    ]


def test_a_destination_that_only_a_message_names_has_one_partition_as_any_of_jms(
    kafka_server: ServerOnKafka, qpid: QpidJms
) -> None:
    assert qpid.run(kafka_server.url, "anonymous", address(), 1) == ["done"]
    [entry] = kafka_server.entries()
    assert entry.topic is not None
    assert entry.topic.partitions == 1


def test_a_name_that_no_topic_can_have_is_an_error_for_jms(
    kafka_server: ServerOnKafka, qpid: QpidJms
) -> None:
    [said] = qpid.run(kafka_server.url, "sync", "not a topic!", 1)
    assert said.startswith("InvalidDestinationException")
    assert "amqp:not-found" in said
