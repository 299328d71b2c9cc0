from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus.config.model.connectors import ConnectorSettings, ConnectorType
from isthmus.config.model.mq import MqSettings
from isthmus.config.model.nats_values import Start
from isthmus.config.model.plan import TAG, Plan, overlap
from isthmus.config.model.plan import plan as plan_connectors
from isthmus.connectors.replies import Replies, replies_of
from isthmus.edges.mq.port import QueueTarget
from isthmus.errors import ConfigError, SettingsError
from isthmus.message import Body, BodyKind, Header, Message
from isthmus.routing.predicate import matches, parse

QM = {"mq.queuemanager": "QM1", "mq.channelname": "DEV.APP", "mq.connectionname": "localhost(1414)"}


def connector(type: str, **keys: Any) -> ConnectorSettings:
    return ConnectorSettings.of({"type": type, **QM, **keys})


def plan(connectors: dict[str, ConnectorSettings], *, reply_queue: str | None = None) -> Plan:
    return plan_connectors(connectors, MqSettings(reply_queue=reply_queue))


def takes(predicate: str, address: str, **headers: str) -> bool:
    message = Message(
        id="1",
        address=address,
        protocol="nats",
        value=b"",
        body=Body(BodyKind.TEXT),
        headers={name: Header(text) for name, text in headers.items()},
    )
    return matches(parse(predicate), message)


ENDS: dict[str, dict[str, str]] = {
    "queue": {"queue": "DEV.QUEUE.1"},
    "topic": {"topic": "dev/one"},
    "nats": {"subject": "one"},
    "stan": {"channel": "chan"},
}
DESTINATIONS = {
    "queue": ("mq", "DEV.QUEUE.1"),
    "topic": ("mq", "topic://dev/one"),
    "nats": ("nats", "core:one"),
    "stan": ("nats", "jetstream:chan"),
}
ADDRESSES = {"queue": "DEV.QUEUE.1", "topic": "dev/one", "nats": "one", "stan": "chan"}


@pytest.mark.parametrize("type", ConnectorType)
def test_every_type_is_one_intake_and_one_route(type: ConnectorType) -> None:
    source, destination = type.ends
    made = plan({"c": connector(type, **ENDS[source], **ENDS[destination])})
    [intake], [route] = made.intakes, made.routes
    assert intake.edge == ("nats" if source in ("nats", "stan") else "mq")
    assert (intake.address, intake.tag) == (ADDRESSES[source], None)
    assert (route.edge, route.destination) == DESTINATIONS[destination]
    assert route.outbox == ("nats" if route.edge == "nats" else "mq.QM1")
    assert takes(route.predicate, ADDRESSES[source])
    assert not takes(route.predicate, f"{ADDRESSES[source]}.other")


def test_the_type_may_be_written_in_any_case() -> None:
    assert connector("queue2nats", queue="Q", subject="s").type is ConnectorType.QUEUE_TO_NATS


@pytest.mark.parametrize(
    ("type", "keys", "missing"),
    [
        ("Queue2NATS", {"subject": "s"}, "needs queue"),
        ("Queue2NATS", {"queue": "Q"}, "needs subject"),
        ("Stan2Topic", {"topic": "t", "subject": "s"}, "needs channel"),
        ("Queue2NATS", {"queue": "Q", "subject": "a.*"}, "without wildcards"),
        (
            "Stan2Queue",
            {"queue": "Q", "channel": "c", "startattime": "1", "startatsequence": "1"},
            "not both",
        ),
    ],
)
def test_a_connector_that_lacks_something_is_refused(type: str, keys: dict[str, str], missing: str) -> None:
    with pytest.raises(SettingsError, match=missing):
        connector(type, **keys)


def test_an_unknown_type_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(SettingsError, match="expected one of Queue2NATS, NATS2Queue"):
        connector("Kafka2NATS", subject="s")


@pytest.mark.parametrize(
    ("keys", "start"),
    [
        ({}, Start("first")),
        ({"startatsequence": "0"}, Start("first")),
        ({"startatsequence": "-1"}, Start("last")),
        ({"startatsequence": "7"}, Start("sequence", sequence=7)),
        ({"startattime": "86400"}, Start("time", time=datetime(1970, 1, 2, tzinfo=UTC))),
    ],
)
def test_the_start_of_a_channel_is_that_of_its_consumer(keys: dict[str, str], start: Start) -> None:
    assert connector("Stan2Queue", queue="Q", channel="c", **keys).start == start


def test_a_channel_without_a_durable_name_has_one_of_its_connector() -> None:
    [intake] = plan({"my conn": connector("Stan2Queue", queue="Q", channel="c")}).intakes
    assert getattr(intake.source, "durable", None) == "isthmus-my_conn"


def test_excludeheaders_sends_the_body_alone() -> None:
    made = plan(
        {
            "a": connector("Queue2NATS", queue="Q", subject="s", excludeheaders="true"),
            "b": connector("NATS2Queue", queue="Q2", subject="s2"),
        }
    )
    assert [route.form for route in made.routes] == ["body", "bridge"]


def test_one_destination_in_two_forms_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"connectors\.b\.excludeheaders: a delivers there in another form"):
        plan(
            {
                "a": connector("Queue2NATS", queue="Q", subject="s", excludeheaders="true"),
                "b": connector("Queue2NATS", queue="R", subject="s"),
            }
        )


def test_connectors_that_go_round_in_a_circle_are_refused() -> None:
    with pytest.raises(ConfigError, match="round in a circle"):
        plan(
            {
                "a": connector("Queue2NATS", queue="Q", subject="s"),
                "b": connector("NATS2Queue", queue="Q", subject="s"),
            }
        )


def test_a_wildcard_subject_is_matched_token_by_token() -> None:
    [route] = plan({"c": connector("NATS2Queue", queue="Q", subject="orders.*.eu.>")}).routes
    assert takes(route.predicate, "orders.1.eu.a.b")
    assert not takes(route.predicate, "orders.1.2.eu.a")
    assert not takes(route.predicate, "orders.1.eu")
    assert not takes(route.predicate, "ordersX1.eu.a")


def test_messages_of_overlapping_connectors_are_told_apart_by_a_tag() -> None:
    made = plan(
        {
            "all": connector("NATS2Queue", queue="ALL", subject="orders.>"),
            "eu": connector("NATS2Queue", queue="EU", subject="orders.eu"),
            "other": connector("NATS2Queue", queue="X", subject="other"),
        }
    )
    assert [intake.tag for intake in made.intakes] == ["all", "eu", None]
    assert [takes(route.predicate, "orders.eu", **{TAG: "eu"}) for route in made.routes] == [
        False,
        True,
        False,
    ]


token = st.text("ab", min_size=1, max_size=2)
subjects = st.lists(token, min_size=1, max_size=3).map(".".join)
patterns = st.tuples(st.lists(st.one_of(token, st.just("*")), min_size=1, max_size=3), st.booleans()).map(
    lambda each: ".".join(each[0] + [">"] * each[1])
)


@given(patterns, subjects)
def test_a_predicate_takes_what_its_pattern_takes(pattern: str, subject: str) -> None:
    [route] = plan({"c": connector("NATS2Queue", queue="Q", subject=pattern)}).routes
    assert takes(route.predicate, subject) == overlap(pattern, subject)


@given(patterns, patterns, subjects)
def test_patterns_that_share_a_subject_overlap(one: str, other: str, subject: str) -> None:
    assert overlap(one, other) == overlap(other, one)
    if overlap(one, subject) and overlap(other, subject):
        assert overlap(one, other)


def pair(subject: str, asked: str, answered: str, answers: str) -> Replies:
    connectors = [
        connector("NATS2Queue", queue=asked, subject=subject),
        connector("Queue2NATS", queue=answered, subject=answers),
    ]
    return replies_of(connectors, "ISTHMUS.REPLY")


queues = st.text("QRS.", min_size=1, max_size=6).filter(lambda name: name.strip(".") == name)


@given(subjects, queues, queues, subjects)
def test_a_pair_of_connectors_maps_replies_both_ways(
    subject: str, asked: str, answered: str, answers: str
) -> None:
    if (subject, asked) == (answers, answered):
        return  # a circle
    replies = pair(subject, asked, answered, answers)
    # A NATS request that wants its answer on a subject: an MQ application answers to the queue that feeds it.
    assert replies.reply_queue(answers, msg_id=b"m", form="bridge") == QueueTarget(answered, "QM1")
    # An MQ request that wants its answer on a queue: a NATS application answers to the subject that feeds it.
    assert replies.subject(f"{asked}@QM1") == subject
    assert replies.subject(asked, "QM1") == subject
    assert replies.subject(f"{asked}@ELSEWHERE") is None


def test_a_subject_comes_before_a_channel() -> None:
    both = replies_of(
        [
            connector("Stan2Queue", queue="Q", channel="chan"),
            connector("NATS2Queue", queue="Q", subject="sub"),
        ]
    )
    assert (both.subject("Q@QM1"), both.channel("Q@QM1")) == ("sub", None)
    alone = replies_of([connector("Stan2Queue", queue="Q", channel="chan")])
    assert (alone.subject("Q@QM1"), alone.channel("Q@QM1")) == (None, "chan")


def test_a_reply_subject_is_its_own() -> None:
    replies = replies_of([connector("NATS2Queue", queue="Q", subject="s")])
    assert [replies.subject("answers"), replies.subject("_INBOX.a.b")] == ["answers", "_INBOX.a.b"]


def test_a_channel_has_its_reply_queue_too() -> None:
    replies = replies_of([connector("Queue2Stan", queue="Q", channel="chan")])
    assert replies.reply_queue("chan", msg_id=b"m", form="bridge") == QueueTarget("Q", "QM1")


def test_an_inbox_is_answered_through_the_queue_that_the_bridge_keeps() -> None:
    replies = pair("ask", "REQ", "REP", "answers")
    queue = replies.reply_queue("_INBOX.abc.1", msg_id=b"id-1\0\0", form="body")
    assert queue == QueueTarget("ISTHMUS.REPLY", "QM1")
    assert replies.requester("ISTHMUS.REPLY", b"id-1") == ("_INBOX.abc.1", "body")
    assert replies.requester("ISTHMUS.REPLY", b"id-2") is None
    assert replies.requester("REP", b"id-1") is None
    made = plan({"in": connector("NATS2Queue", queue="Q", subject="s")}, reply_queue="ISTHMUS.REPLY")
    intake, route = made.intakes[-1], made.routes[-1]
    assert (intake.edge, intake.address) == ("mq", "ISTHMUS.REPLY")
    assert (route.edge, route.destination) == ("nats", "_INBOX")
    assert takes(route.predicate, "ISTHMUS.REPLY")


def test_without_a_reply_queue_an_inbox_has_no_answer() -> None:
    replies = replies_of([connector("NATS2Queue", queue="Q", subject="s")])
    assert replies.reply_queue("_INBOX.a", msg_id=b"m", form="bridge") is None


def test_n_connectors_are_n_intakes_and_n_routes() -> None:
    made = plan({f"c{n}": connector("Queue2NATS", queue=f"Q{n}", subject=f"s{n}") for n in range(20)})
    assert (len(made.intakes), len(made.routes)) == (20, 20)


def test_the_queue_manager_is_that_of_the_connector() -> None:
    settings = connector("Queue2NATS", queue="Q", subject="s", **{"mq.username": "app", "mq.password": "pw"})
    manager = settings.manager(MqSettings())
    assert (manager.queue_manager, manager.channel, manager.address) == ("QM1", "DEV.APP", "localhost(1414)")
    assert (manager.user, manager.password) == ("app", "pw")
    assert "pw'" not in repr(settings)


def test_what_a_connector_does_not_say_of_mq_is_as_mq_says() -> None:
    mq = MqSettings(client="memory", queue_manager="QM0", library="/lib")
    alone = ConnectorSettings.of({"type": "Queue2NATS", "queue": "Q", "subject": "s"})
    assert alone.manager(mq) == mq
    own = connector("Queue2NATS", queue="Q", subject="s").manager(mq)
    assert (own.client, own.library, own.queue_manager) == ("memory", "/lib", "QM1")


def test_queue_managers_have_outboxes_of_their_own() -> None:
    other = {"mq.queuemanager": "QM2"}
    made = plan(
        {
            "a": connector("NATS2Queue", queue="Q", subject="a"),
            "b": connector("NATS2Queue", queue="Q", subject="b"),
            "c": connector("NATS2Queue", queue="Q", subject="c", **other),
            "d": connector("NATS2Queue", queue="Q", subject="d", **other, **{"mq.username": "app"}),
            "e": ConnectorSettings.of({"type": "NATS2Queue", "queue": "Q", "subject": "e"}),
        }
    )
    assert [route.outbox for route in made.routes] == ["mq.QM1", "mq.QM1", "mq.QM2", "mq.d", "mq"]
    assert [made.managers[name].queue_manager for name in ("mq", "mq.QM1", "mq.d")] == [None, "QM1", "QM2"]


def test_a_request_whose_queue_manager_was_filled_in_by_mq_finds_its_subject() -> None:
    unnamed = ConnectorSettings.of({"type": "NATS2Queue", "queue": "Q", "subject": "s"})
    assert replies_of([unnamed]).subject("Q@QM1") == "s"
    channel = ConnectorSettings.of({"type": "Stan2Queue", "queue": "Q", "channel": "c"})
    assert replies_of([channel]).channel("Q@QM1") == "c"


def test_a_subject_that_an_intake_takes_too_is_told_apart_by_a_tag() -> None:
    connectors = {"c": connector("NATS2Queue", queue="Q", subject="orders.eu")}
    [intake] = plan_connectors(connectors, MqSettings(), ["orders.>"]).intakes
    assert intake.tag == "c"
    [intake] = plan_connectors(connectors, MqSettings(), ["events"]).intakes
    assert intake.tag is None
