"""``${env:NAME}`` and ``${file:PATH}``."""

from __future__ import annotations

import pytest

from isthmus.config import Severity, load
from isthmus.errors import ConfigError


def test_an_environment_variable_is_put_in_anywhere_in_a_value(loaded):
    settings = loaded("bridge.id=a-${env:X}-${env:Y}-d", {"X": "b", "Y": "c"})
    assert settings.bridge_id == "a-b-c-d"


@pytest.mark.parametrize(
    ("content", "value"), [("s3cret\n", "s3cret"), ("a\r\n", "a"), ("a\n\n", "a\n"), ("", "")]
)
def test_a_file_is_put_in_without_its_last_newline(loaded, tmp_path, content, value):
    (tmp_path / "secret").write_bytes(content.encode())
    assert loaded("kafka.client.id=${file:secret}").kafka.client["client.id"] == value


def test_a_path_is_relative_to_the_configuration_file(loaded, tmp_path, monkeypatch):
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "id").write_text("here")
    monkeypatch.chdir("/")
    assert loaded("bridge.id=${file:secrets/id}").bridge_id == "here"
    assert loaded(f"bridge.id=${{file:{tmp_path}/secrets/id}}").bridge_id == "here"


def test_a_variable_of_the_environment_may_hold_a_reference(tmp_path):
    (tmp_path / "id").write_text("x")
    assert load(None, {"ISTHMUS_BRIDGE_ID": f"${{file:{tmp_path}/id}}"}).bridge_id == "x"


def test_what_comes_out_of_a_reference_is_not_looked_into(loaded):
    settings = loaded("kafka.client.id=${env:X}", {"X": "${env:Y}", "Y": "no"})
    assert settings.kafka.client["client.id"] == "${env:Y}"


def test_every_reference_that_leads_nowhere_is_an_error_with_its_line(found):
    problems = found("\nbridge.id=${env:NONE}${file:none}")
    assert [(each.severity, each.line, each.key) for each in problems] == [
        (Severity.ERROR, 2, "bridge.id")
    ] * 2
    assert "${env:NONE}: there is no such environment variable" in problems[0].message
    assert "${file:none}: cannot be read: No such file" in problems[1].message


@pytest.mark.parametrize(
    ("content", "reason"), [(b"\xff", "not UTF-8"), (b"a\0", "NUL"), (b"x" * (2 << 20), "larger")]
)
def test_a_file_without_usable_text_is_an_error(loaded, tmp_path, content, reason):
    (tmp_path / "secret").write_bytes(content)
    with pytest.raises(ConfigError, match=reason):
        loaded("kafka.client.id=${file:secret}")


def test_a_key_with_a_broken_reference_is_not_called_missing(found):
    (problem,) = found("routes.x.predicate=${env:NONE}\nroutes.x.dest.topic=t")
    assert problem.key == "routes.x.predicate"
    assert "NONE" in problem.message


@pytest.mark.parametrize("written", ["${HOME}", "${ENV:X}", "${env:X", "${vault:x}"])
def test_what_only_looks_like_a_reference_is_a_warning_and_stays(found, loaded, written):
    (problem,) = found(f"kafka.client.id={written}")
    assert problem.severity is Severity.WARNING
    assert problem.hint == "references are ${env:NAME} and ${file:PATH}"
    assert loaded(f"kafka.client.id={written}").kafka.client["client.id"] == written
