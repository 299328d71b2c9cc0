"""Who the bridge says it is to a broker, over what; and that nobody sees its password."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from tests.support.amqp.server import RunningServer
from tests.support.asynchronous import eventually, running
from tests.support.certificates import make_certificates

from isthmus.config.model.amqp import AmqpsSettings
from isthmus.config.model.brokers import BrokerSettings
from isthmus.edges.amqp.client import AmqpClient
from isthmus.edges.amqp.client.client import reach
from isthmus.edges.amqp.client.connecting import mechanisms
from isthmus.edges.amqp.server.users import Users, set_user
from isthmus.errors import HardFailure, Unreachable

PASSWORD = "s3cret/@:%"
QUOTED = "s3cret%2F%40%3A%25"


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Users:
    file = tmp_path_factory.mktemp("users") / "users"
    set_user(file, "bridge", PASSWORD)
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


def client(url: str, **settings: Any) -> AmqpClient:
    given = {"url": url, "reconnect.max-wait": "200ms", **settings}
    return AmqpClient(BrokerSettings.of(given), name="b", container_id="isthmus.test.b")


def who_came(server: RunningServer, url: str, **settings: Any) -> tuple[str, str]:
    """The user and the mechanism that the broker knows the bridge by."""

    async def scenario() -> None:
        connecting = client(url, **settings)
        async with running(connecting):
            await eventually(lambda: connecting.connected)
            await eventually(lambda: server.amqp.connections == 1)
            [connection] = server.amqp._connections
            came.append(connection.client.identity)

    came: list[Any] = []
    asyncio.run(scenario())
    return came[0].user, came[0].mechanism


def test_a_user_and_password_in_the_url_log_in_by_scram(users: Users) -> None:
    with RunningServer(users=users, users_file="x") as server:
        url = f"amqp://bridge:{QUOTED}@127.0.0.1:{server.port}"
        assert who_came(server, url) == ("bridge", "SCRAM-SHA-512")


def test_a_user_and_password_of_their_own_keys_log_in_too(users: Users) -> None:
    with RunningServer(users=users, users_file="x") as server:
        assert who_came(server, server.url, user="bridge", password=PASSWORD) == ("bridge", "SCRAM-SHA-512")


def test_nobody_in_particular_comes_anonymously() -> None:
    with RunningServer() as server:
        assert who_came(server, server.url) == ("anonymous", "ANONYMOUS")


def test_a_certificate_takes_the_place_of_a_password(users: Users, tls: Path) -> None:
    with RunningServer(users=users, users_file="x", amqps=encrypted(tls)) as server:
        came = who_came(
            server,
            f"amqps://localhost:{server.amqp.ports[1]}",
            **{
                "tls.ca": str(tls / "server.pem"),
                "tls.cert": str(tls / "client.pem"),
                "tls.key": str(tls / "client.key"),
            },
        )
    assert came == ("app", "EXTERNAL")


def test_a_broker_whose_certificate_is_not_trusted_is_refused(tls: Path) -> None:
    with RunningServer(amqps=encrypted(tls)) as server:
        url = f"amqps://localhost:{server.amqp.ports[1]}"
        with pytest.raises(HardFailure, match="its certificate is not trusted"):
            asyncio.run(asyncio.wait_for(client(url).run(), 60))


def test_a_broker_that_refuses_the_bridge_at_the_start_ends_it_and_nobody_sees_the_password(
    users: Users, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with RunningServer(users=users, users_file="x") as server:
        connecting = client(f"amqp://bridge:not-{QUOTED}@127.0.0.1:{server.port}")
        with pytest.raises(HardFailure, match=r"refuses the bridge: amqp:unauthorized-access") as caught:
            asyncio.run(asyncio.wait_for(connecting.run(), 60))
    for shown in (str(caught.value), caught.value.remedy, caplog.text, repr(connecting.broker)):
        assert "s3cret" not in shown
    assert "s3cret" not in repr(connecting.broker.servers)


@pytest.mark.parametrize(
    ("url", "settings", "plain"),
    [
        ("amqps://broker", {}, True),
        ("amqp://broker", {}, False),
        ("amqp://broker", {"plain-without-tls": "true"}, True),
        ("amqp://localhost", {}, True),
        ("amqp://[::1]:5672", {}, True),
    ],
)
def test_a_password_crosses_no_network_unencrypted_unless_that_is_allowed(
    url: str, settings: dict[str, str], plain: bool
) -> None:
    broker = BrokerSettings.of({"url": url, "user": "u", "password": "p", **settings})
    offered = mechanisms(broker, broker.servers[0])
    assert ("PLAIN" in offered) is plain
    assert offered[:2] == ("SCRAM-SHA-512", "SCRAM-SHA-256")


def test_a_broker_that_is_looked_for_says_who_it_is(users: Users) -> None:
    with RunningServer(users=users, users_file="x") as server:
        broker = BrokerSettings.of({"url": f"amqp://bridge:{QUOTED}@127.0.0.1:{server.port}"})
        assert reach(broker, "main", "b") == f"amqp://127.0.0.1:{server.port} answers, as isthmus"
    with pytest.raises(Unreachable, match=f"amqp://127.0.0.1:{broker.servers[0].port} cannot be reached: "):
        reach(broker, "main", "b")


def test_the_next_server_is_tried_when_the_first_is_not_there() -> None:
    with RunningServer() as server:
        assert who_came(server, f"amqp://127.0.0.1:1, {server.url}") == ("anonymous", "ANONYMOUS")
