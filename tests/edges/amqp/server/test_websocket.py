"""AMQP over WebSocket: with Qpid JMS, and with a client of our own for what no library sends."""

from __future__ import annotations

import base64
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Self, TypeVar

import pytest
from tests.support.amqp.server import RunningServer
from tests.support.certificates import make_certificates
from tests.support.jms.qpid import QpidJms
from tests.support.polling import PATIENCE_S, eventually

pytest.importorskip("wsproto", reason="wsproto is not installed")

from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Event,
    Ping,
    Pong,
    Request,
    TextMessage,
)

from isthmus.config.model.amqp import AmqpsSettings
from isthmus.edges.amqp.server.users import Users, set_user
from isthmus.edges.amqp.server.websocket import FRAME_BYTES

SASL_HEADER = b"AMQP\x03\x01\x00\x00"

E = TypeVar("E", bound=Event)


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with RunningServer(ws_port=0, login_timeout_s=600.0) as server:
        yield server


@pytest.fixture(scope="module")
def port(server: RunningServer) -> int:
    return server.amqp.ports[-1]


class Client:
    """A WebSocket client that may misbehave."""

    def __init__(self, port: int) -> None:
        self.peer = WSConnection(ConnectionType.CLIENT)
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        self.send(Request("127.0.0.1", "/", subprotocols=["amqp"]))
        accepted = self.until(AcceptConnection)
        assert accepted is not None
        assert accepted.subprotocol == "amqp"

    def send(self, event: Event) -> None:
        self.socket.sendall(self.peer.send(event))

    def until(self, kind: type[E]) -> E | None:
        """The next event of a kind; None if the server closes before."""
        while True:
            for event in self.peer.events():
                if isinstance(event, kind):
                    return event
            data = self.socket.recv(65536)
            if not data:
                return None
            self.peer.receive_data(data)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()


def upgrade(port: int, **headers: str) -> int:
    """The status that a request to upgrade is answered with."""
    given = {
        "Host": f"127.0.0.1:{port}",
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": base64.b64encode(os.urandom(16)).decode(),
        "Sec-WebSocket-Protocol": "amqp",
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in given.items() if value)
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as peer:
        peer.sendall(f"GET /any/path HTTP/1.1\r\n{lines}\r\n".encode("latin-1"))
        return int(peer.recv(65536).split()[1])


def test_qpid_jms_sends_over_websocket(server: RunningServer, port: int, qpid: QpidJms) -> None:
    before = len(server.memory.entries)
    assert qpid.run(f"amqpws://127.0.0.1:{port}", "sync", "orders", 100)[-1] == "done"
    assert len(server.memory.entries) == before + 100


def test_qpid_jms_sends_over_websocket_with_tls_and_a_password(tmp_path: Path, qpid: QpidJms) -> None:
    tls = make_certificates(tmp_path)
    set_user(tmp_path / "users", "alice", "secret")
    users = Users.read(tmp_path / "users")
    amqps = AmqpsSettings(ws_port=0, certificate=str(tls / "server.pem"), key=str(tls / "server.key"))
    with RunningServer(enabled=False, amqps=amqps, users=users, users_file="x") as server:
        url = f"amqpwss://localhost:{server.port}?transport.trustAll=true&transport.verifyHost=false"
        assert qpid.run(url, "sync", "orders", 3, "alice", "secret")[-1] == "done"
        assert len(server.memory.entries) == 3


def test_bytes_are_a_stream_whatever_frames_they_come_in(port: int) -> None:
    with Client(port) as client:
        for octet in SASL_HEADER:
            client.send(BytesMessage(data=bytes([octet]), message_finished=octet != ord("Q")))
        answer = client.until(BytesMessage)
        assert answer is not None
        assert bytes(answer.data).startswith(SASL_HEADER)


def test_a_stream_of_empty_frames_and_pings_is_borne(port: int) -> None:
    with Client(port) as client:
        for _ in range(1000):
            client.send(BytesMessage(data=b""))
        for number in range(100):
            client.send(Ping(payload=str(number).encode()))
        for number in range(100):
            pong = client.until(Pong)
            assert pong is not None
            assert bytes(pong.payload) == str(number).encode()


def test_text_is_refused(port: int) -> None:
    with Client(port) as client:
        client.send(TextMessage(data="AMQP"))
        closed = client.until(CloseConnection)
        assert closed is not None
        assert closed.code == 1003
        assert client.until(CloseConnection) is None


def test_a_close_is_answered(port: int) -> None:
    with Client(port) as client:
        client.send(CloseConnection(code=1000))
        assert client.until(CloseConnection) is not None


def test_a_peer_that_speaks_no_amqp_is_told_so_and_closed(port: int) -> None:
    with Client(port) as client:
        client.send(BytesMessage(data=b"GET / HTTP/1.0\r\n"))
        answer = client.until(BytesMessage)
        assert answer is not None
        assert bytes(answer.data).startswith(b"AMQP")
        closed = client.until(CloseConnection)
        assert closed is not None
        assert closed.code == 1000


def test_what_is_no_frame_ends_the_connection(port: int) -> None:
    with Client(port) as client:
        client.socket.sendall(b"\xff" * 100)
        closed = client.until(CloseConnection)
        assert closed is None or closed.code == 1002


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec_WebSocket_Protocol": ""},
        {"Sec_WebSocket_Protocol": "mqtt, AMQPx"},
        {"Upgrade": "h2c"},
        {"Sec_WebSocket_Key": ""},
        {"Host": ""},
        {"Host": "xn--\xff"},
        {"Sec_WebSocket_Protocol": "\xff"},
    ],
)
def test_what_does_not_ask_for_amqp_is_refused(port: int, headers: dict[str, str]) -> None:
    try:
        assert upgrade(port, **headers) == 400
    except IndexError:  # not even an answer
        assert any(not value.isascii() for value in headers.values())


def test_another_version_is_told_which_one_there_is(port: int) -> None:
    assert upgrade(port, Sec_WebSocket_Version="8") == 426


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "http://127.0.0.1.evil.example", "null", "http://["]
)
def test_a_page_of_the_web_cannot_connect_where_nobody_has_a_name(port: int, origin: str) -> None:
    assert upgrade(port, Origin=origin) == 403


def test_a_name_that_was_made_to_mean_this_machine_does_not_help(port: int) -> None:
    assert upgrade(port, Host=f"evil.example:{port}", Origin=f"http://evil.example:{port}") == 403


def test_a_page_of_this_machine_can_connect(port: int) -> None:
    assert upgrade(port, Origin=f"http://127.0.0.1:{port}") == 101


@pytest.mark.parametrize(("origin", "status"), [("https://Shop.example", 101), ("http://shop.example", 403)])
def test_origins_that_are_named_may_connect(origin: str, status: int) -> None:
    with RunningServer(ws_port=0, ws_origins="https://shop.example,https://b.example") as server:
        assert upgrade(server.amqp.ports[-1], Origin=origin) == status


def test_connections_count_and_must_log_in_in_time() -> None:
    with RunningServer(ws_port=0, max_connections=1, login_timeout_s=0.2) as server:
        with socket.create_connection(("127.0.0.1", server.amqp.ports[-1]), timeout=PATIENCE_S) as silent:
            assert silent.recv(1) == b""
        with Client(server.amqp.ports[-1]) as idle:
            assert idle.until(BytesMessage) is None
        eventually(lambda: server.amqp.connections == 0)


def test_frames_are_of_a_size_that_qpid_jms_takes() -> None:
    assert FRAME_BYTES < 65_536
