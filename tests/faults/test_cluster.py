"""The pipeline on a real Spark cluster: a standalone master, and workers that do not know this package."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread

import pytest
from tests.support.commands import Running, isthmus
from tests.support.kafka.topics import Topic, followed
from tests.support.pipeline.bridge import text_message
from tests.support.pipeline.ledger_bridge import transaction
from tests.support.polling import eventually

from isthmus.config.model.settings import JournalSettings
from isthmus.journal.layout import Entry, Op
from isthmus.journal.writer import JournalWriter
from isthmus.kafka.blocking import create_topics
from isthmus.kafka.options import Kafka
from isthmus.testing.spark_cluster import SparkCluster

PATIENCE_S = 400.0
"""A driver and two executors start, each a JVM with Python processes, on as many cores as there are."""
SLOTS_OF_A_WORKER = 4
"""As many as the bridge needs: three partitions of the journal, and the ledger."""

CONFIG = """
bridge.id={bridge}
kafka.bootstrap.servers={servers}
kafka.delivery.timeout.ms=10000
kafka.request.timeout.ms=5000
state.dir={folder}/{bridge}
journal.partitions=2
monitor.port=0
pipeline.master={master}
pipeline.queries=router,ledger
pipeline.real-time.batch=5s
pipeline.spark.driver.host=127.0.0.1
pipeline.spark.executor.memory=512m
pipeline.spark.executor.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC
routes.orders.predicate=msg.address==orders
routes.orders.dest.topic={bridge}-out
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with SparkCluster(tmp_path_factory.mktemp("spark"), workers=2, cores=SLOTS_OF_A_WORKER) as cluster:
        yield cluster


class Bridge:
    """A bridge with a master of its own; what is written to its journal, and what it publishes."""

    def __init__(self, name: str, servers: str, folder: Path, master: str, more: str = "") -> None:
        self.kafka, self._journal = Kafka(servers), f"isthmus.{name}.journal"
        self.topic = f"{name}-out"
        self.file = folder / f"{name}.properties"
        self.file.write_text(CONFIG.format(bridge=name, servers=servers, folder=folder, master=master) + more)
        create_topics(self.kafka, [self._journal], 3)
        create_topics(self.kafka, [self.topic], 2)

    def write(self, *entries: Entry) -> None:
        with JournalWriter(self.kafka, JournalSettings(topic=self._journal)) as writer:
            for entry in entries:
                writer.write(entry)


def published(topic: Topic) -> Counter[str]:
    return Counter((record.value() or b"").decode() for record in topic.records())


def wait_until(condition: Callable[[], bool], running: Running) -> None:
    eventually(
        lambda: condition() or running.process.poll() is not None, timeout_s=PATIENCE_S, what=running.printed
    )
    assert running.process.poll() is None, running.printed()


def some(numbers: range) -> list[Entry]:
    return [Entry(Op.ADD, text_message("orders", str(each), session=f"s{each % 5}")) for each in numbers]


def test_a_worker_is_killed_and_every_message_is_published_once(
    cluster: SparkCluster, kafka_servers: str, tmp_path: Path
) -> None:
    bridge = Bridge("cluster", kafka_servers, tmp_path, cluster.url)
    environ = {"PYSPARK_PYTHON": str(cluster.python), "SPARK_LOCAL_IP": "127.0.0.1"}
    sent, over = 0, Event()

    def send() -> None:
        nonlocal sent
        while not over.wait(0.05):
            bridge.write(*some(range(sent, sent + 20)))
            sent += 20

    sender = Thread(target=send, daemon=True)
    with (
        followed(bridge.kafka, bridge.topic) as topic,
        Running(tmp_path, bridge.file, command="pipeline", environ=environ) as running,
    ):
        bridge.write(*transaction("t", ["first", "second"]), *transaction("u", ["never"], Op.ROLLBACK))
        wait_until(lambda: published(topic) == Counter(["first", "second"]), running)
        sender.start()
        wait_until(lambda: len(published(topic)) > 200, running)
        cluster.kill(0)
        killed_at = sent
        wait_until(lambda: str(killed_at + 200) in published(topic), running)
        over.set()
        sender.join()
        wait_until(lambda: len(published(topic)) == sent + 2, running)
        assert running.stop() == 0, running.printed()
        assert published(topic) == Counter(["first", "second", *map(str, range(sent))]), running.printed()


def test_fewer_slots_than_partitions_are_refused_with_the_number_needed(
    cluster: SparkCluster, kafka_servers: str, tmp_path: Path
) -> None:
    bridge = Bridge("slots", kafka_servers, tmp_path, cluster.url, "pipeline.spark.cores.max=3\n")
    environ = {"PYSPARK_PYTHON": str(cluster.python), "SPARK_LOCAL_IP": "127.0.0.1"}
    done = isthmus("pipeline", bridge.file, folder=tmp_path, environ=environ)
    assert done.returncode == 3
    said = done.stdout + done.stderr
    # Executors that are not there in time do not count.
    assert re.search(r"has [0-3] task slots for this bridge, and real-time mode needs 4", said), said
    assert "at least 4 cores" in said
