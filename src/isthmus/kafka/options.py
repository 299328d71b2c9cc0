"""How to reach a Kafka cluster, said once for every client.

Options are written as Java's clients know them, since Spark's Kafka connector takes them as they are. The
clients for Python have other names for TLS and passwords: `Kafka` translates.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from tempfile import NamedTemporaryFile
from typing import Any

from isthmus.errors import ConfigError

_PYTHON_NAMES = {
    "client.id": ("client.id",),
    "sasl.mechanism": ("sasl.mechanism",),
    "security.protocol": ("security.protocol",),
    "ssl.endpoint.identification.algorithm": ("ssl.endpoint.identification.algorithm",),
    "ssl.key.password": ("ssl.key.password",),
    "ssl.keystore.certificate.chain": ("ssl.certificate.pem",),
    "ssl.keystore.key": ("ssl.key.pem",),
    "ssl.keystore.location": ("ssl.certificate.location", "ssl.key.location"),  # a PEM store has both
    "ssl.truststore.certificates": ("ssl.ca.pem",),
    "ssl.truststore.location": ("ssl.ca.location",),
}
"""What the Python client calls the options that concern it; the others are for Java alone."""

_ASYNC_NAMES = {
    "bootstrap.servers": "bootstrap_servers",
    "client.id": "client_id",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.password": "sasl_plain_password",
    "sasl.username": "sasl_plain_username",
    "security.protocol": "security_protocol",
}
"""What aiokafka calls the options of confluent_kafka, those for TLS left out."""
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
"""Those that go by a name and a password."""


@dataclass(frozen=True, slots=True)
class Kafka:
    """How to reach a Kafka cluster."""

    servers: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Further options, by the names that Java's clients have for them. Secrets are among them."""

    def java_options(self) -> dict[str, str]:
        """For clients on the JVM."""
        return {"bootstrap.servers": self.servers, **self.options}

    def python_options(self) -> dict[str, Any]:
        """For confluent_kafka. Raises `ConfigError` for what has no equal there."""
        self._check_stores()
        translated: dict[str, Any] = {"bootstrap.servers": self.servers}
        for name, value in self.options.items():
            translated |= dict.fromkeys(_PYTHON_NAMES.get(name, ()), value)
        if "sasl.jaas.config" in self.options:
            translated |= _credentials(self.options["sasl.jaas.config"])
        if translated.get("ssl.endpoint.identification.algorithm") == "":
            translated["ssl.endpoint.identification.algorithm"] = "none"
        return translated

    def async_options(self) -> dict[str, Any]:
        """For aiokafka. Raises `ConfigError` for what has no equal there, or cannot be read."""
        options = self.python_options()
        translated = {ours: options[name] for name, ours in _ASYNC_NAMES.items() if name in options}
        protocol = translated.setdefault("security_protocol", "PLAINTEXT").upper()
        translated["security_protocol"] = protocol
        if protocol.startswith("SASL") and translated.get("sasl_mechanism") not in _MECHANISMS:
            raise ConfigError(f"kafka.sasl.mechanism must be one of {', '.join(_MECHANISMS)}")
        if protocol.endswith("SSL"):
            translated["ssl_context"] = _ssl_context(options)
        return translated

    def _check_stores(self) -> None:
        for store in ("truststore", "keystore"):
            given = {f"ssl.{store}.type", f"ssl.{store}.location"} & set(self.options)
            type = self.options.get(f"ssl.{store}.type", "JKS")
            if given and type.upper() != "PEM":
                raise ConfigError(f"kafka.ssl.{store}.type={type}: only PEM is read by all clients here")


def _credentials(jaas: str) -> dict[str, str]:
    found = {
        name: re.search(rf'\b{name}\s*=\s*"((?:[^"\\]|\\.)*)"', jaas) for name in ("username", "password")
    }
    if not all(found.values()):
        raise ConfigError('kafka.sasl.jaas.config: no username="…" and password="…" in it')
    return {f"sasl.{name}": re.sub(r"\\(.)", r"\1", match[1]) for name, match in found.items() if match}


def _ssl_context(options: Mapping[str, str]) -> ssl.SSLContext:
    """What Python's own TLS is told by the options of confluent_kafka."""
    try:
        context = ssl.create_default_context(
            cafile=options.get("ssl.ca.location"), cadata=options.get("ssl.ca.pem")
        )
        if "ssl.certificate.location" in options:
            context.load_cert_chain(
                options["ssl.certificate.location"], password=options.get("ssl.key.password", "")
            )
        elif "ssl.certificate.pem" in options:
            with NamedTemporaryFile("w", suffix=".pem") as both:  # only files are read, and only we read this
                both.write(f"{options.get('ssl.key.pem', '')}\n{options['ssl.certificate.pem']}")
                both.flush()
                context.load_cert_chain(both.name, password=options.get("ssl.key.password", ""))
    except (OSError, TypeError, ValueError) as error:
        raise ConfigError(f"kafka.ssl.*: {error}") from None
    if options.get("ssl.endpoint.identification.algorithm") == "none":
        context.check_hostname = False
    return context


BATCH_BYTES = 1_048_576
"""How large a batch of records may become, if its topic takes that."""
_FRAME_BYTES = 128
"""What a batch of one record takes beside it, at most."""


def largest_batch_bytes(limit: int | None) -> int:
    """How large a batch, and so a record, may be for a topic that takes so much at once.

    Kafka refuses a batch as a whole, and its Python clients, unlike the one in Java, do not try less: so no
    batch may be larger than the topic takes, and a record that is must not get into one.
    """
    return max(1_000, (limit or 16 * BATCH_BYTES) - _FRAME_BYTES)
