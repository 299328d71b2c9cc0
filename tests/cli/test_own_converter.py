"""A converter of the user's own, in a file beside the configuration."""

from __future__ import annotations

from pathlib import Path

from tests.support.commands import Running, isthmus
from tests.support.polling import eventually

CONVERTER = """
from isthmus import AmqpMessage, KafkaRecord, converters


class Capitals:
    def to_kafka_record(self, message: AmqpMessage) -> KafkaRecord:
        return KafkaRecord(None, "k", message.body.value.upper().encode())

    to_amqp_message = staticmethod(converters.default.to_amqp_message)
"""
SETTINGS = """
bridge.id=own
pipeline.master=local[2]
amqp.enabled=false
routes.r.predicate=msg.address==orders
routes.r.dest.topic=loud
routes.r.conv.message=capitals_beside:Capitals
"""


def test_a_class_beside_the_configuration_file_converts_and_the_start_says_in_which_mode(
    tmp_path: Path,
) -> None:
    configured = tmp_path / "configured here"
    folder = tmp_path / "started there"
    for each in (configured, folder):
        each.mkdir()
    (configured / "capitals_beside.py").write_text(CONVERTER)
    file = configured / "bridge.properties"
    file.write_text(SETTINGS)
    assert "micro-batch is used" in isthmus("check", file, folder=folder).stdout
    with Running(folder, file) as bridge:
        bridge.wait_until_ready()
        assert "mode micro-batch (for capitals_beside:Capitals, which is Python)" in bridge.printed()
        sent = isthmus("send", "--address", "orders", "--body", "hello", file, folder=folder)
        assert sent.returncode == 0, sent.stderr
        eventually(lambda: bridge.bodies("loud") == [b"HELLO"], timeout_s=120)
