"""A topic of a route that changes while the bridge runs: the router takes note, and the bridge goes on."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from tests.support.commands import Running, isthmus
from tests.support.polling import eventually

from isthmus.embedded.kafka import find_running
from isthmus.kafka.blocking import admin_client

CONFIGURATION = """
amqp.enabled=false
routing.dead-letter.topic=dead
routing.on-error=dead-letter
routes.r.predicate=msg.address==a
routes.r.dest.topic=out
"""
CHANGED = "max.message.bytes or the partitions of a topic have changed"


def set_limit(folder: Path, topic: str, limit: int) -> None:
    kafka = find_running(folder / ".isthmus" / "kafka")
    assert kafka is not None
    entry = ConfigEntry("max.message.bytes", str(limit), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = admin_client(kafka)
    admin.incremental_alter_configs([resource])[resource].result()


def test_a_changed_limit_is_noticed_while_the_bridge_runs(tmp_path: Path) -> None:
    file = tmp_path / "bridge.properties"
    file.write_text(CONFIGURATION)
    with Running(tmp_path, file) as bridge:
        bridge.wait_until_ready()
        for round, (limit, topic) in enumerate([(1000, "dead"), (100_000, "out")], 1):
            set_limit(tmp_path, "out", limit)
            eventually(lambda round=round: bridge.printed().count(CHANGED) == round, what=bridge.printed)
            sent = isthmus("send", file, "--address", "a", "--body", "x" * 2000, folder=tmp_path)
            assert sent.returncode == 0, sent.stderr
            eventually(lambda topic=topic: bridge.bodies(topic) == [b"x" * 2000], what=bridge.printed)
        assert bridge.stop() == 0, bridge.printed()


def test_a_dead_letter_topic_that_is_deleted_ends_the_bridge_before_a_message_needs_it(
    tmp_path: Path,
) -> None:
    file = tmp_path / "bridge.properties"
    file.write_text(CONFIGURATION)
    with Running(tmp_path, file) as bridge:
        bridge.wait_until_ready()
        kafka = find_running(tmp_path / ".isthmus" / "kafka")
        assert kafka is not None
        admin = admin_client(kafka)  # held until the answer is there
        admin.delete_topics(["dead"])["dead"].result()
        eventually(lambda: bridge.process.poll() is not None, what=bridge.printed)
        assert bridge.process.returncode == 3
        assert "topic dead, the dead-letter topic, does not exist" in bridge.printed()
