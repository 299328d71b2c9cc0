"""A query's exception, pages long, in the operator's words."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping

import pytest

from isthmus.config import RoutingSettings, Settings, TopicFacts
from isthmus.errors import HardFailure, Outage
from isthmus.kafka.options import Kafka
from isthmus.pipeline import failure
from isthmus.pipeline.failure import explain
from isthmus.pipeline.router import STOP_MARK
from isthmus.routing.predicate import parse
from isthmus.routing.route import Route

KAFKA = Kafka("127.0.0.1:1")
SETTINGS = Settings(
    bridge_id="b",
    routes=(Route("orders", parse("msg.address==a"), "t"),),
    routing=RoutingSettings(dead_letter_topic="dead", source_topics=("events",)),
    state_dir="/state",
)
USABLE = TopicFacts(exists=True, writable=True, readable=True, max_message_bytes=None, partitions=1)
ALL_TOPICS = dict.fromkeys(["t", "dead", "events", "isthmus.b.journal"], USABLE)

Answer = Callable[[Mapping[str, TopicFacts] | HardFailure], list[set[str]]]


@pytest.fixture
def kafka_says(monkeypatch: pytest.MonkeyPatch) -> Answer:
    """Sets what Kafka answers about its topics; the names that it is asked for end up in the list."""

    def answer(facts: Mapping[str, TopicFacts] | HardFailure) -> list[set[str]]:
        asked: list[set[str]] = []

        def describe(kafka: Kafka, names: Collection[str]) -> Mapping[str, TopicFacts]:
            asked.append(set(names))
            if isinstance(facts, HardFailure):
                raise facts
            return facts

        monkeypatch.setattr(failure, "describe", describe)
        return asked

    return answer


@pytest.fixture(autouse=True)
def nobody_asks_kafka_unless_a_test_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failure, "describe", lambda *_: pytest.fail("Kafka was asked"))


def explained(error: str, settings: Settings = SETTINGS) -> HardFailure:
    return explain("router", error, settings, KAFKA, "logs/spark.log")


def stop_report(**report: str) -> str:
    """What Spark makes of the error that policy ``stop`` raises."""
    return (
        "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted due to stage "
        "failure: Task 1 in stage 0.0 failed 1 times, most recent failure: Lost task 1.0 in stage 0.0: "
        "org.apache.spark.SparkRuntimeException: [USER_RAISED_EXCEPTION] "
        f"{STOP_MARK}{json.dumps(report, separators=(',', ':'))} SQLSTATE: P0001\n"
        "\tat org.apache.spark.sql.errors.QueryExecutionErrors$.raiseError(QueryExecutionErrors.scala:1)\n"
        "Driver stacktrace: {...} SQLSTATE: XXKST"
    )


NO_KEY = {"code": "key", "message": "no header X", "route": "orders", "position": "journal:2:7"}


def test_a_stop_by_a_route_names_the_message_the_reason_and_the_routes_own_key() -> None:
    found = explained(stop_report(**NO_KEY))
    assert str(found) == "the message at journal:2:7 cannot be routed by route orders: no header X (key)"
    assert "routes.orders.on-error" in found.remedy
    assert "skip or dead-letter" in found.remedy
    assert found.exit_code == 3


def test_a_stop_without_a_route_names_the_bridges_key() -> None:
    found = explained(stop_report(code="malformed", message="no index", position="journal:0:1"))
    assert str(found) == "the message at journal:0:1 cannot be routed: no index (malformed)"
    assert "routing.on-error" in found.remedy


def test_a_dead_letter_that_does_not_fit_has_a_remedy_of_its_own() -> None:
    message = "the record has up to 900 bytes, and dead takes 100"
    found = explained(stop_report(**NO_KEY | {"code": "oversize", "message": message}))
    assert "max.message.bytes of dead" in found.remedy
    assert "on-error" not in found.remedy


def test_a_record_too_large_for_its_destination_is_a_matter_of_policy() -> None:
    message = "the record has up to 900 bytes, and t takes 100"
    found = explained(stop_report(**NO_KEY | {"code": "oversize", "message": message}))
    assert "routes.orders.on-error" in found.remedy


@pytest.mark.parametrize(
    "message",
    [
        'header a"b is empty',
        "unknown isthmus.op: } x",
        "unknown isthmus.op: {",
        "unknown isthmus.op: }\n",
        'isthmus.body cannot be read: "} "',
        "Grüße \\ 世界",
    ],
)
def test_what_a_message_holds_cannot_confuse_the_report(message: str) -> None:
    assert message in str(explained(stop_report(**NO_KEY | {"message": message})))


@pytest.mark.parametrize(
    "error",
    [
        "Some data may have been lost because they are not available in Kafka any more; either the data was "
        "aged out by Kafka or the topic may have been deleted before all of it was processed.",
        "org.apache.spark.SparkException: [KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE] Could not read 1",
        "Caused by: org.apache.kafka.clients.consumer.OffsetOutOfRangeException: Fetch position is out",
    ],
)
def test_lost_records_are_called_lost(error: str) -> None:
    found = explained(f"[STREAM_FAILED] terminated\n{error}\n\tat x")
    assert "were deleted from the journal or a source topic before the router read them" in str(found)
    assert "retention.ms" in found.remedy
    assert "/state" in found.remedy


def test_a_topic_that_is_gone_is_named(kafka_says: Answer) -> None:
    facts = dict(ALL_TOPICS)
    del facts["t"]
    asked = kafka_says(facts)
    found = explained("org.apache.kafka.common.errors.UnknownTopicOrPartitionException: no such topic")
    assert str(found) == "topic t, the destination of route orders, does not exist"
    assert asked == [set(ALL_TOPICS)]


def test_a_right_that_was_taken_away_is_named(kafka_says: Answer) -> None:
    refused = TopicFacts(exists=True, writable=False, readable=True, max_message_bytes=None, partitions=1)
    kafka_says(ALL_TOPICS | {"dead": refused})
    assert "topic dead, the dead-letter topic: the bridge is not authorized" in str(explained("whatever"))


def test_a_kafka_that_does_not_answer_is_what_is_wrong(kafka_says: Answer) -> None:
    silent = HardFailure("Kafka at '127.0.0.1:1' does not answer", remedy="check")
    kafka_says(silent)
    assert explained("org.apache.kafka.common.errors.TimeoutException: time is up") is silent


def test_an_unknown_error_is_told_by_its_root_cause(kafka_says: Answer) -> None:
    kafka_says(ALL_TOPICS)
    found = explained(
        "[STREAM_FAILED] Query terminated with exception: Job aborted\n"
        "org.apache.spark.SparkException: Job aborted\n"
        "\tat org.apache.spark.Something\n"
        "Caused by: java.util.concurrent.ExecutionException: failed\n"
        "Caused by: java.io.IOException: No space left on device \n"
        "\tat java.base/sun.nio"
    )
    assert str(found) == "the router stopped: IOException: No space left on device"
    assert "logs/spark.log" in found.remedy
    assert "checkpoint" in found.remedy


def test_an_error_without_a_cause_is_told_by_its_first_line(kafka_says: Answer) -> None:
    kafka_says(ALL_TOPICS)
    assert str(explained("\nthe JVM is gone\nand more")) == "the router stopped: the JVM is gone"


@pytest.mark.parametrize("error", ["", "\n"])
def test_even_an_error_without_a_word_is_explained(kafka_says: Answer, error: str) -> None:
    kafka_says(ALL_TOPICS)
    assert str(explained(error)).startswith("the router stopped")


@pytest.mark.parametrize("report", ["", "{", '{"code":"key","message":"cut of'])
def test_a_stop_report_that_was_cut_off_is_an_unknown_error(kafka_says: Answer, report: str) -> None:
    kafka_says(ALL_TOPICS)
    found = explained(f"x.SparkRuntimeException: [USER_RAISED_EXCEPTION] {STOP_MARK}{report}")
    assert str(found).startswith("the router stopped: SparkRuntimeException")


@pytest.mark.parametrize(
    "error",
    [
        "Caused by: org.apache.kafka.common.errors.TimeoutException: Topic t not present in metadata",
        "Caused by: org.apache.kafka.common.errors.NotEnoughReplicasException: 1 of 2",
        'cimpl.KafkaException: KafkaError{code=_TIMED_OUT,val=-185,str="Timed out"}',
        "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)",
    ],
)
def test_what_was_away_may_come_back(kafka_says: Answer, error: str) -> None:
    kafka_says(ALL_TOPICS)
    assert isinstance(explained(f"[STREAM_FAILED] terminated\n{error}\n\tat x"), Outage)


def test_any_other_error_does_not_pass(kafka_says: Answer) -> None:
    kafka_says(ALL_TOPICS)
    assert not isinstance(explained("Caused by: java.io.IOException: No space left on device"), Outage)
