"""What a line of the log looks like."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest

from isthmus.events.bridge import Failed
from isthmus.events.edges import SystemUnavailable
from isthmus.logs import Format, Level, configure


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    for name in ("ISTHMUS_LOG_LEVEL", "ISTHMUS_LOG_FORMAT"):
        monkeypatch.setenv(name, "")
    root.handlers = []  # pytest's own, which `configure` would close
    yield
    root.handlers, root.level = handlers, level


def test_json_lines_say_when_who_and_what(capsys: pytest.CaptureFixture[str]) -> None:
    configure(Level.INFO, Format.JSON)
    log = logging.getLogger("isthmus.edges")
    log.debug("unheard")
    log.info("%d messages of %s\nwill be redelivered", 3, "grün")
    try:
        raise ValueError("no")
    except ValueError:
        log.exception("failed")
    first, second = map(json.loads, capsys.readouterr().err.splitlines())
    assert first.pop("time").endswith("Z")
    assert first == {
        "level": "info",
        "logger": "isthmus.edges",
        "message": "3 messages of grün\nwill be redelivered",
    }
    assert second["trace"].endswith("ValueError: no")


def test_json_lines_of_events_have_their_name_and_fields(capsys: pytest.CaptureFixture[str]) -> None:
    configure(Level.INFO, Format.JSON)
    SystemUnavailable("the broker b", OSError(111, "refused")).emit()
    Failed("it is over", None).emit()
    first, second = map(json.loads, capsys.readouterr().err.splitlines())
    del first["time"], second["time"]
    assert first == {
        "level": "warning",
        "logger": "isthmus.edges",
        "event": "edges.system_unavailable",
        "message": "the broker b is unavailable: [Errno 111] refused",
        "system": "the broker b",
        "error": "[Errno 111] refused",
    }
    assert second == {
        "level": "critical",
        "logger": "isthmus.bridge",
        "event": "bridge.failed",
        "message": "it is over",
        "error": "it is over",
    }


def test_text_lines_begin_with_the_time(capsys: pytest.CaptureFixture[str]) -> None:
    configure(Level.WARNING, Format.TEXT)
    logging.getLogger("isthmus.edges").info("unheard")
    logging.getLogger("isthmus.edges").warning("heard")
    assert capsys.readouterr().err.endswith(" WARNING isthmus.edges: heard\n")


def test_what_libraries_have_to_tell_below_a_warning_is_for_debugging(
    capsys: pytest.CaptureFixture[str],
) -> None:
    library = logging.getLogger("py4j.clientserver")
    for level in (Level.INFO, Level.DEBUG):
        configure(level, Format.TEXT)
        library.info("said at %s", level)
        library.warning("warned at %s", level)
    said = [line.rpartition(": ")[2] for line in capsys.readouterr().err.splitlines()]
    assert said == ["warned at info", "said at debug", "warned at debug"]


def test_processes_that_are_started_log_alike() -> None:
    configure(Level.INFO, Format.JSON)
    code = (
        "import logging; from isthmus.logs import configure_as_owner as c; c(); "
        "logging.getLogger('isthmus.x').info('here')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stderr)["message"] == "here"
