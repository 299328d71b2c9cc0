"""Converters by name: the built-in ones, a user's class, and what a wrong name says."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

from isthmus import AmqpMessage, Data, ReceivedRecord, converters
from isthmus.converters.registry import BUILT_IN, converter, look_in
from isthmus.errors import ConfigError, ConversionFailure

MODULE = "converters_of_a_user"


class Good:
    def __init__(self, suffix: str = "!") -> None:
        self.suffix = suffix

    def to_kafka_record(self, message: AmqpMessage) -> converters.KafkaRecord:
        return converters.KafkaRecord(None, None, self.suffix.encode())

    def to_amqp_message(self, address: str, record: ReceivedRecord) -> AmqpMessage:
        return AmqpMessage()


class Half:
    def to_kafka_record(self, message: AmqpMessage) -> None: ...


class Careless:
    def to_kafka_record(self, message: AmqpMessage) -> converters.KafkaRecord:
        raise KeyError("colour")

    def to_amqp_message(self, address: str, record: ReceivedRecord) -> None: ...


class Broken:
    def __init__(self) -> None:
        raise OSError("no licence")


@pytest.fixture(autouse=True)
def module(monkeypatch: pytest.MonkeyPatch) -> None:
    made = ModuleType(MODULE)
    vars(made).update(Good=Good, Half=Half, Careless=Careless, Broken=Broken, number=3)
    monkeypatch.setitem(sys.modules, MODULE, made)


@pytest.mark.parametrize("name", BUILT_IN)
def test_the_built_in_converters_are_found_by_name(name: str) -> None:
    message = AmqpMessage(body=Data((b"hello",)))
    assert converter(name).to_kafka_record(message) == getattr(converters, name).to_kafka_record(message)


@pytest.mark.parametrize(
    ("old", "ours"),
    [
        ("DefaultMessageConverter", "default"),
        ("JsonMessageConverter", "json"),
        ("RawMessageConverter", "raw"),
        ("io.rhiot.kafka.bridge.DefaultMessageConverter", "default"),
        ("io.rhiot.kafka.bridge.converter.JsonMessageConverter", "json"),
        ("io.ppatierno.kafka.bridge.DefaultMessageConverter", "default"),
        ("enmasse.kafka.bridge.converter.RawMessageConverter", "raw"),
        ("enmasse.kafka.bridge.amqp.converter.AmqpJsonMessageConverter", "json"),
        ("io.strimzi.kafka.bridge.amqp.converter.AmqpDefaultMessageConverter", "default"),
    ],
)
def test_the_built_in_converters_are_found_by_the_names_of_old(old: str, ours: str) -> None:
    message = AmqpMessage(body=Data((b"hello",)))
    assert converter(old).to_kafka_record(message) == converter(ours).to_kafka_record(message)


def test_a_class_of_another_package_is_none_of_ours() -> None:
    with pytest.raises(ConfigError):
        converter("com.example.JsonMessageConverter")


def test_a_class_is_found_in_a_folder_that_was_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", "first")
    source = "class Shout:\n    to_kafka_record = to_amqp_message = lambda *_: None\n"
    (tmp_path / "beside_the_file.py").write_text(source)
    look_in(tmp_path)
    assert converter("beside_the_file:Shout")
    assert os.environ["PYTHONPATH"] == f"first{os.pathsep}{tmp_path}", "started processes find it too"


def test_whatever_a_class_raises_or_returns_is_a_failure_of_the_message() -> None:
    made = converter(f"{MODULE}:Careless")
    with pytest.raises(ConversionFailure, match="Careless raised KeyError: 'colour'"):
        made.to_kafka_record(AmqpMessage())
    with pytest.raises(ConversionFailure, match="Careless made no AmqpMessage but NoneType"):
        made.to_amqp_message("orders", ReceivedRecord("orders", 0, 0, None, b"x"))


def test_a_class_is_loaded_and_made() -> None:
    assert converter(f"{MODULE}:Good").to_kafka_record(AmqpMessage()).value == b"!"
    assert converter(f"{MODULE}:Good", suffix="?").to_kafka_record(AmqpMessage()).value == b"?"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("jsn", "'jsn' is not a converter: there are default, json, raw, jms, and package.module:Class"),
        ("", "'' is not a converter: there are"),
        (":Good", "':Good' is not a converter"),
        (f"{MODULE}:", "is not a converter"),
        (
            "no.such.module:C",
            "the converter no.such.module:C cannot be imported: ModuleNotFoundError: No module",
        ),
        (f"{MODULE}:Best", f"the converter {MODULE}:Best cannot be found: {MODULE} has no class Best"),
        (f"{MODULE}:number", f"{MODULE} has no class number"),
        (f"{MODULE}:Half", f"{MODULE}:Half is not a converter: it has no to_amqp_message"),
        ("builtins:object", "it has no to_kafka_record and no to_amqp_message"),
        (f"{MODULE}:Broken", f"the converter {MODULE}:Broken cannot be made: OSError: no licence"),
    ],
)
def test_a_name_that_leads_to_no_converter_says_why(name: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        converter(name)
    assert said in str(caught.value)


@pytest.mark.parametrize("name", ["raw", "json"])
def test_an_argument_that_a_converter_does_not_take_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        converter(name, colour="red")
