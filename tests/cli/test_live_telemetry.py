"""What a running bridge shows of its router before the first batch has ended."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.commands import Running
from tests.support.pipeline.bridge import text_message
from tests.support.polling import eventually

from isthmus.config.model.settings import JournalSettings
from isthmus.journal.layout import Entry, Op
from isthmus.journal.writer import JournalWriter
from isthmus.kafka.blocking import create_topics
from isthmus.kafka.options import Kafka

CONFIG = """
bridge.id=live
kafka.bootstrap.servers={servers}
state.dir={folder}/state
journal.partitions=1
monitor.port=0
pipeline.real-time.batch=10m
routes.orders.predicate=msg.address==orders
routes.orders.dest.topic=live-orders
routes.orders.conv.key=msg.header.number
routes.orders.on-error=skip
"""


def test_counts_latency_and_failures_are_there_long_before_the_batch_ends(
    kafka_servers: str, tmp_path: Path
) -> None:
    kafka, file = Kafka(kafka_servers), tmp_path / "live.properties"
    file.write_text(CONFIG.format(servers=kafka_servers, folder=tmp_path))
    create_topics(kafka, ["live-orders"], 1)
    with Running(tmp_path, file, command="pipeline") as running:
        running.wait_until_ready()
        with JournalWriter(kafka, JournalSettings(topic="isthmus.live.journal")) as writer:
            for number in range(10):
                writer.write(Entry(Op.ADD, text_message("orders", str(number), number=number)))
            writer.write(Entry(Op.ADD, text_message("orders", "no number")))

        def metric(name: str) -> float:
            found = re.search(
                rf'^{name}{{bridge="live"}} (\S+)$', running.monitor("/metrics")[1], re.MULTILINE
            )
            assert found
            return float(found[1])

        eventually(
            lambda: (
                metric("isthmus_routing_success_rate_total") == 10
                and metric("isthmus_routing_failure_rate_total") == 1
                and metric("isthmus_routing_latency_avg_seconds") > 0
                and metric("isthmus_routing_age_avg_seconds") > 0
            ),
            what=lambda: running.printed() + running.monitor("/metrics")[1],
        )
        assert metric("isthmus_routing_lag_records") == 0
        sampled = re.compile(
            r'^isthmus_end_to_end_latency_seconds_count{.*route="orders"} (\S+)$', re.MULTILINE
        )
        counted = sampled.search(running.monitor("/metrics")[1])
        assert counted
        assert float(counted[1]) >= 1
        line = (
            r"skipped: the message at isthmus\.live\.journal:\d:\d+ by route orders: no header number \(key\)"
        )
        eventually(lambda: re.search(line, running.printed()), what=running.printed)
