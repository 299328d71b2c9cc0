from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from threading import Event

import pytest
from tests.support.polling import PATIENCE_S, eventually
from tests.support.routing import plan, route

from isthmus.errors import HardFailure, Outage
from isthmus.pipeline.topic_watch import TopicWatch, differ
from isthmus.routing.plan import RoutingPlan

PLAN = plan(
    route(topic="t"),
    dead_letter_topic="dead",
    max_message_bytes={"t": 1000, "dead": 1000, "named": 1000},
    partitions={"t": 1, "named": 1},
    max_source_bytes=1000,
)


@pytest.mark.parametrize(
    "changed",
    [
        {"max_message_bytes": {"t": 2000, "dead": 1000}},
        {"max_message_bytes": {"t": 1000, "dead": 2000}},
        {"max_message_bytes": {"t": 1000}},
        {"partitions": {"t": 2}},
        {"max_source_bytes": 2000},
    ],
)
def test_what_holds_of_the_topics_of_routes_is_part_of_the_plan(changed: dict[str, object]) -> None:
    assert differ(replace(PLAN, **changed), PLAN)  # type: ignore[arg-type]


def test_topics_that_only_messages_name_may_come_and_go() -> None:
    others = replace(
        PLAN,
        max_message_bytes={"t": 1000, "dead": 1000, "named": 5, "new": 6},
        partitions={"t": 1, "named": 7, "new": 8},
    )
    assert not differ(others, PLAN)


def answers(watch: TopicWatch) -> list[RoutingPlan]:
    found: list[RoutingPlan] = []

    def answered() -> bool:
        answer = watch.poll()
        if answer is not None:
            found.append(answer)
        return answer is not None

    eventually(answered)
    return found


def test_topics_are_asked_for_now_and_then() -> None:
    now, asked = 0.0, 0

    def ask() -> RoutingPlan:
        nonlocal asked
        asked += 1
        return PLAN

    watch = TopicWatch(ask, look_s=15, clock=lambda: now)
    for _ in range(3):
        assert watch.poll() is None
    assert asked == 0
    now = 15
    assert answers(watch) == [PLAN]
    assert watch.poll() is None
    assert asked == 1
    now = 30
    assert answers(watch) == [PLAN]
    assert asked == 2


def failing(*failures: HardFailure) -> Callable[[], RoutingPlan]:
    left = list(failures)

    def ask() -> RoutingPlan:
        if left:
            raise left.pop(0)
        return PLAN

    return ask


def test_an_absence_of_kafka_is_waited_out() -> None:
    away = Outage("away", remedy="")
    assert answers(TopicWatch(failing(away, away), look_s=0)) == [PLAN]


GONE = HardFailure("topic t does not exist", remedy="")


def test_a_topic_that_is_gone_is_told() -> None:
    watch = TopicWatch(failing(GONE, GONE), look_s=0)
    with pytest.raises(HardFailure, match="topic t does not exist"):
        answers(watch)


def test_a_topic_that_a_broker_does_not_know_of_yet_is_not_gone() -> None:
    watch = TopicWatch(failing(GONE), look_s=0)
    assert answers(watch) == [PLAN]


def test_a_look_that_began_before_a_reload_is_not_compared_with_its_routes() -> None:
    goes_on, plans = Event(), [PLAN, replace(PLAN, max_source_bytes=7)]

    def ask() -> RoutingPlan:
        answer = plans.pop(0)
        if answer is PLAN:
            assert goes_on.wait(PATIENCE_S)
        return answer

    watch = TopicWatch(ask, look_s=0)
    eventually(lambda: (watch.poll(), len(plans))[1] == 1)
    watch.forget()
    goes_on.set()
    assert [each.max_source_bytes for each in answers(watch)] == [7]
