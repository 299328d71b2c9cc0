"""The configuration of the JMS bridge becomes ours, and is recognised where it does not belong."""

from __future__ import annotations

import pytest

from isthmus.config import outline
from isthmus.config.foreign.jms_bridge import convert
from isthmus.errors import ConfigError
from isthmus.routing.predicate import parse

HOCON = """
bridge {
  id = shop   // one for every cluster
  kafka {
    bootstrap.servers = "broker:9092"
    sasl.jaas.config = "Module required username=\\"u\\" password=\\"p\\";"
  }
  journals {
    max.message.size = 1m
    topic { replication = 1, partitions = 3 }
  }
  streams = ${bridge.kafka} { num.standby.replicas = 1 }
  security { domain = "Shop" }
  routing {
    metadata.refresh.ms = "300000"
    topics = [
      { match = "orders.new", message.type = "TEXT", key.property = "customer id" }
      { match = "news", correlation.key.override = false, address.template = "jms.${topic}" }
      { match = "eu-.*" }
    ]
  }
}
"""


def test_settings_and_routes_become_ours(loaded):
    settings = loaded(convert(HOCON))
    assert settings.bridge_id == "shop"
    assert settings.kafka.bootstrap_servers == "broker:9092"
    assert 'password="p"' in settings.kafka.client["sasl.jaas.config"]
    assert (settings.journal.partitions, settings.amqp.max_message_size) == (3, 1024**2)
    assert [(each.name, each.topic, each.key) for each in settings.routes] == [
        ("orders-new-correlated", "orders.new", "CorrelationId"),
        ("orders-new", "orders.new", "customer id"),
        ("news", "news", None),
    ]
    correlated, plain, news = (each.predicate for each in settings.routes)
    assert correlated == parse('msg.address=="kafka.orders.new" && exists(msg.header.CorrelationId)')
    assert plain == parse('msg.address=="kafka.orders.new"')
    assert news == parse('msg.address=="jms.news"')
    assert outline(settings)["takes"] == "AMQP and JMS clients at 127.0.0.1, port 5672"


@pytest.mark.parametrize(
    "comment",
    [
        "# bridge.journals.topic.replication=1: the topic of the journal is made by the bridge",
        "# bridge.streams.num.standby.replicas=1: Spark routes here",
        "# bridge.security.domain=Shop: isthmus user add makes users",
        "# bridge.routing.metadata.refresh.ms=300000: topics are looked up when they are named",
        "# bridge.routing.topics.0.message.type=TEXT: a record is a text message if it is UTF-8",
        "# bridge.routing.topics.2.match=eu-.*: a route here has one topic; for each that this is to take:",
        '# routes.<name>.predicate=msg.address=="kafka.<topic>"',
    ],
)
def test_what_has_no_equal_is_a_comment(comment):
    assert comment in convert(HOCON)


def test_a_secret_in_a_comment_is_hidden():
    shown = convert("bridge { streams { sasl.jaas.config = hush }, security { password = hush } }")
    assert "hush" not in shown


def test_properties_are_read_too_and_routes_of_the_design_stay(loaded):
    settings = loaded(
        convert(
            "bridge.id=shop\n"
            "bridge.kafka.bootstrap.servers=broker:9092\n"
            "bridge.kafka.ssl.truststore.location=/a=b:c\n"
            "bridge.routing.topics.0.match=orders\n"
            "bridge.routing.topics.0.correlation.key.override=false\n"
            "routing.dead-letter.topic=dead\n"
            'routes.foo.predicate=msg.address==foo-topic && msg.header.Region=~"E\\\\\\\\w"\n'
            "routes.foo.dest.topic=foobar\n"
        )
    )
    assert settings.kafka.client["ssl.truststore.location"] == "/a=b:c"
    assert settings.routing.dead_letter_topic == "dead"
    assert [each.name for each in settings.routes] == ["foo", "orders"]
    assert settings.routes[0].predicate == parse(r'msg.address==foo-topic && msg.header.Region=~"E\\w"')


def test_routes_of_the_first_versions_are_read(loaded):
    (route,) = loaded(
        convert(
            'bridge { routing { routes += { name = "my.route", from.include.address = "my-jms-topic", '
            'map.key = "msg.header.CorrelationId", to.topic = "my-kafka-topic" } } }'
        )
    ).routes
    assert (route.name, route.topic, route.key) == ("my-route", "my-kafka-topic", "CorrelationId")
    assert route.predicate == parse('msg.address=="my-jms-topic"')


@pytest.mark.parametrize(
    "text",
    [
        "bridge { routing { topics = [1] } }",
        "bridge { routing { routes = [{ name = x }] } }",
        "bridge {",
        "bridge.id=\\u12",
    ],
)
def test_what_cannot_be_read_is_refused(text):
    with pytest.raises(ConfigError):
        convert(text)


@pytest.mark.parametrize(
    "text", [HOCON, '{"bridge": {"id": "x"}}', "bridge.id=x\nbridge.kafka.bootstrap.servers=h:1\n"]
)
def test_a_file_is_recognised_with_the_command_to_use(found, text):
    (problem,) = found(text, complete=True)
    assert problem.message == "a configuration of the JMS bridge"
    assert problem.hint
    assert problem.hint.startswith("isthmus import jms-bridge ")


def test_a_file_of_the_nats_mq_bridge_is_recognised(found):
    text = 'reconnectinterval: 5000\nconnect: [\n  { type: "Queue2NATS", queue: Q }\n]\nnats: {\n}\n'
    (problem,) = found(text, complete=True)
    assert problem.message == "a configuration of the NATS-MQ bridge"
    assert problem.hint
    assert problem.hint.startswith("isthmus import nats-mq ")
