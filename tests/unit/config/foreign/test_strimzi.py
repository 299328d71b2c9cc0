"""The configuration of the AMQP-Kafka bridge: the oldest is read as it is, the others are recognised."""

from __future__ import annotations

import pytest

from isthmus.config import Severity
from isthmus.config.foreign.strimzi import convert
from isthmus.errors import ConfigError

OLDEST = """
# Apache Kafka common
bootstrap.servers=localhost:9092

# Apache Kafka producer
key.serializer=org.apache.kafka.common.serialization.StringSerializer
value.serializer=org.apache.kafka.common.serialization.ByteArraySerializer
acks=1

# Apache Kafka consumer
key.deserializer=org.apache.kafka.common.serialization.StringDeserializer
value.deserializer=org.apache.kafka.common.serialization.ByteArrayDeserializer
auto.offset.reset=latest

# AMQP receiver
flow.credit=1024

# Bridge specific
bind.host=0.0.0.0
bind.port=5673
message.converter=io.rhiot.kafka.bridge.JsonMessageConverter
"""


def test_the_old_bridge_properties_works_as_it_is(loaded):
    settings = loaded(OLDEST)
    assert settings.kafka.bootstrap_servers == "localhost:9092"
    assert (settings.amqp.host, settings.amqp.port, settings.amqp.credit) == ("0.0.0.0", 5673, 1024)
    assert settings.message_convert == "json"
    assert settings.listens_to_amqp
    assert settings.amqp.allows_anonymous
    assert settings.amqp.auto_create


def test_without_a_converter_the_old_bridge_had_the_default_one(loaded):
    assert loaded("bootstrap.servers=h:1").message_convert == "default"
    assert loaded("bootstrap.servers=h:1\nmessage.convert=RawMessageConverter").message_convert == "raw"


def test_what_has_no_effect_is_noted_with_its_line(found):
    problems = found(OLDEST, complete=True)
    notes = {each.key: each for each in problems if each.severity is Severity.NOTE}
    assert notes["acks"].line == 8
    assert notes["acks"].message == "no effect: the journal always waits for all replicas that are in sync"
    assert set(notes) >= {"key.serializer", "value.deserializer", "auto.offset.reset"}
    assert not [each for each in problems if each.severity is Severity.ERROR]


def test_that_anybody_may_connect_is_a_warning_and_on_this_machine_alone_is_none(found):
    def warned(host: str) -> list[str]:
        problems = found(f"bootstrap.servers=h:1\nbind.host={host}", complete=True)
        return [each.message for each in problems if each.severity is Severity.WARNING]

    assert warned("0.0.0.0") == ["anybody on the network may connect"]
    assert warned("127.0.0.1") == []


def test_a_key_of_the_old_bridge_in_a_file_of_ours_is_a_mistake(found):
    (problem,) = found("bind.port=5672")
    assert (problem.severity, problem.key) == (Severity.ERROR, "bind.port")


def test_a_mistake_in_an_old_file_is_told_by_its_line(found):
    errors = [
        each
        for each in found("bootstrap.servers=h:1\nbind.port=x\nsurprise=1", complete=True)
        if each.severity is Severity.ERROR
    ]
    assert [(each.line, each.key) for each in errors] == [(2, "amqp.port"), (3, "surprise")]


@pytest.mark.parametrize(
    "key",
    [
        "amqp.messageConverter",
        "amqp.flowCredit",
        "kafka.bootstrapServers",
        "kafka.producer.acks",
        "kafka.consumer.auto.offset.reset",
        "kafka.admin.request.timeout.ms",
        "http.port",
        "http.timeoutSeconds",
        "http.consumer.enabled",
        "bridge.tracing",
    ],
)
def test_a_newer_file_is_recognised_with_the_command_to_use(found, key):
    (problem,) = found(f"bridge.id=b\n{key}=x\namqp.port=5672", complete=True)
    assert problem.message == "a configuration of Strimzi's AMQP bridge"
    assert problem.hint
    assert problem.hint.startswith("isthmus import strimzi ")


NEWER = """
bridge.id=my-bridge
bridge.tracing=jaeger
kafka.bootstrap.servers=broker:9092
kafka.security.protocol=SSL
kafka.producer.acks=1
kafka.consumer.auto.offset.reset=earliest
amqp.enabled=true
amqp.flowCredit=100
amqp.mode=SERVER
amqp.host=0.0.0.0
amqp.port=5672
amqp.certDir=
amqp.messageConverter=io.strimzi.kafka.bridge.amqp.converter.AmqpJsonMessageConverter
http.enabled=true
"""


def test_of_what_comes_of_it_check_says_that_anybody_may_connect(found):
    problems = found(convert(NEWER), complete=True)
    assert [each.key for each in problems if each.severity is Severity.WARNING] == ["amqp.anonymous"]


def test_a_newer_file_becomes_ours(loaded):
    settings = loaded(convert(NEWER))
    assert (settings.bridge_id, settings.message_convert) == ("my-bridge", "json")
    assert settings.kafka.bootstrap_servers == "broker:9092"
    assert settings.kafka.client["security.protocol"] == "SSL"
    assert (settings.amqp.host, settings.amqp.port, settings.amqp.credit) == ("0.0.0.0", 5672, 100)
    assert settings.amqp.allows_anonymous
    assert settings.listens_to_amqp


def test_what_has_no_equal_is_a_comment_and_an_empty_value_none():
    made = convert(NEWER)
    assert "# http.enabled=true: there is no HTTP bridge here\n" in made
    assert "# kafka.producer.acks=1: the journal always waits for all replicas that are in sync\n" in made
    assert "# json.compat=true\n" in made
    assert "certDir" not in made


def test_certificates_make_it_speak_tls_and_nothing_else(loaded):
    settings = loaded(
        convert("kafka.bootstrapServers=h:1\namqp.port=5671\namqp.flowCredit=7\namqp.certDir=/certs")
    )
    assert (settings.amqps.port, settings.amqps.certificate) == (5671, "/certs/tls.crt")
    assert settings.amqps.key == "/certs/tls.key"
    assert (settings.amqp.host, settings.amqp.enabled, settings.amqp.credit) == ("0.0.0.0", False, 7)
    assert settings.listens_to_amqp


def test_a_client_of_a_router_stays_one_and_is_told_what_to_name(loaded):
    made = convert("kafka.bootstrapServers=h:1\namqp.mode=CLIENT\namqp.host=router\namqp.port=5673")
    assert "# amqp.connect.router.intake.addresses=…\n" in made
    settings = loaded(made)
    assert [(each.host, each.port) for each in settings.amqp_brokers["router"].servers] == [("router", 5673)]
    assert not settings.listens_to_amqp


def test_the_oldest_file_becomes_ours_too(loaded):
    assert loaded(convert(OLDEST)) == loaded(OLDEST)


@pytest.mark.parametrize("text", ["", "x=1", "bridge.id=\\u12"])
def test_a_file_of_something_else_is_refused(text):
    with pytest.raises(ConfigError):
        convert(text)
