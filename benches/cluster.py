"""Whether a Spark cluster does what one machine does, as fast, and whatever is killed.

``python -m benches.cluster [--records N] [--rate N] [--seconds N]``: a Kafka of three brokers, a standalone
Spark cluster of two workers, and ``isthmus pipeline`` as users run it, all on this machine. First a backlog
is routed in real-time mode, on ``local[…]`` and on the cluster, with as many task slots: ``local_per_s`` and
``cluster_per_s`` are records published by the time between the first and the last, and ``ratio`` is the
latter by the former. Then messages come at an even rate, while a worker is killed and started again, and then
a broker: ``lost`` and ``duplicates`` are as in ``benches.once``. The last line is JSON.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benches import once
from benches.harness import ending_in_good_order, finish, machine, options_of, say
from isthmus.config.model.settings import JournalSettings
from isthmus.embedded.kafka import EmbeddedKafka
from isthmus.errors import Outage
from isthmus.journal import layout
from isthmus.journal.layout import Entry, Op
from isthmus.journal.writer import JournalWriter
from isthmus.kafka.blocking import create_topics, end_offsets, read_topic
from isthmus.kafka.options import Kafka
from isthmus.testing.spark_cluster import SparkCluster

SESSION_PARTITIONS = 3
SLOTS = 4
"""Of a worker: as many as the router needs, so that it goes on with one of two."""
PATIENCE_S = 600.0

CONFIG = """
bridge.id={bridge}
kafka.bootstrap.servers={servers}
kafka.delivery.timeout.ms=20000
kafka.request.timeout.ms=10000
state.dir={folder}/{bridge}
journal.partitions=3
monitor.port=0
pipeline.master={master}
pipeline.queries=router
pipeline.real-time.batch={batch:g}s
pipeline.spark.driver.host=127.0.0.1
pipeline.spark.executor.memory=1g
routing.on-error=dead-letter
routing.dead-letter.topic={bridge}-dead
"""
ROUTE = """
routes.r{number}.predicate=msg.address==a{number}
routes.r{number}.dest.topic={bridge}-{number}
routes.r{number}.conv.key=msg.header.key
"""
REPLICATED = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}


class Bridge:
    """A bridge with topics of its own, and its process."""

    def __init__(self, name: str, kafka: Kafka, folder: Path, master: str, batch_s: float) -> None:
        self.kafka = kafka
        self.journal = JournalSettings(topic=f"isthmus.{name}.journal")
        self.topics = [*(f"{name}-{number}" for number in range(once.ROUTES)), f"{name}-dead"]
        create_topics(kafka, [self.journal.topic, *self.topics], SESSION_PARTITIONS + 1)
        self._file, self._log = folder / f"{name}.properties", folder / f"{name}.log"
        text = CONFIG.format(bridge=name, servers=kafka.servers, folder=folder, master=master, batch=batch_s)
        routes = (ROUTE.format(number=number, bridge=name) for number in range(once.ROUTES))
        self._file.write_text(text + "".join(routes))

    @contextmanager
    def running(self, python: Path) -> Iterator[None]:
        """Runs for as long as the block; ``python`` is for the executors."""
        environment = {**os.environ, "PYSPARK_PYTHON": str(python), "SPARK_LOCAL_IP": "127.0.0.1"}
        with self._log.open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "isthmus", "pipeline", str(self._file)],
                stdout=log,
                stderr=log,
                env=environment,
            )
        self._process = process
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()

    def published(self) -> int:
        """How many records its destinations have got."""
        if self._process.poll() is not None:
            raise SystemExit(f"the bridge has ended:\n{self._log.read_text()}")
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                return sum(end_offsets(self.kafka, self.topics).values())
            except Outage:  # a partition has no leader yet
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.5)

    def wait_for(self, records: int) -> None:
        """Return when so many are published."""
        deadline = time.monotonic() + PATIENCE_S
        while self.published() < records:
            if time.monotonic() > deadline:
                raise SystemExit(f"{self.published()} of {records} records:\n{self._log.read_text()}")
            time.sleep(0.5)


def throughput(bridge: Bridge, python: Path, records: int) -> float:
    """How many records a second the bridge publishes out of a backlog."""
    with JournalWriter(bridge.kafka, bridge.journal) as writer:
        for number in range(records):
            writer.write(Entry(Op.ADD, once.numbered_message(number)))
    with bridge.running(python):
        bridge.wait_for(records)
    times = [each.timestamp()[1] for topic in bridge.topics for each in read_topic(bridge.kafka, topic)]
    return records / max(0.001, (max(times) - min(times)) / 1000)


def survive(
    bridge: Bridge,
    cluster: SparkCluster,
    broker: EmbeddedKafka,
    *,
    rate: int,
    seconds: float,
) -> dict[str, int]:
    """What is wrong after a worker and a broker were killed."""
    load = once.Load(bridge.kafka, rate, bridge.journal)
    with bridge.running(cluster.python):
        load.start()
        bridge.wait_for(1)
        time.sleep(seconds)
        cluster.kill(0)
        say("a worker is killed")
        time.sleep(seconds)
        cluster.start_worker(0)
        bridge.wait_for(bridge.published() + rate)
        once.kill_kafka(broker)
        say("a broker is killed")
        time.sleep(seconds)
        broker.start()
        bridge.wait_for(bridge.published() + rate)
        load.finish()
        journaled = {
            layout.stable_id(each.topic() or "", each.partition() or 0, each.offset() or 0)
            for each in read_topic(bridge.kafka, bridge.journal.topic)
        }
        bridge.wait_for(len(journaled))
    records = [each for topic in bridge.topics for each in read_topic(bridge.kafka, topic)]
    return {"sent": load.sent, "journaled": len(journaled), **once.judge(journaled, records)}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--records", type=int, default=2_000_000, help="of the backlog")
    parser.add_argument("--rate", type=int, default=1_000, help="messages a second")
    parser.add_argument("--seconds", type=float, default=30, help="before and after each kill")
    parser.add_argument("--batch", type=float, default=120, help="s from checkpoint to checkpoint")
    options = options_of(parser, arguments, records=2_000, rate=100, seconds=3, batch=5)
    say(f"[bold]cluster[/]: {machine()}")
    with ExitStack() as ends:
        ends.enter_context(ending_in_good_order())
        folder = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="isthmus-cluster-")))
        first = ends.enter_context(EmbeddedKafka(folder / "kafka-1", overrides=REPLICATED))
        further = [
            EmbeddedKafka(
                folder / f"kafka-{node}", overrides={**REPLICATED, "node.id": str(node)}, joins=first
            )
            for node in (2, 3)
        ]
        for broker in further:
            ends.enter_context(broker)
        kafka = Kafka(",".join(each.bootstrap_servers for each in (first, *further)))
        cluster = ends.enter_context(SparkCluster(folder / "spark", workers=2, cores=SLOTS))

        def bridge(name: str, master: str) -> Bridge:
            return Bridge(name, kafka, folder, master, options.batch)

        local = throughput(bridge("local", f"local[{2 * SLOTS}]"), cluster.python, options.records)
        say(f"local    {local:12,.0f} records/s")
        spread = throughput(bridge("cluster", cluster.url), cluster.python, options.records)
        say(f"cluster  {spread:12,.0f} records/s")
        found = survive(
            bridge("kills", cluster.url), cluster, further[-1], rate=options.rate, seconds=options.seconds
        )
    finish(
        "cluster",
        {
            "ratio": round(spread / local, 3),
            "cluster_per_s": round(spread),
            "local_per_s": round(local),
            **found,
        },
    )


if __name__ == "__main__":
    main()
