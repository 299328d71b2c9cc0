"""rhea, the JavaScript client: one more implementation of AMQP that is not ours, as sender and receiver.

npm installs it, by the versions and hashes of its lock file, into the user's cache folder. Without node, npm
or a registry the tests are skipped.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.amqp.kafka_server import receiving_server
from tests.support.amqp.server import RunningServer
from tests.support.kafka.topics import committed, new_topic, publish
from tests.support.polling import eventually

HERE = Path(__file__).parent / "rhea"
INSTALL_TIMEOUT_S = 120

Client = Callable[..., list[dict[str, Any]]]


@pytest.fixture(scope="module")
def rhea() -> Client:
    """Runs the program against a URL; returns what it printed."""
    modules = _installed() / "node_modules"

    def run(url: str, what: str, address: str, count: int = 1) -> list[dict[str, Any]]:
        done = subprocess.run(
            ["node", str(HERE / "client.js"), url, what, address, str(count)],
            env={**os.environ, "NODE_PATH": str(modules)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    return run


def _installed() -> Path:
    """The folder that rhea is in: one for each lock file, filled once."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            pytest.skip(f"there is no {program} on this machine")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "isthmus" / "npm"
    lock = (HERE / "package-lock.json").read_bytes()
    folder = cache / f"rhea-{hashlib.sha256(lock).hexdigest()[:12]}"
    if not (folder / "node_modules" / "rhea").is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(HERE / name, folder)
        command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S, check=False
        )
        if done.returncode:
            pytest.skip(f"npm cannot install rhea: {done.stderr.strip().splitlines()[-1]}")
    return folder


@pytest.fixture
def server() -> Iterator[RunningServer]:
    with RunningServer(max_message_size=1_000_000) as server:
        yield server


def test_what_rhea_sends_is_accepted_and_in_the_journal_in_order(rhea: Client, server: RunningServer) -> None:
    attached, *outcomes = rhea(server.url, "send", "orders", 500)
    assert attached == {"event": "attached", "max_message_size": 1_000_000}
    assert outcomes == [{"event": "accepted"}] * 500
    messages = [entry.message for entry in server.memory.entries]
    assert [each.body.slice(each.value) for each in messages] == [b"m%d" % n for n in range(500)]
    assert (messages[7].id, messages[7].address) == ("ID:7", "orders")
    assert messages[7].headers["region"].text == "EU"
    assert messages[7].headers["count"].value == 7


def test_a_message_of_many_frames_arrives_whole(rhea: Client, server: RunningServer) -> None:
    assert rhea(server.url, "large", "orders", 3)[1:] == [{"event": "accepted"}] * 3
    bodies = [entry.message.body.slice(entry.message.value) for entry in server.memory.entries]
    assert bodies == [bytes([n + 1]) * 300_000 for n in range(3)]


def test_a_sender_without_a_target_sends_where_each_message_says(rhea: Client, server: RunningServer) -> None:
    assert rhea(server.url, "relay", "orders", 2)[1:] == [{"event": "accepted"}] * 2
    assert [entry.message.address for entry in server.memory.entries] == ["orders", "orders"]


def test_an_address_that_does_not_exist_is_refused_at_attach(rhea: Client, server: RunningServer) -> None:
    refusal = rhea(server.url, "refused", "no-such")[-1]
    assert refusal == {
        "event": "sender_error",
        "condition": "amqp:not-found",
        "description": "no-such does not exist",
    }
    assert server.memory.entries == []


def test_a_relayed_message_to_an_address_that_does_not_exist_is_rejected(
    rhea: Client, server: RunningServer
) -> None:
    assert rhea(server.url, "relay", "no-such")[1:] == [{"event": "rejected", "condition": "amqp:not-found"}]


def test_a_message_that_is_too_large_ends_its_link(rhea: Client, server: RunningServer) -> None:
    [ended] = [each for each in rhea(server.url, "oversize", "orders") if each["event"] == "sender_error"]
    assert ended["condition"] == "amqp:link:message-size-exceeded"
    assert "this link takes 1000000" in ended["description"]
    assert server.memory.entries == []


def test_rhea_receives_and_settles_what_a_group_then_has_behind_it(rhea: Client, kafka_servers: str) -> None:
    topic = new_topic(kafka_servers)
    publish(kafka_servers, topic, ["a", "b", "c"])
    with receiving_server(kafka_servers) as server:
        seen = rhea(server.url, "receive", f"{topic}/group.id/g", 3)
    assert seen == [{"event": "message", "body": body} for body in ("a", "b", "c")]
    eventually(lambda: committed(kafka_servers, topic, "g") == 3, timeout_s=20)


def test_what_rhea_releases_comes_again(rhea: Client, kafka_servers: str) -> None:
    topic = new_topic(kafka_servers)
    publish(kafka_servers, topic, ["a", "b"])
    with receiving_server(kafka_servers) as server:
        seen = rhea(server.url, "release", f"{topic}/group.id/g", 2)
    assert sorted(each["body"] for each in seen) == ["a", "a", "b"]
