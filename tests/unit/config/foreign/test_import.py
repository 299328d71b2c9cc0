"""``isthmus import`` takes the files of its bridge, and says of another's which command reads it."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from isthmus.cli.import_ import importing
from isthmus.errors import ConfigError

FILES = {
    "strimzi": ("amqp.port=5672\namqp.flowCredit=10\n", "bind.port=5672\nbootstrap.servers=broker:9092\n"),
    "jms-bridge": (
        "bridge {\n  kafka {\n    bootstrap.servers = broker\n  }\n}\n",
        "{ bridge { kafka {\n  bootstrap.servers = broker\n}}}\n",
        "bridge.id=b\nbridge.kafka.bootstrap.servers=broker:9092\n",
    ),
    "nats-mq": ('nats: {\n  Servers: ["localhost:4222"]\n}\n', "connect: [\n]\n"),
}
RIGHT = [(format, text) for format, texts in FILES.items() for text in texts]
WRONG = [(command, format, text) for command in FILES for format, text in RIGHT if command != format]


@pytest.mark.parametrize(("format", "text"), RIGHT)
def test_a_file_is_read_by_the_command_of_its_bridge(tmp_path: Path, format: str, text: str) -> None:
    file = tmp_path / "old"
    file.write_text(text)
    assert CliRunner().invoke(importing, [format, str(file)]).exit_code == 0


@pytest.mark.parametrize(("command", "format", "text"), WRONG)
def test_another_bridges_file_is_refused_with_the_command_to_use(
    tmp_path: Path, command: str, format: str, text: str
) -> None:
    file = tmp_path / "old"
    file.write_text(text)
    result = CliRunner().invoke(importing, [command, str(file)])
    assert isinstance(result.exception, ConfigError)
    assert f"isthmus import {format} {file} prints ours" in str(result.exception)
    assert result.stdout == ""
