"""What is explained of a message is what Spark does with it."""

from __future__ import annotations

from itertools import product

from pyspark.sql import SparkSession
from tests.support.pipeline.rows import source_rows
from tests.support.routing import JOURNAL, message, plan, route

from isthmus.journal import layout
from isthmus.journal.columns import MessageColumns
from isthmus.journal.layout import AddressTopic, Entry, Op
from isthmus.message import Header, HeaderType
from isthmus.pipeline import measures, router
from isthmus.routing.explain import explain
from isthmus.routing.route import OnError, direct_route

ROUTES = [
    route("msg.address==orders && msg.header.region in (EU, 'United Kingdom')", "eu", name="eu", key="Cust"),
    route("msg.header.amount>=1000 || !exists(msg.header.region)", "large", name="large"),
    route("msg.address=~'^orders(/|$)' && msg.header.region!=EU", "rest", name="rest", convert="default"),
]
ADDRESSES = ("orders", "orders/eu", "elsewhere")
HEADERS: list[dict[str, Header]] = [
    {},
    {"region": Header("EU")},
    {"region": Header("EU"), "Cust": Header("c-7")},
    {"region": Header("United Kingdom"), "Cust": Header("!!!")},
    {"region": Header("US"), "amount": Header("2000", HeaderType.INT)},
    {"region": Header("US"), "amount": Header("999.5", HeaderType.DOUBLE)},
    {"region": Header("US"), "Expiration": Header("1", HeaderType.LONG)},
]
MESSAGES = [message(address, **headers) for address, headers in product(ADDRESSES, HEADERS)]


def test_explained_and_routed_are_the_same(spark: SparkSession) -> None:
    by = plan(*ROUTES, direct_route("jms"), on_error=OnError.DEAD_LETTER, dead_letter_topic="dead")
    topic = AddressTopic("somewhere", 4, 1_000_000)
    placed = [(JOURNAL, layout.encode(Entry(Op.ADD, each, topic=topic))) for each in MESSAGES]
    seen = MessageColumns(JOURNAL, other_topics=False)
    rows = {row["offset"]: row for row in router.decide(source_rows(spark, placed), by, seen).collect()}
    for offset, (_, record) in enumerate(placed):
        explanation = explain(by, record, now_ms=1_800_000_000_000, position=(JOURNAL, 0, offset))
        row, (result,) = rows[offset], explanation.results
        assert row["outcome"] == measures.code(result.outcome), explanation
        taken = None if row["route"] is None else by.routes[row["route"]].name
        assert taken == explanation.route == result.route, explanation
        if result.code is not None:
            assert (row["error"]["code"], row["error"]["message"]) == (result.code, result.reason)
        else:
            assert (row["new_topic"], row["new_key"]) == (result.topic, result.key), explanation
