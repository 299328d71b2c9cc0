"""The typed settings: defaults, types, and what they refuse."""

from __future__ import annotations

import copy
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest

from isthmus.config import JournalSettings, KafkaSettings, MonitorSettings, PipelineSettings, Settings, load
from isthmus.config.model.amqp import AmqpSettings
from isthmus.errors import SettingsError
from isthmus.routing.route import OnError


def test_without_a_file_everything_has_its_default():
    settings = load(None, {})
    assert settings == Settings()
    assert settings.bridge_id == "isthmus"
    assert settings.kafka.embedded
    assert settings.kafka.client == {}
    assert (settings.journal.topic, settings.journal.partitions) == ("isthmus.isthmus.journal", 4)
    assert settings.message_convert is None
    assert settings.routes == ()
    assert settings.routing.on_error is OnError.STOP
    assert (settings.routing.dead_letter_topic, settings.routing.source_topics) == (None, ())
    assert settings.routing.non_durable == "propagate"
    assert (settings.pipeline.master, settings.pipeline.mode) == ("local[*]", "real-time")
    assert settings.pipeline.batch_duration_s == 120
    assert settings.pipeline.spark == {}
    assert settings.state_dir == str(Path.cwd() / ".isthmus")
    assert (settings.monitor.host, settings.monitor.port) == ("127.0.0.1", 9464)


def test_every_key_arrives_in_its_field(loaded):
    settings = loaded("""
        bridge.id=orders
        kafka.bootstrap.servers=a:1, b:2
        kafka.security.protocol=SSL
        kafka.ssl.endpoint.identification.algorithm=
        journal.topic=j
        journal.partitions=8
        routing.dead-letter.topic=dead
        routing.on-error=dead-letter
        routing.non-durable=skip
        routing.source.topics=s1, s2
        pipeline.master=spark://host:7077
        pipeline.mode=micro-batch
        pipeline.real-time.batch=5m
        pipeline.spark.executor.memory=2g
        state.dir=hdfs://name/path
        monitor.host=0.0.0.0
        monitor.port=0
        monitor.token=0123456789abcdef
    """)
    assert settings.bridge_id == "orders"
    assert settings.kafka.bootstrap_servers == "a:1,b:2"
    assert not settings.kafka.embedded
    assert settings.kafka.client == {
        "security.protocol": "SSL",
        "ssl.endpoint.identification.algorithm": "",
    }
    assert settings.journal == JournalSettings(topic="j", partitions=8)
    assert settings.routing.dead_letter_topic == "dead"
    assert settings.routing.on_error is OnError.DEAD_LETTER
    assert settings.routing.non_durable == "skip"
    assert settings.routing.source_topics == ("s1", "s2")
    assert settings.pipeline.master == "spark://host:7077"
    assert settings.pipeline.mode == "micro-batch"
    assert settings.pipeline.batch_duration_s == 300
    assert settings.pipeline.spark == {"spark.executor.memory": "2g"}
    assert settings.state_dir == "hdfs://name/path"
    assert settings.monitor == MonitorSettings(host="0.0.0.0", port=0, token="0123456789abcdef")


def test_the_journal_is_named_after_the_bridge():
    assert Settings(bridge_id="x").journal.topic == "isthmus.x.journal"
    assert Settings(bridge_id="x", journal=JournalSettings(partitions=1)).journal.topic == "isthmus.x.journal"
    assert Settings(bridge_id="x", journal=JournalSettings(topic="j")).journal.topic == "j"


def test_a_local_state_folder_is_absolute(loaded, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert loaded("state.dir=state").state_dir == str(tmp_path / "state")
    assert loaded("state.dir=/var/lib/x").state_dir == "/var/lib/x"


@pytest.mark.parametrize("uri", ["hdfs:///x", "s3a://bucket/x", "file:/x"])
def test_a_hadoop_uri_is_left_as_it_is(loaded, uri):
    assert loaded(f"state.dir={uri}").state_dir == uri


def test_blanks_at_the_end_of_a_typed_value_do_not_count(loaded):
    assert loaded("bridge.id=a  \nmonitor.port=1\t").bridge_id == "a"


def test_blanks_at_the_end_of_a_client_option_count_and_are_a_warning(found, loaded):
    assert loaded("kafka.client.id=a ").kafka.client["client.id"] == "a "
    assert [each.message for each in found("kafka.client.id=a ")] == [
        "the blanks at the end are a part of the value"
    ]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("120s", 120), ("5m", 300), ("500ms", 0.5), ("1.5h", 5400), ("2 s", 2), ("24h", 86400)],
)
def test_durations_have_units(loaded, text, seconds):
    assert loaded(f"pipeline.real-time.batch={text}").pipeline.batch_duration_s == pytest.approx(seconds)


LONG = "x" * 250


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("bridge.id", "a b", "letters, digits"),
        ("bridge.id", "", "letters, digits"),
        ("bridge.id", "ü", "letters, digits"),
        ("bridge.id", "x" * 201, "1 to 200"),
        ("kafka.bootstrap.servers", "host", "host:port"),
        ("kafka.bootstrap.servers", "host:99999", "host:port"),
        ("kafka.bootstrap.servers", "a:1,", "host:port"),
        ("journal.topic", "a/b", "topic's name"),
        ("journal.topic", "..", "topic's name"),
        ("journal.topic", LONG, "at most 249"),
        ("journal.partitions", "0", "whole number from 1"),
        ("journal.partitions", "four", "whole number"),
        ("journal.partitions", "1.5", "whole number"),
        ("journal.partitions", "9" * 5000, "whole number"),
        ("routing.dead-letter.topic", "", "topic's name"),
        ("routing.on-error", "ignore", "stop, skip or dead-letter"),
        ("routing.non-durable", "drop", "propagate or skip"),
        ("routing.source.topics", "a,,b", "topic's name"),
        ("routing.source.topics", "a,b,a", "every topic once"),
        ("pipeline.master", "locl", "Spark master"),
        ("pipeline.mode", "realtime", "real-time or micro-batch"),
        ("pipeline.real-time.batch", "120", "500ms, 120s or 5m"),
        ("pipeline.real-time.batch", "0s", "500ms, 120s or 5m"),
        ("pipeline.real-time.batch", "25h", "up to 24h"),
        ("pipeline.real-time.batch", "9" * 400 + "s", "up to 24h"),
        ("state.dir", "", "a text"),
        ("monitor.host", "", "a text"),
        ("monitor.port", "65536", "0 to 65535"),
        ("monitor.port", "-1", "0 to 65535"),
    ],
)
def test_a_value_of_the_wrong_type_is_an_error_that_says_what_is_expected(found, key, value, expected):
    (problem,) = found(f"\n{key}={value}")
    assert (problem.line, problem.key) == (2, key)
    assert expected in problem.message
    assert problem.message.startswith("expected ")
    assert len(problem.message) < 250


@pytest.mark.parametrize("servers", ["embedded", "h:1", "h-1.x_y:9092,[::1]:9093", "PLAINTEXT://h:1"])
def test_kafka_is_named_as_clients_name_it(loaded, servers):
    assert loaded(f"kafka.bootstrap.servers={servers}").kafka.bootstrap_servers == servers


@pytest.mark.parametrize(
    "master", ["local", "local[2]", "local-cluster[1,1,1024]", "yarn", "k8s://https://h:443"]
)
def test_any_spark_master_will_do(loaded, master):
    assert loaded(f"pipeline.master={master}").pipeline.master == master


def test_settings_can_be_made_of_typed_values():
    settings = Settings(
        kafka=KafkaSettings(bootstrap_servers="h:1", client={"a": "b"}),
        pipeline=PipelineSettings(batch_duration_s=5.0),
    )
    assert settings.kafka.client == {"a": "b"}
    assert settings.pipeline.batch_duration_s == 5.0


def test_settings_do_not_change():
    settings = Settings()
    with pytest.raises(AttributeError, match="frozen"):
        settings.bridge_id = "x"  # type: ignore[misc]
    with pytest.raises(TypeError):
        settings.kafka.client["a"] = "b"  # type: ignore[index]


def test_settings_can_be_hashed_copied_and_sent_to_another_process(loaded):
    settings = loaded("kafka.sasl.password=${env:P}\nmonitor.port=${env:Q}", {"P": "p", "Q": "1"})
    for twin in (copy.deepcopy(settings), pickle.loads(pickle.dumps(settings)), settings.replace()):
        assert twin == settings
        assert hash(twin) == hash(settings)
        assert repr(twin) == repr(settings)


def test_settings_are_equal_however_their_values_were_written(loaded):
    assert loaded("bridge.id=${env:X}", {"X": "a"}) == loaded("bridge.id=a") == Settings(bridge_id="a")


@pytest.mark.parametrize(
    ("given", "queries"),
    [
        ({}, ("router",)),
        ({"amqp": AmqpSettings(port=5672)}, ("router", "ledger")),
        ({"pipeline": PipelineSettings(queries="ledger")}, ("ledger",)),
        ({"pipeline": PipelineSettings(queries="ledger, router")}, ("router", "ledger")),
        ({"amqp": AmqpSettings(port=5672), "pipeline": PipelineSettings(queries=["router"])}, ("router",)),
    ],
)
def test_the_ledger_runs_where_there_are_transactions_or_where_it_is_asked_for(
    given: dict[str, Any], queries: tuple[str, ...]
) -> None:
    assert Settings(**given).queries == queries


@pytest.mark.parametrize("queries", ["", "leger", "router,,", "router;ledger"])
def test_a_query_that_there_is_not_is_refused(queries: str) -> None:
    with pytest.raises(SettingsError, match="expected one or more of router, ledger"):
        PipelineSettings(queries=queries)


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("JsonMessageConverter", "json"),
        ("io.strimzi.kafka.bridge.amqp.converter.AmqpRawMessageConverter", "raw"),
        ("default", "default"),
    ],
)
def test_a_converter_goes_by_our_name_and_by_those_of_old(loaded, written, name):
    assert loaded(f"message.convert={written}").message_convert == name


def test_a_class_beside_the_file_is_found(loaded, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", "")
    source = "class Mine:\n    to_kafka_record = to_amqp_message = lambda *_: None\n"
    (tmp_path / "mine_beside_the_file.py").write_text(source)
    settings = loaded("message.convert=mine_beside_the_file:Mine")
    assert settings.own_converters == ("mine_beside_the_file:Mine",)


def test_amqp_clients_have_destinations_unless_only_routes_count(loaded):
    def names(text: str) -> list[str]:
        return [route.name for route in loaded(text).all_routes if not route.name.startswith("isthmus.temp")]

    route = "routes.r.predicate=msg.address==a\nroutes.r.dest.topic=t\n"
    assert names(route + "amqp.enabled=false") == ["r"]
    assert names(route) == names(route + "amqp.port=0") == ["r", "isthmus.destinations"]
    assert names(route + "amqp.port=0\namqp.destinations=routed") == ["r"]
    assert names(route + "amqp.port=0\nmessage.convert=jms") == ["r", "direct"]
    other_form = "routes.r.conv.message=raw\namqp.port=0\n"
    assert names(route + other_form) == ["r", "isthmus.destinations.t", "isthmus.destinations"]
    assert names(route + other_form + "message.convert=raw") == ["r", "direct"]
    assert names(route + other_form + "amqp.destinations=routed\nmessage.convert=json") == ["r", "direct"]
