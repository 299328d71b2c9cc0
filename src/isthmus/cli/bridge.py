"""What the commands share: the bridge that a configuration file describes, and its Kafka."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from isthmus import config
from isthmus.config import Settings, Severity
from isthmus.errors import ConfigError, HardFailure

if TYPE_CHECKING:
    from isthmus.kafka.options import Kafka

ConfigFile = Annotated[
    Path | None,
    typer.Argument(help="The bridge's configuration file. Without one: an embedded Kafka, and no routes."),
]


def read_settings(file: Path | None) -> Settings:
    """The settings of a bridge. Warnings go to standard error; errors are a `ConfigError`."""
    reading = config.read(file, os.environ)
    if reading.errors:
        raise ConfigError("\n".join(str(problem) for problem in reading.errors))
    console = Console(stderr=True, highlight=False, soft_wrap=True, markup=False)
    for problem in reading.problems:
        if problem.severity is Severity.WARNING:
            console.print(str(problem))
    return reading.settings


def kafka_folder(settings: Settings) -> Path:
    """Where the embedded Kafka keeps its data."""
    return settings.local_state_dir / "kafka"


def connect(settings: Settings) -> Kafka:
    """The bridge's Kafka, which runs already. Raises `HardFailure` when it is embedded and does not."""
    from isthmus.embedded.kafka import find_running
    from isthmus.kafka.options import Kafka

    if not settings.kafka.embedded:
        return Kafka(settings.kafka.bootstrap_servers, settings.kafka.client)
    kafka = find_running(kafka_folder(settings))
    if kafka is None:
        raise HardFailure(
            f"no embedded Kafka is running in {kafka_folder(settings)}",
            remedy="start the bridge with `isthmus run` (same file, same folder), then try again",
        )
    return kafka
