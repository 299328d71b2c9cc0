"""The tutorial and the README, from a clone to a dead letter replayed: their commands, as they are written.

All of it happens on one bridge, and so does the JMS program among the examples. A block without a language is
what the commands of the block before it print.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.support.commands import ROOT, Running
from tests.support.jms.qpid import classpath as qpid_classpath
from tests.support.pages import blocks, shows
from tests.support.polling import PATIENCE_S, eventually

TUTORIAL = [block for block in blocks(ROOT / "docs" / "tutorial.md") if block.language in ("sh", "")]
ON_A_BRIDGE = [ROOT / "docs" / "jms.md", ROOT / "docs" / "jms-application.md"]
"""Pages whose commands need a bridge, and any will do."""
README = [block for block in blocks(ROOT / "README.md") if block.language == "sh"]
EXAMPLE = ROOT / "examples" / "jms"
IVY = ROOT / "src" / "isthmus" / "embedded" / "ivy.xml"
MAVEN = re.compile(r"`(mvn [^`]+)`")
UNRESOLVED = re.compile(
    r"could not (?:be resolved|transfer)|PluginResolutionException|DependencyResolution", re.I
)
ALIAS = "alias isthmus=.venv/bin/isthmus"


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


class Walk:
    """A clone, as commands find it. The port of its bridge is any that is free, for all commands alike."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environ = {"ISTHMUS_AMQP_PORT": free_port()}
        (folder / "examples").symlink_to(ROOT / "examples")
        program = folder / ".venv" / "bin" / "isthmus"
        program.parent.mkdir(parents=True)
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m isthmus "$@"\n')
        program.chmod(0o755)

    def run(self, commands: str) -> str:
        """What the commands print; each must go well."""
        done = subprocess.run(
            ["bash", "-euc", f"shopt -s expand_aliases\n{ALIAS}\n{commands}"],
            cwd=self.folder,
            env={**os.environ, **self.environ, "NO_COLOR": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=3 * PATIENCE_S,
        )
        assert done.returncode == 0, f"{commands}\n{done.stdout}\n{done.stderr}"
        return done.stdout


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Walk:
    return Walk(tmp_path_factory.mktemp("a clone"))


@pytest.fixture(scope="module")
def bridge(walk: Walk) -> Iterator[Running]:
    """The bridge that the tutorial starts."""
    copy, make = TUTORIAL[0].text.splitlines()
    assert make == "make run FILE=bridge.properties"
    walk.run(copy)
    with Running(walk.folder, "bridge.properties", environ=walk.environ) as running:
        running.wait_until_ready()
        yield running


def test_make_run_runs_a_bridge() -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert re.search(r"^run: setup .*\n\t\$\(BIN\)/isthmus run \$\(FILE\)$", makefile, re.MULTILINE)
    assert re.search(r"^FILE +\?= examples/quickstart.properties$", makefile, re.MULTILINE)
    assert README[0].text == "make run\n"


def test_amqp_and_nats_listen_on_this_machine_alone(bridge: Running) -> None:
    assert re.search(r"\bamqp 127\.0\.0\.1:\d+", bridge.printed())
    assert re.search(r"\bnats nats://127\.0\.0\.1:\d+ \(embedded\)", bridge.printed())


def test_the_tutorial_goes_as_it_is_written(walk: Walk, bridge: Running) -> None:
    printed = ""
    for language, text in TUTORIAL[1:]:
        if language == "sh":
            printed = walk.run(text)
        else:
            assert shows(text, printed), f"shown:\n{text}\nprinted:\n{printed}\n{bridge.printed()}"


def test_the_tutorial_takes_no_more_than_twenty_commands() -> None:
    texts = [block.text.replace("\\\n", "") for block in TUTORIAL if block.language == "sh"]
    assert len("".join(texts).splitlines()) <= 20


@pytest.mark.usefixtures("bridge")
def test_the_readme_goes_as_it_is_written(walk: Walk) -> None:
    there, back = [walk.run(block.text) for block in README[1:]]
    assert shows("orders-eu:…  key …\n…", there)
    assert shows("…\nanswers\n…\n  on its way", back)


def test_the_readme_takes_no_more_than_five_commands_in_a_clone() -> None:
    assert len("".join(block.text.replace("\\\n", "") for block in README).splitlines()) <= 5


@pytest.mark.usefixtures("bridge")
@pytest.mark.parametrize("page", ON_A_BRIDGE, ids=lambda page: page.name)
def test_commands_of_other_pages_go_well(page: Path, walk: Walk) -> None:
    for block in blocks(page):
        if block.language == "sh":
            walk.run(block.text)


def test_the_jms_program_sends_a_message_and_receives_one(
    walk: Walk, bridge: Running, tmp_path: Path
) -> None:
    classpath = os.pathsep.join([str(tmp_path), qpid_classpath()])
    if shutil.which("javac") is None:
        pytest.skip("there is no javac")
    sources = list(map(str, EXAMPLE.rglob("*.java")))
    subprocess.run(["javac", "-cp", classpath, "-d", str(tmp_path), *sources], check=True, timeout=PATIENCE_S)
    done = subprocess.run(
        ["java", "-cp", classpath, "Hello", f"amqp://127.0.0.1:{walk.environ['ISTHMUS_AMQP_PORT']}"],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.stdout.splitlines() == [
        "sent to orders/java",
        "received hello from JMS, amount 42, from Kafka topic orders.java",
    ], done.stderr
    eventually(lambda: b"hello from JMS" in bridge.bodies("orders-other"))


def test_the_jms_program_has_the_version_of_the_client_that_the_bridge_is_tested_with() -> None:
    pom = ElementTree.parse(EXAMPLE / "pom.xml").getroot()
    version = pom.find(".//{*}dependency/{*}version")
    tested = re.search(r'name="qpid-jms-client" rev="([^"]+)"', IVY.read_text())
    assert version is not None
    assert tested
    assert version.text == tested[1]


def test_the_jms_program_runs_with_maven(walk: Walk, bridge: Running, tmp_path: Path) -> None:
    if shutil.which("mvn") is None:
        pytest.skip("there is no mvn")
    [written] = MAVEN.findall((ROOT / "docs" / "tutorial.md").read_text())
    shutil.copytree(EXAMPLE, tmp_path / "examples" / "jms", ignore=shutil.ignore_patterns("target"))
    url = f"amqp://127.0.0.1:{walk.environ['ISTHMUS_AMQP_PORT']}"
    done = subprocess.run(
        [*shlex.split(written), "--batch-mode", f"-Dexec.args={url}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=3 * PATIENCE_S,
    )
    if done.returncode and UNRESOLVED.search(done.stdout):
        pytest.skip("Maven can reach no repository that has what the program needs")
    assert done.returncode == 0, done.stdout
    assert "received hello from JMS, amount 42, from Kafka topic orders.java" in done.stdout, bridge.printed()
