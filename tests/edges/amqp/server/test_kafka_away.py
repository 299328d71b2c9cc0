"""Kafka goes away while a client sends: only what the journal has is accepted, and nothing is lost."""

from __future__ import annotations

from pathlib import Path

from tests.support.amqp.kafka_server import ServerOnKafka
from tests.support.amqp.wire import Wire, message

from isthmus.edges.amqp.protocol.terms import Accepted
from isthmus.embedded.kafka import EmbeddedKafka


def test_a_connection_survives_an_absence_of_kafka(tmp_path: Path) -> None:
    with EmbeddedKafka(tmp_path) as kafka, ServerOnKafka(kafka.bootstrap_servers, credit=10) as server:
        with Wire(server.port) as wire:
            link = wire.open().sender("orders")
            sent = [link.send(b"first", message("first"))]
            wire.outcome(sent[0])
            kafka.stop()
            while link.credit:
                sent.append(link.send(b"later", message(f"later {len(sent)}")))
            wire.pump(1.0)
            assert not any(delivery.settled for delivery in sent[1:])
            assert link.credit == 0
            kafka.start()
            for delivery in sent:
                wire.wait(lambda delivery=delivery: delivery.settled, timeout_s=60)
                assert delivery.state == Accepted()
            wire.wait(lambda: link.credit)
            wire.outcome(link.send(b"last", message("last")))
        bodies = [entry.message.body.slice(entry.message.value) for entry in server.entries()]
        assert bodies == [b"first", *(f"later {n}".encode() for n in range(1, len(sent))), b"last"]
