"""Everything that is wrong, in one pass, with the topics that Kafka has."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping

import pytest

from isthmus.config import Severity, TopicFacts, check, load
from isthmus.errors import ConfigError, HardFailure

FINE = TopicFacts(exists=True, writable=True, readable=True, max_message_bytes=1_048_588, partitions=5)
MISSING = TopicFacts(exists=False, writable=False, readable=False, max_message_bytes=None, partitions=0)
NOT_WRITABLE = TopicFacts(exists=True, writable=False, readable=True, max_message_bytes=None, partitions=5)
NOT_READABLE = TopicFacts(exists=True, writable=True, readable=False, max_message_bytes=None, partitions=5)

REMOTE = """kafka.bootstrap.servers=h:1
routing.dead-letter.topic=dead
routing.on-error=dead-letter
routing.source.topics=s1,s2
routes.x.predicate=msg.address==x
routes.x.dest.topic=to
"""


class Kafka:
    def __init__(self, **facts: TopicFacts) -> None:
        self.facts = facts
        self.asked: list[set[str]] = []

    def __call__(self, names: Collection[str]) -> Mapping[str, TopicFacts]:
        self.asked.append(set(names))
        return {name: self.facts.get(name, FINE) for name in names}


def test_all_problems_are_found_in_one_pass_in_the_order_of_the_file(found):
    problems = found(
        """bridge.id=my bridge
bridge.nam=x
kafka.sasl.password=${env:NONE}
monitor.port=x
pipeline.mode=\\u1
routes.a.predicate=msg.address==
routes.a.dest.topic=a/b
routes.b.predicat=msg.address==b
routes.b.dest.topic=t
routing.on-error=dead-letter
monitor.port=y
""",
        complete=True,
    )
    errors = [(each.line, each.key) for each in problems if each.severity is Severity.ERROR]
    assert errors == [
        (1, "bridge.id"),
        (2, "bridge.nam"),
        (3, "kafka.sasl.password"),
        (5, "pipeline.mode"),
        (6, "routes.a.predicate"),
        (7, "routes.a.dest.topic"),
        (8, "routes.b.predicat"),
        (9, "routes.b.predicate"),
        (10, "routing.on-error"),
        (11, "monitor.port"),
    ]


def test_load_lists_every_problem_with_its_place(write):
    path = write("bridge.id=a b\n\nmonitor.port=x\nkafka.bootstrap.server=h:1")
    with pytest.raises(ConfigError) as raised:
        load(path, {})
    text = str(raised.value)
    assert f"{path}:1: error: bridge.id: " in text
    assert f"{path}:3: error: monitor.port: " in text
    assert f"{path}:4: warning: kafka.bootstrap.server: " in text


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("routing.on-eror", "routing.on-error"),
        ("bootstrap.servers", "kafka.bootstrap.servers"),
        ("routes.r.predicat", "routes.r.predicate"),
        ("routes.r.dest.topik", "routes.r.dest.topic"),
        ("routes.r.key", "routes.r.conv.key"),
        ("route.r.predicate", "routes.r.predicate"),
        ("kafak.security.protocol", "kafka.security.protocol"),
        ("spark.executor.memory", "pipeline.spark.executor.memory"),
        ("Bridge.Id", "bridge.id"),
    ],
)
def test_an_unknown_key_is_an_error_with_the_nearest_known_one(found, written, meant):
    (problem,) = found(f"{written}=x")
    assert (problem.severity, problem.line, problem.key) == (Severity.ERROR, 1, written)
    assert problem.message == "unknown key"
    assert problem.hint == f"did you mean {meant}?"


@pytest.mark.parametrize("key", ["zzz", "routes", "routes.x", "routes..predicate", "kafka.", ""])
def test_a_key_that_names_no_part_and_no_option_is_unknown(found, key):
    (problem,) = found(f"{key}=x")
    assert problem.message == "unknown key"


@pytest.mark.parametrize("key", ["kafka.bootstrap.server", "kafka.bootstrap_servers"])
def test_a_client_option_that_looks_like_a_setting_is_a_warning(found, key):
    (problem,) = found(f"{key}=h:1")
    assert problem.severity is Severity.WARNING
    assert problem.hint == "did you mean kafka.bootstrap.servers?"


def test_topics_that_are_fine_are_no_problem(found):
    kafka = Kafka()
    assert found(REMOTE, topics=kafka, complete=True) == []
    assert kafka.asked == [{"to", "dead", "s1", "s2", "isthmus.isthmus.journal"}]


@pytest.mark.parametrize(
    ("topic", "facts", "line", "message"),
    [
        ("to", MISSING, 6, "topic 'to' does not exist"),
        ("to", NOT_WRITABLE, 6, "topic 'to' may not be written"),
        ("dead", MISSING, 2, "topic 'dead' does not exist"),
        ("dead", NOT_WRITABLE, 2, "topic 'dead' may not be written"),
        ("s2", MISSING, 4, "topic 's2' does not exist"),
        ("s2", NOT_READABLE, 4, "topic 's2' may not be read"),
    ],
)
def test_a_topic_that_cannot_be_used_is_an_error_with_the_line_that_names_it(
    found, topic, facts, line, message
):
    (problem,) = found(REMOTE, topics=Kafka(**{topic: facts}), complete=True)
    assert (problem.severity, problem.line, problem.message) == (Severity.ERROR, line, message)
    assert problem.hint


@pytest.mark.parametrize(("topic", "facts"), [("to", NOT_READABLE), ("s1", NOT_WRITABLE)])
def test_no_right_is_asked_for_that_is_not_needed(found, topic, facts):
    assert found(REMOTE, topics=Kafka(**{topic: facts}), complete=True) == []


def test_the_journal_need_not_exist_but_must_be_usable(found):
    journal = "isthmus.isthmus.journal"
    assert found(REMOTE, topics=Kafka(**{journal: MISSING}), complete=True) == []
    (problem,) = found(REMOTE, topics=Kafka(**{journal: NOT_READABLE}), complete=True)
    assert problem.message == f"topic '{journal}' may not be read"


def test_a_journal_with_other_partitions_is_a_warning(found):
    (problem,) = found(f"{REMOTE}journal.partitions=8", topics=Kafka(), complete=True)
    assert (problem.severity, problem.line) == (Severity.WARNING, 7)
    assert "with 5 partitions instead of 9" in problem.message


@pytest.mark.parametrize(
    ("partitions", "of_the_ledger", "in_kafka"), [(4, 1, 5), (2, 3, 5), (4, 2, 6), (1, 1, 2)]
)
def test_a_journal_as_the_bridge_makes_it_is_no_problem(found, partitions, of_the_ledger, in_kafka):
    text = f"{REMOTE}journal.partitions={partitions}\njournal.ledger.partitions={of_the_ledger}"
    journal = dataclasses.replace(FINE, partitions=in_kafka)
    assert found(text, topics=Kafka(**{"isthmus.isthmus.journal": journal}), complete=True) == []


def test_a_kafka_that_does_not_answer_is_one_error(found):
    def unreachable(names: Collection[str]) -> Mapping[str, TopicFacts]:
        raise HardFailure("no broker answers", remedy="start one")

    (problem,) = found(REMOTE, topics=unreachable, complete=True)
    assert problem.message == "topics cannot be checked: no broker answers"
    assert problem.hint == "start one"


def test_options_that_the_client_does_not_take_are_one_error(found):
    def refusing(names: Collection[str]) -> Mapping[str, TopicFacts]:
        raise ConfigError("kafka.x: not taken")

    (problem,) = found(REMOTE, topics=refusing, complete=True)
    assert problem.message == "topics cannot be checked: kafka.x: not taken"


def test_topics_of_a_route_with_other_mistakes_are_checked_too(found):
    text = f"{REMOTE}routes.y.dest.topic=gone\n"
    messages = [each.message for each in found(text, topics=Kafka(gone=MISSING), complete=True)]
    assert messages == ["missing: every route needs it", "topic 'gone' does not exist"]


@pytest.mark.parametrize(
    ("servers", "reason"), [("embedded", "the embedded Kafka creates them"), ("h:1", "Kafka was not asked")]
)
def test_that_topics_were_not_checked_is_noted(write, servers, reason):
    text = REMOTE.replace("h:1", servers)
    (problem,) = check(write(text), {}, None)
    assert (problem.severity, problem.message) == (Severity.NOTE, f"topics are not checked: {reason}")


def test_a_file_that_cannot_be_read_is_the_only_problem(tmp_path):
    (problem,) = check(tmp_path / "none", {}, None)
    assert (problem.severity, problem.file) == (Severity.ERROR, str(tmp_path / "none"))


def test_an_address_whose_topic_does_not_exist_has_no_jms_receivers(write):
    text = """kafka.bootstrap.servers=h:1
amqp.port=0
routes.x.predicate=msg.address in (x, a/b) && msg.header.n>1
routes.x.dest.topic=to
routes.y.predicate=msg.address==y || !(msg.address==z)
routes.y.dest.topic=to
"""
    kafka = Kafka(**{"a.b": MISSING, "y": MISSING})
    notes = [each for each in check(write(text), {}, kafka) if each.severity is Severity.NOTE]
    assert [(each.key, each.message) for each in notes] == [
        ("routes.x.predicate", "there is no topic 'a.b': JMS clients cannot receive from that address"),
        ("routes.y.predicate", "there is no topic 'y': JMS clients cannot receive from that address"),
    ]
    assert {"x", "a.b", "y"} <= kafka.asked[0]
    for more in ("amqp.destinations=routed", "amqp.auto-create=true"):
        assert not [each for each in check(write(text + more), {}, kafka) if each.severity is Severity.NOTE]


@pytest.mark.parametrize(
    "key",
    [
        "mq.port",
        "nats.url",
        "amqp.password",
        "journal.replication",
        "auto.offset.reset",
        "routes.r.to",
        "http.x",
    ],
)
def test_a_key_that_only_looks_like_another_has_no_hint(found, key):
    (problem,) = found(f"{key}=x")
    assert (problem.message, problem.hint) == ("unknown key", None)
