"""How the AMQP server is set up: the keys under ``amqp.`` and ``amqps.``, typed and checked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from isthmus.config.model import values
from isthmus.config.model.section import Section, setting
from isthmus.errors import ConfigError

if TYPE_CHECKING:
    import ssl


def flag(value: object) -> bool:
    """``true`` or ``false``."""
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return value == "true"
    raise ValueError("expected true or false")


Text = Annotated[str, values.text]
Flag = Annotated[bool, flag]
Port = Annotated[int, values.whole_number(0, 65_535)]


def _number(low: int, high: int) -> Callable[[object], int]:
    return values.whole_number(low, high)


class AmqpSettings(Section):
    """Where JMS and AMQP clients connect, and what they may use."""

    host: Text = setting("host", "127.0.0.1", "the address that AMQP clients connect to")
    port: Port = setting("port", 5672, "the port for connections without TLS; `0` takes a free one")
    enabled: Flag = setting("enabled", True, "whether connections without TLS are taken at all")
    ws_port: Port | None = setting(
        "ws.port", None, "the port for AMQP over WebSocket without TLS; `0` takes a free one"
    )
    ws_origins: Annotated[tuple[str, ...], values.origins] | None = setting(
        "ws.origins",
        None,
        "the origins of web pages that may connect, such as `https://shop.example`, separated by commas; "
        "`*` is any",
        default_text="any where clients log in with a password, else those of this server's own address",
    )
    workers: Annotated[int, _number(1, 256)] = setting(
        "workers", 1, "how many processes share the port: one for every core that AMQP may use"
    )
    max_message_size: Annotated[int, _number(1, 1 << 31)] | None = setting(
        "max-message-size",
        None,
        "the largest message that is taken, in bytes",
        default_text="what the journal's topic takes",
    )
    auto_create: Flag | None = setting(
        "auto-create",
        None,
        "whether an address without a topic gets one",
        default_text="`true` with the embedded Kafka, else `false`",
    )
    destinations: Annotated[Literal["keep", "routed"], values.choice("keep", "routed")] = setting(
        "destinations",
        "keep",
        "where a message goes that is sent to an address which has a topic: `keep` is to that topic, "
        "for its receivers, and where its route says; `routed` is only where its route says",
    )
    queue_selectors: Annotated[Literal["jms", "views"], values.choice("jms", "views")] = setting(
        "queue-selectors",
        "jms",
        "what a selector on a JMS queue does: `jms` gives each message to one receiver that wants it; "
        "`views` makes every selector a queue of its own",
    )
    bare_address: Annotated[Literal["refuse", "queue"], values.choice("refuse", "queue")] = setting(
        "bare-address",
        "refuse",
        "what a receiver gets whose address has neither `/group.id/` nor a JMS capability: "
        "it is refused, or receives from a `queue`, as from a broker",
    )
    max_deliveries: Annotated[int, _number(1, 1000)] = setting(
        "max-deliveries",
        10,
        "how often a queue's message is given to applications that roll it back, or lose it, "
        "before it goes to the dead letters",
    )
    credit: Annotated[int, _number(1, 100_000)] = setting(
        "credit", 2000, "how many messages a sender may be ahead of the journal, on each link"
    )
    users_file: Text | None = setting(
        "users.file", None, "who may connect, with hashed passwords; `isthmus user add` writes it"
    )
    anonymous: Flag | None = setting(
        "anonymous",
        None,
        "whether clients need no name",
        default_text="`true` if the host is this machine alone and there is no users file",
    )
    plain_without_tls: Flag = setting(
        "plain-without-tls", False, "whether passwords may cross the network unencrypted"
    )
    max_connections: Annotated[int, _number(1, 1_000_000)] = setting(
        "max-connections", 2000, "how many clients may be connected at a time, to each worker"
    )
    max_connections_per_address: Annotated[int, _number(1, 1_000_000)] = setting(
        "max-connections-per-address",
        1000,
        "how many of them may come from one network address; where there is no room for one more, "
        "the one that has been silent for the longest makes it",
    )
    max_sessions: Annotated[int, _number(1, 65_536)] = setting(
        "max-sessions", 256, "how many sessions a connection may have"
    )
    max_links: Annotated[int, _number(1, 1_000_000)] = setting(
        "max-links", 1024, "how many links a session may have"
    )
    max_receivers: Annotated[int, _number(1, 1_000_000)] = setting(
        "max-receivers", 256, "how many links a connection may receive on, in all its sessions"
    )
    max_frame_size: Annotated[int, _number(512, 1 << 24)] = setting(
        "max-frame-size", 128 * 1024, "the largest frame that is taken, in bytes"
    )
    max_unsettled_bytes: Annotated[int, _number(1024, 1 << 40)] = setting(
        "max-unsettled-bytes",
        64 * 1024 * 1024,
        "how many bytes of messages a connection may have in flight before it is read no further",
    )
    max_total_unsettled_bytes: Annotated[int, _number(1024, 1 << 40)] = setting(
        "max-total-unsettled-bytes",
        128 * 1024 * 1024,
        "the same for all connections together, to each worker, and 4096 bytes more for each message; "
        "messages that have not arrived in full may take half of it",
    )
    max_receiver_bytes: Annotated[int, _number(1024, 1 << 40)] = setting(
        "max-receiver-bytes",
        32 * 1024 * 1024,
        "how many bytes of messages a receiver may have that it has not settled, "
        "and 1024 bytes more for each, whatever its credit",
    )
    max_total_receiver_bytes: Annotated[int, _number(1024, 1 << 40)] = setting(
        "max-total-receiver-bytes",
        256 * 1024 * 1024,
        "the same for all receivers together, to each worker: "
        "beyond it a receiver gets no more than its share of it",
    )
    idle_timeout_s: Annotated[float, values.duration_s] = setting(
        "idle-timeout", 60.0, "how long a client may be silent, heartbeats included"
    )
    login_timeout_s: Annotated[float, values.duration_s] = setting(
        "login-timeout", 10.0, "how long a client may take to say who it is"
    )

    @property
    def on_loopback(self) -> bool:
        """Whether only this machine can connect."""
        return values.is_loopback(self.host)

    @property
    def allows_anonymous(self) -> bool:
        """Whether a client needs no name."""
        if self.anonymous is not None:
            return self.anonymous
        return self.on_loopback and self.users_file is None


class AmqpsSettings(Section):
    """The same with TLS."""

    port: Port | None = setting("port", None, "the port for connections with TLS, usually 5671")
    ws_port: Port | None = setting("ws.port", None, "the port for AMQP over WebSocket with TLS, often 443")
    certificate: Text | None = setting("certificate", None, "a PEM file with the server's certificate chain")
    key: Text | None = setting("key", None, "a PEM file with the key of that certificate")
    client_ca: Text | None = setting(
        "client-ca",
        None,
        "a PEM file with the authorities of clients' certificates: who shows one needs no password",
    )
    require_client_certificate: Flag = setting(
        "require-client-certificate", False, "whether clients without a certificate are turned away"
    )

    @property
    def enabled(self) -> bool:
        """Whether connections with TLS are taken."""
        return self.port is not None or self.ws_port is not None

    def context(self) -> ssl.SSLContext:
        """The server's TLS context. Raises `ConfigError` for files that cannot be used."""
        import ssl  # only here: it is a big import, and most files are without TLS

        if self.certificate is None:
            raise ConfigError("amqps.certificate: expected a PEM file, since a port with TLS is set")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(self.certificate, self.key)
            if self.client_ca is not None:
                context.load_verify_locations(cadata=Path(self.client_ca).read_text())
                context.verify_mode = (
                    ssl.CERT_REQUIRED if self.require_client_certificate else ssl.CERT_OPTIONAL
                )
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"amqps.*: the TLS files cannot be used: {error}") from None
        return context
