"""The reference router: which route takes a message, and what is published."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.routing import NOW_MS, PLACE, decided, journaled, message, plan, route

from isthmus.journal.layout import Op, Record
from isthmus.message import Body, BodyKind, Header, HeaderType, Span
from isthmus.routing.decide import Decision
from isthmus.routing.plan import Outcome

MARKS = [("jmsbridge.origin", b"b"), ("isthmus.id", PLACE.encode())]


def published(decision: Decision) -> Record:
    assert decision.outcome is Outcome.PUBLISHED
    assert decision.record is not None
    return decision.record


# --- routing --------------------------------------------------------------------------------------------


def test_the_routes_of_the_design_document_do_what_it_says() -> None:
    routes = (
        route("msg.address==foo-topic", "foobar-topic", name="foo-route", key="CorrelationId"),
        route("msg.address==bar-topic", "foobar-topic", name="bar-route", key="CorrelationId"),
    )
    for address, expected in (("foo-topic", routes[0]), ("bar-topic", routes[1])):
        decision = decided(plan(*routes), message(address, CorrelationId="c-1"))
        assert decision.route is expected
        assert decision.topic == "foobar-topic"
        assert published(decision).key == b"c-1"
    assert decided(plan(*routes), message("other")).outcome is Outcome.UNMATCHED


def test_only_the_first_route_that_matches_takes_the_message() -> None:
    first, second = route(topic="first", name="one"), route(topic="second", name="two")
    assert decided(plan(first, second), message()).topic == "first"
    assert decided(plan(second, first), message()).topic == "second"


def test_routes_are_tried_in_their_order() -> None:
    routes = [route("msg.header.n >= " + str(n), f"t{n}", name=f"r{n}") for n in (30, 20, 10)]
    for n, topic in ((35, "t30"), (25, "t20"), (10, "t10")):
        assert decided(plan(*routes), message(n=Header.of(n))).topic == topic


def test_a_failure_on_the_first_match_is_not_passed_to_the_next() -> None:
    routes = (route(name="one", key="missing"), route(name="two"))
    decision = decided(plan(*routes), message())
    assert decision.outcome is Outcome.STOPPED
    assert decision.route is routes[0]


def test_a_message_that_no_route_takes_is_left_alone() -> None:
    assert decided(plan(route()), message("elsewhere")) == Decision(Outcome.UNMATCHED)
    assert decided(plan(), message()) == Decision(Outcome.UNMATCHED)


# --- what is published ----------------------------------------------------------------------------------


def test_every_header_is_published_as_jms_name_with_the_types_and_the_bridges_marks() -> None:
    sent = message(MessageId="ID:1", amount=Header("3", HeaderType.INT))
    assert published(decided(plan(route()), sent)) == Record(
        b"ID:1",
        b"hello",
        [("jms.MessageId", b"ID:1"), ("jms.amount", b"3"), ("jms.types", b"amount=int;"), *MARKS],
    )


def test_nothing_of_the_journals_index_is_published() -> None:
    names = [name for name, _ in published(decided(plan(route()), message())).headers]
    assert names == ["jmsbridge.origin", "isthmus.id"]


def test_without_a_key_the_message_id_is_the_key() -> None:
    assert published(decided(plan(route()), message(CorrelationId="c"))).key == b"ID:1"


def test_a_header_can_be_the_key() -> None:
    sent = message(amount=Header("3", HeaderType.INT))
    assert published(decided(plan(route(key="amount")), sent)).key == b"3"


def test_the_body_is_cut_out_of_what_arrived() -> None:
    sent = replace(message(), value=b"..hello..", body=Body(BodyKind.TEXT, (Span(2, 5),)))
    assert published(decided(plan(route()), sent)).value == b"hello"


def test_bytes_are_published_as_they_are() -> None:
    sent = replace(message(), value=b"\x00\xff", body=Body(BodyKind.BYTES))
    assert published(decided(plan(route()), sent)).value == b"\x00\xff"


def test_a_message_without_a_body_is_published_without_a_value() -> None:
    sent = replace(message(), value=b"encoded headers", body=Body(BodyKind.EMPTY))
    assert published(decided(plan(route()), sent)).value is None


def test_the_stable_id_is_the_same_however_often_the_record_is_read() -> None:
    first, second = (published(decided(plan(route()), message())) for _ in range(2))
    assert first == second
    assert dict(first.headers)["isthmus.id"] == b"journal:2:7"


# --- what is not routed ---------------------------------------------------------------------------------


def test_a_tombstone_in_the_journal_is_no_message() -> None:
    assert decided(plan(route()), Record(b"ID:1", None, [])) == Decision(Outcome.IGNORED)


@pytest.mark.parametrize("op", sorted(set(Op) - {Op.ADD}))
def test_what_is_for_the_ledger_is_not_routed(op: Op) -> None:
    assert decided(plan(route()), journaled(message(), op)) == Decision(Outcome.IGNORED)


def with_header(name: str, value: bytes) -> Record:
    record = journaled(message())
    return record._replace(headers=[*record.headers, (name, value)])


def test_what_this_bridge_published_is_not_published_again() -> None:
    assert decided(plan(route()), with_header("jmsbridge.origin", b"b")) == Decision(Outcome.LOOPED)


def test_what_another_bridge_published_is_published_with_both_origins() -> None:
    record = published(decided(plan(route()), with_header("jmsbridge.origin", b"other")))
    assert [value for name, value in record.headers if name == "jmsbridge.origin"] == [b"other", b"b"]


def test_a_message_that_has_been_round_several_bridges_stops_at_the_first() -> None:
    record = with_header("jmsbridge.origin", b"b")
    record = record._replace(headers=[*record.headers, ("jmsbridge.origin", b"other")])
    assert decided(plan(route()), record).outcome is Outcome.LOOPED


def test_a_client_cannot_make_a_message_look_looped() -> None:
    sent = message(**{"jmsbridge.origin": "b", "origin": "b"})
    assert decided(plan(route()), sent).outcome is Outcome.PUBLISHED


@pytest.mark.parametrize(
    ("mode", "propagate", "outcome"),
    [
        ("NON_PERSISTENT", True, Outcome.PUBLISHED),
        ("NON_PERSISTENT", False, Outcome.NON_DURABLE),
        ("PERSISTENT", False, Outcome.PUBLISHED),
    ],
)
def test_non_durable_messages_are_propagated_or_skipped(mode: str, propagate: bool, outcome: Outcome) -> None:
    decision = decided(plan(route(), propagate_non_durable=propagate), message(DeliveryMode=mode))
    assert decision.outcome is outcome


@pytest.mark.parametrize(
    ("end", "outcome"),
    [
        (NOW_MS, Outcome.EXPIRED),
        (1, Outcome.EXPIRED),
        (NOW_MS + 1, Outcome.PUBLISHED),
        (0, Outcome.PUBLISHED),
        (-1, Outcome.PUBLISHED),
        ("soon", Outcome.PUBLISHED),
    ],
)
def test_a_message_that_has_expired_is_not_routed(end: int | str, outcome: Outcome) -> None:
    assert decided(plan(route()), message(Expiration=str(end))).outcome is outcome


def test_a_record_of_another_topic_does_not_expire() -> None:
    record = Record(b"k", b"v", [("jms.Expiration", b"1")])
    other = plan(route("msg.address==other"), source_topics=("other",))
    assert decided(other, record, "other").outcome is Outcome.PUBLISHED


def test_a_message_that_does_not_say_is_durable() -> None:
    assert decided(plan(route(), propagate_non_durable=False), message()).outcome is Outcome.PUBLISHED


def test_non_durable_messages_are_propagated_by_default() -> None:
    assert decided(plan(route()), message(DeliveryMode="NON_PERSISTENT")).outcome is Outcome.PUBLISHED
