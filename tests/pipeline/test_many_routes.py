"""Many routes by address are looked up: the first that matches takes the message all the same."""

from __future__ import annotations

import time

from pyspark.sql import SparkSession
from tests.support.pipeline.bridge import text_message
from tests.support.pipeline.rows import source_rows

from isthmus.journal import layout
from isthmus.journal.columns import MessageColumns
from isthmus.journal.layout import Entry, Op
from isthmus.pipeline import router
from isthmus.routing.decide import decide
from isthmus.routing.plan import RoutingPlan
from isthmus.routing.predicate import parse
from isthmus.routing.route import Route

MANY = 200


def test_many_routes_by_address_choose_as_the_reference_does(spark: SparkSession) -> None:
    by_address = [f"msg.address==a{number % (MANY - 5)}" for number in range(MANY)]
    predicates = [
        'msg.address=="a1" && exists(msg.header.first)',
        *by_address[: MANY // 2],
        "msg.header.between==yes",
        "msg.address==a7",
        *by_address[MANY // 2 :],
        "msg.address==\"quoted 'text' ü\"",
        "msg.header.last==yes",
    ]
    routes = tuple(Route(f"r{place}", parse(text), "t") for place, text in enumerate(predicates))
    plan = RoutingPlan(bridge_id="b", journal_topic="j", routes=routes, partitions={"t": 1})
    messages = [
        *(text_message(f"a{number}") for number in range(MANY)),
        text_message("a1", first="x"),
        text_message("a150", between="yes"),
        text_message("quoted 'text' ü"),
        text_message("elsewhere", last="yes"),
        text_message("elsewhere"),
        text_message(""),
    ]
    placed = [("j", layout.encode(Entry(Op.ADD, message))) for message in messages]
    columns = MessageColumns("j", other_topics=False)
    rows = router.decide(source_rows(spark, placed), plan, columns).select("offset", "route").collect()
    expected = [
        decide(plan, "j", 0, offset, record, now_ms=round(time.time() * 1000))[0].route
        for offset, (_, record) in enumerate(placed)
    ]
    assert {row["offset"]: row["route"] for row in rows} == {
        offset: None if route is None else routes.index(route) for offset, route in enumerate(expected)
    }
