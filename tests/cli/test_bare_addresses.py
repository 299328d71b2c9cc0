"""Where an address alone is a queue, its topic is made as a queue's is: the order of its messages holds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.support.amqp.wire import Wire
from tests.support.commands import Running
from tests.support.names import unique

from isthmus.kafka.blocking import describe
from isthmus.kafka.options import Kafka

CONFIGURATION = """
bridge.id={id}
kafka.bootstrap.servers={kafka}
amqp.host=127.0.0.1
amqp.port=0
amqp.auto-create=true
amqp.bare-address={bare}
"""


@pytest.mark.parametrize(("bare", "partitions"), [("queue", 1), ("refuse", 4)])
def test_a_sender_to_an_address_alone_has_the_topic_of_a_queue_made(
    kafka_servers: str, tmp_path: Path, bare: str, partitions: int
) -> None:
    file = tmp_path / "bridge.properties"
    file.write_text(CONFIGURATION.format(id=unique("bare"), kafka=kafka_servers, bare=bare))
    address = unique("orders")
    with Running(tmp_path, file, command="edge") as bridge:
        bridge.wait_until_ready()
        found = re.search(r"amqp 127\.0\.0\.1:(\d+)", bridge.printed())
        assert found, bridge.printed()
        with Wire(int(found[1])) as wire:
            wire.open().sender(address)
    assert describe(Kafka(kafka_servers), [address])[address].partitions == partitions
