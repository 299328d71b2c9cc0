"""What must hold before the router starts."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import pytest

from isthmus.config import JournalSettings, KafkaSettings, RoutingSettings, Settings, TopicFacts
from isthmus.errors import HardFailure
from isthmus.kafka import own_topics
from isthmus.kafka.options import Kafka
from isthmus.pipeline import prepare as preparing
from isthmus.pipeline.prepare import EMBEDDED_PARTITIONS, check_topics, prepare
from isthmus.routing.predicate import parse
from isthmus.routing.route import OnError, Route

ROUTES = (
    Route("one", parse("msg.address==a"), "t1"),
    Route("two", parse("msg.address==b"), "t2", key="CorrelationId", on_error=OnError.SKIP),
)
SETTINGS = Settings(
    bridge_id="b",
    kafka=KafkaSettings(bootstrap_servers="h:1"),
    journal=JournalSettings(topic="j", partitions=8),
    routes=ROUTES,
    routing=RoutingSettings(
        dead_letter_topic="dead", source_topics=("events",), on_error=OnError.DEAD_LETTER
    ),
)
USABLE = TopicFacts(exists=True, writable=True, readable=True, max_message_bytes=None, partitions=3)
EVENTS = "isthmus.b.events"
FACTS = dict.fromkeys(["t1", "t2", "dead", "events", "j"], USABLE)


def patch(monkeypatch: pytest.MonkeyPatch, name: str, stand_in: object) -> None:
    """Have something else in place of what asks Kafka."""
    for module in (preparing, own_topics):
        monkeypatch.setattr(module, name, stand_in)


def refusal(facts: Mapping[str, TopicFacts], settings: Settings = SETTINGS) -> HardFailure:
    with pytest.raises(HardFailure) as caught:
        check_topics(settings, facts)
    assert caught.value.remedy
    return caught.value


def test_topics_that_can_all_be_used_are_no_problem() -> None:
    check_topics(SETTINGS, FACTS)


@pytest.mark.parametrize(
    ("topic", "role"),
    [
        ("t1", "the destination of route one"),
        ("t2", "the destination of route two"),
        ("dead", "the dead-letter topic"),
        ("events", "a source of the router"),
        ("j", "the journal"),
    ],
)
def test_a_topic_that_does_not_exist_is_a_hard_failure(topic: str, role: str) -> None:
    facts = dict(FACTS)
    del facts[topic]
    assert str(refusal(facts)) == f"topic {topic}, {role}, does not exist"


@pytest.mark.parametrize("topic", ["t1", "t2", "dead"])
def test_a_destination_that_may_not_be_written_is_a_hard_failure(topic: str) -> None:
    failure = refusal(FACTS | {topic: replace(USABLE, writable=False)})
    assert "the bridge is not authorized to write it" in str(failure)
    assert f"write {topic}" in failure.remedy


@pytest.mark.parametrize("topic", ["events", "j"])
def test_a_source_that_may_not_be_read_is_a_hard_failure(topic: str) -> None:
    assert "not authorized to read it" in str(refusal(FACTS | {topic: replace(USABLE, readable=False)}))


def test_a_right_that_is_not_needed_is_not_asked_for() -> None:
    check_topics(
        SETTINGS,
        FACTS
        | dict.fromkeys(["t1", "t2", "dead"], replace(USABLE, readable=False))
        | {"events": replace(USABLE, writable=False)},
    )


def test_without_a_dead_letter_topic_none_is_needed() -> None:
    settings = Settings(bridge_id="b", routes=ROUTES, journal=JournalSettings(topic="j"))
    check_topics(settings, dict.fromkeys(("t1", "t2", "j"), USABLE))


class Created(dict[str, tuple[int, Mapping[str, str]]]):
    """Topics that were made: with how many partitions, and which configuration."""

    def __call__(
        self, kafka: Kafka, names: Collection[str], partitions: int, config: Mapping[str, str] | None = None
    ) -> None:
        for name in names:
            self.setdefault(name, (partitions, config or {}))


@pytest.fixture
def created(monkeypatch: pytest.MonkeyPatch) -> Created:
    made = Created()
    facts = FACTS | {"t1": replace(USABLE, max_message_bytes=1000), "j": replace(USABLE, partitions=8)}
    patch(monkeypatch, "create_topics", made)
    there = set(FACTS) - {"j"}  # the journal, once it was made
    patch(
        monkeypatch,
        "describe",
        lambda _, names: {name: facts[name] for name in names if name in there | set(made)},
    )
    return made


def test_the_plan_is_what_the_settings_and_the_topics_say(created: Created) -> None:
    plan, partitions = prepare(SETTINGS, Kafka("h:1"))
    assert (plan.bridge_id, plan.journal_topic, plan.source_topics) == ("b", "j", ("events",))
    assert plan.routes == ROUTES
    assert (plan.on_error, plan.dead_letter_topic) == (OnError.DEAD_LETTER, "dead")
    assert plan.propagate_non_durable
    assert plan.max_message_bytes == {"t1": 1000}
    assert partitions == 8 + 3


def test_non_durable_messages_can_be_left_out(created: Created) -> None:
    routing = RoutingSettings(non_durable="skip")
    settings = Settings(bridge_id="b", journal=JournalSettings(topic="j"), routing=routing)
    assert not prepare(settings, Kafka("h:1"))[0].propagate_non_durable


def test_only_the_journal_is_made_in_somebody_elses_kafka(created: Created) -> None:
    prepare(SETTINGS, Kafka("h:1"))
    assert set(created) == {"j", EVENTS}
    partitions, config = created["j"]
    assert partitions == 8 + 1
    assert config["cleanup.policy"] == "compact,delete"


def test_a_journal_that_is_there_is_left_as_it_is(created: Created, monkeypatch: pytest.MonkeyPatch) -> None:
    patch(monkeypatch, "describe", lambda _, names: dict.fromkeys(names, USABLE))
    prepare(SETTINGS, Kafka("h:1"))
    assert not created


def test_every_topic_is_made_in_the_embedded_kafka(created: Created) -> None:
    prepare(SETTINGS.replace(kafka=KafkaSettings()), Kafka("h:1"))
    assert set(created) == {*FACTS, EVENTS}
    assert created["j"][0] == 8 + 1
    assert created["t1"][0] == EMBEDDED_PARTITIONS


def test_outboxes_are_made_like_the_journal(created: Created, monkeypatch: pytest.MonkeyPatch) -> None:
    outbox = "isthmus.b.outbox.nats"
    route = Route("out", parse("msg.address==c"), outbox, destination="orders")
    settings = SETTINGS.replace(routes=(*ROUTES, route))
    facts = FACTS | {outbox: USABLE}
    there = set(FACTS) - {"j"}
    patch(
        monkeypatch,
        "describe",
        lambda _, names: {name: facts[name] for name in names if name in there | set(created)},
    )
    plan, _ = prepare(settings, Kafka("h:1"))
    assert set(created) == {"j", EVENTS, outbox}
    assert created[outbox][0] == 8
    assert "cleanup.policy" not in created[outbox][1]
    assert plan.routes[-1] == route
