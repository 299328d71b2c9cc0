"""``isthmus dead-letter``: what is refused before Kafka is asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from isthmus.cli import app
from isthmus.errors import ConfigError

CONFIG = "bridge.id=b\nkafka.bootstrap.servers=127.0.0.1:1\nrouting.dead-letter.topic=dead\n"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["dead-letter", *map(str, arguments)], env={"COLUMNS": "200"})


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("drop",), "which ones?"),
        (("show",), "isthmus dead-letter list prints positions"),
        (("show", "--position", "17"), "partition:offset"),
        (("list", "--since", "yesterday"), "neither a time such as"),
        (("replay", "--max-replays", "0"), "--max-replays"),
    ],
)
def test_what_names_no_dead_letters_is_refused(
    write: Callable[[str], Path], arguments: tuple[str, ...], said: str
) -> None:
    done = run(arguments[0], write(CONFIG), *arguments[1:])
    assert done.exit_code == 2, done.output
    assert said in done.output


def test_a_bridge_without_dead_letters_says_so(write: Callable[[str], Path]) -> None:
    done = run("list", write("bridge.id=b\nkafka.bootstrap.servers=127.0.0.1:1\n"))
    assert isinstance(done.exception, ConfigError)
    assert "routing.dead-letter.topic is not set" in str(done.exception)
