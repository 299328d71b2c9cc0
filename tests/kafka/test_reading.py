"""What is read of topics from a time on."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Producer
from tests.support.kafka.topics import new_topic, publish

from isthmus.embedded.ports import free_port
from isthmus.errors import Outage
from isthmus.kafka.blocking import QUIET, end_offsets, offsets_at, read_between
from isthmus.kafka.options import Kafka


def at(servers: str, topic: str, time_ms: int, *values: str) -> None:
    """Write values that are so old to partition 0."""
    producer = Producer({"bootstrap.servers": servers}, logger=QUIET)
    for value in values:
        producer.produce(topic, value, partition=0, timestamp=time_ms)
    assert producer.flush(60) == 0


def values(kafka: Kafka, topics: list[str], time_ms: int) -> list[bytes]:
    ends = end_offsets(kafka, topics)
    found = read_between(kafka, offsets_at(kafka, ends, time_ms), ends)
    return sorted(bytes(record.value() or b"") for record in found)


def test_records_are_read_from_a_time_on_in_all_partitions(kafka_servers: str) -> None:
    kafka, first, second = Kafka(kafka_servers), new_topic(kafka_servers, 2), new_topic(kafka_servers)
    now = round(time.time() * 1000)
    at(kafka_servers, first, now - 60_000, "old")
    at(kafka_servers, second, now - 60_000, "old too")
    at(kafka_servers, first, now, "a", "b")
    publish(kafka_servers, first, ["c"], partition=1)
    assert values(kafka, [first, second, "not-there"], now - 1_000) == [b"a", b"b", b"c"]
    assert values(kafka, [first, second], now + 60_000) == []
    assert values(kafka, [], now) == []
    assert end_offsets(kafka, [first, second, "not-there"]) == {(first, 0): 3, (first, 1): 1, (second, 0): 1}


def test_nothing_hides_behind_an_open_transaction(kafka_servers: str) -> None:
    kafka, topic = Kafka(kafka_servers), new_topic(kafka_servers)
    theirs = Producer({"bootstrap.servers": kafka_servers, "transactional.id": topic}, logger=QUIET)
    theirs.init_transactions(30)
    theirs.begin_transaction()
    theirs.produce(topic, b"theirs")
    theirs.flush(30)
    publish(kafka_servers, topic, ["ours"])
    assert values(kafka, [topic], 0) == [b"ours", b"theirs"]
    theirs.abort_transaction(30)
    assert b"ours" in values(kafka, [topic], 0)  # the end is the mark of the transaction, which is no record


def test_a_kafka_that_does_not_answer_is_an_outage() -> None:
    with pytest.raises(Outage, match="does not answer"):
        end_offsets(Kafka(f"127.0.0.1:{free_port()}"), ["any"])
