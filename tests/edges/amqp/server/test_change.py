"""Users and certificates change while clients are connected."""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
from pathlib import Path

import pytest
from tests.support.amqp.server import RunningServer
from tests.support.certificates import make_certificates
from tests.support.names import unique
from tests.support.polling import eventually

from isthmus.config import Settings
from isthmus.config.model.amqp import AmqpSettings, AmqpsSettings
from isthmus.config.model.brokers import BrokerSettings
from isthmus.config.model.settings import KafkaSettings
from isthmus.edges.amqp.client.client import reach
from isthmus.edges.amqp.client.connecting import connect
from isthmus.edges.amqp.client.connection import BrokerConnection
from isthmus.edges.amqp.server.users import Users, remove_user, set_user
from isthmus.edges.amqp.server.workers import AmqpWorkers
from isthmus.edges.service import EdgeService
from isthmus.errors import ConfigError, HardFailure
from isthmus.kafka.options import Kafka
from isthmus.kafka.own_topics import make_own_topics

ATTEMPTS = 8
"""So many connections reach both workers."""


def _encrypted(folder: Path) -> AmqpsSettings:
    return AmqpsSettings(port=0, certificate=str(folder / "server.pem"), key=str(folder / "server.key"))


def _takes(user: str, port: int) -> bool:
    try:
        return "answers" in reach(_broker(user, port), "x", "x")
    except HardFailure:
        return False


def _broker(user: str, port: int) -> BrokerSettings:
    return BrokerSettings.of({"url": f"amqp://{user}:secret@127.0.0.1:{port}"})


def test_a_certificate_is_renewed_without_a_restart(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    old, new = (_encrypted(make_certificates(tmp_path / name)) for name in ("old", "new"))
    with RunningServer(amqps=old) as server:
        address = ("127.0.0.1", server.amqp.ports[1])
        before = ssl.get_server_certificate(address)
        with pytest.raises(ConfigError, match="cannot be used"):
            server.call(lambda: server.amqp.change(None, AmqpsSettings(port=0, certificate="nowhere")))
        assert ssl.get_server_certificate(address) == before
        server.call(lambda: server.amqp.change(None, new))
        after = ssl.get_server_certificate(address)
    assert after != before
    assert ssl.PEM_cert_to_DER_cert(after) == ssl.PEM_cert_to_DER_cert(
        (tmp_path / "new/server.pem").read_text()
    )


def test_a_user_that_is_gone_is_disconnected_and_others_stay(tmp_path: Path) -> None:
    file = tmp_path / "users"
    for user in ("alice", "bob"):
        set_user(file, user, "secret")

    async def scenario(server: RunningServer) -> None:
        alice, bob = [await _connected(user, server.port) for user in ("alice", "bob")]
        remove_user(file, "alice")
        await asyncio.to_thread(server.call, lambda: server.amqp.change(Users.read(file), AmqpsSettings()))
        async with asyncio.timeout(30):
            assert "the rights of this user have changed" in await asyncio.shield(alice.ended)
        assert bob.is_open
        await bob.close()

    with RunningServer(users=Users.read(file), users_file="x") as server:
        asyncio.run(scenario(server))


async def _connected(user: str, port: int) -> BrokerConnection:
    broker = _broker(user, port)
    return await connect(broker, broker.servers[0], user)


def test_all_workers_go_by_the_users_of_now(kafka_servers: str, tmp_path: Path) -> None:
    file = tmp_path / "users"
    set_user(file, "alice", "secret")
    settings = Settings(
        bridge_id=unique("change"),
        kafka=KafkaSettings(bootstrap_servers=kafka_servers),
        amqp=AmqpSettings(port=0, workers=2, users_file=str(file)),
    )
    kafka = Kafka(kafka_servers)
    make_own_topics(settings, kafka)
    with EdgeService(settings, kafka) as service:
        eventually(lambda: service.problems == {})
        port = service.amqp_ports[0]
        set_user(file, "bob", "secret")
        remove_user(file, "alice")
        service.change(settings, narrowly=True)
        service.change(settings)
        for _ in range(ATTEMPTS):
            assert "answers" in reach(_broker("bob", port), "x", "x")
            with pytest.raises(HardFailure, match="refuses"):
                reach(_broker("alice", port), "x", "x")
        file.write_text("no user\n")
        with pytest.raises(ConfigError, match="line 1 is not a user"):
            service.change(settings)
        assert "answers" in reach(_broker("bob", port), "x", "x")


@pytest.mark.parametrize("narrowly", [True, False])
def test_workers_that_are_starting_go_by_the_users_of_now(
    kafka_servers: str, tmp_path: Path, narrowly: bool
) -> None:
    for user in ("alice", "bob"):
        set_user(tmp_path / user, user, "secret")
    settings = Settings(
        bridge_id=unique("change"),
        kafka=KafkaSettings(bootstrap_servers=kafka_servers),
        amqp=AmqpSettings(port=0, workers=2, users_file=str(tmp_path / "alice")),
    )
    kafka = Kafka(kafka_servers)
    make_own_topics(settings, kafka)
    with EdgeService(settings, kafka) as service:
        workers = _workers(service)
        eventually(workers.ready.is_set)
        before = dict(workers._inputs)
        for pid in workers.pids:
            os.kill(pid, signal.SIGKILL)
        eventually(lambda: all(workers._inputs[each] is not before[each] for each in before))
        changed = settings.replace(amqp=settings.amqp.replace(users_file=str(tmp_path / "bob")))
        service.change(changed, narrowly=narrowly)
        eventually(lambda: len(workers.pids) == 2)
        port = service.amqp_ports[0]
        eventually(lambda: not any(_takes("alice", port) for _ in range(ATTEMPTS)))
        assert all(_takes("bob", port) for _ in range(ATTEMPTS))


def _workers(service: EdgeService) -> AmqpWorkers:
    assert service._assembly is not None
    assert isinstance(service._assembly.amqp_service, AmqpWorkers)
    return service._assembly.amqp_service
