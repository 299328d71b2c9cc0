"""What the router tells while it runs: events, and JMX beans."""

from __future__ import annotations

from pyspark.sql import SparkSession
from tests.support.pipeline.bridge import TestBridge, text_message

from isthmus.journal.layout import Entry, Op
from isthmus.routing.route import OnError
from isthmus.telemetry.events import SAMPLE, Event
from isthmus.telemetry.jmx import RouterBeans
from isthmus.telemetry.metrics import RouterMetrics


def failures(events: list[Event]) -> list[Event]:
    return [event for event in events if event.code is not None]


def test_each_soft_failure_is_an_event_with_position_route_code_and_reason(
    spark: SparkSession, bridge: TestBridge
) -> None:
    bridge.make_topics("out", "dead")
    settings = bridge.settings(
        bridge.route("skips", "msg.address==a", "out", key="k", on_error=OnError.SKIP),
        bridge.route("keeps", "msg.address==b", "out", key="k"),
        on_error=OnError.DEAD_LETTER,
        dead_letter_topic=bridge.name("dead"),
    )
    messages = [text_message("a", "1"), text_message("b", "2"), text_message("a", "3", k="x")]
    skipped, dead, _ = bridge.write(messages, settings)
    bridge.run(spark, settings)
    told = {event.position: event for event in failures(bridge.events(settings))}
    at = {
        name: f"{each.topic}:{each.partition}:{each.offset}" for name, each in (("s", skipped), ("d", dead))
    }
    assert set(told) == set(at.values())
    assert (told[at["s"]].outcome, told[at["s"]].route) == ("skipped", "skips")
    assert (told[at["d"]].outcome, told[at["d"]].route) == ("dead-lettered", "keeps")
    assert {(event.code, event.reason) for event in told.values()} == {("key", "no header k")}
    assert bridge.bodies("out") == ["3"]
    assert bridge.bodies("dead") == ["2"]


def test_one_record_in_a_hundred_is_measured_whatever_it_is(spark: SparkSession, bridge: TestBridge) -> None:
    bridge.make_topics("out")
    settings = bridge.settings(bridge.route("r", "msg.address==a", "out"))
    deleted = text_message("a")
    entries = [Entry(Op.DELETE, deleted), *(Entry(Op.ADD, text_message("a", "x")) for _ in range(SAMPLE))]
    bridge.write(entries, settings)
    counts = bridge.run(spark, settings)
    events = bridge.events(settings)
    assert {event.place[2] for event in events if event.place} == {0, SAMPLE}
    assert sorted(event.outcome for event in events) == ["ignored", "published"]
    assert all(event.age_ms is not None and event.routing_ns is not None for event in events)
    assert counts.routes[0].success == SAMPLE == len(bridge.records("out"))


def test_the_three_metrics_are_jmx_beans(spark: SparkSession) -> None:
    metrics = RouterMetrics("b", {"r": "t"})
    metrics.told(Event(position="j:0:0", outcome="published", route="r", age_ms=9, routing_ns=250_000))
    metrics.told(Event(position="j:0:1", outcome="skipped", route="r", code="key", reason=""))
    metrics.see_topics({"t": 1})
    metrics.see_topics({"t": 5})
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    beans = RouterBeans(jvm)
    beans.show(metrics)
    server = jvm.java.lang.management.ManagementFactory.getPlatformMBeanServer()
    name = jvm.javax.management.ObjectName(
        "kafka.streams:type=stream-jms-bridge-metrics,jms-bridge-id=router"
    )

    def ask(method: str, *arguments: object) -> object:
        """By its interface: its class is not for others to see, so py4j does not find its methods."""
        java = jvm.java.lang
        interface = java.Class.forName("javax.management.MBeanServer")
        [found] = [
            each
            for each in interface.getMethods()
            if each.getName() == method and each.getParameterCount() == len(arguments)
        ]
        given = spark.sparkContext._gateway.new_array(java.Object, len(arguments))  # type: ignore[union-attr]
        for place, argument in enumerate(arguments):
            given[place] = argument
        return found.invoke(server, given)

    shown = {
        attribute: ask("getAttribute", name, attribute)
        for attribute in ("routing-latency-avg", "routing-success-rate", "routing-failure-rate")
    }
    beans.close()
    assert shown == {"routing-latency-avg": 0.25, "routing-success-rate": 4.0, "routing-failure-rate": 1.0}
    assert not ask("isRegistered", name)
