"""The ``kafka.*`` options of Kafka's clients: which there are, and what each may be set to.

Options are named as Java's clients know them. Spark hands them on as they are, and a value that a client does
not take would end the router minutes after the start: so each is judged here, where it has a line. The table
is that of kafka-clients' own definitions; a test compares the two.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from isthmus.config.syntax.problem import Problem, Severity
from isthmus.config.syntax.properties import Entry

PREFIX, SERVERS = "kafka.", "bootstrap.servers"
_INT, _LONG = 2**31 - 1, 2**63 - 1

CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "acks": ("all", "-1", "0", "1"),
    "client.dns.lookup": ("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
    "compression.type": ("none", "gzip", "snappy", "lz4", "zstd"),
    "isolation.level": ("read_committed", "read_uncommitted"),
    "metrics.recording.level": ("INFO", "DEBUG", "TRACE"),
}
ANY_CASE: Final[Mapping[str, tuple[str, ...]]] = {
    "group.protocol": ("CONSUMER", "CLASSIC"),
    "metadata.recovery.strategy": ("REBOOTSTRAP", "NONE"),
    "security.protocol": ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
}
FLAGS: Final = frozenset(
    [
        "allow.auto.create.topics",
        "auto.include.jmx.reporter",
        "check.crcs",
        "enable.idempotence",
        "enable.metrics.push",
        "exclude.internal.topics",
        "partitioner.adaptive.partitioning.enable",
        "partitioner.ignore.keys",
        "sasl.oauthbearer.header.urlencode",
    ]
)
NUMBERS: Final[Mapping[str, tuple[float, float]]] = {
    "auto.commit.interval.ms": (0, _INT),
    "batch.size": (0, _INT),
    "buffer.memory": (0, _LONG),
    "compression.gzip.level": (-1, 9),
    "compression.lz4.level": (1, 17),
    "compression.zstd.level": (-131_072, 22),
    "connections.max.idle.ms": (-math.inf, _LONG),
    "default.api.timeout.ms": (0, _INT),
    "delivery.timeout.ms": (0, _INT),
    "fetch.max.bytes": (0, _INT),
    "fetch.max.wait.ms": (0, _INT),
    "fetch.min.bytes": (0, _INT),
    "heartbeat.interval.ms": (-math.inf, _INT),
    "linger.ms": (0, _LONG),
    "max.block.ms": (0, _LONG),
    "max.in.flight.requests.per.connection": (1, _INT),
    "max.partition.fetch.bytes": (0, _INT),
    "max.poll.interval.ms": (1, _INT),
    "max.poll.records": (1, _INT),
    "max.request.size": (0, _INT),
    "metadata.max.age.ms": (0, _LONG),
    "metadata.max.idle.ms": (5000, _LONG),
    "metrics.num.samples": (1, _INT),
    "metrics.sample.window.ms": (0, _LONG),
    "partitioner.availability.timeout.ms": (0, _LONG),
    "receive.buffer.bytes": (-1, _INT),
    "reconnect.backoff.max.ms": (0, _LONG),
    "reconnect.backoff.ms": (0, _LONG),
    "request.timeout.ms": (0, _INT),
    "retries": (0, _INT),
    "retry.backoff.max.ms": (0, _LONG),
    "retry.backoff.ms": (0, _LONG),
    "sasl.kerberos.min.time.before.relogin": (-math.inf, _LONG),
    "sasl.login.connect.timeout.ms": (-math.inf, _INT),
    "sasl.login.read.timeout.ms": (-math.inf, _INT),
    "sasl.login.refresh.buffer.seconds": (0, 3600),
    "sasl.login.refresh.min.period.seconds": (0, 900),
    "sasl.login.retry.backoff.max.ms": (-math.inf, _LONG),
    "sasl.login.retry.backoff.ms": (-math.inf, _LONG),
    "sasl.oauthbearer.clock.skew.seconds": (-math.inf, _INT),
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": (-math.inf, _LONG),
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": (-math.inf, _LONG),
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": (-math.inf, _LONG),
    "send.buffer.bytes": (-1, _INT),
    "session.timeout.ms": (-math.inf, _INT),
    "socket.connection.setup.timeout.max.ms": (-math.inf, _LONG),
    "socket.connection.setup.timeout.ms": (-math.inf, _LONG),
    "transaction.timeout.ms": (-math.inf, _INT),
}
FRACTIONS: Final[Mapping[str, tuple[float, float]]] = {
    "sasl.kerberos.ticket.renew.jitter": (-math.inf, math.inf),
    "sasl.kerberos.ticket.renew.window.factor": (-math.inf, math.inf),
    "sasl.login.refresh.window.factor": (0.5, 1.0),
    "sasl.login.refresh.window.jitter": (0.0, 0.25),
}
TEXTS: Final = frozenset(
    [
        "bootstrap.controllers",
        "client.id",
        "client.rack",
        "group.remote.assignor",
        "metric.reporters",
        "partition.assignment.strategy",
        "partitioner.class",
        "sasl.client.callback.handler.class",
        "sasl.jaas.config",
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.service.name",
        "sasl.login.callback.handler.class",
        "sasl.login.class",
        "sasl.mechanism",
        "sasl.oauthbearer.expected.audience",
        "sasl.oauthbearer.expected.issuer",
        "sasl.oauthbearer.jwks.endpoint.url",
        "sasl.oauthbearer.scope.claim.name",
        "sasl.oauthbearer.sub.claim.name",
        "sasl.oauthbearer.token.endpoint.url",
        "security.providers",
        "ssl.cipher.suites",
        "ssl.enabled.protocols",
        "ssl.endpoint.identification.algorithm",
        "ssl.engine.factory.class",
        "ssl.key.password",
        "ssl.keymanager.algorithm",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.protocol",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    ]
)
OWN: Final = frozenset(
    [
        "auto.offset.reset",
        "enable.auto.commit",
        "group.id",
        "group.instance.id",
        "interceptor.classes",
        "key.deserializer",
        "key.serializer",
        "transactional.id",
        "value.deserializer",
        "value.serializer",
    ]
)
"""What the bridge and Spark decide for each of their clients."""
KNOWN: Final = frozenset({*CHOICES, *ANY_CASE, *FLAGS, *NUMBERS, *FRACTIONS, *TEXTS, *OWN})


def judge_client_options(entries: Mapping[str, Entry]) -> Iterator[Problem]:
    """What is wrong with the options for Kafka's clients."""
    for key, entry in entries.items():
        name = key.removeprefix(PREFIX)
        if name in (key, SERVERS) or entry.value is None:
            continue
        if name in OWN:
            yield entry.problem(Severity.ERROR, "the bridge sets this itself for each of its clients")
        elif name not in KNOWN:
            near = difflib.get_close_matches(name, [SERVERS, *sorted(KNOWN)], n=1, cutoff=0.8)
            hint = f"did you mean {PREFIX}{near[0]}?" if near else None
            yield entry.problem(Severity.WARNING, "no Kafka client of the bridge's has this option", hint)
        elif (expected := _refusal(name, str.__str__(entry.value).strip())) is not None:
            yield entry.problem(Severity.ERROR, f"expected {expected}")


def _refusal(name: str, value: str) -> str | None:
    """What would have been right; None of a value that clients take."""
    if choices := CHOICES.get(name):
        return None if value in choices else _one_of(choices)
    if choices := ANY_CASE.get(name):
        return None if value.upper() in choices else _one_of(choices)
    if name in FLAGS:
        return None if value.lower() in ("true", "false") else "true or false"
    if bounds := NUMBERS.get(name):
        return None if _within(int, value, bounds) else f"a whole number{_range(bounds)}"
    if bounds := FRACTIONS.get(name):
        return None if _within(float, value, bounds) else f"a number{_range(bounds)}"
    return None


def _within(number: Callable[[str], float], value: str, bounds: tuple[float, float]) -> bool:
    try:
        return bounds[0] <= number(value) <= bounds[1]
    except ValueError:
        return False


def _range(bounds: tuple[float, float]) -> str:
    low, high = bounds
    if low == -math.inf:
        return ""
    return f" of at least {low:g}" if high in (_INT, _LONG) else f" from {low:g} to {high:g}"


def _one_of(choices: tuple[str, ...]) -> str:
    return f"{', '.join(choices[:-1])} or {choices[-1]}"
