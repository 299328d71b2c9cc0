"""Mistakes that only the machine and other systems can tell of: all commands find them alike."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.commands import isthmus

from isthmus.cli.probes import NotTried, Probe, attempt_all, require, try_folder, try_port
from isthmus.embedded.nats import EmbeddedNats
from isthmus.errors import HardFailure, NotReady, Unreachable
from isthmus.pipeline.state_lock import StateLock, running_in, this_process

NATS_ROUTE = "nats.intake.n.subject=orders\nroutes.r.predicate=msg.address==orders\nroutes.r.dest.topic=t\n"


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


@pytest.fixture(scope="module")
def nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    users = 'authorization { user: bridge, password: "right" }'
    with EmbeddedNats(tmp_path_factory.mktemp("nats"), config=users) as server:
        yield server.url


def _lines(stdout: str) -> dict[str, str]:
    return {line.split()[0]: line for line in stdout.splitlines()}


def test_a_taken_port_is_found_before_anything_is_started(tmp_path: Path, taken_port: int) -> None:
    (tmp_path / "b.properties").write_text(f"amqp.port={taken_port}\n")
    done = isthmus("run", "b.properties", folder=tmp_path)
    assert done.returncode == 3
    assert f"error: cannot listen on 127.0.0.1:{taken_port}: Address already in use" in done.stderr
    assert "what to do: set amqp.port to another port" in done.stderr
    assert not (tmp_path / ".isthmus" / "kafka").exists()

    checked = isthmus("check", "b.properties", "--connect", folder=tmp_path)
    assert checked.returncode == 1
    assert "b.properties:1: error: amqp.port: " in checked.stdout

    doctor = isthmus("doctor", "b.properties", folder=tmp_path)
    assert doctor.returncode == 1
    assert "missing" in _lines(doctor.stdout)["amqp.port"]


def test_a_wrong_password_for_nats_is_found_before_anything_is_started(tmp_path: Path, nats: str) -> None:
    login = f"nats.servers={nats}\nnats.user=bridge\nnats.password=s3cret-and-wrong\n{NATS_ROUTE}"
    (tmp_path / "b.properties").write_text(login)
    for command in (("run",), ("check", "--connect"), ("doctor",)):
        done = isthmus(*command, "b.properties", folder=tmp_path)
        said = done.stdout + done.stderr
        assert done.returncode == (3 if command == ("run",) else 1), said
        assert "refuses the bridge: " in said
        assert "check nats.user and nats.password" in said
        assert "s3cret" not in said
    assert not (tmp_path / ".isthmus" / "kafka").exists()


def test_nats_that_nothing_uses_is_said_not_to_be_tried(tmp_path: Path, nats: str) -> None:
    (tmp_path / "b.properties").write_text(f"nats.servers={nats}\nnats.user=u\nnats.password=wrong\n")
    said = "nothing is taken from it, and no route goes there"
    checked = isthmus("check", "b.properties", "--connect", "--json", folder=tmp_path)
    assert f"nats {said}" in json.loads(checked.stdout)["outline"]["not tried"]
    doctor = _lines(isthmus("doctor", "b.properties", folder=tmp_path).stdout)
    assert doctor["nats"].split(maxsplit=2)[1:] == ["note", said]


def test_what_works_is_said_to_be_tried_and_what_was_not_is_named(tmp_path: Path, nats: str) -> None:
    login = f"nats.servers={nats}\nnats.user=bridge\nnats.password=right\n{NATS_ROUTE}"
    (tmp_path / "b.properties").write_text(login)
    tried = json.loads(isthmus("check", "b.properties", "--connect", "--json", folder=tmp_path).stdout)
    assert tried["ok"]
    assert "answers, nats-server" in tried["outline"]["tried"]
    assert tried["outline"]["not tried"] == "kafka embedded: `isthmus run` starts it"
    plain = json.loads(isthmus("check", "b.properties", "--json", folder=tmp_path).stdout)
    assert plain["outline"]["not tried"].endswith("logins (--connect tries them)")
    doctor = _lines(isthmus("doctor", "b.properties", folder=tmp_path).stdout)
    assert "ok" in doctor["nats"]
    assert "note" in doctor["kafka"]


def test_all_mistakes_are_told_at_once(tmp_path: Path, taken_port: int) -> None:
    (tmp_path / "file").touch()
    lines = ["amqp.port=0", "amqp.users.file=nobody", "state.dir=file/state"]
    (tmp_path / "b.properties").write_text("\n".join(lines))
    done = isthmus(
        "doctor", "b.properties", folder=tmp_path, environ={"ISTHMUS_MONITOR_PORT": str(taken_port)}
    )
    found = _lines(done.stdout)
    assert all("missing" in found[each] for each in ("monitor.port", "users", "state.dir"))


def test_a_system_that_does_not_answer_is_waited_for_and_a_mistake_is_not() -> None:
    def unavailable() -> str:
        raise Unreachable("no answer")

    def wrong() -> str:
        raise HardFailure("wrong", remedy="right it")

    silent = Probe("nats", "NATS", unavailable)
    assert [each.said for each in require([silent, Probe("x", "x", lambda: "fine")])] == ["no answer"]
    with pytest.raises(HardFailure, match=r"^wrong$"):
        require([silent, Probe("x", "x", wrong)])
    with pytest.raises(NotReady, match="2 things keep the bridge from starting") as raised:
        require([Probe("x", "x", wrong), Probe("y", "y", wrong)])
    assert [str(each) for each in raised.value.failures] == ["wrong", "wrong"]


def test_what_could_not_be_tried_is_not_well() -> None:
    (finding,) = attempt_all([Probe("kafka", "Kafka", lambda: NotTried("nobody asked"))])
    assert not finding.tried


def test_a_port_of_the_bridge_that_runs_here_is_its_own(tmp_path: Path, taken_port: int) -> None:
    with pytest.raises(HardFailure, match="cannot listen"):
        try_port("amqp.port", "127.0.0.1", taken_port)
    assert running_in(tmp_path) is None
    with StateLock(tmp_path):
        holder = running_in(tmp_path)
        assert holder == this_process()
        assert isinstance(try_port("amqp.port", "127.0.0.1", taken_port, holder=holder), NotTried)
    assert running_in(tmp_path) is None


def test_two_settings_cannot_name_one_port() -> None:
    with pytest.raises(HardFailure, match=r"amqp.port is 9, and so is monitor.port"):
        try_port("amqp.port", "127.0.0.1", 9, same_as="monitor.port")


def test_a_full_disk_is_a_mistake_with_both_figures(tmp_path: Path) -> None:
    with pytest.raises(HardFailure, match=r"MiB are free, and a bridge needs 1099511627776"):
        try_folder(tmp_path / "state", room_bytes=2**60)
    assert not (tmp_path / "state").exists()
