"""Columns are made once for a plan, however many queries run it."""

from __future__ import annotations

import pytest
from py4j.java_gateway import GatewayClient
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.support.pipeline.rows import source_rows
from tests.support.routing import JOURNAL, journaled, message, plan, route

from isthmus.pipeline import router
from isthmus.pipeline.steps import recorded


def test_steps_are_made_once_and_taken_with_any_rows(spark: SparkSession) -> None:
    made = []

    def make(rows: DataFrame) -> DataFrame:
        made.append(rows)
        return rows.withColumn("b", F.col("id") + 1).transform(lambda each: each.where(F.col("b") > 2))

    steps = recorded(make)
    assert [list(row) for row in steps(spark.range(3)).collect()] == [[2, 3]]
    assert [list(row) for row in steps(spark.range(4)).collect()] == [[2, 3], [3, 4]]
    assert len(made) == 1


def test_a_plan_that_was_used_is_built_again_with_few_calls(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0
    send = GatewayClient.send_command

    def counted(self: GatewayClient, command: str, *arguments: object) -> str:
        nonlocal calls
        calls += 1
        return send(self, command, *arguments)

    by = plan(route(key="k"), partitions={"t": 1})
    rows = source_rows(spark, [(JOURNAL, journaled(message(k="1")))])
    monkeypatch.setattr(GatewayClient, "send_command", counted)
    router.route(rows, by)
    first, calls = calls, 0
    again = router.route(rows, by)
    assert calls < first / 3
    assert [row["topic"] for row in again.collect()] == ["t"]


def test_another_plan_has_columns_of_its_own(spark: SparkSession) -> None:
    rows = source_rows(spark, [(JOURNAL, journaled(message()))])
    topics = [
        [row["topic"] for row in router.route(rows, plan(route(topic=topic), partitions={})).collect()]
        for topic in ("t", "u", "t")
    ]
    assert topics == [["t"], ["u"], ["t"]]
