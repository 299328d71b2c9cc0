"""Spans of one message's way through a running bridge, as a collector gets them."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import pytest
from tests.support.amqp.wire import Wire
from tests.support.names import unique
from tests.support.otlp import Collector, running_collector
from tests.support.polling import eventually
from tests.support.systems import Systems, running_bridge

from isthmus.codecs.amqp import AmqpMessage, AmqpValue
from isthmus.config import Settings
from isthmus.config.model.amqp import AmqpSettings
from isthmus.config.model.otel import OtelSettings
from isthmus.config.model.settings import KafkaSettings
from isthmus.edges.amqp.protocol.terms import Accepted, TransactionalState
from isthmus.edges.service import EdgeService
from isthmus.kafka.options import Kafka
from isthmus.kafka.own_topics import make_own_topics

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
CONFIGURATION = """
otel.service-name=orders-bridge
amqp.port=0
routes.onward.predicate=msg.address=="traced-onward"
routes.onward.dest.subject=traced.onward
routes.kept.predicate=msg.address=="traced-kept"
routes.kept.dest.topic=traced-topic
"""


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with running_collector() as collector:
        yield collector


@pytest.fixture(scope="module")
def systems(
    tmp_path_factory: pytest.TempPathFactory, kafka_servers: str, collector: Collector
) -> Iterator[Systems]:
    configuration = f"otel.endpoint={collector.url}\n{CONFIGURATION}"
    folder = tmp_path_factory.mktemp("traces")
    with running_bridge(folder, kafka_servers, configuration, ("traced-topic",)) as found:
        yield found


def traced(body: str, flags: str) -> bytes:
    properties = {"traceparent": f"00-{TRACE}-{SPAN}-{flags}"}
    return AmqpMessage(application_properties=properties, body=AmqpValue(body)).encode()


def send(systems: Systems, address: str, body: str, flags: str) -> None:
    with Wire(systems.edges.amqp_ports[0]) as wire:
        delivery = wire.open().sender(address).send(b"1", traced(body, flags))
        wire.pump()
        wire.wait(lambda: delivery.settled)


def spans_of(collector: Collector, *names: str) -> list[tuple[str, str, str]]:
    found = [span for span in list(collector.spans) if span.name in names]
    return sorted((span.name, span.trace_id.hex(), span.parent_span_id.hex()) for span in found)


def test_intake_routing_and_delivery_of_a_sampled_message_are_spans_of_its_trace(
    systems: Systems, collector: Collector
) -> None:
    names = ("deliver traced.onward", "intake traced-onward", "route onward")
    with systems.subscribed("traced.onward") as seen:
        send(systems, "traced-onward", "not sampled", "00")
        send(systems, "traced-onward", "sampled", "01")
        eventually(lambda: len(seen()) == 2, timeout_s=120)
        assert {each.headers["traceparent"].text[-2:] for each in seen()} == {"00", "01"}
    expected = [(name, TRACE, SPAN) for name in names]
    eventually(lambda: len(spans_of(collector, *names)) >= 3, what=lambda: str(collector.names()))
    assert spans_of(collector, *names) == expected
    assert collector.services == {"orders-bridge"}


@pytest.mark.skipif(find_spec("proton") is None, reason="python-qpid-proton is not installed")
def test_the_delivery_to_a_receiver_is_a_span_that_ends_when_it_has_accepted(
    systems: Systems, collector: Collector
) -> None:
    send(systems, "traced-kept", "sampled", "01")
    received = systems.received_over_amqp("traced-topic/group.id/traces")
    assert received.headers["traceparent"].text == f"00-{TRACE}-{SPAN}-01"
    names = ("deliver traced-topic/group.id/traces", "intake traced-kept", "route kept")
    eventually(lambda: len(spans_of(collector, *names)) >= 3, what=lambda: str(collector.names()))
    assert spans_of(collector, *names) == [(name, TRACE, SPAN) for name in names]


@pytest.mark.parametrize("workers", [1, 2])
def test_every_process_of_an_amqp_server_exports_its_intake_also_of_transactions(
    kafka_servers: str, collector: Collector, workers: int
) -> None:
    settings = Settings(
        bridge_id=unique("traced"),
        message_convert="default",
        kafka=KafkaSettings(bootstrap_servers=kafka_servers),
        amqp=AmqpSettings(port=0, workers=workers, auto_create=True),
        otel=OtelSettings(endpoint=collector.url),
    )
    kafka = Kafka(kafka_servers)
    make_own_topics(settings, kafka)
    address = unique("traced-in")
    with EdgeService(settings, kafka) as edges:
        eventually(lambda: edges.problems == {})
        with Wire(edges.amqp_ports[0]) as wire:
            coordinator = wire.open().coordinator()
            transaction = wire.declare(coordinator)
            sender = wire.sender(address)
            alone = sender.send(b"0", traced("alone", "01"))
            for number in range(2):
                together = traced(f"together {number}", "01")
                sender.send(b"t%d" % number, together, state=TransactionalState(transaction))
            wire.wait(lambda: alone.settled)
            assert wire.discharge(coordinator, transaction) == Accepted()
    name = f"intake {address}"
    # What is left is exported while the edges stop.
    eventually(lambda: len(spans_of(collector, name)) >= 3, what=lambda: str(collector.names()))
    assert spans_of(collector, name) == [(name, TRACE, SPAN)] * 3
