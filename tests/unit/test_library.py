"""``import isthmus`` for an application that only converts messages."""

from __future__ import annotations

import subprocess
import sys

import isthmus

WITHOUT = ("pyspark", "confluent_kafka", "typer", "rich", "pydantic", "pyarrow", "pandas")


def test_it_needs_neither_spark_nor_kafka_nor_the_command_line() -> None:
    code = (
        "import sys\n"
        f"for name in {WITHOUT!r}:\n"
        "    sys.modules[name] = None\n"
        "from isthmus import AmqpMessage, AmqpValue, BridgeMessage, converters\n"
        "for name in ('default', 'json', 'raw', 'jms'):\n"
        "    converters.converter(name).to_kafka_record(AmqpMessage(body=AmqpValue('hello')))\n"
        "BridgeMessage.decode(BridgeMessage(b'x').encode())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_public_name_is_there() -> None:
    for name in isthmus.__all__:
        assert getattr(isthmus, name) is not None
    assert set(isthmus.converters.__all__) >= {"default", "json", "raw", "jms", "converter"}
