"""The converters in the running router: direct routes, what senders ask for, and classes of users' own."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import NamedTuple

import pytest
from pyspark.sql import SparkSession
from tests.support.pipeline.bridge import TestBridge
from tests.support.polling import eventually

from isthmus import AmqpMessage, AmqpValue, Data, KafkaRecord, MessageProperties, ReceivedRecord
from isthmus.codecs.amqp import Symbol
from isthmus.codecs.jms import to_message
from isthmus.converters.conversion_headers import conversion_headers
from isthmus.errors import ConversionFailure
from isthmus.journal.layout import Entry, Op, Record
from isthmus.journal.writer import Position
from isthmus.kafka.blocking import create_topics, read_topic
from isthmus.pipeline.prepare import prepare
from isthmus.pipeline.publish import start_router
from isthmus.routing.counts import BatchCounts
from isthmus.routing.plan import Outcome
from isthmus.routing.route import OnError


def entry(address: str, message: AmqpMessage) -> Entry:
    """What intake writes for a message that was sent to the address."""
    indexed = to_message(message.encode(), target=address, fallback_id="made-up")
    return Entry(Op.ADD, indexed, conversion=conversion_headers(indexed, json=True))


def asking(body: str, **annotations: object) -> AmqpMessage:
    named = {Symbol(f"x-opt-bridge.{name}"): value for name, value in annotations.items()}
    return AmqpMessage(message_annotations=named, body=AmqpValue(body))


ORDER = AmqpMessage(
    properties=MessageProperties(message_id="m-1", subject="order"),
    application_properties={"region": "EU", "count": 7},
    body=AmqpValue({"total": 12.5}),
)


WANTED = [(number % 8, f"key-{number}") for number in range(20)]
OF_NATS = Entry(Op.ADD, replace(entry("raw", ORDER).message, protocol="nats"))


class Converted(NamedTuple):
    """A bridge that has converted all that was sent."""

    bridge: TestBridge
    counts: BatchCounts
    positions: dict[str, Position]

    def letters(self, route: str) -> list[Record]:
        named = [(record, dict(record.headers)) for record in self.bridge.records("dead")]
        return [record for record, headers in named if headers["isthmus.error.route"] == route.encode()]


@pytest.fixture(scope="module")
def converted(spark: SparkSession, kafka_servers: str, tmp_path_factory: pytest.TempPathFactory) -> Converted:
    bridge = TestBridge(kafka_servers, tmp_path_factory.mktemp("conversion"))
    bridge.make_topics("default", "json", "raw", "direct.topic", "dead")
    create_topics(bridge.kafka, [bridge.name("eight")], 8)
    routes = [
        replace(bridge.route(name, f"msg.address=={name}", name), convert=name)
        for name in ("default", "json", "raw")
    ]
    settings = bridge.settings(
        *routes, on_error=OnError.DEAD_LETTER, dead_letter_topic=bridge.name("dead")
    ).replace(message_convert="default")
    slashed = bridge.name("direct.topic").replace(".topic", "/topic")
    sent = [
        entry("default", ORDER),
        entry("json", ORDER),
        entry("raw", ORDER),
        entry("json", ORDER)._replace(conversion=()),
        OF_NATS,
        entry(slashed, asking("two")),
        *(entry(slashed, asking("x", partition=place)) for place in (2, 99)),
        *(entry(bridge.name("eight"), asking("x", partition=place, key=key)) for place, key in WANTED),
    ]
    positions = bridge.write(sent, settings)
    counts = bridge.run(spark, settings)
    return Converted(bridge, counts, dict(zip(("default", "json", "raw"), positions, strict=False)))


@pytest.mark.parametrize("convert", ["default", "json", "raw"])
def test_a_route_publishes_what_its_converter_makes(converted: Converted, convert: str) -> None:
    [record] = converted.bridge.records(convert)
    assert record.key == b"ID:AMQP_NO_PREFIX:m-1"
    match convert:
        case "default":
            assert record.value == b'{"total":12.5}'
        case "raw":
            assert record.value == ORDER.encode()
        case _:
            document = json.loads(record.value or b"")
            assert document["properties"] == {"messageId": "m-1", "subject": "order"}
            assert document["applicationProperties"] == {"region": "EU", "count": 7}
            assert document["body"] == {"type": "amqpValue", "section": {"total": 12.5}}
    assert dict(record.headers) == {
        "jmsbridge.origin": converted.bridge.id.encode(),
        "isthmus.id": str(converted.positions[convert]).encode(),
    }


def test_an_address_that_no_route_takes_names_its_topic(converted: Converted) -> None:
    [record] = converted.bridge.records("direct.topic")
    assert (record.key, record.value) == (None, b"two")
    assert [route.success for route in converted.counts.routes] == [1, 1, 1, 1 + len(WANTED)]


def test_a_sender_chooses_partition_and_key(converted: Converted) -> None:
    topic = read_topic(converted.bridge.kafka, converted.bridge.name("eight"))
    arrived = [(record.partition(), record.key()) for record in topic]
    assert sorted(arrived) == sorted((place, key.encode()) for place, key in WANTED)


def test_a_partition_that_is_not_there_is_a_soft_failure(converted: Converted) -> None:
    assert [route.failure for route in converted.counts.routes] == [0, 1, 1, 2]
    assert converted.counts.outcomes[Outcome.DEAD_LETTERED] == 4


def test_a_message_without_what_json_needs_is_a_soft_failure(converted: Converted) -> None:
    [letter] = converted.letters("json")
    assert dict(letter.headers)["isthmus.error.code"] == b"conversion"
    assert letter.value == ORDER.encode()


def test_a_message_of_another_protocol_has_no_raw_form(converted: Converted) -> None:
    [letter] = converted.letters("raw")
    assert dict(letter.headers)["isthmus.error.code"] == b"conversion"


class Shouting:
    """A converter of a user's own."""

    def to_kafka_record(self, message: AmqpMessage) -> KafkaRecord:
        match message.body:
            case AmqpValue(str() as text) if text == "quiet":
                raise ConversionFailure("too quiet")
            case AmqpValue(str() as text) if text == "far":
                return KafkaRecord(2**40, text, b"")
            case AmqpValue(str() as text):
                return KafkaRecord(0, text, text.upper().encode(), [("shouted", b"yes")])
            case _:
                raise ValueError("not a text")

    def to_amqp_message(self, address: str, record: ReceivedRecord) -> AmqpMessage:
        raise ConversionFailure("one way only")


def test_a_class_of_the_users_own_converts_in_micro_batches(spark: SparkSession, bridge: TestBridge) -> None:
    bridge.make_topics("out", "dead", "plain")
    own = f"{Shouting.__module__}:{Shouting.__qualname__}"
    settings = bridge.settings(
        replace(bridge.route("own", "msg.address==a", "out"), convert=own),
        bridge.route("plain", "msg.address==b", "plain"),
        on_error=OnError.DEAD_LETTER,
        dead_letter_topic=bridge.name("dead"),
    )
    messages = [entry("a", asking(body)) for body in ("hello", "quiet", "far")]
    bridge.write([*messages, entry("a", AmqpMessage(body=Data((b"x",)))), entry("b", asking("p"))], settings)
    assert settings.pipeline.mode == "real-time"
    plan, _ = prepare(settings, bridge.kafka)
    query = start_router(spark, bridge.kafka, plan, settings.pipeline, str(bridge.folder / "checkpoint"))
    try:
        arrived = ("dead", "out", "plain")
        eventually(lambda: sum(len(bridge.records(topic)) for topic in arrived) == 5, timeout_s=60)
    finally:
        query.stop()

    assert bridge.bodies("plain") == ["p"]
    [record] = bridge.records("out")
    assert (record.key, record.value) == (b"hello", b"HELLO")
    assert record.headers[0] == ("shouted", b"yes")
    errors = sorted(dict(letter.headers)["isthmus.error.message"] or b"" for letter in bridge.records("dead"))
    assert errors[0] == b"Shouting raised ValueError: not a text"
    assert errors[1].startswith(b"the converter made what is no Kafka record: ")
    assert errors[2:] == [b"too quiet"]
