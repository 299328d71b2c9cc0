"""A bridge that runs goes by other routes, users and certificates: without a restart, a loss or a copy."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.commands import Running, isthmus
from tests.support.polling import eventually

from isthmus.cli.file_watch import FileWatch
from isthmus.config.model.brokers import BrokerSettings
from isthmus.edges.amqp.client.client import reach
from isthmus.edges.amqp.server.users import remove_user, set_user
from isthmus.errors import HardFailure

FILE = "b.properties"
PATIENT = ("--timeout", "250")
BASE = "bridge.id=reloads\namqp.port=0\namqp.users.file=users\nrouting.on-error=skip\n"
ROUTE = "routes.{name}.predicate=msg.address=={address}\nroutes.{name}.dest.topic={topic}\n"


def _route(name: str, address: str, topic: str) -> str:
    return ROUTE.format(name=name, address=address, topic=topic)


@pytest.fixture(scope="module")
def bridge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("reloads")
    (folder / FILE).write_text(BASE + _route("orders", "orders", "first"))
    set_user(folder / "users", "alice", "secret")
    with Running(folder, FILE) as running:
        running.wait_until_ready()
        yield running


def _send(bridge: Running, address: str, body: str) -> None:
    done = isthmus("send", "-a", address, "-b", body, FILE, folder=bridge.folder)
    assert done.returncode == 0, done.stderr


def _reach(bridge: Running, user: str, password: str) -> str:
    found = re.search(r"amqp 127\.0\.0\.1:(\d+)", bridge.printed())
    assert found
    url = f"amqp://{user}:{password}@127.0.0.1:{found[1]}"
    return reach(BrokerSettings.of({"url": url}), "bridge", "test")


def test_routes_change_and_no_message_is_lost_or_copied(bridge: Running) -> None:
    _send(bridge, "orders", "one")
    eventually(lambda: bridge.bodies("first") == [b"one"])
    (bridge.folder / FILE).write_text(
        BASE + _route("orders", "orders", "second") + _route("news", "news", "news")
    )
    done = isthmus("reload", FILE, *PATIENT, folder=bridge.folder)
    assert done.returncode == 0, done.stderr + bridge.printed()
    assert done.stdout.startswith("reloaded: 2 routes")
    _send(bridge, "orders", "two")
    _send(bridge, "news", "three")
    eventually(lambda: bridge.bodies("second") == [b"two"])
    eventually(lambda: bridge.bodies("news") == [b"three"])
    assert bridge.bodies("first") == [b"one"]
    status, metrics = bridge.monitor("/metrics")
    assert status == 200
    assert 'route="news"' in metrics
    found = re.search(r"monitor (http://\S+)", bridge.printed())
    assert found

    def shown() -> str:
        done = isthmus("top", found[1], folder=bridge.folder)
        assert done.returncode == 0, done.stderr
        return done.stdout

    # Figures may be two seconds old.
    eventually(lambda: re.search(r"^news +news +1 +1 +0", shown(), re.MULTILINE), what=shown)


def test_a_file_with_mistakes_leaves_the_running_one_in_force(bridge: Running) -> None:
    good = (bridge.folder / FILE).read_text()
    try:
        (bridge.folder / FILE).write_text(f"{good}\nroutes.news.predicate=msg.adress==x\n")
        done = isthmus("reload", "--state-dir", ".isthmus", *PATIENT, folder=bridge.folder)
        assert done.returncode == 1
        assert "the bridge goes on as it was: " in done.stderr
        assert "routes.news.predicate" in done.stderr
        assert done.stderr.count("error:") == 1
        assert "the configuration is not reloaded" in bridge.printed()
    finally:
        (bridge.folder / FILE).write_text(good)
    before = len(bridge.bodies("news"))
    _send(bridge, "news", "still")
    eventually(lambda: len(bridge.bodies("news")) == before + 1)


def test_what_needs_a_restart_is_named(bridge: Running) -> None:
    good = (bridge.folder / FILE).read_text()
    try:
        changed = good.replace("amqp.port=0", "amqp.port=5673\njournal.partitions=7")
        (bridge.folder / FILE).write_text(
            f"{changed}routes.j.predicate=msg.address==j\nroutes.j.dest.topic=j\n"
        )
        done = isthmus("reload", FILE, *PATIENT, folder=bridge.folder)
        assert done.returncode == 1
        assert "needs a restart: amqp.port, journal.partitions" in done.stderr
    finally:
        (bridge.folder / FILE).write_text(good)


def test_users_come_and_go_with_a_sighup(bridge: Running) -> None:
    assert "answers" in _reach(bridge, "alice", "secret")
    with pytest.raises(HardFailure, match="refuses the bridge"):
        _reach(bridge, "bob", "secret")
    set_user(bridge.folder / "users", "bob", "secret")
    remove_user(bridge.folder / "users", "alice")
    result = bridge.folder / ".isthmus" / "reload.json"
    result.unlink(missing_ok=True)
    bridge.process.send_signal(signal.SIGHUP)
    eventually(result.exists)
    assert json.loads(result.read_text())["ok"], bridge.printed()
    assert "answers" in _reach(bridge, "bob", "secret")
    with pytest.raises(HardFailure, match="refuses the bridge"):
        _reach(bridge, "alice", "secret")
    assert bridge.process.poll() is None


def test_a_changed_file_is_noticed_by_one_who_watches(tmp_path: Path) -> None:
    file = tmp_path / "users"
    file.touch()
    watch = FileWatch(lambda: [file, tmp_path / "missing"])
    assert not watch.changed()
    set_user(file, "alice", "secret")
    assert watch.changed()
    assert not watch.changed()
    (tmp_path / "missing").touch()
    assert watch.changed()


def test_where_no_bridge_runs_the_command_says_so(tmp_path: Path) -> None:
    done = isthmus("reload", "--state-dir", tmp_path, folder=tmp_path)
    assert done.returncode == 3
    assert f"no bridge runs in state.dir {tmp_path}" in done.stderr
