"""``isthmus import``: turn another bridge's configuration into ours."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from isthmus.cli.lazy import group
from isthmus.config.foreign.formats import JMS_BRIDGE, NATS_MQ, STRIMZI, Format, format_of
from isthmus.config.foreign.strimzi import is_oldest
from isthmus.config.syntax import properties
from isthmus.errors import ConfigError

T = TypeVar("T")

importing = group("import", "Turn another bridge's configuration into ours.", no_args_is_help=True)


@importing.callback()
def _importing() -> None:
    """Turn another bridge's configuration into ours."""


@importing.command("nats-mq")
def nats_mq(
    file: Annotated[Path, typer.Argument(help="The configuration file of the NATS-MQ bridge.")],
) -> None:
    """Print our configuration for one of the NATS-MQ bridge. What has no equal is a comment that says so."""
    from isthmus.connectors.importer import convert

    converted = _converted(file, NATS_MQ, partial(convert, folder=file.parent))
    typer.echo(converted.text, nl=False)
    if converted.left_out:
        keys = ", ".join(each.key for each in converted.left_out)
        typer.echo(f"left out, with the reason as a comment: {keys}", err=True)


@importing.command("strimzi")
def strimzi(
    file: Annotated[Path, typer.Argument(help="Its `application.properties` or `bridge.properties`.")],
) -> None:
    """Print our configuration for one of Strimzi's AMQP bridge, of any of its years."""
    from isthmus.config.foreign.strimzi import convert

    typer.echo(_converted(file, STRIMZI, convert), nl=False)


@importing.command("jms-bridge")
def jms_bridge(
    file: Annotated[Path, typer.Argument(help="Its `jms-bridge.conf` (HOCON) or properties.")],
) -> None:
    """Print our configuration for one of the JMS bridge. What has no equal is a comment that says so."""
    from isthmus.config.foreign.jms_bridge import convert

    typer.echo(_converted(file, JMS_BRIDGE, convert), nl=False)


def _converted(file: Path, format: Format, convert: Callable[[str], T]) -> T:
    try:
        text = file.read_text(encoding="utf-8-sig")
        _refuse_another(file, format)
        return convert(text)
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{file} is not UTF-8 text") from None
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}") from None


def _refuse_another(file: Path, format: Format) -> None:
    entries, _ = properties.read(file)
    if entries is None:
        return
    found = format_of(entries) or (STRIMZI if is_oldest(entries) else None)
    if found is not None and found is not format:
        raise ConfigError(
            f"a configuration of {found.bridge}, not of {format.bridge}: "
            f"isthmus import {found.command} {file} prints ours"
        )
