"""Edges write the journal of a Kafka that asks who they are, over TLS, with every client of ours."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from aiokafka.errors import KafkaConnectionError
from confluent_kafka.admin import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from tests.support.certificates import make_certificates
from tests.support.journals import write as put

from isthmus.config.model.settings import JournalSettings
from isthmus.edges.journal import EdgeJournal
from isthmus.embedded.kafka import EmbeddedKafka
from isthmus.embedded.ports import free_port
from isthmus.errors import ConfigError, HardFailure, Outage
from isthmus.journal.batches import BatchWriter
from isthmus.journal.layout import Entry, Op
from isthmus.kafka.blocking import admin_client, create_topics, read_topic
from isthmus.kafka.client import ResilientClient
from isthmus.kafka.consumer import Consumer
from isthmus.kafka.options import Kafka
from isthmus.kafka.producer import Patience, ResilientProducer
from isthmus.message import Body, BodyKind, Message

MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
PASSWORD = 's3"cret'
ESCAPED = PASSWORD.replace('"', '\\"')


class SecureKafka:
    """A Kafka with three listeners: one without security for the tests' own use, TLS, TLS with passwords."""

    def __init__(self, folder: Path) -> None:
        self.certificates = make_certificates(folder)
        for name in ("server", "client"):
            both = (folder / f"{name}.key").read_text() + (folder / f"{name}.pem").read_text()
            (folder / f"{name}-both.pem").write_text(both)
        plain, controller, tls, passwords = (free_port() for _ in range(4))
        self.tls, self.passwords = f"localhost:{tls}", f"localhost:{passwords}"
        data = folder / "kafka"
        data.mkdir()
        # An embedded Kafka takes the ports of the last time.
        (data / "server.properties").write_text(f"//127.0.0.1:{plain} //127.0.0.1:{controller}")
        listeners = f"PLAINTEXT://127.0.0.1:{plain},TLS://localhost:{tls},PASSWORDS://localhost:{passwords}"
        protocols = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,TLS:SSL,PASSWORDS:SASL_SSL"
        overrides = {
            "listeners": f"{listeners},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": listeners,
            "listener.security.protocol.map": protocols,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(folder / "server-both.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(folder / "client.pem"),
            "listener.name.tls.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": ",".join(MODULES),
            "listener.name.passwords.plain.sasl.jaas.config": (
                f'{MODULES["PLAIN"]} required user_bridge="{ESCAPED}";'
            ),
            "listener.name.passwords.scram-sha-256.sasl.jaas.config": f"{MODULES['SCRAM-SHA-256']} required;",
            "listener.name.passwords.scram-sha-512.sasl.jaas.config": f"{MODULES['SCRAM-SHA-512']} required;",
        }
        self.embedded = EmbeddedKafka(data, overrides=overrides)

    def trusting(self) -> dict[str, str]:
        return {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.certificates / "server.pem"),
        }

    def with_password(self, mechanism: str, password: str = ESCAPED) -> Kafka:
        jaas = f'{MODULES[mechanism]} required username="bridge" password="{password}";'
        options = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": jaas,
            **self.trusting(),
        }
        return Kafka(self.passwords, options)

    def with_certificate(self, **more: str) -> Kafka:
        return Kafka(self.tls, {"security.protocol": "SSL", **self.trusting(), **more})


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafka]:
    kafka = SecureKafka(tmp_path_factory.mktemp("secure"))
    with kafka.embedded as broker:
        plain = Kafka(broker.bootstrap_servers)
        create_topics(plain, ["journal"], 2)
        mechanisms = (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
        users = [
            UserScramCredentialUpsertion(
                "bridge", ScramCredentialInfo(mechanism, 4096), password=PASSWORD.encode()
            )
            for mechanism in mechanisms
        ]
        admin = admin_client(plain)
        for user in users:  # one at a time: two for one user are refused
            admin.alter_user_scram_credentials([user])["bridge"].result(60)
        yield kafka


JOURNAL = JournalSettings(topic="journal")


def journal_through(kafka: Kafka, id: str) -> None:
    """Write a message as edges do, and find it in the topic, with both clients."""
    message = Message(id=id, address="a", protocol="amqp", value=b"x", body=Body(BodyKind.TEXT), session="s")

    async def write() -> None:
        journal = await EdgeJournal.open(kafka, JOURNAL)
        try:
            await put(journal, Entry(Op.ADD, message))
        finally:
            await journal.close()

    async def read() -> None:
        consumer = Consumer(kafka, "journal", group=id)
        consumer.start()
        consumer.resume()
        keys: list[bytes] = []
        async with asyncio.timeout(60):
            while id.encode() not in keys:
                keys += [record.key for record in await consumer.poll(100, 1)]
        await consumer.close()

    asyncio.run(write())
    asyncio.run(read())
    assert id.encode() in [record.key() for record in read_topic(kafka, "journal")]


@pytest.mark.parametrize("mechanism", MODULES)
def test_a_journal_is_written_by_a_user_with_a_password(secure: SecureKafka, mechanism: str) -> None:
    journal_through(secure.with_password(mechanism), f"by {mechanism}")


def test_a_journal_is_written_by_a_client_with_a_certificate(secure: SecureKafka) -> None:
    store = str(secure.certificates / "client-both.pem")
    kafka = secure.with_certificate(**{"ssl.keystore.type": "PEM", "ssl.keystore.location": store})
    journal_through(kafka, "by certificate")


def test_a_certificate_may_stand_in_the_configuration(secure: SecureKafka) -> None:
    kafka = secure.with_certificate(
        **{
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": (secure.certificates / "client.key").read_text(),
            "ssl.keystore.certificate.chain": (secure.certificates / "client.pem").read_text(),
        }
    )
    journal_through(kafka, "by certificate in the configuration")


def open_sockets() -> set[str]:
    """Those of this process, each by a name that no other has."""
    found = set()
    for each in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            found.add(str(each.readlink()))
    return {each for each in found if each.startswith("socket:")}


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="this system has no /proc")
def test_no_socket_is_open_any_more_when_close_has_returned(secure: SecureKafka) -> None:
    store = str(secure.certificates / "client-both.pem")
    kafka = secure.with_certificate(**{"ssl.keystore.type": "PEM", "ssl.keystore.location": store})

    async def close_a_client() -> None:
        before = open_sockets()
        client = ResilientClient(kafka, connect_timeout_s=60)
        await client.refresh()  # over a connection to a server of the configuration, which is closing now
        await client.close()
        assert not open_sockets() - before

    async def close_a_client_that_asks() -> None:
        before = open_sockets()
        client = ResilientClient(kafka, connect_timeout_s=60)
        await client.versions()
        asking = asyncio.ensure_future(client.refresh())
        await asyncio.sleep(0)
        await client.close()
        assert not open_sockets() - before
        with pytest.raises(KafkaConnectionError):
            await asking

    asyncio.run(close_a_client())
    asyncio.run(close_a_client_that_asks())


def test_a_wrong_password_is_a_hard_failure_with_a_remedy(secure: SecureKafka) -> None:
    kafka = secure.with_password("SCRAM-SHA-512", "wrong")
    with pytest.raises(HardFailure, match="SASL_AUTHENTICATION_FAILED") as failure:
        asyncio.run(BatchWriter.open(kafka, JOURNAL))
    assert "security options" in failure.value.remedy


def test_a_server_that_nobody_vouches_for_is_not_talked_to(secure: SecureKafka) -> None:
    kafka = secure.with_certificate(
        **{"ssl.truststore.location": str(secure.certificates / "client.pem"), "ssl.truststore.type": "PEM"}
    )

    async def connect() -> None:
        with pytest.raises(Outage, match="CERTIFICATE_VERIFY_FAILED"):
            await ResilientProducer(kafka, patience=Patience(answer_s=5)).open()

    asyncio.run(connect())


def test_a_file_that_cannot_be_read_is_told_as_such(secure: SecureKafka) -> None:
    kafka = secure.with_certificate(**{"ssl.keystore.type": "PEM", "ssl.keystore.location": "/no/such.pem"})
    with pytest.raises(ConfigError, match=r"kafka\.ssl\.\*: .*No such file"):
        kafka.async_options()
