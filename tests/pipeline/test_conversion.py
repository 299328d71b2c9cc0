"""The converters in the running router: direct routes, what senders ask for, and classes of users' own."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession
from tests.pipeline.bridge import TestBridge
from tests.polling import eventually

from isthmus import AmqpMessage, AmqpValue, Data, KafkaRecord, MessageProperties, ReceivedRecord
from isthmus.codecs.amqp import Symbol
from isthmus.codecs.jms import to_message
from isthmus.config import Settings
from isthmus.converters.conversion_headers import conversion_headers
from isthmus.errors import ConversionFailure
from isthmus.journal.layout import Entry, Op
from isthmus.kafka import create_topics, read_topic
from isthmus.message import Message
from isthmus.pipeline.prepare import prepare
from isthmus.pipeline.publish import start_router
from isthmus.routing.plan import Outcome
from isthmus.routing.route import OnError


def entry(address: str, message: AmqpMessage) -> Entry:
    """What intake writes for a message that was sent to the address."""
    indexed = to_message(message.encode(), target=address, fallback_id="made-up")
    return Entry(Op.ADD, indexed, conversion=conversion_headers(indexed, json=True))


def asking(body: str, **annotations: object) -> AmqpMessage:
    named = {Symbol(f"x-opt-bridge.{name}"): value for name, value in annotations.items()}
    return AmqpMessage(message_annotations=named, body=AmqpValue(body))


def direct(bridge: TestBridge, convert: str, **routing: object) -> Settings:
    return bridge.settings(**routing).model_copy(update={"message_convert": convert})


ORDER = AmqpMessage(
    properties=MessageProperties(message_id="m-1", subject="order"),
    application_properties={"region": "EU", "count": 7},
    body=AmqpValue({"total": 12.5}),
)


@pytest.mark.parametrize("convert", ["default", "json", "raw"])
def test_a_route_publishes_what_its_converter_makes(
    spark: SparkSession, bridge: TestBridge, convert: str
) -> None:
    bridge.make_topics("out")
    settings = bridge.settings(replace(bridge.route("r", "msg.address==a", "out"), convert=convert))
    [position] = bridge.write([entry("a", ORDER)], settings)

    bridge.run(spark, settings)

    [record] = bridge.records("out")
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
        "jmsbridge.origin": bridge.id.encode(),
        "isthmus.id": str(position).encode(),
    }


def test_an_address_that_no_route_takes_names_its_topic(spark: SparkSession, bridge: TestBridge) -> None:
    bridge.make_topics("out", "direct.topic")
    settings = bridge.settings(bridge.route("r", "msg.address==a", "out"))
    settings = settings.model_copy(update={"message_convert": "default"})
    address = bridge.name("direct.topic").replace(".topic", "/topic")
    bridge.write([entry("a", asking("one")), entry(address, asking("two"))], settings)

    counts = bridge.run(spark, settings)

    assert bridge.bodies("out") == ["one"]
    [record] = bridge.records("direct.topic")
    assert (record.key, record.value) == (None, b"two")
    assert [route.success for route in counts.routes] == [1, 1]


def test_a_sender_chooses_partition_and_key(spark: SparkSession, bridge: TestBridge) -> None:
    topic = bridge.name("out")
    create_topics(bridge.kafka, [topic], 8)
    settings = direct(bridge, "default")
    wanted = [(number % 8, f"key-{number}") for number in range(20)]
    bridge.write([entry(topic, asking("x", partition=place, key=key)) for place, key in wanted], settings)

    bridge.run(spark, settings)

    arrived = [(record.partition(), record.key()) for record in read_topic(bridge.kafka, topic)]
    assert sorted(arrived) == sorted((place, key.encode()) for place, key in wanted)


def test_a_partition_that_is_not_there_is_a_soft_failure(spark: SparkSession, bridge: TestBridge) -> None:
    topic = bridge.name("out")
    create_topics(bridge.kafka, [topic], 2)
    settings = direct(bridge, "raw", on_error=OnError.SKIP)
    bridge.write([entry(topic, asking("x", partition=place)) for place in (0, 1, 2, 99)], settings)

    counts = bridge.run(spark, settings)

    assert len(bridge.records("out")) == 2
    assert counts.outcomes[Outcome.SKIPPED] == 2


def test_a_message_without_what_json_needs_is_a_soft_failure(spark: SparkSession, bridge: TestBridge) -> None:
    bridge.make_topics("out", "dead")
    settings = bridge.settings(
        replace(bridge.route("r", "msg.address==a", "out"), convert="json"),
        on_error=OnError.DEAD_LETTER,
        dead_letter_topic=bridge.name("dead"),
    )
    bridge.write([replace_conversion(entry("a", ORDER))], settings)

    bridge.run(spark, settings)

    assert bridge.records("out") == []
    [letter] = bridge.records("dead")
    assert dict(letter.headers)["isthmus.error.code"] == b"conversion"
    assert letter.value == ORDER.encode()


def replace_conversion(complete: Entry) -> Entry:
    return complete._replace(conversion=())


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
    bodies = ["hello", "quiet", "far"]
    messages = [entry("a", asking(body)) for body in bodies]
    bridge.write([*messages, entry("a", AmqpMessage(body=Data((b"x",)))), entry("b", asking("p"))], settings)

    bridge.run(spark, settings)

    [record] = bridge.records("out")
    assert (record.key, record.value) == (b"hello", b"HELLO")
    assert record.headers[0] == ("shouted", b"yes")
    assert bridge.bodies("plain") == ["p"]
    errors = sorted(dict(letter.headers)["isthmus.error.message"] or b"" for letter in bridge.records("dead"))
    assert errors[0] == b"Shouting raised ValueError: not a text"
    assert errors[1].startswith(b"the converter made what is no Kafka record: ")
    assert errors[2:] == [b"too quiet"]


def test_such_a_class_runs_in_micro_batch_mode(spark: SparkSession, bridge: TestBridge) -> None:
    bridge.make_topics("out")
    own = f"{Shouting.__module__}:{Shouting.__qualname__}"
    settings = bridge.settings(replace(bridge.route("own", "msg.address==a", "out"), convert=own))
    plan, _ = prepare(settings, bridge.kafka)
    bridge.write([entry("a", asking("one"))], settings)
    assert settings.pipeline.mode == "real-time"
    query = start_router(spark, bridge.kafka, plan, settings.pipeline, str(bridge.folder / "checkpoint"))
    try:
        eventually(lambda: bridge.bodies("out") == ["ONE"], timeout_s=60)
    finally:
        query.stop()


def test_a_message_of_another_protocol_has_no_raw_form(spark: SparkSession, bridge: TestBridge) -> None:
    bridge.make_topics("out")
    settings = bridge.settings(
        replace(bridge.route("r", "msg.address==a", "out"), convert="raw"), on_error=OnError.SKIP
    )
    sent: Message = replace(entry("a", ORDER).message, protocol="nats")
    bridge.write([Entry(Op.ADD, sent)], settings)

    counts = bridge.run(spark, settings)

    assert counts.outcomes[Outcome.SKIPPED] == 1
