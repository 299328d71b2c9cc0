"""Topics that messages name: found by the edge, kept for those who receive from them, and gone one day."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyspark.sql import SparkSession
from tests.support.kafka.topics import delete_topic
from tests.support.pipeline.bridge import TestBridge, text_message
from tests.support.polling import eventually

from isthmus.config.model.amqp import AmqpSettings
from isthmus.config.model.settings import PipelineSettings, Settings
from isthmus.journal.layout import AddressTopic, Entry, Op
from isthmus.kafka.blocking import topic_names
from isthmus.kafka.options import Kafka
from isthmus.pipeline.failure import explain
from isthmus.pipeline.prepare import prepare
from isthmus.pipeline.publish import RouterStarts, start_router
from isthmus.pipeline.supervised import Supervised
from isthmus.routing.plan import Outcome
from isthmus.routing.route import OnError, Route

LIMIT = 1_048_588


def jms_bridge(bridge: TestBridge, *routes: Route, **routing: object) -> Settings:
    """A bridge that AMQP clients can connect to."""
    amqp = AmqpSettings(port=0)
    return bridge.settings(*routes, **routing).replace(amqp=amqp)


def sent(bridge: TestBridge, address: str, body: str, **options: object) -> Entry:
    """What the AMQP server writes of a message to an address that has a topic."""
    topic = AddressTopic(bridge.name(address), 2, LIMIT, is_destination=True)
    return Entry(Op.ADD, text_message(bridge.name(address), body, **options), topic=topic)  # type: ignore[arg-type]


@contextmanager
def running(
    spark: SparkSession, bridge: TestBridge, settings: Settings, **options: str
) -> Iterator[Supervised]:
    """The router, which is started again as a pipeline does it."""
    kafka = Kafka(bridge.kafka.servers, options)
    pipeline = PipelineSettings(master="local[2]", batch_duration_s=600)
    starts = RouterStarts(spark, kafka, pipeline, str(bridge.folder / "checkpoint"))
    router = Supervised(
        "router",
        lambda: starts.start(prepare(settings, bridge.kafka)[0]),
        lambda error: explain("router", error, settings, bridge.kafka, "the log"),
    )
    router.start()
    try:
        yield router
    finally:
        router.stop()


def until_published(router: Supervised, bridge: TestBridge, topic: str, bodies: list[str]) -> None:
    def published() -> bool:
        router.poll()
        return len(bridge.records(topic)) >= len(bodies)

    eventually(published)
    assert bridge.bodies(topic) == bodies


def test_what_is_sent_to_a_destination_is_kept_there_and_routed(
    spark: SparkSession, bridge: TestBridge
) -> None:
    bridge.make_topics("foo", "bar", "out")
    settings = jms_bridge(
        bridge,
        bridge.route("r", f"msg.address=={bridge.name('foo')}", "out"),
        bridge.route("same", f"msg.address=={bridge.name('bar')}", "bar"),
    )
    messages = [sent(bridge, "foo", "1"), sent(bridge, "bar", "2"), text_message(bridge.name("foo"), "3")]
    bridge.write(messages, settings)
    counts = bridge.run(spark, settings)
    assert bridge.bodies("foo") == ["1"]
    assert bridge.bodies("out") == ["1", "3"]
    assert bridge.bodies("bar") == ["2"]
    assert [route.success for route in counts.routes] == [2, 1, 0, 1]
    routed = settings.replace(amqp=AmqpSettings(port=0, destinations="routed"))
    bridge.write([sent(bridge, "foo", "4")], routed)
    bridge.run(spark, routed)
    assert bridge.bodies("foo") == ["1"]
    assert bridge.bodies("out") == ["1", "3", "4"]


def test_a_topic_that_is_made_while_the_router_runs_gets_its_messages_without_a_restart(
    spark: SparkSession, bridge: TestBridge
) -> None:
    bridge.make_topics("out")
    settings = jms_bridge(bridge, bridge.route("r", "msg.header.routed==1", "out"))
    plan, _ = prepare(settings, bridge.kafka)
    query = start_router(spark, bridge.kafka, plan, settings.pipeline, str(bridge.folder / "checkpoint"))
    try:
        bridge.write([text_message("x", "first", routed="1")], settings)
        eventually(lambda: bridge.bodies("out") == ["first"])
        bridge.make_topics("later")
        bridge.write([sent(bridge, "later", "second", routed="1")], settings)
        eventually(lambda: bridge.bodies("later") == ["second"])
        eventually(lambda: bridge.bodies("out") == ["first", "second"])
        assert query.isActive
        physical = query._jsq.explainInternal(True).partition("== Physical Plan ==")[2]
    finally:
        query.stop()
    assert "RealTimeStreamScan" in physical
    for foreign in ("Python", "Arrow", "Exchange", "ScalaUDF"):
        assert foreign not in physical


def test_a_topic_that_nobody_has_found_is_a_soft_failure(spark: SparkSession, bridge: TestBridge) -> None:
    bridge.make_topics("known", "dead")
    settings = bridge.settings(dead_letter_topic=bridge.name("dead"), on_error=OnError.DEAD_LETTER).replace(
        message_convert="default"
    )
    others = [text_message(bridge.name("known"), "1"), text_message(bridge.name("unknown"), "2")]
    bridge.write(others, settings)
    counts = bridge.run(spark, settings)
    assert counts.outcomes[Outcome.PUBLISHED] == 1
    assert counts.outcomes[Outcome.DEAD_LETTERED] == 1
    assert bridge.bodies("known") == ["1"]
    [letter] = bridge.records("dead")
    assert dict(letter.headers)["isthmus.error.code"] == b"destination"
    assert bridge.name("unknown") not in topic_names(bridge.kafka)


def test_a_topic_that_was_deleted_is_a_soft_failure_after_one_restart(
    spark: SparkSession, bridge: TestBridge, caplog: pytest.LogCaptureFixture
) -> None:
    bridge.make_topics("foo", "gone", "dead")
    settings = jms_bridge(bridge, dead_letter_topic=bridge.name("dead"), on_error=OnError.DEAD_LETTER)
    with running(spark, bridge, settings, **{"max.block.ms": "20000"}) as router:
        bridge.write([sent(bridge, "foo", "1")], settings)
        until_published(router, bridge, "foo", ["1"])
        delete_topic(bridge.kafka.servers, bridge.name("gone"))
        bridge.write(
            [sent(bridge, "gone", "2", session="a"), sent(bridge, "foo", "3", session="b")], settings
        )
        until_published(router, bridge, "dead", ["2"])
        until_published(router, bridge, "foo", ["1", "3"])
        bridge.write([sent(bridge, "foo", "4")], settings)
        until_published(router, bridge, "foo", ["1", "3", "4"])
    assert sum("starts again" in each.getMessage() for each in caplog.records) == 1


def test_both_copies_are_published_once_over_restarts(spark: SparkSession, bridge: TestBridge) -> None:
    bridge.make_topics("foo", "out")
    settings = jms_bridge(bridge, bridge.route("r", f"msg.address=={bridge.name('foo')}", "out"))
    total = 0
    with running(spark, bridge, settings) as router:
        for _ in range(2):
            bridge.write([sent(bridge, "foo", str(total + number)) for number in range(50)], settings)
            total += 50
            expected = sorted(map(str, range(total)))
            until_published(router, bridge, "foo", expected)
            until_published(router, bridge, "out", expected)
            assert router.query is not None
            router.query.stop()
        bridge.write([sent(bridge, "foo", "last")], settings)
        until_published(router, bridge, "out", sorted([*map(str, range(total)), "last"]))
        until_published(router, bridge, "foo", sorted([*map(str, range(total)), "last"]))
    assert Counter(bridge.bodies("foo")) == Counter(bridge.bodies("out"))


def test_a_message_that_fails_on_two_routes_leaves_two_dead_letters_over_a_restart(
    spark: SparkSession, bridge: TestBridge
) -> None:
    bridge.make_topics("foo", "out", "dead")
    settings = jms_bridge(
        bridge,
        bridge.route("r", f"msg.address=={bridge.name('foo')}", "out", key="CorrelationId"),
        dead_letter_topic=bridge.name("dead"),
        on_error=OnError.DEAD_LETTER,
    )
    entry = sent(bridge, "foo", "1")
    assert entry.topic is not None
    with running(spark, bridge, settings) as router:
        bridge.write([entry._replace(topic=entry.topic._replace(max_message_bytes=1))], settings)
        until_published(router, bridge, "dead", ["1", "1"])
        assert router.query is not None
        router.query.stop()
        bridge.write([sent(bridge, "foo", "2", CorrelationId="c")], settings)
        until_published(router, bridge, "out", ["2"])
    letters = [dict(each.headers) for each in bridge.records("dead")]
    assert Counter(each["isthmus.error.route"] for each in letters) == {b"r": 1, b"isthmus.destinations": 1}
