"""The password of an embedded Kafka: loopback is no protection from the other users of a machine.

Clients log in with SCRAM, which shows the password to nobody, a process that has taken a broker's port
included. It is in the file ``client.properties`` in the data folder, which only the owner can read. Kafka's
own tools take it::

    kafka-console-consumer.sh --command-config .isthmus/kafka/client.properties …

Kafka keeps SCRAM's passwords among its data, so that somebody has to log in before there are any. The bridge
does, and so does the broker with itself and its controller: with PLAIN, and a password that is new with every
start.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import javaproperties

from isthmus.kafka.options import Kafka
from isthmus.private import write_private

LISTENER: Final = "SASL_PLAINTEXT"
USER: Final = "isthmus"
_FILE: Final = "client.properties"
_LOGIN: Final = "org.apache.kafka.common.security"
_ITERATIONS: Final = 4096
"""Kafka's least: a password of 256 random bits is not guessed."""


class Password:
    """What clients log in with, and what only the start of a broker does."""

    def __init__(self, folder: Path) -> None:
        """Take the one of the last time, or make one."""
        self.options = client_options(folder) or _options(
            "SCRAM-SHA-512", "scram.Scram", secrets.token_urlsafe(32)
        )
        self._bootstrap = secrets.token_urlsafe(32)

    def keep(self, folder: Path, address: str) -> None:
        """Write the file for clients."""
        file = {"bootstrap.servers": address, **self.options}
        write_private(folder / _FILE, javaproperties.dumps(file, timestamp=False))

    def server_settings(self) -> dict[str, str]:
        """What Kafka is configured with."""
        plain = _jaas("plain.Plain", self._bootstrap, f' user_{USER}="{self._bootstrap}"')
        return {
            "listener.security.protocol.map": f"{LISTENER}:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
            "inter.broker.listener.name": LISTENER,
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
            "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.controller.protocol": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "listener.name.controller.plain.sasl.jaas.config": plain,
            f"listener.name.{LISTENER.lower()}.plain.sasl.jaas.config": plain,
            f"listener.name.{LISTENER.lower()}.scram-sha-512.sasl.jaas.config": (
                f"{_LOGIN}.scram.ScramLoginModule required;"
            ),
        }

    def set(self, address: str) -> None:
        """Have a broker that has started know the password. Raises `KafkaException`."""
        from confluent_kafka.admin import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

        from isthmus.kafka.blocking import admin_client

        admin = admin_client(Kafka(address, _options("PLAIN", "plain.Plain", self._bootstrap)))
        password = Kafka(address, self.options).python_options()["sasl.password"]
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, _ITERATIONS)
        user = UserScramCredentialUpsertion(USER, info, password=password.encode())
        admin.alter_user_scram_credentials([user], request_timeout=5.0)[USER].result()


def client_options(folder: Path) -> Mapping[str, str]:
    """What clients of the Kafka in a data folder need beside its address: nothing if it asks for nothing."""
    try:
        options = javaproperties.loads((folder / _FILE).read_text())
    except FileNotFoundError:
        return {}
    return {name: value for name, value in options.items() if name != "bootstrap.servers"}


def forget_password(folder: Path) -> None:
    """What runs there now asks for none."""
    (folder / _FILE).unlink(missing_ok=True)


def _options(mechanism: str, module: str, password: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": _jaas(module, password),
    }


def _jaas(module: str, password: str, more: str = "") -> str:
    return f'{_LOGIN}.{module}LoginModule required username="{USER}" password="{password}"{more};'
