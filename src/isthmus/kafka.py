"""Kafka as seen from Python: one description of how to reach it, for all clients, and what its topics are.

Options are written as Java's clients know them, since Spark's Kafka connector takes them as they are. The
Python client is another library with other names for TLS and passwords: `Kafka.python_options` translates.
"""

from __future__ import annotations

import logging
import re
import ssl
import threading
import time
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from concurrent.futures import wait
from dataclasses import dataclass, field, replace
from tempfile import NamedTemporaryFile
from typing import Any, Final, TypeVar

import msgspec
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    ShareConsumer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclOperation,
    AdminClient,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
    TopicDescription,
)

from isthmus.config.check import TopicFacts, TopicProbe
from isthmus.config.settings import KafkaSettings
from isthmus.errors import ConfigError, HardFailure, Outage

T = TypeVar("T")

REQUEST_TIMEOUT_S = 10
"""How long one question to Kafka may take. Its own default is a minute: too long for a person to wait."""

RECOVERING: Final = {
    "socket.timeout.ms": 10_000,
    "session.timeout.ms": 10_000,
    "topic.metadata.refresh.interval.ms": 10_000,
}
"""For members of groups: how long they wait for an answer that was lost with a broker, are missed when they
are gone, and believe what a broker that has just started said of a topic. Kafka's own are 45 s to 5 min."""

LOOK_S: Final = 5
"""How often a client is asked which brokers it knows."""

QUIET = logging.getLogger("isthmus.kafka.client")
"""What clients log: each failed attempt to connect, among others. What matters comes as an exception."""
QUIET.setLevel(logging.CRITICAL)

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

    def admin(self) -> AdminClient:
        """A client for topics and their configuration. Raises `ConfigError` for options it does not take."""
        try:
            return AdminClient(self.python_options(), logger=QUIET)
        except KafkaException as error:
            raise ConfigError(f"kafka.*: {error.args[0].str()}") from None

    def answers(self) -> bool:
        """Whether a broker answers within a short time."""
        try:
            self.admin().list_topics(timeout=2)
        except KafkaException:
            return False
        return True


class LastingAdmin:
    """A client for topics and groups that lives as long as its owner, from any thread.

    One client at a time: one that ends with an answer under way can be collected on its own thread, and then
    ends the process. One that no longer reaches Kafka may never do so again, as `BrokersLost` says: another
    takes its place, and is asked the next time.
    """

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self._lock = threading.Lock()
        self._client = kafka.admin()

    def ask(self, question: Callable[[AdminClient], T]) -> T:
        """What the client answers. Raises `KafkaException` like that."""
        client = self._client
        try:
            return question(client)
        except KafkaException as error:
            if error.args[0].code() in _UNREACHABLE:
                with self._lock:
                    if self._client is client:
                        self._client = self._kafka.admin()
                        abandon(client)
            raise


_UNREACHABLE = (KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT, KafkaError._TRANSPORT)


class BrokersLost(KafkaException):
    """A client knows no broker any more, and never will again: only another client finds Kafka.

    Kafka's client for C forgets a broker that Kafka does not name. One that is about to stop names nobody,
    itself included, and if the connection ends in that moment there is nobody left to ask.
    """


class _Broker(msgspec.Struct):
    source: str


class _Statistics(msgspec.Struct):
    brokers: dict[str, _Broker]


_statistics_decoder = msgspec.json.Decoder(_Statistics)


def watching_brokers() -> dict[str, Any]:
    """Options for one client that is to last: `BrokersLost` comes out of its ``poll`` if it is useless."""
    looks_without = 0

    def look(statistics: str) -> None:
        nonlocal looks_without
        known = _statistics_decoder.decode(statistics).brokers.values()
        looks_without = (
            0 if any(each.source in ("configured", "learned") for each in known) else looks_without + 1
        )
        if looks_without > 1:  # once may be while it finds new ones
            raise BrokersLost(KafkaError(KafkaError._ALL_BROKERS_DOWN, "the client has lost its brokers"))

    return {"statistics.interval.ms": LOOK_S * 1000, "stats_cb": look}


def abandon(client: AdminClient | Consumer | ShareConsumer) -> None:
    """Let go of a client that has lost its brokers: to close it, or to delete it, may take for ever."""
    letting_go = threading.Timer(60, [client].clear)  # by then nobody else holds it
    letting_go.daemon = True
    letting_go.start()


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


def probe(settings: KafkaSettings) -> TopicProbe:
    """Asks the configured Kafka about its topics."""
    kafka = Kafka(settings.bootstrap_servers, settings.client)
    return lambda names: describe(kafka, names)


def describe(kafka: Kafka, names: Collection[str]) -> dict[str, TopicFacts]:
    """What Kafka says of these topics; one that is not there is left out. `HardFailure` without an answer."""
    if not names:
        return {}
    admin = kafka.admin()
    described = admin.describe_topics(
        TopicCollection(list(names)), include_authorized_operations=True, request_timeout=REQUEST_TIMEOUT_S
    )
    limits = admin.describe_configs(
        [ConfigResource(ResourceType.TOPIC, name) for name in names], request_timeout=REQUEST_TIMEOUT_S
    )
    # Answers that nobody waits for outlive the client, and end the process when they arrive.
    wait({*described.values(), *limits.values()})
    facts = {}
    for name, future in described.items():
        try:
            facts[name] = _facts(future.result())
        except KafkaException as error:
            match error.args[0].code():
                case KafkaError.UNKNOWN_TOPIC_OR_PART:
                    continue
                case KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    facts[name] = TopicFacts(
                        True, writable=False, readable=False, max_message_bytes=None, partitions=0
                    )
                case _:
                    raise _unreachable(kafka, error) from error
    for resource, future in limits.items():
        if resource.name in facts:
            try:
                limit = int(future.result()["max.message.bytes"].value)
            except KafkaException:  # the limit is not ours to read: the topic then counts as taking any size
                continue
            facts[resource.name] = replace(facts[resource.name], max_message_bytes=limit)
    return facts


def _facts(topic: TopicDescription) -> TopicFacts:
    allowed = topic.authorized_operations
    # A broker that does not say what is allowed allows everything until it refuses.
    return TopicFacts(
        exists=True,
        writable=not allowed or AclOperation.WRITE in allowed,
        readable=not allowed or AclOperation.READ in allowed,
        max_message_bytes=None,
        partitions=len(topic.partitions),
    )


def topic_names(kafka: Kafka) -> set[str]:
    """The topics that the bridge can see. `HardFailure` without an answer."""
    try:
        return set(kafka.admin().list_topics(timeout=REQUEST_TIMEOUT_S).topics)
    except KafkaException as error:
        raise _unreachable(kafka, error) from error


def create_topics(
    kafka: Kafka, names: Collection[str], partitions: int, config: Mapping[str, str] | None = None
) -> None:
    """Make those of the topics that are not there yet, and wait until they can be used.

    Raises `HardFailure` when Kafka refuses.
    """
    topics = [
        NewTopic(name, num_partitions=partitions, replication_factor=-1, config=dict(config or {}))
        for name in names
    ]
    admin = kafka.admin()  # held until the answers are there: they end with it
    futures = admin.create_topics(topics, request_timeout=REQUEST_TIMEOUT_S) if topics else {}
    for name, future in futures.items():
        try:
            future.result()
        except KafkaException as error:
            if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                continue
            if error.args[0].retriable() or error.args[0].code() == KafkaError._TIMED_OUT:
                raise _unreachable(kafka, error) from error
            raise HardFailure(
                f"topic {name} cannot be made: {error.args[0].str()}",
                remedy="make it by hand, or let the bridge's user create topics",
            ) from error
    # Kafka answers before every broker knows of the topic.
    deadline = time.monotonic() + REQUEST_TIMEOUT_S
    while missing := set(names) - set(admin.list_topics(timeout=REQUEST_TIMEOUT_S).topics):
        if time.monotonic() > deadline:
            raise HardFailure(
                f"topics that were made cannot be seen: {', '.join(sorted(missing))}",
                remedy="check that the bridge's user may describe them",
            )
        time.sleep(0.02)


def _unreachable(kafka: Kafka, error: KafkaException) -> Outage:
    return Outage(
        f"Kafka at {kafka.servers!r} does not answer: {error.args[0].str()}",
        remedy="check kafka.bootstrap.servers, the kafka.* security options, and that the brokers are up",
    )


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


def batch_options(limit: int | None) -> dict[str, Any]:
    """A producer's options for a topic that takes so much at once, for confluent_kafka."""
    most = largest_batch_bytes(limit)
    return {"message.max.bytes": most, "batch.size": min(BATCH_BYTES, most)}


def count_records(kafka: Kafka, topics: Collection[str]) -> dict[str, int]:
    """How many places each topic has used: a little more than its records, where some were compacted away.

    Empty when Kafka does not answer in time: for those who look, not for those who decide.
    """
    admin = kafka.admin()
    try:
        known = admin.list_topics(timeout=2).topics
        places = [
            TopicPartition(topic, partition)
            for topic in topics
            if topic in known
            for partition in known[topic].partitions
        ]
        ends = admin.list_offsets({place: OffsetSpec.latest() for place in places}, request_timeout=2)
        counts = dict.fromkeys(topics, 0)
        for place, future in ends.items():
            counts[place.topic] += future.result().offset
    except KafkaException:
        return {}
    return counts


def read_topic(
    kafka: Kafka, topic: str, *, from_beginning: bool = True, follow: bool = False
) -> Generator[Message]:
    """The records of a topic: those that are there, and with ``follow`` those that come, until it is closed.

    Only committed ones, each partition in its order. Raises `HardFailure` when the topic cannot be read.
    """
    consumer = Consumer(
        {
            **kafka.python_options(),
            "group.id": "isthmus-reader",  # Kafka wants one; nothing is ever committed under it
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 500 if follow else 10,  # how long a broker waits before it says: the end
        },
        logger=QUIET,
    )
    try:
        yield from _records(consumer, kafka, topic, from_beginning=from_beginning, follow=follow)
    finally:
        consumer.close()


def _records(
    consumer: Consumer, kafka: Kafka, topic: str, *, from_beginning: bool, follow: bool
) -> Iterator[Message]:
    try:
        metadata = consumer.list_topics(topic, timeout=REQUEST_TIMEOUT_S).topics[topic]
    except KafkaException as error:
        raise _unreachable(kafka, error) from error
    if metadata.error is not None:
        raise HardFailure(
            f"topic {topic} cannot be read: {metadata.error.str()}", remedy="check its name, and your rights"
        )
    start = OFFSET_BEGINNING if from_beginning else OFFSET_END
    open_partitions = set(metadata.partitions)
    consumer.assign([TopicPartition(topic, partition, start) for partition in open_partitions])
    while open_partitions or follow:
        message = consumer.poll(0.2)
        if message is None:
            continue
        problem = message.error()
        if problem is None:
            yield message
        elif problem.code() == KafkaError._PARTITION_EOF:
            open_partitions.discard(message.partition())
        elif problem.fatal() or not problem.retriable():
            raise HardFailure(f"topic {topic} cannot be read: {problem.str()}", remedy="check your rights")
