"""What tests of several folders share: a Spark session, a real Kafka, a JMS client."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

settings.register_profile(
    "isthmus", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("isthmus")

# Most of them live for seconds: compiling well takes Java longer than running what was compiled quickly.
for options in ("SPARK_SUBMIT_OPTS", "KAFKA_OPTS", "JAVA_ARGS"):  # the last is for Artemis and JMS clients
    os.environ.setdefault(options, "-XX:TieredStopAtLevel=1")

SLOWEST_FIRST = (
    "pipeline/",
    "property/test_routing_agrees.py",
    "benches/",
    "faults/",
    "cli/",
    "property/",
    "edges/",
    "conformance/",
    "kafka/",
    "monitor/",
    "testing/",
    "docs/",
    "interop/",
    "embedded/",
    "fuzz/",
    "unit/",
)
"""How the files begin, those first that take a worker longest."""

SPARK = {
    "Spark for the ledger": re.compile(r"tests/pipeline/test_(closed|hostile|ledger)"),
    "Spark for the router": re.compile(r"tests/(pipeline/|property/test_routing_agrees)"),
}
"""The files whose tests use the Spark session: as many as one worker can do in the time of the others."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes minutes, so that no worker is left with it alone at the end."""
    here = Path(__file__).parent

    def rank(item: pytest.Item) -> int:
        path = item.path.relative_to(here).as_posix()
        return next(place for place, begin in enumerate(SLOWEST_FIRST) if path.startswith(begin))

    items.sort(key=rank)


class BySharedServers(LoadFileScheduling):
    """Keeps what shares a Spark session on one worker, as it does what is in one file."""

    def _split_scope(self, nodeid: str) -> str:
        shared = (name for name, files in SPARK.items() if files.match(nodeid))
        return next(shared, super()._split_scope(nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling | None:
    return BySharedServers(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str | bytes], Path]:
    """Writes a configuration file."""

    def write_file(content: str | bytes) -> Path:
        path = tmp_path / "bridge.properties"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write_file


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """One Spark session for all tests that evaluate columns or run a query in this process."""
    from isthmus.config.model.settings import PipelineSettings
    from isthmus.pipeline.session import start_session

    logs: Path = tmp_path_factory.mktemp("folder of Spark")
    session = start_session("tests", PipelineSettings(master="local[2]"), tasks=8, log_dir=logs)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def kafka_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One real Kafka for all tests that only need topics of their own in it."""
    from isthmus.embedded.kafka import EmbeddedKafka

    with EmbeddedKafka(tmp_path_factory.mktemp("kafka")) as kafka:
        yield kafka.bootstrap_servers


@pytest.fixture(scope="session")
def qpid(tmp_path_factory: pytest.TempPathFactory) -> object:
    """Programs that use Qpid JMS, compiled."""
    from tests.support.jms.qpid import QpidJms

    return QpidJms(tmp_path_factory.mktemp("qpid"))
