"""What a reload says of what it could not do."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from isthmus.cli.reload import RESULT
from isthmus.cli.run import _Bridge
from isthmus.config.model.settings import Settings
from isthmus.errors import ConfigError

CONFIG = """
bridge.id=shop
state.dir={folder}
amqp.enabled=false
routes.orders.predicate=msg.address==orders
routes.orders.dest.topic={topic}
"""


class Edges:
    """They have what a reload needs until the router has gone over."""

    def __init__(self) -> None:
        self.went_by: list[str] = []
        self.broken = True

    def change(self, settings: Settings, *, narrowly: bool = False) -> None:
        if not narrowly and self.broken:
            raise ConfigError("users.properties cannot be read")
        self.went_by.append(settings.routes[0].topic)


class Router:
    """It goes over at once."""

    changing = False

    def try_out(self, settings: Settings) -> None:
        return None

    def change(self, settings: Settings, plan: None) -> None:
        return None


@pytest.fixture
def bridge(tmp_path: Path) -> Any:
    file = tmp_path / "bridge.properties"
    file.write_text(CONFIG.format(folder=tmp_path, topic="a"))
    made: Any = _Bridge(file)
    made._edges, made._pipeline = Edges(), Router()
    file.write_text(CONFIG.format(folder=tmp_path, topic="b"))
    return made


def said(folder: Path) -> tuple[bool, str]:
    answer = json.loads((folder / RESULT).read_text())
    return answer["ok"], answer["said"]


def test_edges_that_cannot_follow_the_router_are_told_and_follow_at_the_next_reload(
    bridge: Any, tmp_path: Path
) -> None:
    bridge._read_again(threading.Event())
    ok, why = said(tmp_path)
    assert not ok
    assert "the router goes by the changed configuration" in why
    assert "users.properties cannot be read" in why
    assert bridge.settings.routes[0].topic == "b"  # as the router, and explain
    bridge._edges.broken = False
    bridge._read_again(threading.Event())
    assert said(tmp_path)[0]
    assert bridge._edges.went_by[-1] == "b"


def test_a_file_with_mistakes_leaves_all_as_it_was(bridge: Any, tmp_path: Path) -> None:
    (tmp_path / "bridge.properties").write_text("bridge.id=")
    bridge._read_again(threading.Event())
    ok, why = said(tmp_path)
    assert not ok
    assert why.startswith("the bridge goes on as it was: ")
    assert bridge.settings.routes[0].topic == "a"
