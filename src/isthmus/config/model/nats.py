"""How NATS is reached, and what is taken from it: the keys under ``nats.``, typed and checked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from isthmus.config.model import nats_values as checks
from isthmus.config.model import values
from isthmus.config.model.section import Section, setting
from isthmus.config.syntax.hidden import shown
from isthmus.errors import ConfigError

if TYPE_CHECKING:
    import ssl

Text = Annotated[str, values.text]
Secret = Annotated[str, checks.secret]
Publish = Annotated[Literal["core", "jetstream"], values.choice("core", "jetstream")]
Form = Annotated[Literal["plain", "nats-mq"], values.choice("plain", "nats-mq")]


class NatsSettings(Section):
    """How the bridge reaches NATS."""

    servers: Annotated[tuple[str, ...], checks.servers] = setting(
        "servers",
        (),
        "`nats://host:port` of one or more servers, separated by commas; `embedded` starts one",
    )
    user: Text | None = setting("user", None, "the user to connect as")
    password: Secret | None = setting("password", None, "the user's password")
    token: Secret | None = setting("token", None, "a token to connect with, in place of user and password")
    creds: Text | None = setting("creds", None, "a credentials file: a JWT and its nkey seed")
    nkey: Annotated[str, checks.seed] | None = setting(
        "nkey", None, "a file with an nkey seed, or the seed itself"
    )
    tls_ca: Text | None = setting(
        "tls.ca", None, "a PEM file with the authorities that the servers' certificates are checked by"
    )
    tls_cert: Text | None = setting("tls.cert", None, "a PEM file with the bridge's own certificate")
    tls_key: Text | None = setting("tls.key", None, "a PEM file with the key of that certificate")
    domain: Annotated[str, checks.name] | None = setting(
        "jetstream.domain", None, "the JetStream domain, where there is more than one"
    )
    create_streams: Annotated[bool, checks.flag] = setting(
        "jetstream.create",
        False,
        "whether a stream is made for a subject that has none: `true` or `false`",
        default_text="false",
    )
    publish: Publish = setting(
        "publish", "core", "how messages go out unless their destination says: `core` or `jetstream`"
    )
    max_backoff_s: Annotated[float, values.duration_s] = setting(
        "reconnect.max-wait", 10.0, "the longest wait between two attempts to connect"
    )

    @property
    def embedded(self) -> bool:
        """Whether the bridge starts a NATS of its own."""
        return self.servers == (values.EMBEDDED,)

    @property
    def shown_servers(self) -> str:
        """The servers, for people."""
        servers = self.shown_field("servers")
        return servers if isinstance(servers, str) else ", ".join(map(shown, servers))

    @property
    def uses_tls(self) -> bool:
        """Whether anything here asks for TLS."""
        return bool(
            self.tls_ca or self.tls_cert or any(url.startswith(("tls:", "wss:")) for url in self.servers)
        )

    def tls_context(self) -> ssl.SSLContext | None:
        """What TLS connections go by, if they are to be. `ConfigError` for files that cannot be used."""
        if not self.uses_tls:
            return None
        import ssl  # only here: it is a big import, and most files are without TLS

        context = ssl.create_default_context()
        key = "nats.tls.ca"
        try:
            if self.tls_ca:
                context.load_verify_locations(self.tls_ca)
            if self.tls_cert:
                key = "nats.tls.cert"
                context.load_cert_chain(self.tls_cert, self.tls_key)
        except OSError as error:  # ssl.SSLError is one too
            raise ConfigError(f"{key} cannot be used: {error.strerror or error}") from None
        return context

    def credentials(self) -> dict[str, Any]:
        """The arguments by which nats-py is told who connects. `ConfigError` for a file that is not there."""
        for key, file in (("nats.creds", self.creds), ("nats.nkey", self.nkey)):
            if file and not checks.SEED.fullmatch(file) and not Path(file).is_file():
                raise ConfigError(f"{key}: there is no such file")
        if self.creds:
            return {"user_credentials": str(self.creds)}
        if self.nkey:
            return {"nkeys_seed_str" if checks.SEED.fullmatch(self.nkey) else "nkeys_seed": str(self.nkey)}
        if self.token:
            return {"token": str.__str__(self.token)}
        if self.user:
            return {"user": str(self.user), "password": str.__str__(self.password or "")}
        return {}

    def _check_together(self) -> None:
        given = [f"nats.{key}" for key in ("user", "token", "creds", "nkey") if getattr(self, key)]
        if len(given) > 1:
            raise ValueError(f"expected one of {', '.join(given)}, since a bridge has one login")
        if self.tls_key and not self.tls_cert:
            raise ValueError("nats.tls.key needs nats.tls.cert")


class NatsIntakeSettings(Section):
    """What is taken from NATS: a subject, or a stream through a durable consumer."""

    subject: Annotated[str, checks.pattern] = setting(
        "subject", ..., "the subject that messages are taken from; `*` and a last `>` are wildcards"
    )
    queue: Annotated[str, checks.name] | None = setting(
        "queue", None, "the queue group whose members share the messages of a subject"
    )
    durable: Annotated[str, checks.name] | None = setting(
        "durable", None, "the durable consumer: with it, messages come from JetStream and none is lost"
    )
    stream: Annotated[str, checks.name] | None = setting(
        "stream", None, "the stream", default_text="the one that has the subject"
    )
    start: Annotated[checks.Start, checks.start] = setting(
        "start",
        checks.Start("first"),
        "where a new durable consumer begins: `first`, `last`, `new`, `sequence:<number>`, `time:<ISO 8601>`",
        default_text="first",
    )
    redelivery_limit: Annotated[int, values.whole_number(1, 1_000_000)] = setting(
        "redelivery-limit", 10, "how often a message may come before it is dead-lettered"
    )
    form: Form = setting("form", "plain", "what the payload is: `plain`, or `nats-mq` for its message format")

    def _check_together(self) -> None:
        if self.queue and self.durable:
            raise ValueError(
                "expected queue or durable, not both: members of a durable consumer share anyway"
            )
        if self.stream and not self.durable:
            raise ValueError("a stream needs durable, the name of its consumer")
