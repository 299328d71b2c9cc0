"""Every snippet of the documentation is run, or checked, or says here why it is not.

`test_walk` runs the commands that need a bridge, `test_commands` and `test_dead_letters` compare what is
printed, `test_examples` runs Python.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.commands import ROOT, isthmus
from tests.support.pages import blocks

from isthmus import config
from isthmus.config import Severity

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

WALKED = {"README.md", "tutorial.md", "jms.md", "jms-application.md"}
"""Their commands are run by `test_walk`."""

CONSOLES = {"trying-routes.md", "dead-letters.md", "configuration.md"}
"""Compared by `test_commands`, `test_dead_letters` and `test_examples`."""

NOT_RUN = {
    "cluster.md": "spark-submit needs a distribution of Spark beside PySpark",
    "nats.md": "`nats` is a program of its own, which is not installed here",
}

SHOWN = {
    "cli.md": "examples of the commands' own help, with addresses that nobody has",
    "from-strimzi.md": "`cli/test_old_bridge.py` runs such a file",
    "jms.md": "it asks for a password; secure.md has the form without",
    "ledger.md": "ids and transactions of nobody: `pipeline/test_ledger_commands.py` has some",
    "monitor.md": "it goes on until it is stopped",
    "operations.md": "it goes on until it is stopped: `cli/test_reload.py` does that",
    "real-mq.md": "a container engine and IBM's own software",
}
"""Pages with commands in a block without a language, whose options are looked up: why they are not run."""

CONTINUED = {"amqp-client.md", "real-mq.md"}
"""Their properties go on where the block before ends."""

GIVEN = {
    "from-jms-bridge.md": {
        "jms-bridge.conf": 'bridge { id = "shop", kafka { bootstrap.servers = "embedded" } }'
    },
    "from-nats-mq.md": {
        "OLD.conf": """
            nats: {servers: ["nats://n:4222"]}
            connect: [{type: NATS2Queue, id: a, subject: s, queue: Q, mq: {
                ConnectionName: "h(1414)", ChannelName: C, QueueManager: M
            }}]
        """
    },
    "from-strimzi.md": {"application.properties": "kafka.bootstrap.servers=embedded\namqp.port=5672\n"},
    "secure.md": {},
    "nats-and-mq.md": {},
    "backup-and-upgrade.md": {".isthmus/checkpoints/router/metadata": "{}"},
}
"""Pages whose commands are run here, with the files that they find."""


def _pages_with(language: str) -> list[Path]:
    return [page for page in PAGES if any(block.language == language for block in blocks(page))]


def _snippets(page: Path, language: str) -> list[str]:
    return [block.text for block in blocks(page) if block.language == language]


def test_every_snippet_is_of_a_kind_that_is_tested() -> None:
    kinds = {block.language for page in PAGES for block in blocks(page)}
    assert kinds <= {"", "sh", "console", "properties", "yaml", "python", "py", "java", "json"}
    assert {page.name for page in _pages_with("sh")} == WALKED | NOT_RUN.keys() | GIVEN.keys()
    assert {page.name for page in _pages_with("console")} == CONSOLES
    assert {page.name for page in _pages_with("yaml")} <= CONSOLES
    assert {page.name for page in _pages_with("py")} <= NOT_RUN.keys()
    commands = re.compile(r"^(\$ |isthmus |podman |pip )", re.MULTILINE)
    others = {page.name for page in PAGES for text in _snippets(page, "") if commands.search(text)}
    assert others <= SHOWN.keys()


@pytest.mark.parametrize("page", _pages_with("properties"), ids=lambda page: page.name)
def test_properties_pass_the_check(page: Path, tmp_path: Path) -> None:
    before = ""
    for snippet in _snippets(page, "properties"):
        text = before + snippet
        file = tmp_path / "bridge.properties"
        file.write_text(text)
        environ = dict.fromkeys(re.findall(r"\$\{env:(\w+)\}", text), "a secret of 16 characters")
        for name in re.findall(r"\$\{file:([^}]+)\}", text):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text("secret\n")
        problems = [each for each in config.check(file, environ) if each.severity is not Severity.NOTE]
        assert [each.message for each in problems] in ([], ["no routes: nothing will be routed"])
        before = text if page.name in CONTINUED else ""


@pytest.mark.parametrize("page", GIVEN)
def test_commands_go_well(page: str, tmp_path: Path) -> None:
    """In a folder that has the files which the page speaks of, and its last properties as a configuration."""
    path = ROOT / "docs" / page
    for name, content in GIVEN[page].items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    for snippet in _snippets(path, "properties"):
        (tmp_path / "bridge.properties").write_text(snippet)
    for snippet in _snippets(path, "sh"):
        done = subprocess.run(
            ["bash", "-euc", f'isthmus() {{ "{sys.executable}" -m isthmus "$@"; }}\n{snippet}'],
            cwd=tmp_path,
            env={
                **os.environ,
                "NO_COLOR": "1",
                "KAFKA_PASSWORD": "secret",
                "MONITOR_TOKEN": "of 16 characters",
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, f"{snippet}\n{done.stdout}\n{done.stderr}"


def test_spark_submit_is_shown_with_the_connector_that_the_bridge_has() -> None:
    shown = re.findall(r"spark-sql-kafka-0-10_2.13:(\S+)", (ROOT / "docs" / "cluster.md").read_text())
    ivy = (ROOT / "src" / "isthmus" / "embedded" / "ivy.xml").read_text()
    assert shown == re.findall(r'name="spark-sql-kafka-0-10_2.13" rev="([^"]+)"', ivy)


def test_java_is_that_of_the_example() -> None:
    program = (ROOT / "examples" / "jms" / "src" / "main" / "java" / "Hello.java").read_text()
    lines = [line.strip() for line in program.splitlines()]
    for page in _pages_with("java"):
        for snippet in _snippets(page, "java"):
            shown = [line.strip() for line in snippet.splitlines()]
            assert any(lines[start : start + len(shown)] == shown for start in range(len(lines)))


def test_the_page_on_configuration_shows_what_check_prints_as_json(tmp_path: Path) -> None:
    (snippet,) = _snippets(ROOT / "docs" / "configuration.md", "json")
    shown = json.loads(snippet)
    (problem,) = shown["problems"]
    lines = ["# a comment"] * (problem["line"] - 1)
    text = [*lines, f"{problem['key']}=msg.address==orders"]
    (tmp_path / problem["file"]).write_text("\n".join(text))
    done = isthmus("check", "--offline", "--json", problem["file"], folder=tmp_path)
    printed = json.loads(done.stdout)
    assert printed.keys() == shown.keys()
    assert problem in printed["problems"]


def test_the_page_on_events_shows_a_line_as_it_is_logged() -> None:
    (snippet,) = _snippets(ROOT / "docs" / "reference" / "events.md", "json")
    shown = json.loads(snippet)
    emit = (
        "from isthmus.logs import *; configure(Level.INFO, Format.JSON)\n"
        "from isthmus.events.kafka import BatchRefused\n"
        f"BatchRefused({shown['topic']!r}, {shown['error']!r}).emit()"
    )
    done = subprocess.run([sys.executable, "-c", emit], capture_output=True, text=True, check=True)
    logged = json.loads(done.stderr)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", shown["time"])
    assert {**logged, "time": shown["time"]} == shown
