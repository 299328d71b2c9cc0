"""No repr, dump, serialisation or error shows a secret."""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import pytest
from rich.console import Console

from isthmus.config import KafkaSettings, MonitorSettings, Settings, TopicFacts, check, dump, load, read
from isthmus.config.syntax.hidden import MASK, Hidden, Options
from isthmus.errors import ConfigError, HardFailure, SettingsError

SECRET = "hunter2-s3cret"


def appearances(value: Any) -> Iterator[str]:
    """Every text that a thing has of itself, and those of its parts."""
    yield from (repr(value), str([value]), f"{[value]!s}")
    if isinstance(value, Settings):
        yield str(value)
        yield str(dump(value))
        screen = io.StringIO()
        Console(file=screen, width=1000).print(value)
        yield screen.getvalue()
        for section in (value.kafka, value.journal, value.routing, value.pipeline, value.monitor):
            yield from (repr(section), str(section))
        for route in value.routes:
            yield from (repr(route), str(route))


def assert_hidden(*values: Any, secret: str = SECRET) -> None:
    for value in values:
        for text in appearances(value):
            assert secret not in text


ENTIRE = "${env:S}"
PARTIAL = "a${env:S}z"


@pytest.mark.parametrize("written", [ENTIRE, PARTIAL])
@pytest.mark.parametrize(
    ("key", "rest"),
    [
        ("bridge.id", ""),
        ("kafka.anything", ""),
        ("journal.topic", ""),
        ("routing.dead-letter.topic", ""),
        ("routing.source.topics", ""),
        ("pipeline.spark.anything", ""),
        ("state.dir", ""),
        ("monitor.host", "monitor.token=0123456789abcdef"),
        ("routes.x.name", "routes.x.predicate=msg.address==x\nroutes.x.dest.topic=t"),
        ("routes.x.dest.topic", "routes.x.predicate=msg.address==x"),
    ],
)
def test_a_value_out_of_a_reference_is_used_but_shown_as_it_was_written(loaded, key, rest, written):
    settings = loaded(f"{key}={written}\n{rest}", {"S": SECRET})
    assert_hidden(settings, read(None, {}))
    assert written in dict(dump(settings)).values()
    used = written.replace(ENTIRE, SECRET)
    everything = [
        settings.bridge_id,
        *settings.kafka.client.values(),
        settings.journal.topic,
        settings.routing.dead_letter_topic,
        *settings.routing.source_topics,
        *settings.pipeline.spark.values(),
        settings.state_dir.rpartition("/")[2],
        settings.monitor.host,
        *(each for route in settings.routes for each in (route.name, route.topic)),
    ]
    assert used in everything


def test_numbers_durations_and_choices_out_of_references_are_hidden_too(loaded):
    text = "monitor.port=${env:P}\npipeline.real-time.batch=${env:B}\npipeline.mode=micro-${env:M}"
    settings = loaded(text, {"P": "12345", "B": "777s", "M": "batch"})
    assert (settings.monitor.port, settings.pipeline.batch_duration_s) == (12345, 777)
    for secret in ("12345", "777", "micro-batch"):
        assert_hidden(settings, secret=secret)
    assert dict(dump(settings))["monitor.port"] == "${env:P}"


def test_predicates_and_keys_out_of_references_are_hidden_too(loaded):
    text = f"""
        routes.x.predicate=msg.header.Token=={ENTIRE}
        routes.x.dest.topic=t
        routes.x.conv.key=msg.header.{ENTIRE}
    """
    settings = loaded(text, {"S": SECRET})
    (route,) = settings.routes
    assert route.key == SECRET
    assert SECRET in repr(route.predicate)  # the tree has to know it; nothing that holds the tree shows it
    assert_hidden(settings)
    shown = dict(dump(settings))
    assert shown["routes.x.predicate"] == f"msg.header.Token=={ENTIRE}"
    assert shown["routes.x.conv.key"] == f"msg.header.{ENTIRE}"


def test_a_journal_named_after_a_hidden_bridge_is_hidden(loaded):
    settings = loaded("bridge.id=${env:S}", {"S": SECRET})
    assert settings.journal.topic == f"isthmus.{SECRET}.journal"
    assert dict(dump(settings))["journal.topic"] == "isthmus.${env:S}.journal"


@pytest.mark.parametrize(
    "key",
    [
        "kafka.sasl.password",
        "kafka.sasl.jaas.config",
        "kafka.ssl.key.password",
        "kafka.ssl.key.pem",
        "kafka.ssl.keystore.key",
        "kafka.ssl.truststore.password",
        "kafka.sasl.oauthbearer.client.secret",
        "kafka.basic.auth.user.info",
        "kafka.some.TOKEN",
        "pipeline.spark.hadoop.fs.s3a.access.key",
        "pipeline.spark.hadoop.fs.s3a.secret.key",
        "pipeline.spark.hadoop.fs.azure.account.key.x.net",
        "pipeline.spark.ssl.keyPassword",
    ],
)
def test_a_value_whose_key_looks_secret_is_masked_though_it_is_in_the_file(loaded, key):
    settings = loaded(f"{key}={SECRET}")
    assert_hidden(settings)
    assert dict(dump(settings))[key] == MASK
    assert SECRET in (*settings.kafka.client.values(), *settings.pipeline.spark.values())


def test_a_secret_out_of_the_environment_is_masked():
    settings = load(None, {"ISTHMUS_KAFKA_SASL_PASSWORD": SECRET})
    assert settings.kafka.client["sasl.password"] == SECRET
    assert_hidden(settings)


def test_a_secret_given_as_a_typed_value_is_masked():
    assert_hidden(Settings(kafka=KafkaSettings(client={"sasl.password": SECRET})))


def test_around_a_reference_a_secret_is_masked(loaded):
    text = f'kafka.sasl.jaas.config=Login password="{SECRET}" other="{ENTIRE}";'
    settings = loaded(text, {"S": "other"})
    assert_hidden(settings)
    assert dict(dump(settings))["kafka.sasl.jaas.config"] == f"{MASK}{ENTIRE}{MASK}"


def test_a_password_in_a_url_is_masked(loaded):
    settings = loaded(f"kafka.registry=https://user:{SECRET}@host/\nstate.dir=s3a://id:{SECRET}@bucket/x")
    assert_hidden(settings)


@pytest.mark.parametrize(
    "key", ["kafka.ssl.keystore.location", "kafka.ssl.key.location", "kafka.client.rack"]
)
def test_what_is_no_secret_is_shown(loaded, key):
    assert dict(dump(loaded(f"{key}=/etc/x")))[key] == "/etc/x"


@pytest.mark.parametrize(
    "key",
    [
        "bridge.id",
        "kafka.bootstrap.servers",
        "journal.topic",
        "journal.partitions",
        "message.convert",
        "routing.dead-letter.topic",
        "routing.on-error",
        "routing.non-durable",
        "routing.source.topics",
        "pipeline.master",
        "pipeline.mode",
        "pipeline.real-time.batch",
        "monitor.port",
        "routes.x.predicate",
        "routes.x.dest.topic",
        "routes.x.conv.key",
        "routes.x.conv.message",
        "routes.x.on-error",
    ],
)
def test_a_secret_that_is_refused_is_not_in_the_error(write, key):
    path = write(f"{key}=${{env:S}}")
    with pytest.raises(ConfigError) as raised:
        load(path, {"S": f"{SECRET} !"})
    assert SECRET not in str(raised.value) + repr(raised.value)
    assert key in str(raised.value)
    assert raised.value.__context__ is None
    for problem in check(path, {"S": f"{SECRET} !"}, None):
        assert SECRET not in str(problem) + repr(problem)


def test_a_secret_that_a_model_refuses_is_not_in_its_error():
    for make in (
        lambda: MonitorSettings(port=SECRET),  # type: ignore[arg-type]
        lambda: Settings.of({"bridge.id": f"{SECRET} !"}),
        lambda: Settings.of({SECRET[:7]: SECRET}),
        lambda: KafkaSettings(client=SECRET),  # type: ignore[arg-type]
    ):
        with pytest.raises(SettingsError) as raised:
            make()
        assert SECRET not in str(raised.value) + repr(raised.value)


def test_a_topic_out_of_a_reference_is_not_named_when_it_is_missing(write):
    def nothing(names: Collection[str]) -> Mapping[str, TopicFacts]:
        assert SECRET in names
        return {}

    text = "routes.x.predicate=msg.address==x\nroutes.x.dest.topic=${env:S}\nrouting.source.topics=${env:S},b"
    problems = check(write(text), {"S": SECRET}, nothing)
    assert SECRET not in "".join(str(each) for each in problems)
    assert "topic '${env:S}' does not exist" in [each.message for each in problems]


def test_the_error_of_a_client_is_cleared_of_secrets(write):
    def unreachable(names: Collection[str]) -> Mapping[str, TopicFacts]:
        raise HardFailure(f"{SECRET}:9092 does not answer", remedy=f"start {SECRET}:9092")

    text = "kafka.bootstrap.servers=${env:S}\nroutes.x.predicate=msg.address==a\nroutes.x.dest.topic=t"
    (problem,) = check(write(text), {"S": f"{SECRET}:9092"}, unreachable)
    assert problem.message == "topics cannot be checked: ${env:S} does not answer"
    assert problem.hint == "start ${env:S}"


def test_a_reading_does_not_show_what_it_read(write):
    reading = read(write(f"kafka.sasl.password={SECRET}\nbridge.id=${{env:S}}"), {"S": SECRET})
    assert_hidden(reading)


def test_hidden_text_is_a_string_like_any_other():
    hidden = Hidden("abc", "${env:X}")
    assert hidden == "abc"
    assert str(hidden) == f"{hidden}" == "abc"
    assert type(str(hidden)) is str
    assert repr(Options({"a": hidden})) == "{'a': '${env:X}'}"
