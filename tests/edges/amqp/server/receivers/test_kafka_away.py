"""Kafka goes away while clients receive: their links stay, and nothing is lost once it is back."""

from __future__ import annotations

from pathlib import Path

import pytest

proton = pytest.importorskip("proton", reason="python-qpid-proton is not installed")

from proton import Timeout  # noqa: E402
from proton.utils import BlockingConnection  # noqa: E402
from tests.support.amqp.kafka_server import receiving_server  # noqa: E402
from tests.support.amqp.proton_queue import Queue, take  # noqa: E402
from tests.support.kafka.topics import new_topic, publish  # noqa: E402

from isthmus.embedded.kafka import EmbeddedKafka  # noqa: E402


@pytest.mark.parametrize("kind", ["group", "queue"])
def test_a_receiver_survives_an_absence_of_kafka(tmp_path: Path, kind: str) -> None:
    with EmbeddedKafka(tmp_path) as kafka, receiving_server(kafka.bootstrap_servers) as server:
        servers = kafka.bootstrap_servers
        topic = new_topic(servers)
        publish(servers, topic, ["a", "b"])
        connection = BlockingConnection(server.url, timeout=60)
        try:
            address, options = (f"{topic}/group.id/g", None) if kind == "group" else (topic, Queue())
            link = connection.create_receiver(address, credit=10, options=options)
            assert [take(link), take(link)] == ["a", "b"]
            kafka.stop()
            with pytest.raises(Timeout):
                take(link, 3)
            kafka.start()
            publish(servers, topic, ["c", "d"])
            got: set[str] = set()
            while not got >= {"c", "d"}:  # others may come again, if Kafka did not hear what became of them
                got.add(take(link))
        finally:
            connection.close()
