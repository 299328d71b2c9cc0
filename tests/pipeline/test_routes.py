"""From the journal to Kafka topics, through a real Kafka and a real Spark."""

from __future__ import annotations

import time
from dataclasses import replace

from confluent_kafka import Producer
from pyspark.sql import SparkSession
from tests.pipeline.bridge import TestBridge, text_message

from isthmus.journal import layout
from isthmus.journal.layout import Entry, Op
from isthmus.message import Body, BodyKind, Header, HeaderType
from isthmus.routing.plan import Outcome
from isthmus.routing.route import OnError


def test_the_first_route_that_matches_takes_the_message(spark: SparkSession, bridge: TestBridge) -> None:
    bridge.make_topics("eu", "all")
    settings = bridge.settings(
        bridge.route("eu", "msg.address==orders && msg.header.region==EU", "eu"),
        bridge.route("all", "msg.address==orders", "all"),
    )
    bridge.write(
        [
            text_message("orders", "one", region="EU"),
            text_message("orders", "two", region="US"),
            text_message("orders", "three"),
            text_message("elsewhere", "four", region="EU"),
        ],
        settings,
    )

    counts = bridge.run(spark, settings)

    assert bridge.bodies("eu") == ["one"]
    assert bridge.bodies("all") == ["three", "two"]
    assert [route.success for route in counts.routes] == [1, 2]
    assert counts.outcomes[Outcome.UNMATCHED] == 1


def test_a_published_record_has_every_header_with_its_type(spark: SparkSession, bridge: TestBridge) -> None:
    bridge.make_topics("out")
    settings = bridge.settings(bridge.route("r", "msg.address==a", "out", key="CorrelationId"))
    message = text_message("a", "hello", CorrelationId="c-1", count=7, ratio=0.5, flag=True, blob=b"\x00\xff")
    message = replace(message, headers={**message.headers, "tiny": Header.of(-5, HeaderType.BYTE)})
    [position] = bridge.write([message], settings)

    bridge.run(spark, settings)

    [record] = bridge.records("out")
    assert record.key == b"c-1"
    assert record.value == b"hello"
    assert layout.decode_headers(record.headers) == message.headers
    published = dict(record.headers)
    assert published["jms.count"] == b"7"
    assert published["jmsbridge.origin"] == bridge.id.encode()
    assert published["isthmus.id"] == str(position).encode()
    assert [name for name in published if name.startswith("isthmus.")] == ["isthmus.id"]


def test_the_body_is_cut_out_of_the_message_as_it_arrived(spark: SparkSession, bridge: TestBridge) -> None:
    bridge.make_topics("out")
    settings = bridge.settings(bridge.route("r", "msg.address==a", "out"))
    whole = replace(text_message("a"), value=b"<<one>><<two>>")
    bridge.write(
        [
            replace(whole, body=layout.decode_body("text:2+3", whole.value)),
            replace(whole, body=layout.decode_body("bytes:2+3,9+3", whole.value)),
            replace(whole, body=Body(BodyKind.EMPTY)),
        ],
        settings,
    )

    bridge.run(spark, settings)

    assert sorted(record.value or b"null" for record in bridge.records("out")) == [b"null", b"one", b"onetwo"]


def test_without_a_key_the_message_id_is_the_key(spark: SparkSession, bridge: TestBridge) -> None:
    bridge.make_topics("out")
    settings = bridge.settings(bridge.route("r", "msg.address==a", "out"))
    message = text_message("a")
    bridge.write([message], settings)

    bridge.run(spark, settings)

    assert [record.key for record in bridge.records("out")] == [message.id.encode()]


def test_soft_failures_are_dead_lettered_with_all_they_had(spark: SparkSession, bridge: TestBridge) -> None:
    bridge.make_topics("out", "dead")
    settings = bridge.settings(
        bridge.route("r", "msg.address==a", "out", key="CorrelationId"),
        dead_letter_topic=bridge.name("dead"),
        on_error=OnError.DEAD_LETTER,
    )
    good = text_message("a", "good", CorrelationId="c")
    no_key = text_message("a", "no key")
    no_form = replace(text_message("a", "a map", CorrelationId="c"), body=Body(BodyKind.MAP))
    positions = bridge.write([good, no_key, no_form], settings)

    counts = bridge.run(spark, settings)

    assert bridge.bodies("out") == ["good"]
    letters = {record.value: record for record in bridge.records("dead")}
    assert set(letters) == {b"no key", b"a map"}
    headers = dict(letters[b"no key"].headers)
    assert headers["isthmus.error.code"] == b"key"
    assert headers["isthmus.error.message"] == b"no header CorrelationId"
    assert headers["isthmus.error.route"] == b"r"
    assert headers["isthmus.id"] == str(positions[1]).encode()
    assert letters[b"no key"].headers[: len(layout.INDEX)] == layout.encode(Entry(Op.ADD, no_key)).headers[:5]
    assert dict(letters[b"a map"].headers)["isthmus.error.code"] == b"conversion"
    assert counts.outcomes[Outcome.DEAD_LETTERED] == 2
    assert (counts.routes[0].success, counts.routes[0].failure) == (1, 2)


def test_a_route_may_have_a_policy_of_its_own(spark: SparkSession, bridge: TestBridge) -> None:
    bridge.make_topics("out", "dead")
    settings = bridge.settings(
        bridge.route("skips", "msg.address==a", "out", key="k", on_error=OnError.SKIP),
        bridge.route("buries", "msg.address==b", "out", key="k"),
        dead_letter_topic=bridge.name("dead"),
        on_error=OnError.DEAD_LETTER,
    )
    bridge.write([text_message("a", "skipped"), text_message("b", "buried")], settings)

    counts = bridge.run(spark, settings)

    assert bridge.bodies("dead") == ["buried"]
    assert bridge.records("out") == []
    assert counts.outcomes[Outcome.SKIPPED] == 1


def test_a_record_too_large_for_its_topic_is_a_soft_failure(spark: SparkSession, bridge: TestBridge) -> None:
    bridge.make_topics("small", config={"max.message.bytes": "2000"})
    bridge.make_topics("dead")
    settings = bridge.settings(
        bridge.route("r", "msg.address==a", "small"),
        dead_letter_topic=bridge.name("dead"),
        on_error=OnError.DEAD_LETTER,
    )
    fits = text_message("a", "x" * 1500)
    too_large = text_message("a", "y" * 5_000_000)
    large_headers = text_message("a", "z", note="n" * 3000)
    bridge.write([too_large, fits, large_headers], settings)

    counts = bridge.run(spark, settings)

    assert [len(body) for body in bridge.bodies("small")] == [1500]
    assert sorted(len(record.value or b"") for record in bridge.records("dead")) == [1, 5_000_000]
    assert counts.outcomes[Outcome.DEAD_LETTERED] == 2


def test_junk_in_the_journal_is_a_soft_failure(spark: SparkSession, bridge: TestBridge) -> None:
    bridge.make_topics("out", "dead")
    settings = bridge.settings(
        bridge.route("r", "msg.address==a", "out"),
        dead_letter_topic=bridge.name("dead"),
        on_error=OnError.DEAD_LETTER,
    )
    bridge.write([text_message("a", "fine")], settings)
    producer = Producer({"bootstrap.servers": bridge.kafka.servers})
    producer.produce(settings.journal.topic, key=b"k", value=b"junk", headers=[("x", b"y")])
    producer.produce(settings.journal.topic, key=b"k", value=b"bare junk")
    producer.produce(settings.journal.topic, key=b"gone", value=None)
    producer.flush()

    counts = bridge.run(spark, settings)

    assert bridge.bodies("out") == ["fine"]
    assert bridge.bodies("dead") == ["bare junk", "junk"]
    assert {dict(each.headers)["isthmus.error.code"] for each in bridge.records("dead")} == {b"malformed"}
    assert counts.outcomes[Outcome.PUBLISHED] == 1


def test_only_plain_adds_are_routed(spark: SparkSession, bridge: TestBridge) -> None:
    bridge.make_topics("out")
    settings = bridge.settings(bridge.route("r", "msg.address==a", "out"))
    in_transaction = Entry(Op.ADD_TX, text_message("a", "not yet"), "tx", 0)
    deleted = Entry(Op.DELETE, text_message("a", "gone"))
    bridge.write([in_transaction, deleted, text_message("a", "now")], settings)

    counts = bridge.run(spark, settings)

    assert bridge.bodies("out") == ["now"]
    assert sum(counts.outcomes.values()) == 1


def test_non_durable_messages_can_be_left_out(spark: SparkSession, bridge: TestBridge) -> None:
    bridge.make_topics("out")
    settings = bridge.settings(bridge.route("r", "msg.address==a", "out"), non_durable="skip")
    bridge.write(
        [
            text_message("a", "durable", DeliveryMode="PERSISTENT"),
            text_message("a", "not durable", DeliveryMode="NON_PERSISTENT"),
            text_message("a", "durable by default"),
        ],
        settings,
    )

    counts = bridge.run(spark, settings)

    assert bridge.bodies("out") == ["durable", "durable by default"]
    assert counts.outcomes[Outcome.NON_DURABLE] == 1


def test_expired_messages_are_left_out(spark: SparkSession, bridge: TestBridge) -> None:
    bridge.make_topics("out")
    settings = bridge.settings(bridge.route("r", "msg.address==a", "out"))
    in_an_hour = int(time.time() * 1000) + 3_600_000
    bridge.write([text_message("a", str(end), Expiration=end) for end in (1_000, 0, in_an_hour)], settings)

    counts = bridge.run(spark, settings)

    assert bridge.bodies("out") == ["0", str(in_an_hour)]
    assert counts.outcomes[Outcome.EXPIRED] == 1


def test_other_topics_feed_the_router_without_going_in_circles(
    spark: SparkSession, bridge: TestBridge
) -> None:
    bridge.make_topics("in", "out")
    settings = bridge.settings(
        bridge.route("r", f"msg.address=={bridge.name('in')} && msg.header.region==EU", "out"),
        source_topics=(bridge.name("in"),),
    )
    bridge.write([], settings)
    producer = Producer({"bootstrap.servers": bridge.kafka.servers})
    source = bridge.name("in")
    producer.produce(
        source, key=b"k1", value=b"plain header", headers=[("region", b"EU"), ("trace", b"\xff")]
    )
    producer.produce(
        source, key=b"k2", value=b"jms header", headers=[("jms.region", b"EU"), ("isthmus.id", b"x")]
    )
    producer.produce(
        source,
        key=b"k3",
        value=b"ours",
        headers=[("region", b"EU"), ("jmsbridge.origin", bridge.id.encode())],
    )
    producer.produce(
        source, key=b"k4", value=b"another's", headers=[("region", b"EU"), ("jmsbridge.origin", b"other")]
    )
    producer.produce(source, key=b"k5", value=None, headers=[("region", b"EU")])
    producer.flush()

    counts = bridge.run(spark, settings)

    records = {record.key: record for record in bridge.records("out")}
    assert {key: record.value for key, record in records.items()} == {
        b"k1": b"plain header",
        b"k2": b"jms header",
        b"k4": b"another's",
        b"k5": None,
    }
    assert ("trace", b"\xff") in records[b"k1"].headers
    assert [value for name, value in records[b"k2"].headers if name == "isthmus.id"] != [b"x"]
    assert [value for name, value in records[b"k4"].headers if name == "jmsbridge.origin"] == [
        b"other",
        bridge.id.encode(),
    ]
    assert counts.outcomes[Outcome.LOOPED] == 1
