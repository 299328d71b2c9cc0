"""Kafka goes away and comes back: nothing is lost, and routing goes on without a restart."""

from __future__ import annotations

from pathlib import Path

from tests.support.commands import Running
from tests.support.pipeline.bridge import text_message
from tests.support.polling import eventually

from isthmus.config.model.settings import JournalSettings
from isthmus.embedded.kafka import EmbeddedKafka
from isthmus.journal.layout import Entry, Op
from isthmus.journal.writer import JournalWriter
from isthmus.kafka.blocking import create_topics, read_topic
from isthmus.kafka.options import Kafka

CONFIG = """
bridge.id=away
kafka.bootstrap.servers={servers}
state.dir={folder}/state
journal.partitions=2
monitor.port=0
amqp.enabled=false
routes.r.predicate=msg.address==a
routes.r.dest.topic=away-out
"""


def test_routing_goes_on_when_kafka_is_back(tmp_path: Path) -> None:
    broker = EmbeddedKafka(tmp_path / "kafka")
    broker.start()
    try:
        kafka = Kafka(broker.bootstrap_servers)
        create_topics(kafka, ["away-out"], 2)
        create_topics(kafka, ["isthmus.away.journal"], 3)
        config = tmp_path / "away.properties"
        config.write_text(CONFIG.format(servers=kafka.servers, folder=tmp_path))

        def send(body: str) -> None:
            with JournalWriter(kafka, JournalSettings(topic="isthmus.away.journal")) as writer:
                writer.write(Entry(Op.ADD, text_message("a", body))).result()

        def arrived(body: bytes) -> bool:
            return body in {record.value() for record in read_topic(kafka, "away-out")}

        with Running(tmp_path, config, command="pipeline") as running:
            send("before")
            eventually(lambda: arrived(b"before"), timeout_s=120, what=running.printed)
            broker.stop()
            broker.start()
            assert broker.bootstrap_servers == kafka.servers
            send("after")
            eventually(lambda: arrived(b"after"), timeout_s=120, what=running.printed)
            assert running.process.poll() is None
    finally:
        broker.stop()
