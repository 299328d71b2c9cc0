"""The router is one native plan, and real-time mode takes it."""

from __future__ import annotations

from pyspark.sql import SparkSession
from tests.support.pipeline.bridge import TestBridge, text_message
from tests.support.polling import eventually

from isthmus.pipeline.prepare import prepare
from isthmus.pipeline.publish import start_router
from isthmus.routing.route import OnError


def test_the_running_plan_is_native_and_real_time(spark: SparkSession, bridge: TestBridge) -> None:
    bridge.make_topics("out", "dead", "in")
    settings = bridge.settings(
        bridge.route("r", 'msg.address=~"^a" || msg.header.n>3', "out", key="CorrelationId"),
        bridge.route("s", "msg.header.x in (1, b)", "out"),
        dead_letter_topic=bridge.name("dead"),
        on_error=OnError.DEAD_LETTER,
        source_topics=(bridge.name("in"),),
        non_durable="skip",
    )
    plan, _ = prepare(settings, bridge.kafka)
    query = start_router(spark, bridge.kafka, plan, settings.pipeline, str(bridge.folder / "checkpoint"))
    try:
        eventually(lambda: "RealTimeStreamScan" in query._jsq.explainInternal(True), timeout_s=60)
        physical = query._jsq.explainInternal(True).partition("== Physical Plan ==")[2]
    finally:
        query.stop()

    assert "WriteToDataSourceV2" in physical
    assert "CollectMetrics" in physical
    for foreign in ("Python", "Arrow", "Pandas", "ForeachBatch", "Exchange", "ScalaUDF"):
        assert foreign not in physical


def test_micro_batch_mode_runs_the_same_router(spark: SparkSession, bridge: TestBridge) -> None:
    bridge.make_topics("out")
    settings = bridge.settings(bridge.route("r", "msg.address==a", "out"))
    micro_batch = settings.pipeline.replace(mode="micro-batch")
    plan, _ = prepare(settings, bridge.kafka)
    bridge.write([text_message("a", "one")], settings)
    query = start_router(spark, bridge.kafka, plan, micro_batch, str(bridge.folder / "checkpoint"))
    try:
        eventually(lambda: bridge.bodies("out") == ["one"], timeout_s=60)
        assert "MicroBatchScan" in query._jsq.explainInternal(True)
    finally:
        query.stop()
