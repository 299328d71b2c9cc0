"""The command line imports what it runs, and no more; and what it says of its commands is true."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from typer.main import get_command

from isthmus.cli import app
from isthmus.cli.lazy import AS_IT_IS, LazyCommand, filled

COMMANDS = get_command(app).commands  # type: ignore[attr-defined]
HEAVY = {"lark", "msgspec", "confluent_kafka", "aiokafka", "pyspark", "isthmus.config"}


def _run(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "isthmus", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environ},
    )


def _imported(*arguments: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "isthmus", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}


def test_help_imports_no_command() -> None:
    assert _imported("--help") & {*HEAVY, "rich"} == set()


def test_help_gives_each_summary_whole() -> None:
    said = " ".join(_run("--help").stdout.split())
    assert [each.help for each in COMMANDS.values() if each.help not in said] == []
    for name in ("dead-letter", "journal"):
        listed = summaries_of(name)
        said = " ".join(_run(name, "--help").stdout.split())
        assert [each for each in listed if each not in said] == []


def summaries_of(name: str) -> list[str]:
    """The first sentences of the commands of a group."""
    return [each.help.split("\n\n")[0].split(". ")[0] for each in COMMANDS[name].load().commands.values()]


def test_check_imports_no_codec_and_no_client() -> None:
    imported = _imported("check", "--offline", "examples/quickstart.properties")
    assert "isthmus.config" in imported
    assert imported & {"msgspec", "confluent_kafka", "aiokafka", "pyspark", "asyncio"} == set()


def test_check_imports_nothing_big_for_what_its_file_does_not_have() -> None:
    imported = _imported("check", "--offline", "examples/quickstart.properties")
    assert imported & {"pydantic", "javaproperties", "http.client", "ssl", "xml", "rich.markdown"} == set()


@pytest.mark.parametrize("name", COMMANDS)
def test_a_summary_is_the_first_sentence_of_the_commands_help(name: str) -> None:
    listed = COMMANDS[name]
    if isinstance(listed, LazyCommand):
        assert listed.load().help.startswith(listed.help)


def _paragraphs(command: object) -> list[str]:
    found = (getattr(command, "help", None) or "").split("\n\n")
    return found + [text for each in getattr(command, "commands", {}).values() for text in _paragraphs(each)]


def _all_paragraphs() -> list[str]:
    commands = [each.load() for each in COMMANDS.values()]
    return [get_command(app).help, *(text for each in commands for text in _paragraphs(each))]


def test_no_paragraph_of_help_has_line_breaks_of_its_own() -> None:
    paragraphs = [part for text in _all_paragraphs() for part in text.split("\n\n")]
    assert [each for each in paragraphs if "\n" in each.strip() and not each.startswith(AS_IT_IS)] == []


def test_examples_in_help_fit_a_terminal_of_80_columns() -> None:
    lines = [line for text in _all_paragraphs() for line in text.splitlines() if line.startswith("  ")]
    assert len(lines) > 5
    assert [line for line in lines if len(line) > 78] == []


def test_examples_in_help_keep_their_lines() -> None:
    assert filled("One\ntwo.\n\nFor example:\n\n  a\n  b\n\nThree\nfour.") == (
        "One two.\n\nFor example:\n\n\b\n  a\n  b\n\nThree four."
    )


def test_the_version_is_printed() -> None:
    done = _run("--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("isthmus ")


def test_a_failure_is_one_json_object_where_the_log_is_json(tmp_path: object) -> None:
    environ = {"ISTHMUS_STATE_DIR": str(tmp_path)}
    for done in (
        _run("--log-format", "json", "receive", "--topic", "x", **environ),
        _run("receive", "--topic", "x", **environ, ISTHMUS_LOG_FORMAT="json"),
    ):
        assert done.returncode == 3
        said = json.loads(done.stderr)
        assert (said["level"], said["event"]) == ("critical", "bridge.failed")
        assert said["message"].startswith("no embedded Kafka is running")
        assert "isthmus run" in said["remedy"]
    assert "error: no embedded Kafka" in _run("receive", "--topic", "x", **environ).stderr


def test_an_unknown_level_is_wrong_usage() -> None:
    assert _run("--log-level", "loud", "doctor").returncode == 2


@pytest.mark.parametrize("command", [("run",), ("send", "-a", "x", "-b", "x"), ("receive", "--topic", "x")])
def test_an_error_of_the_configuration_is_called_one_once(command: tuple[str, ...]) -> None:
    done = _run(*command, "nowhere.properties")
    assert done.returncode == 1
    assert done.stderr == "error: nowhere.properties: cannot be read: No such file or directory\n"
