"""What ``isthmus send --amqp`` and ``receive --amqp`` share: where they connect, and as whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import typer

from isthmus.errors import ConfigError, SettingsError

if TYPE_CHECKING:
    from isthmus.config import Settings
    from isthmus.config.model.brokers import BrokerSettings

PANEL: Final = "With --amqp"
"""The part of a command's help for what means something with ``--amqp`` alone."""
PASSWORD_VARIABLE: Final = "ISTHMUS_PASSWORD"

Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="URL",
        rich_help_panel=PANEL,
        show_default=False,
        help="Where to connect: `amqp://user:password@host:port` or `amqps://…`. "
        "Without it: where the configuration file says, else amqp://127.0.0.1:5672.",
    ),
]
User = Annotated[str | None, typer.Option("--user", rich_help_panel=PANEL, help="The user to connect as.")]
Password = Annotated[
    str | None,
    typer.Option(
        "--password",
        envvar=PASSWORD_VARIABLE,
        rich_help_panel=PANEL,
        help="The user's password. It is asked for where neither this nor the variable has it.",
    ),
]
TlsCa = Annotated[
    str | None,
    typer.Option(
        "--tls-ca", metavar="FILE", rich_help_panel=PANEL, help="A PEM file to check the certificate by."
    ),
]


class Login(NamedTuple):
    """What a command was told of where to connect, and as whom."""

    url: str | None
    user: str | None
    password: str | None
    tls_ca: str | None

    @property
    def is_given(self) -> bool:
        """Whether the command was told anything of it. A password may come from the environment."""
        return bool(self.url or self.user or self.tls_ca)

    def broker(self, settings: Settings) -> BrokerSettings:
        """Where to connect. Raises `ConfigError` for options that cannot be meant."""
        from isthmus.config.model.brokers import BrokerSettings

        amqp = settings.amqp
        if self.url is None and not amqp.port:
            raise ConfigError("amqp.port=0 is any free port: say with --url which one the bridge has found")
        host = f"[{amqp.host}]" if ":" in amqp.host else amqp.host
        given = {"url": self.url or f"amqp://{host}:{amqp.port}", "tls.ca": self.tls_ca}
        if self.user is not None:
            given |= {"user": self.user, "password": self.password or _asked(self.user)}
        try:
            return BrokerSettings.of({name: value for name, value in given.items() if value})
        except SettingsError as error:
            raise ConfigError(f"--url, --user or --tls-ca: {error.refusals[0].message}") from None


def _asked(user: str) -> str:
    password: str = typer.prompt(f"Password of {user}", hide_input=True, err=True)
    return password
