"""What stops the bridge, and what it says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from tests.support.pipeline.bridge import TestBridge, text_message

from isthmus.embedded.kafka import EmbeddedKafka
from isthmus.errors import HardFailure
from isthmus.kafka.blocking import admin_client, create_topics, describe
from isthmus.kafka.options import Kafka
from isthmus.pipeline.failure import explain
from isthmus.pipeline.prepare import prepare
from isthmus.routing.route import OnError


def test_a_destination_that_does_not_exist_stops_the_start(bridge: TestBridge) -> None:
    settings = bridge.settings(bridge.route("r", "msg.address==a", "nowhere"))
    with pytest.raises(HardFailure, match=r"nowhere, the destination of route r, does not exist") as failure:
        prepare(settings, bridge.kafka)
    assert "create it" in failure.value.remedy


def test_a_dead_letter_topic_that_does_not_exist_stops_the_start(bridge: TestBridge) -> None:
    bridge.make_topics("out")
    settings = bridge.settings(
        bridge.route("r", "msg.address==a", "out"),
        dead_letter_topic=bridge.name("dead"),
        on_error=OnError.DEAD_LETTER,
    )
    with pytest.raises(HardFailure, match="the dead-letter topic, does not exist"):
        prepare(settings, bridge.kafka)


def test_policy_stop_says_which_message_and_what_to_do(spark: SparkSession, bridge: TestBridge) -> None:
    bridge.make_topics("out")
    settings = bridge.settings(bridge.route("r", "msg.address==a", "out", key="CorrelationId"))
    [position] = bridge.write([text_message("a", "no key")], settings)

    with pytest.raises(StreamingQueryException) as stopped:
        bridge.run(spark, settings)
    failure = explain("router", str(stopped.value), settings, bridge.kafka, "the log")

    assert (
        str(failure)
        == f"the message at {position} cannot be routed by route r: no header CorrelationId (key)"
    )
    assert "routes.r.on-error" in failure.remedy
    assert bridge.records("out") == []


def test_a_dead_letter_that_does_not_fit_stops_the_bridge(spark: SparkSession, bridge: TestBridge) -> None:
    bridge.make_topics("out")
    bridge.make_topics("dead", config={"max.message.bytes": "1500"})
    settings = bridge.settings(
        bridge.route("r", "msg.address==a", "out", key="CorrelationId"),
        dead_letter_topic=bridge.name("dead"),
        on_error=OnError.DEAD_LETTER,
    )
    bridge.write([text_message("a", "x" * 2000)], settings)

    with pytest.raises(StreamingQueryException) as stopped:
        bridge.run(spark, settings)
    failure = explain("router", str(stopped.value), settings, bridge.kafka, "the log")

    assert f"{bridge.name('dead')} takes 1500 (oversize)" in str(failure)
    assert f"raise max.message.bytes of {bridge.name('dead')}" in failure.remedy


@pytest.fixture(scope="module")
def guarded_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """A Kafka with access control, which forbids to write the topic ``locked``."""
    overrides = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    with EmbeddedKafka(tmp_path_factory.mktemp("guarded"), overrides=overrides) as broker:
        kafka = Kafka(broker.bootstrap_servers)
        create_topics(kafka, ["locked", "open"], 1)
        describing = [
            AclBinding(
                ResourceType.TOPIC,
                "locked",
                ResourcePatternType.LITERAL,
                "User:ANONYMOUS",
                "*",
                right,
                AclPermissionType.ALLOW,
            )
            for right in (AclOperation.DESCRIBE, AclOperation.READ)
        ]
        admin = admin_client(kafka)
        for future in admin.create_acls(describing).values():
            future.result()
        yield kafka


def test_a_topic_that_may_not_be_written_is_known_before_the_start(
    guarded_kafka: Kafka, tmp_path: Path
) -> None:
    facts = describe(guarded_kafka, ["locked", "open"])
    assert (facts["locked"].writable, facts["locked"].readable) == (False, True)
    assert (facts["open"].writable, facts["open"].readable) == (True, True)


def test_a_destination_that_may_not_be_written_stops_the_start(guarded_kafka: Kafka, tmp_path: Path) -> None:
    bridge = TestBridge(guarded_kafka.servers, tmp_path)
    bridge.id = "b"
    bridge.name = lambda topic: topic  # type: ignore[method-assign]
    settings = bridge.settings(bridge.route("r", "msg.address==a", "locked"))
    with pytest.raises(
        HardFailure, match="locked, the destination of route r: the bridge is not authorized to write"
    ):
        prepare(settings, guarded_kafka)
