from __future__ import annotations

import socket
import ssl
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.support.amqp.server import RunningServer
from tests.support.amqp.wire import Wire, message
from tests.support.certificates import make_certificates
from tests.support.polling import eventually

from isthmus.config.model.amqp import AmqpsSettings
from isthmus.edges.amqp.protocol import Closed, Identity, LinkDetached, SaslClient
from isthmus.edges.amqp.protocol.terms import Coordinator, Error, Rejected, Source, Target
from isthmus.edges.amqp.server.contract import Client
from isthmus.edges.amqp.server.users import User, Users, set_user
from isthmus.errors import ConfigError
from isthmus.routing.reserved import ReservedTopics


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Users:
    file = tmp_path_factory.mktemp("users") / "users"
    set_user(file, "alice", "secret", send=["orders*"], receive=[])
    set_user(file, "nobody", "secret", send=[], receive=[])
    set_user(file, "app", None)
    return Users.read(file)


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificates(tmp_path_factory.mktemp("tls"))


def encrypted(tls: Path) -> AmqpsSettings:
    return AmqpsSettings(
        port=0,
        certificate=str(tls / "server.pem"),
        key=str(tls / "server.key"),
        client_ca=str(tls / "client.pem"),
    )


def client_context(tls: Path, *, certificate: bool = False) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(tls / "server.pem"))
    if certificate:
        context.load_cert_chain(tls / "client.pem", tls / "client.key")
    return context


def test_a_password_never_crosses_the_network_unencrypted(users: Users) -> None:
    with (
        RunningServer(users=users, users_file="x") as server,
        Wire(server.port, SaslClient("a", "b", mechanisms=["PLAIN"])) as wire,
    ):
        closed = wire.until(Closed)
        assert closed.error is not None
        assert "offers none of PLAIN" in (closed.error.description or "")


def test_a_password_may_cross_it_where_that_is_allowed(users: Users) -> None:
    client = SaslClient("alice", "secret", mechanisms=["PLAIN"])
    with (
        RunningServer(users=users, users_file="x", plain_without_tls=True) as server,
        Wire(server.port, client) as wire,
    ):
        wire.open()


def test_scram_needs_no_encryption(users: Users) -> None:
    with (
        RunningServer(users=users, users_file="x") as server,
        Wire(server.port, SaslClient("alice", "secret")) as wire,
    ):
        wire.open()
        assert wire.engine.sasl is not None
        assert wire.engine.sasl.identity == ("alice", "SCRAM-SHA-512")


def test_a_wrong_password_is_turned_away(users: Users, caplog: pytest.LogCaptureFixture) -> None:
    with (
        RunningServer(users=users, users_file="x") as server,
        Wire(server.port, SaslClient("alice", "wrong")) as wire,
    ):
        assert wire.until(Closed).error is not None
        assert wire.engine.remote_open is None
        assert caplog.messages == ["a login from 127.0.0.1 was refused"]


def test_nobody_comes_in_without_a_name_where_users_have_them(users: Users) -> None:
    with RunningServer(users=users, users_file="x") as server, Wire(server.port, SaslClient()) as wire:
        wire.until(Closed)
        assert wire.engine.remote_open is None


def test_nobody_comes_in_without_a_name_from_elsewhere() -> None:
    with RunningServer(host="0.0.0.0") as server, Wire(server.port, SaslClient()) as wire:
        wire.until(Closed)
        assert wire.engine.remote_open is None


def test_a_user_sends_only_where_it_may(users: Users) -> None:
    with (
        RunningServer(users=users, users_file="x") as server,
        Wire(server.port, SaslClient("alice", "secret")) as wire,
    ):
        wire.open()
        wire.sender("orders.eu")
        link = wire.engine.begin().sender("other")
        link.attach(source=Source(), target=Target("payroll"))
        error = wire.until(LinkDetached).error
        assert error == Error("amqp:unauthorized-access", "you may not send to 'payroll'")


def test_to_does_not_get_round_permissions(users: Users) -> None:
    with (
        RunningServer(users=users, users_file="x") as server,
        Wire(server.port, SaslClient("alice", "secret")) as wire,
    ):
        link = wire.open().sender("orders.eu")
        state = wire.outcome(link.send(b"1", message("x", to="payroll")))
        assert isinstance(state, Rejected)
        assert state.error is not None
        assert state.error.condition == "amqp:unauthorized-access"
        assert server.memory.entries == []


def test_a_user_receives_only_where_it_may(users: Users) -> None:
    server = RunningServer(users=users, users_file="x", outgoing_links=object())
    with server, Wire(server.port, SaslClient("alice", "secret")) as wire:
        link = wire.open().engine.begin().receiver("in")
        link.attach(source=Source("orders/group.id/g"), target=Target())
        error = wire.until(LinkDetached).error
        assert error is not None
        assert error.condition == "amqp:unauthorized-access"


@pytest.mark.parametrize(
    "address", ["__consumer_offsets", "isthmus.main.journal", "isthmus/main/journal", "log"]
)
def test_nobody_sends_to_a_reserved_topic_unless_it_is_granted_by_name(address: str) -> None:
    with RunningServer(reserved=ReservedTopics(journal="log")) as server, Wire(server.port) as wire:
        link = wire.open().sender("orders")
        state = wire.outcome(link.send(b"1", message("x", to=address)))
        assert isinstance(state, Rejected)
        assert state.error == Error("amqp:unauthorized-access", f"you may not send to {address!r}")
        target = wire.engine.begin().sender("other")
        target.attach(source=Source(), target=Target(address))
        assert wire.until(LinkDetached).error == state.error
        assert server.memory.entries == []


@pytest.mark.parametrize(
    "address", ["isthmus.main.journal/group.id/g", "isthmus/main/temporary/group.id/g", "log/group.id/g"]
)
def test_a_user_of_everything_does_not_read_the_journal(users: Users, tls: Path, address: str) -> None:
    server = RunningServer(
        users=users,
        users_file="x",
        amqps=encrypted(tls),
        reserved=ReservedTopics(journal="log"),
        outgoing_links=object(),
    )
    context = client_context(tls, certificate=True)
    with server, Wire(server.amqp.ports[1], SaslClient(external=True), tls=context) as wire:
        link = wire.open().engine.begin().receiver("in")
        link.attach(source=Source(address), target=Target())
        error = wire.until(LinkDetached).error
        assert error is not None
        assert error.condition == "amqp:unauthorized-access"


def test_anybody_reads_the_dead_letters_where_nobody_has_a_name() -> None:
    with RunningServer(reserved=ReservedTopics(dead_letters="failed")) as server:
        client = Client(container_id="", identity=Identity("", ""), user=User("", (), ()), connection_id="")
        anybody = server.amqp.recognize(client, Identity("anonymous", "ANONYMOUS"))
        assert anybody.may_receive("failed")
        assert not anybody.may_send("failed")


def test_who_may_nothing_has_no_transactions(users: Users) -> None:
    with (
        RunningServer(users=users, users_file="x") as server,
        Wire(server.port, SaslClient("nobody", "secret")) as wire,
    ):
        link = wire.open().engine.begin().sender("tx")
        link.attach(source=Source(), target=Coordinator())
        error = wire.until(LinkDetached).error
        assert error == Error("amqp:unauthorized-access", "you may neither send nor receive")


def test_tls_carries_passwords(users: Users, tls: Path) -> None:
    client = SaslClient("alice", "secret", mechanisms=["PLAIN"])
    server = RunningServer(users=users, users_file="x", amqps=encrypted(tls))
    with server, Wire(server.amqp.ports[1], client, tls=client_context(tls)) as wire:
        wire.open()


def test_a_certificate_stands_for_its_user(users: Users, tls: Path) -> None:
    with RunningServer(users=users, users_file="x", amqps=encrypted(tls)) as server:
        context = client_context(tls, certificate=True)
        with Wire(server.amqp.ports[1], SaslClient(external=True), tls=context) as wire:
            link = wire.open().sender("anything")
            wire.outcome(link.send(b"1", message("x")))
        assert len(server.memory.entries) == 1


def test_old_tls_is_refused(tls: Path) -> None:
    assert encrypted(tls).context().minimum_version is ssl.TLSVersion.TLSv1_2


def test_files_that_are_no_certificates_are_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("x")
    with pytest.raises(ConfigError, match="amqps"):
        AmqpsSettings(port=0, certificate=str(tmp_path / "x")).context()


def test_who_does_not_say_who_he_is_in_time_is_cut_off() -> None:
    with RunningServer(login_timeout_s=0.2) as server, Wire(server.port) as wire:
        eventually(lambda: wire.pump() or wire.lost, timeout_s=5)


def test_connections_beyond_the_limit_are_cut_off() -> None:
    with RunningServer(max_connections=1) as server, Wire(server.port) as first:
        first.open()
        with Wire(server.port) as second:
            eventually(lambda: second.lost or second.pump(), timeout_s=5)
        assert server.amqp.stats.turned_away == 1
        wire = first.sender("orders")
        first.outcome(wire.send(b"1", message("x")))


def test_sessions_beyond_the_limit_close_the_connection() -> None:
    with RunningServer(max_sessions=1) as server, Wire(server.port) as wire:
        wire.open()
        wire.engine._remote_channel_max = 9  # as a client that does not listen
        wire.engine.begin()
        wire.engine.begin()
        error = wire.until(Closed).error
        assert error is not None
        assert error.condition == "amqp:connection:framing-error"


def is_closed(peer: socket.socket) -> bool:
    """Whether the server has cut a silent peer off."""
    peer.settimeout(0.01)
    try:
        return not peer.recv(1)
    except TimeoutError:
        return False
    except OSError:
        return True


def test_a_handshake_of_tls_has_the_time_of_a_login(tls: Path) -> None:
    with (
        RunningServer(amqps=encrypted(tls), login_timeout_s=0.2) as server,
        socket.create_connection(("127.0.0.1", server.amqp.ports[1])) as silent,
    ):
        eventually(lambda: is_closed(silent), timeout_s=10)


def test_a_handshake_of_tls_takes_a_place_which_a_client_that_speaks_gets(tls: Path) -> None:
    with (
        RunningServer(amqps=encrypted(tls), max_connections=1) as server,
        socket.create_connection(("127.0.0.1", server.amqp.ports[1])) as silent,
        Wire(server.port) as wire,
    ):
        wire.open()
        eventually(lambda: is_closed(silent), timeout_s=10)
        with socket.create_connection(("127.0.0.1", server.amqp.ports[1])) as late:
            eventually(lambda: is_closed(late), timeout_s=10)
        wire.outcome(wire.sender("orders").send(b"1", message("x")))


def test_silent_peers_of_one_address_do_not_lock_out_others_of_it() -> None:
    with RunningServer(max_connections_per_address=3) as server, ExitStack() as stack:
        silent = [stack.enter_context(socket.create_connection(("127.0.0.1", server.port))) for _ in range(5)]
        with Wire(server.port) as wire:
            wire.open()
            eventually(lambda: [is_closed(each) for each in silent] == [True] * 3 + [False] * 2, timeout_s=10)
            assert server.amqp.stats.turned_away == 3
