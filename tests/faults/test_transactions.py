"""JMS transactions, end to end, while client, edge and Spark's driver are killed: all or nothing of each.

A client that heard of its commit has all of the transaction in Kafka; one that rolled back, or was killed
before it asked for the commit, has nothing of it. Whose answer was lost may have either, but never a part.
Most are one batch of the journal; some are larger, and go through the ledger.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Thread

from tests.support.commands import Running
from tests.support.jms.qpid import QpidJms
from tests.support.kafka.topics import Topic, followed
from tests.support.polling import PATIENCE_S, eventually

from isthmus.embedded.ports import free_port
from isthmus.kafka.blocking import create_topics
from isthmus.kafka.options import Kafka

CONFIG = """
bridge.id=acid
kafka.bootstrap.servers={servers}
state.dir={folder}/state
journal.partitions=2
monitor.port=0
amqp.host=127.0.0.1
amqp.port={port}
pipeline.real-time.batch=5s
routes.r.predicate=msg.address==orders
routes.r.dest.topic=acid-out
"""
SIZE = 10
SEED = 20_260_216
KILLS = ["client"] * 10 + ["edge"] * 8 + ["driver"] * 2


class Clients:
    """Qpid JMS, one client after the other, and what each of them heard."""

    def __init__(self, jms: QpidJms, port: int) -> None:
        self._jms = jms
        self._url = f"amqp://127.0.0.1:{port}?jms.username=u&jms.connectTimeout=60000"
        self.begun: set[int] = set()
        self.heard: dict[int, str] = {}
        self._process: subprocess.Popen[str] | None = None
        self._reader: Thread | None = None

    def start(self) -> None:
        first = str(max(self.begun, default=-1) + 1)
        self._process = self._jms.start(self._url, "send", "orders", SIZE, first, program="Transacts")
        self._reader = Thread(target=self._read, args=[self._process], daemon=True)
        self._reader.start()

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            word, _, rest = line.strip().partition(" ")
            if word == "begun":
                self.begun.add(int(rest))
            elif word != "ended":
                self.heard[int(rest)] = word

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        if self._process is not None and self._reader is not None:
            self._process.kill()
            self._process.wait()
            self._reader.join(10)
            if self._process.stdout is not None:
                self._process.stdout.close()

    def have_heard(self, count: int) -> bool:
        """Whether it is so much by now. A client that has lost its connection is followed by another."""
        if not self.alive:
            self.kill()
            self.start()
        return len(self.heard) >= count

    def committed(self) -> set[int]:
        return {number for number, word in self.heard.items() if word == "committed"}


@contextmanager
def edge(config: Path) -> Iterator[Running]:
    with Running(config.parent, config, command="edge") as running:
        running.wait_until_ready()
        yield running


def _kill(running: Running) -> None:
    """The driver's JVM if it is there yet, or else the process that is about to start it."""
    os.kill(running.jvm() or running.process.pid, signal.SIGKILL)
    running.process.wait(PATIENCE_S)


def _arrived(published: Topic) -> dict[int, dict[int, set[bytes]]]:
    """By transaction and sequence number in it: the ids under which a message was published."""
    found: dict[int, dict[int, set[bytes]]] = defaultdict(lambda: defaultdict(set))
    for record in published.records():
        number, sequence = bytes(record.value() or b"").decode().split("/")[:2]
        found[int(number)][int(sequence)].add(bytes(dict(record.headers() or [])["isthmus.id"] or b""))
    return found


def test_transactions_are_whole_or_not_at_all_whatever_is_killed(
    kafka_servers: str, tmp_path: Path, qpid: QpidJms
) -> None:
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    kills = chance.sample(KILLS, len(KILLS))
    kafka, port = Kafka(kafka_servers), free_port()
    create_topics(kafka, ["acid-out"], 2)
    config = tmp_path / "acid.properties"
    config.write_text(CONFIG.format(servers=kafka_servers, folder=tmp_path, port=port))

    def new_pipeline() -> Running:
        return drivers.enter_context(Running(tmp_path, config, command="pipeline"))

    clients = Clients(qpid, port)
    with ExitStack() as ends:
        drivers = ends.enter_context(ExitStack())
        edges = ends.enter_context(ExitStack())
        ends.callback(clients.kill)
        pipeline = new_pipeline()
        server = edges.enter_context(edge(config))
        for kill in kills:
            enough = len(clients.heard) + 3
            eventually(lambda enough=enough: clients.have_heard(enough))  # type: ignore[misc]
            time.sleep(chance.uniform(0, 0.3))  # where in a transaction it hits is left to chance
            if kill == "client":
                clients.kill()
            elif kill == "edge":
                server.kill()
                edges.close()
                server = edges.enter_context(edge(config))
            else:
                _kill(pipeline)
                drivers.close()
                pipeline = new_pipeline()
        clients.kill()
        wanted = clients.committed()
        published = ends.enter_context(followed(kafka, "acid-out"))
        arrived = _arrived(published)

        def all_are_whole() -> bool:
            nonlocal arrived
            arrived = _arrived(published)
            return wanted <= set(arrived) and all(len(sends) == SIZE for sends in arrived.values())

        eventually(
            all_are_whole,
            timeout_s=180,
            what=lambda: pipeline.printed() + server.printed(),
        )
    assert len(wanted) > 40
    assert {number for number, word in clients.heard.items() if word == "rolled-back"} & set(arrived) == set()
    assert set(arrived) <= clients.begun
    ids = [ids for sends in arrived.values() for ids in sends.values()]
    assert all(len(each) == 1 for each in ids), "a message was published under more than one isthmus.id"
