from __future__ import annotations

import asyncio
import logging
import re
import subprocess
from pathlib import Path

import nkeys
import pytest
from tests.support.asynchronous import eventually
from tests.support.nats.operators import Operator
from tests.support.nats.peers import bridge

from isthmus.config.model.nats import NatsSettings
from isthmus.edges.nats.client import NatsClient
from isthmus.embedded.nats import EmbeddedNats
from isthmus.errors import HardFailure


async def round_trip(url: str, **more: object) -> bytes:
    async with bridge(url, **more) as client:
        answers = await client.live.subscribe("echo")
        await client.live.publish("echo", b"hello")
        return (await answers.next_msg(60)).data


def test_user_and_password_are_taken(tmp_path: Path) -> None:
    with EmbeddedNats(tmp_path, config='authorization { user: "u", password: "p" }') as server:
        assert asyncio.run(round_trip(server.url, user="u", password="p")) == b"hello"


def test_a_token_is_taken(tmp_path: Path) -> None:
    with EmbeddedNats(tmp_path, config='authorization { token: "t0ken" }') as server:
        assert asyncio.run(round_trip(server.url, token="t0ken")) == b"hello"


def test_an_nkey_is_taken_from_a_file_or_as_it_is(tmp_path: Path) -> None:
    seed = nkeys.encode_seed(bytes(range(32)), nkeys.PREFIX_BYTE_USER)
    public = nkeys.from_seed(bytearray(seed)).public_key.decode()
    file = tmp_path / "seed"
    file.write_bytes(seed)
    config = f"authorization {{ users: [ {{ nkey: {public} }} ] }}"
    with EmbeddedNats(tmp_path / "nats", config=config) as server:
        assert asyncio.run(round_trip(server.url, nkey=str(file))) == b"hello"
        assert asyncio.run(round_trip(server.url, nkey=seed.decode())) == b"hello"


def test_credentials_of_an_operator_s_account_are_taken(tmp_path: Path) -> None:
    operator, file = Operator(), tmp_path / "bridge.creds"
    file.write_text(operator.credentials("bridge"))
    with EmbeddedNats(tmp_path / "nats", config=operator.config) as server:
        assert asyncio.run(round_trip(server.url, creds=str(file))) == b"hello"


def test_credentials_of_another_operator_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "stranger.creds"
    file.write_text(Operator().credentials("stranger"))
    with (
        EmbeddedNats(tmp_path / "nats", config=Operator().config) as server,
        pytest.raises(HardFailure, match=r"refuses the bridge: .*[Aa]uthorization") as failure,
    ):
        asyncio.run(round_trip(server.url, creds=str(file)))
    assert "nats.creds" in failure.value.remedy


def test_wrong_credentials_are_a_hard_failure_without_the_password(tmp_path: Path) -> None:
    with EmbeddedNats(tmp_path, config='authorization { user: "u", password: "p" }') as server:
        with pytest.raises(HardFailure, match=r"refuses the bridge: .*[Aa]uthorization") as failure:
            asyncio.run(round_trip(server.url, user="u", password="wrong-one"))
        assert "wrong-one" not in str(failure.value) + failure.value.remedy


def test_tls_with_a_client_certificate(tmp_path: Path) -> None:
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
            *("-nodes", "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=127.0.0.1"),
            *("-addext", "subjectAltName=IP:127.0.0.1"),
        ],
        check=True,
        capture_output=True,
    )
    config = f'tls {{ cert_file: "{cert}", key_file: "{key}", ca_file: "{cert}", verify: true }}'
    with EmbeddedNats(tmp_path / "nats", config=config) as server:
        files = {"tls_ca": str(cert), "tls_cert": str(cert), "tls_key": str(key)}
        assert asyncio.run(round_trip(server.url, **files)) == b"hello"


def test_after_a_flush_the_server_has_what_was_sent_before_it() -> None:
    async def scenario() -> list[bytes]:
        said: list[bytes] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b'INFO {"max_payload":1048576}\r\n')
            try:
                while line := await reader.readline():
                    said.append(line.split()[0])
                    if line == b"PING\r\n":
                        writer.write(b"PONG\r\n")
            finally:
                writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server, bridge(f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}") as client:
            said.clear()
            await client.live.subscribe("answers")
            await client.live.publish("orders", b"order")
            await client.live.flush()
            return list(said)

    assert asyncio.run(scenario()) == [b"SUB", b"PUB", b"order", b"PING"]


def test_a_server_that_starts_later_is_found(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        with EmbeddedNats(tmp_path) as server:
            url = server.url
        client = NatsClient(NatsSettings(servers=(url,), max_backoff_s=0.1))
        connecting = asyncio.create_task(client.connect())
        await eventually(lambda: client._backoff.failures > 2)
        assert not connecting.done()
        await asyncio.to_thread(server.start)
        try:
            await asyncio.wait_for(connecting, 60)
            assert client.connected
            assert client.live.is_connected
            assert (client.counts.connects, client.counts.disconnects) == (1, 0)
            await client.close()
        finally:
            await asyncio.to_thread(server.stop)

    with caplog.at_level(logging.WARNING, logger="isthmus"):
        asyncio.run(scenario())
    [said] = [record.getMessage() for record in caplog.records]
    assert re.fullmatch(r"NATS at 127\.0\.0\.1:\d+ is unavailable: .*Connect call failed.*", said)


def test_whoever_asks_whether_it_answers_is_told_its_version(tmp_path: Path) -> None:
    with EmbeddedNats(tmp_path) as server:
        said = asyncio.run(NatsClient(NatsSettings(servers=(server.url,))).reach())
    assert re.fullmatch(r"127\.0\.0\.1:\d+ answers, nats-server \d+\.\d+\.\d+", said)


def test_a_change_of_state_is_one_line_however_many_attempts_it_takes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        server = EmbeddedNats(tmp_path)
        server.start()
        async with bridge(server.url) as client:
            await asyncio.to_thread(server.stop)
            await eventually(lambda: client._backoff.failures > 4)
            await asyncio.to_thread(server.start)
            await eventually(lambda: client.counts.reconnects == 1)
            assert (client.counts.connects, client.counts.disconnects) == (1, 1)
        await asyncio.to_thread(server.stop)

    with caplog.at_level(logging.INFO, logger="isthmus"):
        asyncio.run(scenario())
    said = [record.getMessage().rpartition("127.0.0.1:")[2].lstrip("0123456789") for record in caplog.records]
    assert said == [": connected", " is unavailable: the connection broke", " is available again"]
