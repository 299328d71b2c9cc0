"""``isthmus import``: turn another bridge's configuration into ours."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from isthmus.errors import ConfigError

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

    try:
        converted = convert(file.read_text(encoding="utf-8"), file.parent)
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{file} is not UTF-8 text") from None
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}") from None
    typer.echo(converted.text, nl=False)
    if converted.left_out:
        keys = ", ".join(each.key for each in converted.left_out)
        typer.echo(f"left out, with the reason as a comment: {keys}", err=True)
