"""How a process logs: to standard error, as text for people or as one JSON object a line for machines.

``isthmus --log-level`` and ``--log-format`` say so, or the variables of the environment, which the processes
that a bridge starts inherit. What is logged is an event of `isthmus.events`, whose name and fields JSON has.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Mapping
from enum import StrEnum
from typing import Final, TextIO

LEVEL_VARIABLE: Final = "ISTHMUS_LOG_LEVEL"
FORMAT_VARIABLE: Final = "ISTHMUS_LOG_FORMAT"


class Level(StrEnum):
    """From which severity on a line is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Format(StrEnum):
    """What a line looks like."""

    TEXT = "text"
    JSON = "json"


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        said = {
            "time": f"{seconds}.{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        fields: Mapping[str, object] = {}
        if (event := getattr(record, "event", None)) is not None:
            said["event"] = event
            fields = record.args if isinstance(record.args, Mapping) else {}
        said["message"] = record.getMessage()
        if record.exc_info:
            said["trace"] = self.formatException(record.exc_info)
        given = {name: value for name, value in fields.items() if value is not None}
        return json.dumps(said | given, ensure_ascii=False, default=str)


class _ToStandardError(logging.StreamHandler[TextIO]):
    """Writes to what standard error is at the time: a live panel takes its place for a while."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


def _matters(record: logging.LogRecord) -> bool:
    """Whether it is an event or a warning: what else libraries say is for debugging."""
    return record.levelno >= logging.WARNING or record.name.partition(".")[0] == "isthmus"


def configure(level: Level, format: Format) -> None:
    """Log so, in this process and in those that it starts."""
    os.environ[LEVEL_VARIABLE], os.environ[FORMAT_VARIABLE] = level, format
    handler = _ToStandardError()
    text = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    handler.setFormatter(_JsonFormatter() if format is Format.JSON else text)
    if level is Level.INFO:
        handler.addFilter(_matters)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


def configure_as_owner() -> None:
    """Log as the process does that started this one."""
    configure(
        Level(os.environ.get(LEVEL_VARIABLE, Level.WARNING)),
        Format(os.environ.get(FORMAT_VARIABLE, Format.TEXT)),
    )


def is_json() -> bool:
    """Whether lines are for machines."""
    return os.environ.get(FORMAT_VARIABLE) == Format.JSON
