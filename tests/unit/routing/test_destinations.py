"""JMS destinations: which copies of a message there are, and in which form."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.support.routing import JOURNAL, NOW_MS, message, plan, route

from isthmus.converters.jms import ENCODED
from isthmus.journal import layout
from isthmus.journal.layout import AddressTopic, Entry, Op
from isthmus.message import Body, BodyKind, Header, HeaderType
from isthmus.routing.decide import Decision, decide
from isthmus.routing.plan import Outcome, RoutingPlan
from isthmus.routing.route import OnError, destination_route, destinations_route, direct_route

ORDERS = AddressTopic("orders", 4, 10_000, is_destination=True)


def copies(by: RoutingPlan, topic: AddressTopic | None = ORDERS, **headers: Any) -> list[Decision]:
    """What becomes of a message to ``orders``."""
    record = layout.encode(Entry(Op.ADD, message(**headers), topic=topic))
    return decide(by, JOURNAL, 0, 0, record, now_ms=NOW_MS)


def keeping(*routes: Any, **options: Any) -> RoutingPlan:
    return plan(*routes, destinations_route(), keep_destinations=True, **options)


def topics(decisions: list[Decision]) -> list[str | None]:
    return [each.topic for each in decisions]


def test_a_message_goes_where_its_route_says_and_to_its_destination() -> None:
    assert topics(copies(keeping(route(topic="t")))) == ["t", "orders"]


def test_one_that_no_route_takes_goes_to_its_destination() -> None:
    assert topics(copies(keeping(route("msg.address==other")))) == ["orders"]


def test_a_route_to_the_destination_itself_makes_the_only_copy() -> None:
    by = route(topic="orders", key="region")
    [decision] = copies(keeping(by), region="EU")
    assert (decision.route, decision.topic) == (by, "orders")


@pytest.mark.parametrize("topic", [None, ORDERS._replace(is_destination=False)])
def test_what_no_amqp_client_has_sent_has_no_destination(topic: AddressTopic | None) -> None:
    assert topics(copies(keeping(route(topic="t")), topic)) == ["t"]
    assert [each.outcome for each in copies(keeping(), topic)] == [Outcome.UNMATCHED]


def test_without_keep_there_is_one_copy() -> None:
    routed = plan(route(topic="t"), direct_route("jms"))
    assert topics(copies(routed)) == ["t"]
    assert topics(copies(plan(direct_route("jms")))) == ["orders"]


def test_with_a_direct_route_there_is_one_copy_for_the_destination() -> None:
    assert topics(copies(plan(direct_route("jms"), keep_destinations=True))) == ["orders"]


def test_the_copy_has_the_form_in_which_a_route_writes_the_topic() -> None:
    own = destination_route("orders", "raw")
    for last in (destinations_route(), direct_route("default")):
        by = plan(route(topic="t"), own, last, keep_destinations=True)
        assert [each.route for each in copies(by)] == [by.routes[0], own]
        alone = plan(own, last, keep_destinations=True)
        assert [each.route for each in copies(alone)] == [own]


def test_a_message_that_is_not_durable_reaches_its_destination() -> None:
    skipping = keeping(route(topic="t"), propagate_non_durable=False)
    assert topics(copies(skipping, DeliveryMode="NON_PERSISTENT")) == ["orders"]
    assert topics(copies(skipping, DeliveryMode="PERSISTENT")) == ["t", "orders"]


def test_one_that_has_expired_reaches_nobody() -> None:
    expired = Header("1", HeaderType.LONG)
    [decision] = copies(keeping(route(topic="t")), Expiration=expired)
    assert decision.outcome is Outcome.EXPIRED


def test_each_copy_fails_by_itself() -> None:
    by = keeping(route(topic="t", key="missing", on_error=OnError.SKIP))
    assert [each.outcome for each in copies(by)] == [Outcome.SKIPPED, Outcome.PUBLISHED]
    small = ORDERS._replace(max_message_bytes=10)
    letters = keeping(route(topic="t"), on_error=OnError.DEAD_LETTER, dead_letter_topic="dead")
    first, second = copies(letters, small)
    assert (first.topic, second.topic) == ("t", "dead")
    assert second.record is not None
    assert dict(second.record.headers)["isthmus.error.route"] == b"isthmus.destinations"


def test_a_topic_that_is_gone_is_a_soft_failure() -> None:
    [decision] = copies(keeping(on_error=OnError.SKIP, missing_topics=frozenset({"orders"})))
    assert decision.outcome is Outcome.SKIPPED
    assert str(decision.error) == "there is no topic orders"


@pytest.mark.parametrize("kind", [BodyKind.MAP, BodyKind.STREAM, BodyKind.OBJECT, BodyKind.OTHER])
def test_what_has_no_jms_form_is_kept_as_it_came(kind: BodyKind) -> None:
    of_kind = replace(message(), body=Body(kind))
    record = layout.encode(Entry(Op.ADD, of_kind, topic=ORDERS))
    [decision] = decide(keeping(), JOURNAL, 0, 0, record, now_ms=NOW_MS)
    assert decision.record is not None
    assert decision.record.value == of_kind.value
    assert ENCODED in decision.record.headers
