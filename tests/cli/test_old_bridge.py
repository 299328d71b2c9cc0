"""The bridge.properties of the old AMQP-Kafka bridge, run as it is."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.support.amqp.wire import Wire, message
from tests.support.commands import Running
from tests.support.polling import eventually

from isthmus.edges.amqp.protocol.terms import Accepted

OLD = """
# Apache Kafka common
bootstrap.servers=embedded

# Apache Kafka producer
key.serializer=org.apache.kafka.common.serialization.StringSerializer
value.serializer=org.apache.kafka.common.serialization.ByteArraySerializer
acks=1

# AMQP receiver
flow.credit=1024

# Bridge specific
bind.host=127.0.0.1
bind.port=0
message.converter=io.rhiot.kafka.bridge.JsonMessageConverter
"""


def test_what_is_sent_is_a_document_in_the_topic_of_its_address(tmp_path: Path) -> None:
    file = tmp_path / "bridge.properties"
    file.write_text(OLD)
    with Running(tmp_path, file) as bridge:
        bridge.wait_until_ready()
        said = bridge.printed()
        assert "without a route a message goes to the topic that its address names, as json" in said
        found = re.search(r"amqp 127\.0\.0\.1:(\d+)", said)
        assert found, said
        with Wire(int(found[1])) as wire:
            sent = wire.open().sender("orders").send(b"1", message("hello"))
            wire.wait(lambda: sent.state == Accepted())
        eventually(lambda: len(bridge.bodies("orders")) == 1, timeout_s=120)
        (document,) = bridge.bodies("orders")
        assert json.loads(document or "")["body"] == {"type": "amqpValue", "section": "hello"}
