"""A walk through what a JMS message has, both ways with Qpid JMS: sent into the journal, and out of a topic.

In between the router is left out: what it would publish, the test does.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.support.amqp.kafka_server import ServerOnKafka, receiving_server
from tests.support.jms.qpid import QpidJms
from tests.support.kafka.topics import new_topic, produce

from isthmus.codecs.amqp import AmqpMessage
from isthmus.converters import converter
from isthmus.journal.layout import Entry, Record

HEADERS = [
    "mode not",
    "priority 8",
    "expires after 3600000",
    "correlation order-1, type greeting",
    "reply to answers, sent to {topic}",
    "group group 7",
    "delivery 1 false",
    "boolean Boolean true",
    "byte Byte -1",
    "double Double 0.1",
    "float Float 1.5",
    "int Integer -3",
    "long Long -9223372036854775808",
    "short Short -2",
    "string String ü",
]


@pytest.fixture(scope="module")
def sent(qpid: QpidJms, kafka_servers: str) -> Callable[[str], list[Entry]]:
    """What the journal has of the walk that was sent to a topic."""

    def send(topic: str) -> list[Entry]:
        with ServerOnKafka(kafka_servers) as server:
            assert qpid.run(server.url, "send", topic, program="Walk") == ["done"]
            return server.entries()

    return send


def walk(qpid: QpidJms, servers: str, topic: str, form: str, entries: list[Entry]) -> list[str]:
    """What Qpid JMS receives of a topic that has these messages in a form."""
    received = (AmqpMessage.decode(entry.message.value or b"") for entry in entries)
    records = (converter(form).to_kafka_record(message) for message in received)
    produce(servers, topic, *(Record(None, each.value, list(each.headers)) for each in records), partition=0)
    with receiving_server(servers, form) as server:
        trusting = f"{server.url}?jms.deserializationPolicy.allowList=java.util"
        return qpid.run(trusting, "receive", topic, len(entries), program="Walk")


def test_every_kind_of_message_header_and_property_comes_back_in_the_raw_form(
    qpid: QpidJms, kafka_servers: str, sent: Callable[[str], list[Entry]]
) -> None:
    topic = new_topic(kafka_servers)
    assert walk(qpid, kafka_servers, topic, "raw", sent(topic)) == [
        "text Grüße",
        *(line.format(topic=topic) for line in HEADERS),
        "bytes [0, 1, -1]",
        "bytes [65, 66]",
        "map 5 x [9] ü",
        "stream 1 two 3.0",
        "object [an, object]",
        "message",
        "done",
    ]


def test_text_bytes_and_all_headers_come_back_in_the_jms_form(
    qpid: QpidJms, kafka_servers: str, sent: Callable[[str], list[Entry]]
) -> None:
    topic = new_topic(kafka_servers)
    text, octets, readable, *_, empty = sent(topic)
    assert walk(qpid, kafka_servers, topic, "jms", [text, octets, readable, empty]) == [
        "text Grüße",
        *(line.format(topic=topic) for line in HEADERS),
        "bytes [0, 1, -1]",
        "bytes [65, 66]",
        "message",
        "done",
    ]
