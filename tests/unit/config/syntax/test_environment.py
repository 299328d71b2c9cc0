"""Environment variables override the file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import isthmus
from isthmus.config import Severity, load
from isthmus.config.judgement.keys import FIXED
from isthmus.config.syntax.environment import variable_name
from isthmus.errors import ConfigError


def test_a_variable_overrides_the_file(loaded):
    assert loaded("bridge.id=a", {"ISTHMUS_BRIDGE_ID": "b"}).bridge_id == "b"


def test_a_variable_sets_what_the_file_does_not_say():
    settings = load(None, {"ISTHMUS_ROUTING_DEAD_LETTER_TOPIC": "dead", "ISTHMUS_MONITOR_PORT": "0"})
    assert settings.routing.dead_letter_topic == "dead"
    assert settings.monitor.port == 0


def test_a_variable_sets_a_part_of_a_route_that_the_file_has(loaded):
    text = "routes.foo-route.predicate=msg.address==a\nroutes.foo-route.dest.topic=a\n"
    environ = {
        "ISTHMUS_ROUTES_FOO_ROUTE_PREDICATE": "msg.address==b",
        "ISTHMUS_ROUTES_FOO_ROUTE_CONV_KEY": "msg.header.Region",
    }
    (route,) = loaded(text, environ).routes
    assert (route.written, route.key, route.topic) == ("msg.address==b", "Region", "a")


def test_a_variable_cannot_make_a_route(found):
    problems = found("", {"ISTHMUS_ROUTES_NEW_PREDICATE": "msg.address==b"})
    assert [each.severity for each in problems] == [Severity.WARNING]


def test_a_variable_sets_a_new_client_option_in_lower_case():
    environ = {"ISTHMUS_KAFKA_SECURITY_PROTOCOL": "SSL", "ISTHMUS_PIPELINE_SPARK_EXECUTOR_MEMORY": "1g"}
    settings = load(None, environ)
    assert settings.kafka.client == {"security.protocol": "SSL"}
    assert settings.pipeline.spark == {"spark.executor.memory": "1g"}


def test_a_variable_overrides_a_client_option_as_the_file_spells_it(loaded):
    text = "pipeline.spark.executor.memoryOverhead=1g"
    environ = {"ISTHMUS_PIPELINE_SPARK_EXECUTOR_MEMORYOVERHEAD": "2g"}
    assert loaded(text, environ).pipeline.spark == {"spark.executor.memoryOverhead": "2g"}


def test_an_overridden_key_is_noted_with_its_line_and_the_variable(found):
    (note,) = found("\nbridge.id=a", {"ISTHMUS_BRIDGE_ID": "b"})
    assert (note.severity, note.line, note.key) == (Severity.NOTE, 2, "bridge.id")
    assert note.message == "overridden by $ISTHMUS_BRIDGE_ID"


def test_what_is_overridden_need_not_be_right(loaded):
    assert loaded("monitor.port=${env:NONE}", {"ISTHMUS_MONITOR_PORT": "1"}).monitor.port == 1


def test_a_bad_value_is_blamed_on_the_variable():
    with pytest.raises(ConfigError, match=r"^\$ISTHMUS_MONITOR_PORT: error: monitor\.port: expected"):
        load(None, {"ISTHMUS_MONITOR_PORT": "x"})


def test_an_unknown_variable_is_a_warning_with_the_nearest_known_one(found):
    (problem,) = found("", {"ISTHMUS_BRIGDE_ID": "x"})
    assert problem.severity is Severity.WARNING
    assert problem.file == "$ISTHMUS_BRIGDE_ID"
    assert problem.hint == "did you mean ISTHMUS_BRIDGE_ID?"


def test_variables_of_others_are_left_alone(found):
    assert found("", {"HOME": "/root", "isthmus_bridge_id": "x"}) == []


def test_a_variable_that_the_package_itself_reads_is_not_called_unknown(found):
    source = "".join(file.read_text() for file in Path(isthmus.__file__).parent.rglob("*.py"))
    read = set(re.findall(r"""environ(?:\.get\(|\[)["'](ISTHMUS_\w+)""", source))
    assert {"ISTHMUS_JARS_DIR", "ISTHMUS_IVY_SETTINGS", "ISTHMUS_PURE_PYTHON"} <= read
    assert found("", dict.fromkeys(read, "1")) == []


def test_a_variable_that_fits_two_routes_is_an_error(found):
    text = "".join(
        f"routes.{name}.predicate=msg.address=={name}\nroutes.{name}.dest.topic=t\n"
        for name in ("a-b", "a_b")
    )
    (problem,) = found(text, {"ISTHMUS_ROUTES_A_B_DEST_TOPIC": "x"})
    assert problem.severity is Severity.ERROR
    assert "routes.a-b.dest.topic, routes.a_b.dest.topic" in problem.message


@pytest.mark.parametrize("value", ["\udcff", "a\0"])
def test_a_variable_that_is_no_text_is_an_error(value):
    with pytest.raises(ConfigError, match=r"\$ISTHMUS_BRIDGE_ID: error"):
        load(None, {"ISTHMUS_BRIDGE_ID": value})


def test_no_two_fixed_keys_share_a_variable():
    assert len({variable_name(key) for key in FIXED}) == len(FIXED)
