"""A bridge needs the libraries of its own systems, and no others: those are kept from being imported."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pytest
from tests.support.amqp.wire import Wire, message
from tests.support.commands import QUICKSTART, Running, isthmus

from isthmus.edges.amqp.protocol.terms import Accepted
from isthmus.embedded.nats import EmbeddedNats
from isthmus.extras import EXTRAS

AMQP = "amqp.port=0\nmessage.convert=default\n"
SPARK = {"pyspark", "py4j", "pandas", "pyarrow", "google"}

Without = Callable[[Iterable[str]], Mapping[str, str]]


@pytest.fixture
def without(tmp_path: Path) -> Without:
    """The environment of a process that cannot import these."""

    def without(names: Iterable[str]) -> Mapping[str, str]:
        folder = tmp_path / "without"
        folder.mkdir()
        blocked = f"import sys\nsys.modules.update(dict.fromkeys({sorted(names)!r}))\n"
        (folder / "sitecustomize.py").write_text(blocked)
        return {"PYTHONPATH": os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))}

    return without


@pytest.fixture
def configuration(tmp_path: Path, kafka_servers: str) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        file = tmp_path / "bridge.properties"
        file.write_text(
            f"bridge.id=b-{uuid.uuid4().hex[:8]}\nkafka.bootstrap.servers={kafka_servers}\n{text}"
        )
        return file

    return write


@pytest.mark.parametrize("arguments", [("--help",), ("edge", "--help"), ("check", QUICKSTART)])
def test_help_and_check_need_no_extra(
    without: Without, tmp_path: Path, arguments: tuple[object, ...]
) -> None:
    done = isthmus(*arguments, folder=tmp_path, environ=without({*EXTRAS, *SPARK}))
    assert done.returncode == 0, done.stderr


def test_an_amqp_edge_needs_amqp_alone(
    without: Without, configuration: Callable[[str], Path], tmp_path: Path
) -> None:
    file = configuration("amqp.port=0\namqp.auto-create=true\nmessage.convert=default\n")
    environ = without({*SPARK, "nats", "nkeys", "ibmmq", "opentelemetry"})
    with Running(tmp_path, file, command="edge", environ=environ) as edge:
        edge.wait_until_ready()
        port = int(edge.printed().partition("amqp 127.0.0.1:")[2].split(",")[0])
        with Wire(port) as wire:
            link = wire.open().sender("orders")
            assert wire.outcome(link.send(b"1", message("x"))) == Accepted()
        assert edge.stop() == 0, edge.printed()


def test_a_nats_edge_needs_nats_alone(
    without: Without, configuration: Callable[[str], Path], tmp_path: Path
) -> None:
    environ = without({*SPARK, "scramp", "ibmmq"})
    with EmbeddedNats(tmp_path / "nats") as server:
        file = configuration(f"nats.servers={server.url}\nnats.intake.in.subject=orders\n")
        with Running(tmp_path, file, command="edge", environ=environ) as edge:
            edge.wait_until_ready()
            assert edge.stop() == 0, edge.printed()


def test_an_mq_edge_needs_mq_alone(
    without: Without, configuration: Callable[[str], Path], tmp_path: Path
) -> None:
    file = configuration("mq.client=memory\nmq.intake.in.queue=ORDERS\n")
    environ = without({*SPARK, "scramp", "nats", "nkeys", "ibmmq"})
    with Running(tmp_path, file, command="edge", environ=environ) as edge:
        edge.wait_until_ready()
        assert edge.stop() == 0, edge.printed()


def test_the_pipeline_needs_no_client_of_another_system(without: Without) -> None:
    environ = {**os.environ, **without({"scramp", "nats", "nkeys", "ibmmq", "opentelemetry"})}
    subprocess.run([sys.executable, "-c", "import isthmus.pipeline.run"], env=environ, check=True)


@pytest.mark.parametrize(
    ("command", "text", "library", "extra"),
    [
        ("edge", AMQP, "scramp", "amqp"),
        ("edge", "nats.servers=nats://127.0.0.1:1\nnats.intake.in.subject=a\n", "nats", "nats"),
        ("pipeline", "", "pyspark", "bridge"),
        ("edge", f"{AMQP}otel.endpoint=http://127.0.0.1:1\n", "opentelemetry", "otel"),
        ("edge", AMQP, "aiokafka", "bridge"),
        ("send", "", "confluent_kafka", "bridge"),
    ],
)
def test_a_library_that_is_missing_is_one_line_with_the_extra_that_has_it(
    without: Without,
    configuration: Callable[[str], Path],
    tmp_path: Path,
    command: str,
    text: str,
    library: str,
    extra: str,
) -> None:
    given = ["-a", "orders", "-b", "x"] if command == "send" else []
    done = isthmus(command, configuration(text), *given, folder=tmp_path, environ=without({library}))
    assert done.returncode == 3, done.stderr
    said = [line for line in done.stderr.splitlines() if "warning" not in line]
    assert said == [f"error: {library} is not installed", f"what to do: pip install 'isthmus[{extra}]'"]


def test_the_mq_client_that_is_missing_is_named_with_its_extra(
    without: Without, configuration: Callable[[str], Path], tmp_path: Path
) -> None:
    file = configuration("mq.client=ibm\nmq.intake.in.queue=ORDERS\n")
    done = isthmus("edge", file, folder=tmp_path, environ=without({"ibmmq"}))
    assert done.returncode == 3, done.stderr
    assert "there is no module ibmmq" in done.stderr
    assert "pip install 'isthmus[mq]'" in done.stderr
