"""``isthmus import``: turn another bridge's configuration into ours."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from isthmus.errors import ConfigError

T = TypeVar("T")

importing = typer.Typer(
    name="import", no_args_is_help=True, help="Turn another bridge's configuration into ours."
)


@importing.callback()
def _importing() -> None:
    """Turn another bridge's configuration into ours."""


@importing.command("nats-mq")
def nats_mq(
    file: Annotated[Path, typer.Argument(help="The configuration file of the NATS-MQ bridge.")],
) -> None:
    """Print our configuration for one of the NATS-MQ bridge. What has no equal is a comment that says so."""
    from isthmus.connectors.importer import convert

    converted = _converted(file, partial(convert, folder=file.parent))
    typer.echo(converted.text, nl=False)
    if converted.left_out:
        keys = ", ".join(each.key for each in converted.left_out)
        typer.echo(f"left out, with the reason as a comment: {keys}", err=True)


@importing.command("strimzi")
def strimzi(
    file: Annotated[
        Path, typer.Argument(help="Its [bold]application.properties[/] or [bold]bridge.properties[/].")
    ],
) -> None:
    """Print our configuration for one of Strimzi's AMQP bridge, of any of its years."""
    from isthmus.config.foreign.strimzi import convert

    typer.echo(_converted(file, convert), nl=False)


@importing.command("jms-bridge")
def jms_bridge(
    file: Annotated[Path, typer.Argument(help="Its [bold]jms-bridge.conf[/] (HOCON) or properties.")],
) -> None:
    """Print our configuration for one of the JMS bridge. What has no equal is a comment that says so."""
    from isthmus.config.foreign.jms_bridge import convert

    typer.echo(_converted(file, convert), nl=False)


def _converted(file: Path, convert: Callable[[str], T]) -> T:
    try:
        return convert(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{file} is not UTF-8 text") from None
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}") from None
