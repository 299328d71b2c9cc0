"""What the commands share: the bridge that a configuration file describes, and its Kafka."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from isthmus import config
from isthmus.config import Reading, Settings, Severity
from isthmus.errors import ConfigError, HardFailure

if TYPE_CHECKING:
    from isthmus.kafka.options import Kafka

ConfigFile = Annotated[
    Path | None,
    typer.Argument(help="The bridge's configuration file. Without one: an embedded Kafka, and no routes."),
]

Place = tuple[str, int, int]
"""Topic, partition and offset."""


def position_of(text: str, topic: str) -> Place:
    """The position that ``[topic:]partition:offset`` on the command line stands for, in this topic if it
    names none."""
    parsed = re.fullmatch(r"(?:([^:]+):)?([0-9]{1,9}):([0-9]{1,18})", text)
    if parsed is None:
        raise typer.BadParameter(f"{text!r} is not topic:partition:offset, nor partition:offset")
    return parsed[1] or topic, int(parsed[2]), int(parsed[3])


def read_settings(file: Path | None, *, warn: bool = True) -> Settings:
    """The settings of a bridge. Warnings go to standard error; errors are a `ConfigError`.

    Commands that only talk to a bridge need not ``warn``: whoever started it was told.
    """
    return read_configuration(file, warn=warn).settings


def read_configuration(file: Path | None, *, warn: bool = True) -> Reading:
    """The same, with the entries that they come of."""
    reading = config.read(file, os.environ)
    if reading.errors:
        raise ConfigError("\n".join(problem.described for problem in reading.errors))
    if not warn:
        return reading
    console = Console(stderr=True, highlight=False, soft_wrap=True, markup=False)
    for problem in reading.problems:
        if problem.severity is Severity.WARNING:
            console.print(str(problem))
    return reading


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
