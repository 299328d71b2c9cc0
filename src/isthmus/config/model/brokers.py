"""The AMQP brokers that the bridge is a client of: ``amqp.connect.<broker>.…``, typed and checked."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, Self
from urllib.parse import SplitResult, unquote, urlsplit

from isthmus.config.model import values
from isthmus.config.model.amqp import Flag
from isthmus.config.model.nats_values import secret
from isthmus.config.model.section import Section, setting
from isthmus.config.syntax.hidden import Hidden, alike, hide
from isthmus.errors import ConfigError

if TYPE_CHECKING:
    import ssl

TOPIC_SCHEME = "topic://"
QUEUE_SCHEME = "queue://"
BROKER_NAME = re.compile(r"[A-Za-z0-9_-]{1,40}")
"""A name becomes a part of the name of a topic."""

AMQP = "amqp."
"""What the name of an outbox of a broker begins with."""

_PORTS = {"amqp": 5672, "amqps": 5671}
_ADDRESS = re.compile(rf"(?:{TOPIC_SCHEME}|{QUEUE_SCHEME}|(?!{TOPIC_SCHEME}|{QUEUE_SCHEME}))[^\s,]+")


class Server(NamedTuple):
    """Where a broker listens, and whom it knows us as."""

    host: str
    port: int
    tls: bool
    user: str | None = None
    password: str | None = None

    @property
    def shown(self) -> str:
        """Without user and password, for people."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'amqps' if self.tls else 'amqp'}://{host}:{self.port}"

    @property
    def is_this_machine(self) -> bool:
        """Whether nobody listens on the way there."""
        try:
            return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __repr__(self) -> str:
        return f"Server({self.shown!r})"


class Node(NamedTuple):
    """A queue or a topic of a broker."""

    address: str
    is_topic: bool = False

    @classmethod
    def of(cls, written: str) -> Self:
        """``orders``, ``queue://orders`` or ``topic://news``."""
        if written.startswith(TOPIC_SCHEME):
            return cls(written.removeprefix(TOPIC_SCHEME), is_topic=True)
        return cls(written.removeprefix(QUEUE_SCHEME))

    @property
    def capability(self) -> str:
        """How brokers that have both kinds are told which is meant."""
        return "topic" if self.is_topic else "queue"


def _urls(value: object) -> tuple[str, ...]:
    """URLs of a broker and of those that take its place. One with a password in it is hidden."""
    written = [value] if isinstance(value, str) else value if isinstance(value, tuple | list) else []
    found = [hide("url", alike(text, each.strip())) for text in written for each in text.split(",")]
    if found and all(map(_is_url, found)):
        return tuple(found)
    raise ValueError("expected amqp://host:port or amqps://host:port, several of them separated by commas")


def _is_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        plain = not parts.query and not parts.fragment and parts.path in ("", "/")
        return parts.scheme in _PORTS and bool(parts.hostname) and parts.port != 0 and plain
    except ValueError:  # a port that is none
        return False


def _addresses(value: object) -> tuple[str, ...]:
    """Addresses of queues and topics, each once, separated by commas."""
    written = value.split(",") if isinstance(value, str) else value if isinstance(value, tuple | list) else []
    found = tuple(str(each).strip() for each in written)
    if found and all(map(_ADDRESS.fullmatch, found)) and len({Node.of(each) for each in found}) == len(found):
        return found
    raise ValueError("expected orders, queue://orders or topic://news, each once, separated by commas")


def broker_address(value: object) -> str:
    """Where a route goes: a broker's name, and an address there."""
    if isinstance(value, str):
        broker, _, address = value.partition(":")
        if BROKER_NAME.fullmatch(broker) and _ADDRESS.fullmatch(address):
            return value
    raise ValueError("expected <broker>:<address>, such as main:orders or main:topic://news")


Text = Annotated[str, values.text]
Secret = Annotated[str, secret]
Delivery = Annotated[Literal["duplicate-id", "plain"], values.choice("duplicate-id", "plain")]


class BrokerSettings(Section):
    """How the bridge reaches a broker, and what it takes from it and brings to it."""

    url: Annotated[tuple[str, ...], _urls] = setting(
        "url",
        ...,
        "`amqp://user:password@host:port` or `amqps://…`; several, separated by commas, are tried in turn",
    )
    user: Text | None = setting("user", None, "the user to connect as, unless the URL says")
    password: Secret | None = setting("password", None, "the user's password")
    tls_ca: Text | None = setting(
        "tls.ca", None, "a PEM file with the authorities that the broker's certificate is checked by"
    )
    tls_cert: Text | None = setting(
        "tls.cert", None, "a PEM file with the bridge's own certificate, which takes the place of a password"
    )
    tls_key: Text | None = setting("tls.key", None, "a PEM file with the key of that certificate")
    plain_without_tls: Flag = setting(
        "plain-without-tls",
        False,
        "whether the password may cross the network unencrypted, if the broker wants it that way",
    )
    addresses: Annotated[tuple[str, ...], _addresses] = setting(
        "intake.addresses",
        (),
        "the queues that messages are taken from, separated by commas; `topic://news` is a topic",
    )
    durable: Text | None = setting(
        "intake.durable",
        None,
        "the name of a durable subscription: with it, none of the topics' messages is missed",
    )
    credit: Annotated[int, values.whole_number(1, 100_000)] = setting(
        "intake.credit", 500, "how many messages the broker may be ahead of the journal, on each address"
    )
    delivery: Delivery = setting(
        "delivery",
        "duplicate-id",
        "`duplicate-id`: messages carry `_AMQ_DUPL_ID`, by which Artemis drops doubles; `plain`: they do not",
    )
    idle_timeout_s: Annotated[float, values.duration_s] = setting(
        "idle-timeout", 60.0, "how long the broker may be silent, heartbeats included"
    )
    max_backoff_s: Annotated[float, values.duration_s] = setting(
        "reconnect.max-wait", 10.0, "the longest wait between two attempts to connect"
    )

    @property
    def servers(self) -> tuple[Server, ...]:
        """The places to connect to, in order."""
        return tuple(self._server(urlsplit(str.__str__(url))) for url in self.url)

    @property
    def nodes(self) -> tuple[Node, ...]:
        """What is taken from."""
        return tuple(Node.of(each) for each in self.addresses)

    def tls_context(self) -> ssl.SSLContext:
        """What TLS connections go by. `ConfigError`, which begins with the key, for a file of no use."""
        import ssl  # only here: it is a big import, and most files are without TLS

        context = ssl.create_default_context()
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        key = "tls.ca"
        try:
            if self.tls_ca:
                context.load_verify_locations(self.tls_ca)
            if self.tls_cert:
                key = "tls.cert"
                context.load_cert_chain(self.tls_cert, self.tls_key)
        except OSError as error:  # ssl.SSLError is one too
            raise ConfigError(f"{key} cannot be used: {error.strerror or error}") from None
        return context

    def _server(self, url: SplitResult) -> Server:
        user = unquote(url.username) if url.username else self.user
        password = unquote(url.password) if url.password else self.password
        return Server(
            url.hostname or "",
            url.port or _PORTS[url.scheme],
            url.scheme == "amqps",
            user,
            None if password is None else Hidden(str.__str__(password)),
        )

    def _check_together(self) -> None:
        if self.password and not self.user:
            raise ValueError("password needs user")
        if self.tls_key and not self.tls_cert:
            raise ValueError("tls.key needs tls.cert")
        if (self.tls_ca or self.tls_cert) and not any(url.startswith("amqps:") for url in self.url):
            raise ValueError("tls.* needs a URL with amqps://")
        if self.durable and not any(node.is_topic for node in self.nodes):
            raise ValueError("intake.durable needs a topic:// among intake.addresses")
