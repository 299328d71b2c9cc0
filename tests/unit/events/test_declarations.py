"""Every event is declared well, documented, emitted somewhere, and nothing logs past them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import isthmus
from isthmus.events import Event, declared
from isthmus.events.__main__ import page

SOURCES = Path(isthmus.__file__).parent
DOCS = SOURCES.parents[1] / "docs"
MAY_USE_LOGGING = {
    "events/__init__.py",
    "logs.py",
    "kafka/blocking.py",  # has a client library be quiet
    "kafka/client.py",  # the same
    "monitor/server.py",  # the same
    "telemetry/traces.py",  # the same
}


def sources() -> list[Path]:
    return sorted(SOURCES.rglob("*.py"))


def test_the_page_lists_all_events_as_they_are_declared() -> None:
    written = (DOCS / "reference" / "events.md").read_text()
    assert written == page(), "run python -m isthmus.events > docs/reference/events.md"


def test_no_module_logs_past_the_events() -> None:
    past = []
    for file in sources():
        if file.relative_to(SOURCES).as_posix() in MAY_USE_LOGGING:
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import) and any(alias.name == "logging" for alias in node.names):
                past.append(str(file))
            if isinstance(node, ast.ImportFrom) and node.module == "logging":
                past.append(str(file))
    assert past == []


@pytest.mark.parametrize("event", declared(), ids=lambda event: event.name)
def test_an_event_has_a_meaning_and_a_text_of_its_fields(event: type[Event]) -> None:
    assert event.__doc__
    assert not event.__doc__.startswith(f"{event.__name__}("), "a docstring of dataclass' making says nothing"
    assert set(re.findall(r"%\((\w+)\)", event.text)) <= set(event.fields())


def test_every_event_is_emitted_somewhere() -> None:
    called = {
        node.func.id
        for file in sources()
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert {event.__name__ for event in declared()} <= called


def test_names_are_unique() -> None:
    names = [event.name for event in declared()]
    assert len(names) == len(set(names))


def test_a_field_may_not_hide_what_every_line_has() -> None:
    with pytest.raises(TypeError, match="message"):

        class Hiding(Event, level="info", text="%(message)s"):  # type: ignore[misc]
            message: str
