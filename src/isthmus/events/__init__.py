"""What happens in a bridge, by name: each event is declared once, and makes its log line and its metric.

A declaration is a class, with the event's fields as annotations, and what it means as its docstring::

    class BatchRefused(Event, level="warning", text="%(topic)s: Kafka does not take a batch: %(error)s"):
        '''Kafka refuses a batch, or has not taken it for a while. Told once, until it takes batches again.'''

        topic: str
        error: str

    BatchRefused("orders", "NOT_ENOUGH_REPLICAS").emit()

That counts one in ``isthmus_events_total{event="kafka.batch_refused"}`` and logs a line, in JSON with the
event's name and fields. The first half of the name is the module here that declares it, and the logger:
``isthmus.kafka``. Nothing logs past this; ``docs/reference/events.md`` lists all events.
"""

from __future__ import annotations

import dataclasses
import logging
import pkgutil
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping
from importlib import import_module
from threading import Lock
from typing import ClassVar, Final, Literal, dataclass_transform

Level = Literal["debug", "info", "warning", "error", "critical"]

LINES: Final = 10
PERIOD_S: Final = 10.0
"""Of an event that is limited, so many lines are logged in a period."""
_ENVELOPE: Final = frozenset({"time", "level", "logger", "event", "message", "trace"})
"""What a line in JSON has beside the fields."""


class LineLimit:
    """Lets so many lines of a kind through in a period.

    Whoever sends rubbish at thousands of messages a second must not fill the disk, nor hide all else.
    """

    def __init__(
        self, *, lines: int = LINES, period_s: float = PERIOD_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._lines = lines
        self._period_s = period_s
        self._clock = clock
        self._kinds: dict[object, tuple[float, int]] = {}
        """When the period of a kind began, and how many lines there were since."""

    def admit(self, kind: object) -> int | None:
        """How many of a kind were left out in the period before; None if this one is left out, too."""
        now = self._clock()
        began, count = self._kinds.get(kind, (now, 0))
        left_out = 0
        if now - began >= self._period_s:
            left_out = max(0, count - self._lines)
            began, count = now, 0
        self._kinds[kind] = (began, count + 1)
        return left_out if count < self._lines else None


_SEVERITIES: Final[dict[Level, int]] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
}
_limit = LineLimit()
_counts: Counter[str] = Counter()
_lock: Final = Lock()


@dataclass_transform(frozen_default=True)
class Event:
    """Something that happened."""

    name: ClassVar[str]
    level: ClassVar[Level]
    text: ClassVar[str]
    """The line, with fields as ``%(field)s``."""
    limited: ClassVar[bool]
    """Whether others can provoke it at will, so that only some lines are logged. All are counted."""
    _logger: ClassVar[logging.Logger]
    _severity: ClassVar[int]

    def __init_subclass__(cls, *, level: Level, text: str, limited: bool = False) -> None:
        dataclasses.dataclass(frozen=True)(cls)
        part = cls.__module__.rpartition(".")[2]
        cls.name = f"{part}.{re.sub(r'(?<!^)(?=[A-Z])', '_', cls.__name__).lower()}"
        cls.level, cls.text, cls.limited = level, text, limited
        cls._logger, cls._severity = logging.getLogger(f"isthmus.{part}"), _SEVERITIES[level]
        if clash := _ENVELOPE.intersection(cls.fields()):
            raise TypeError(f"{cls.name}: a line has {', '.join(clash)} already")

    @classmethod
    def fields(cls) -> tuple[str, ...]:
        """What is told of it."""
        return tuple(each.name for each in dataclasses.fields(cls))  # type: ignore[arg-type]

    def __str__(self) -> str:
        return self.text % vars(self)

    def emit(self, *, trace: BaseException | None = None, quietly: bool = False) -> None:
        """Count it, and log its line, with the traceback of an exception if one is given.

        ``quietly`` is for what the caller limits by itself: it is counted alone.
        """
        add_counts({self.name: 1})
        logger, severity = self._logger, self._severity
        if quietly or not logger.isEnabledFor(severity):
            return
        left_out = _limit.admit(self.name) if self.limited else 0
        if left_out is None:
            return
        more = f" (and {left_out} more like it, which were left out)" if left_out else ""
        fields = [vars(self)] if vars(self) else []
        logger.log(
            severity, self.text + more, *fields, exc_info=trace, extra={"event": self.name}, stacklevel=2
        )


def declared() -> list[type[Event]]:
    """All events, by their modules and in the order that these have them."""
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        if not module.name.endswith("__"):  # what is run, not imported
            import_module(module.name)
    ours = [event for event in Event.__subclasses__() if event.__module__.startswith(f"{__name__}.")]
    return sorted(ours, key=lambda event: event.__module__)


def counts() -> Counter[str]:
    """How often each event happened since the start, in this process and in those that told it."""
    with _lock:
        return _counts.copy()


def take_counts() -> dict[str, int]:
    """What was counted since the last call: for a process that tells its owner of it."""
    with _lock:
        taken = dict(_counts)
        _counts.clear()
        return taken


def add_counts(more: Mapping[str, int]) -> None:
    """Count what happened, here or in another process."""
    with _lock:
        _counts.update(more)
