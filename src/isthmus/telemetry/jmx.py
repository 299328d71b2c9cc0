"""The three metrics of a JMS bridge as JMX beans, under the names that they have always had::

    kafka.streams:type=stream-jms-bridge-metrics,jms-bridge-id=router
        routing-latency-avg     average time to route and convert a message, in ms
        routing-success-rate    successful routings since the start
        routing-failure-rate    failed routings since the start

Kafka's own ``Metrics`` and ``JmxReporter`` make them, in the JVM of Spark's driver. JMX' own options say who
may look, such as ``SPARK_SUBMIT_OPTS=-Dcom.sun.management.jmxremote.port=9999``.
"""

from __future__ import annotations

from typing import Any

from isthmus.telemetry.metrics import RouterMetrics

GROUP, TAGS = "stream-jms-bridge-metrics", {"jms-bridge-id": "router"}
DOMAIN = "kafka.streams"


class RouterBeans:
    """The beans, in a JVM that has Kafka's client on its class path."""

    def __init__(self, jvm: Any) -> None:
        """``jvm`` is py4j's view of it."""
        common = jvm.org.apache.kafka.common
        reporter = common.metrics.JmxReporter()
        context = common.metrics.KafkaMetricsContext(DOMAIN)
        reporters = jvm.java.util.ArrayList()
        reporters.add(reporter)
        self._metrics = common.metrics.Metrics(
            common.metrics.MetricConfig(), reporters, common.utils.Time.SYSTEM, context
        )
        self._sensors = {
            name: self._sensor(jvm, name, meaning)
            for name, meaning in (
                ("routing-latency-avg", "average time to route and convert a message, in ms"),
                ("routing-success-rate", "successful routings since the start"),
                ("routing-failure-rate", "failed routings since the start"),
            )
        }
        self._shown: dict[str, float] = {}

    def _sensor(self, jvm: Any, name: str, meaning: str) -> Any:
        tags = jvm.java.util.HashMap()
        for tag, value in TAGS.items():
            tags.put(tag, value)
        sensor = self._metrics.sensor(name)
        sensor.add(
            self._metrics.metricName(name, GROUP, meaning, tags),
            jvm.org.apache.kafka.common.metrics.stats.Value(),
        )
        return sensor

    def show(self, metrics: RouterMetrics) -> None:
        """Bring them up to date."""
        total = metrics.total
        values = {
            "routing-latency-avg": total.routing_avg_ms or 0.0,
            "routing-success-rate": float(total.success),
            "routing-failure-rate": float(total.failure),
        }
        for name, value in values.items():
            if self._shown.get(name) != value:
                self._sensors[name].record(value)
        self._shown = values

    def close(self) -> None:
        """Take them away."""
        self._metrics.close()
