"""What a bridge takes, and what becomes of a message that no route takes."""

from __future__ import annotations

import pytest

from isthmus.config import outline

ROUTE = "routes.r.predicate=msg.address==a\nroutes.r.dest.topic=t\n"
DESIGN = """
routing.dead-letter.topic=jms-bridge-to-kafka-dead-letter-topic

routes.foo-route.name=foo-route
routes.foo-route.predicate=msg.address==foo-topic
routes.foo-route.dest.topic=foobar-topic
routes.foo-route.conv.key=msg.header.CorrelationId
"""


def test_the_configuration_of_the_design_opens_the_port_for_jms(loaded):
    settings = loaded(DESIGN)
    assert settings.listens_to_amqp
    assert settings.queries == ("router", "ledger")
    assert outline(settings)["takes"] == "AMQP and JMS clients at 127.0.0.1, port 5672"


@pytest.mark.parametrize(
    "another_way",
    [
        "amqp.enabled=false",
        "routing.source.topics=events",
        "nats.servers=nats://h:4222\nnats.intake.n.subject=orders",
        "mq.client=memory\nmq.intake.m.queue=Q",
        "amqp.connect.b.url=amqp://h\namqp.connect.b.intake.addresses=q",
    ],
)
def test_with_another_way_in_or_if_disabled_the_port_stays_closed(loaded, another_way):
    assert not loaded(ROUTE + another_way).listens_to_amqp
    assert loaded(f"{ROUTE}{another_way}\namqps.port=5671").listens_to_amqp


def test_without_routes_nobody_listens(loaded):
    assert not loaded("bridge.id=b").listens_to_amqp
    assert loaded("message.convert=default").listens_to_amqp


@pytest.mark.parametrize(
    ("written", "takes"),
    [
        ("amqp.enabled=false", "nothing but what isthmus send and other programs journal"),
        ("amqps.port=5671", "AMQP and JMS clients at 127.0.0.1, port 5672 and 5671 (TLS)"),
        ("amqps.port=5671\namqp.enabled=false", "AMQP and JMS clients at 127.0.0.1, port 5671 (TLS)"),
        ("routing.source.topics=a,b", "Kafka topics a, b"),
        ("nats.servers=nats://h:4222\nnats.intake.n.subject=orders.>", "NATS orders.>"),
        ("mq.client=memory\nmq.intake.m.queue=Q\nmq.intake.n.topic=a/b", "MQ Q, a/b"),
        ("amqp.connect.main.url=amqp://h\namqp.connect.main.intake.addresses=q", "AMQP broker main"),
    ],
)
def test_it_says_what_messages_are_taken_from(loaded, written, takes):
    assert outline(loaded(ROUTE + written))["takes"] == takes


def test_it_says_what_becomes_of_a_message_without_a_route(loaded):
    name = "without a route"
    closed = outline(loaded(f"{ROUTE}amqp.enabled=false"))[name]
    assert closed.startswith("a message stays in the journal and is published nowhere")
    assert "goes to its JMS destination" in outline(loaded(ROUTE))[name]
    assert "published nowhere" in outline(loaded(f"{ROUTE}amqp.destinations=routed"))[name]
    direct = outline(loaded(f"{ROUTE}message.convert=json"))[name]
    assert direct == "a message goes to the topic that its address names, as json"
