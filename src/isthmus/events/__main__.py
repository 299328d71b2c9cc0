"""Prints ``docs/reference/events.md``: ``python -m isthmus.events``."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from itertools import groupby

from isthmus.events import Event, declared

_INTRODUCTION = """# Events

Everything that happens in a bridge is one of these events. Each makes a line in the log and counts in the metric `isthmus_events_total`, whose label `event` is its name. `isthmus --log-format json` has the name as `event`, and the fields beside it:

```json
{"time": "2026-01-31T12:00:00.000Z", "level": "warning", "logger": "isthmus.kafka", "event": "kafka.batch_refused", "message": "orders: Kafka does not take a batch: NOT_ENOUGH_REPLICAS", "topic": "orders", "error": "NOT_ENOUGH_REPLICAS"}
```

Normal operation logs changes of state, never single messages. Without `--log-level` a bridge logs warnings and what is worse; all events are counted, logged or not. Of those marked *limited*, which others can provoke at will, at most ten lines are logged in ten seconds, and the next line says how many were left out.

This page is made of the declarations in `isthmus.events`, by `python -m isthmus.events`.
"""  # noqa: E501


def page() -> str:
    """All events, for people."""
    return "\n".join([_INTRODUCTION, *_parts()])


def _parts() -> Iterator[str]:
    for module, events in groupby(declared(), key=lambda event: event.__module__):
        yield f"## {module.rpartition('.')[2]}\n\n{inspect.getdoc(sys.modules[module])}\n"
        yield "| event | level | line | what it means |\n|---|---|---|---|"
        for event in events:
            level = f"{event.level}, limited" if event.limited else event.level
            yield f"| `{event.name}` | {level} | `{_line(event)}` | {inspect.getdoc(event)} |"
        yield ""


def _line(event: type[Event]) -> str:
    """The text with the fields' names where their values go, and those that only JSON has behind it."""
    shown = re.sub(r"%\((\w+)\)[^a-z]*[a-z]", r"<\1>", event.text)
    others = [field for field in event.fields() if f"%({field})" not in event.text]
    return f"{shown} [{', '.join(others)}]" if others else shown


if __name__ == "__main__":
    sys.stdout.write(page())
