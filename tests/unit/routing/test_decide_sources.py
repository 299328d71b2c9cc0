"""Records of other Kafka topics in the reference router: a record's address is its topic."""

from __future__ import annotations

import pytest
from tests.support.routing import decided, plan, route

from isthmus.errors import KeyFailure
from isthmus.journal.layout import KafkaHeaders, Record
from isthmus.routing.decide import Decision
from isthmus.routing.plan import Outcome
from isthmus.routing.route import Route

EVENTS = route("msg.address==events")


def of_events(
    headers: KafkaHeaders = (), value: bytes | None = b"v", *, by: Route = EVENTS, key: bytes | None = b"k"
) -> Decision:
    return decided(plan(by, source_topics=("events",)), Record(key, value, headers), topic="events")


def record(decision: Decision) -> Record:
    assert decision.outcome is Outcome.PUBLISHED
    assert decision.record is not None
    return decision.record


def test_a_record_is_published_with_its_headers_and_the_bridges_marks() -> None:
    assert record(of_events([("trace", b"t1"), ("jms.region", b"EU")])) == Record(
        b"k",
        b"v",
        [
            ("trace", b"t1"),
            ("jms.region", b"EU"),
            ("jmsbridge.origin", b"b"),
            ("isthmus.id", b"events:2:7"),
        ],
    )


def test_any_bytes_are_a_binary_body() -> None:
    assert record(of_events(value=b"\x00\xff")).value == b"\x00\xff"


def test_a_tombstone_is_published_as_a_tombstone() -> None:
    assert record(of_events(value=None)).value is None


@pytest.mark.parametrize("key", [None, b"", b"\xff\xfe"])
def test_without_a_key_header_the_record_keeps_its_key(key: bytes | None) -> None:
    assert record(of_events(key=key)).key == key


def test_headers_can_be_asked_for_with_and_without_their_prefix() -> None:
    by = route("msg.header.region==EU && msg.header.trace==t1", key="trace")
    assert record(of_events([("trace", b"t1"), ("jms.region", b"EU")], by=by)).key == b"t1"


def test_a_binary_header_is_no_key() -> None:
    decision = of_events([("trace", b"\xff")], by=route("msg.address==events", key="trace"))
    assert isinstance(decision.error, KeyFailure)


def test_a_header_that_is_said_to_be_boolean_is_no_key() -> None:
    headers = [("jms.flag", b"true"), ("jms.types", b"flag=boolean;")]
    decision = of_events(headers, by=route("msg.address==events", key="flag"))
    assert isinstance(decision.error, KeyFailure)


def test_what_others_call_like_the_bridges_own_headers_is_dropped() -> None:
    published = record(of_events([("isthmus.id", b"fake"), ("ISTHMUS.op", b"x"), ("kept", b"y")]))
    assert [name for name, _ in published.headers] == ["kept", "jmsbridge.origin", "isthmus.id"]
    assert dict(published.headers)["isthmus.id"] == b"events:2:7"


def test_the_loop_guard_holds_here_too() -> None:
    assert of_events([("jmsbridge.origin", b"b")]) == Decision(Outcome.LOOPED)
    assert of_events([("jmsbridge.origin", b"other")]).outcome is Outcome.PUBLISHED


def test_journal_headers_in_another_topic_mean_nothing() -> None:
    headers = [("isthmus.op", b"COMMIT"), ("isthmus.address", b"elsewhere")]
    assert of_events(headers).outcome is Outcome.PUBLISHED
