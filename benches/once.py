"""Whether every message is published once, whatever is killed, and how soon routing is in real time again.

``python -m benches.once [--kills N] [--rate N] [--pause A B] [--batch S] [--seed N]``: a Kafka of its own,
``isthmus pipeline`` as users run it, and messages at an even rate for three routes; of a hundred messages one
has no key, and becomes a dead letter. At random moments one of three is killed with SIGKILL: Spark's driver,
the bridge's process, or Kafka. What was killed is started again at once.

The journal says what there should be: ``lost`` are its messages that are in no destination, ``duplicates``
are further copies of one in the same topic, and ``inversions`` are records of a partition of a destination
that stand behind a later one of the same partition of the journal. ``recovery_p50_s`` is the time from the
start of the bridge's process until a message that was sent after it is published within a second;
``kafka_recovery_p50_s`` is the same from the start of Kafka. The last line is JSON.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, TopicPartition

from benches.harness import ending_in_good_order, finish, machine, middle, options_of, progress, say
from isthmus import message
from isthmus.config.model.settings import JournalSettings
from isthmus.embedded.kafka import EmbeddedKafka
from isthmus.journal import layout
from isthmus.journal.layout import Entry, Op
from isthmus.journal.writer import JournalWriter
from isthmus.kafka.blocking import QUIET, create_topics, read_topic
from isthmus.kafka.options import Kafka

JOURNAL = JournalSettings(topic="isthmus.once.journal")
ROUTES = 3
SESSIONS = 30

DESTINATIONS = [*(f"once-{number}" for number in range(ROUTES)), "once-dead"]
KINDS = ("driver", "bridge", "kafka")
REAL_TIME_MS = 1_000
"""A message that is published within so long was routed in real time."""
PATIENCE_S = 300.0

CONFIG = """
bridge.id=once
kafka.bootstrap.servers={servers}
state.dir={folder}/state
journal.partitions=3
monitor.port=0
amqp.enabled=false
pipeline.real-time.batch={batch:g}s
routing.on-error=dead-letter
routing.dead-letter.topic=once-dead
"""
ROUTE = """
routes.r{number}.predicate=msg.address==a{number}
routes.r{number}.dest.topic=once-{topic}
routes.r{number}.conv.key=msg.header.key
"""


class Load(threading.Thread):
    """Writes messages into the journal at an even rate, with the time of sending in the body."""

    def __init__(self, kafka: Kafka, rate: int, journal: JournalSettings = JOURNAL) -> None:
        super().__init__(daemon=True)
        self._writer = JournalWriter(kafka, journal)
        self._rate = rate
        self._over = threading.Event()
        self.sent = 0

    def run(self) -> None:
        """Until `finish`."""
        began = time.monotonic()
        while not self._over.wait(0.01):
            while self.sent < (time.monotonic() - began) * self._rate:
                self._writer.write(Entry(Op.ADD, numbered_message(self.sent)))
                self.sent += 1

    def finish(self) -> None:
        """Return when all is in the journal."""
        self._over.set()
        self.join()
        self._writer.close()


def numbered_message(number: int) -> message.Message:
    key = {"key": message.Header.of(number)} if number % 100 else {}
    return message.Message(
        id=f"ID:{number}",
        address=f"a{number % ROUTES}",
        protocol="amqp",
        value=str(round(time.time() * 1000)).encode().ljust(256),
        body=message.Body(message.BodyKind.TEXT),
        headers={"MessageId": message.Header(f"ID:{number}"), **key},
        session=f"s{number % SESSIONS}",
    )


class Watch(threading.Thread):
    """Reads the destinations, and notes when a message was last published in real time."""

    def __init__(self, kafka: Kafka) -> None:
        super().__init__(daemon=True)
        self.found: set[str] = set()
        """The ids of what is published: no more, since the bench shares its machine with what it measures."""
        self.last_sent_ms = 0
        """When the latest message was sent that was published in real time."""
        self.last_published_ms = 0
        options = {"group.id": "once", "enable.auto.commit": False, "fetch.wait.max.ms": 50}
        self._consumer = Consumer({**kafka.python_options(), **options}, logger=QUIET)
        topics = self._consumer.list_topics(timeout=30).topics
        self._consumer.assign(
            [
                TopicPartition(name, partition, OFFSET_BEGINNING)
                for name in DESTINATIONS
                for partition in topics[name].partitions
            ]
        )

    def run(self) -> None:
        """For as long as the process lives."""
        while True:
            for record in self._consumer.consume(1_000, timeout=0.1):
                if record.error() is not None:
                    continue
                self.found.add(identity_of(record))
                sent_ms, published_ms = int(record.value() or b"0"), record.timestamp()[1]
                if published_ms - sent_ms < REAL_TIME_MS:
                    self.last_sent_ms, self.last_published_ms = sent_ms, published_ms

    def real_time_since(self, began_ms: int, bridge: PipelineProcess) -> float:
        """Return when a message sent after now is published in real time; says how long it took, in s."""
        deadline, due_ms = time.monotonic() + PATIENCE_S, round(time.time() * 1000)
        while self.last_sent_ms < due_ms:
            if not bridge.alive or not self.is_alive() or time.monotonic() > deadline:
                raise SystemExit(
                    f"not in real time within {PATIENCE_S:g} s: the bridge runs: {bridge.alive}, what it "
                    f"publishes is read: {self.is_alive()}, {len(self.found)} records so far, the last "
                    f"in real time was sent at {self.last_sent_ms}, {due_ms} is due; it says\n{bridge.said}"
                )
            time.sleep(0.02)
        return (self.last_published_ms - began_ms) / 1000


class PipelineProcess:
    """``isthmus pipeline`` with a configuration in a folder, where it leaves what it prints."""

    def __init__(self, folder: Path, servers: str, batch_s: float) -> None:
        self._folder = folder
        self.file = folder / "bridge.properties"
        self._text = CONFIG.format(servers=servers, folder=folder, batch=batch_s)
        self.route_to(0)
        self._process: subprocess.Popen[bytes] | None = None

    def route_to(self, turn: int) -> None:
        """Give each route the topic that is so many further on."""
        routes = (ROUTE.format(number=number, topic=(number + turn) % ROUTES) for number in range(ROUTES))
        self.file.write_text(self._text + "".join(routes))

    def start(self) -> int:
        """Start it; says when that was, in ms."""
        began_ms = round(time.time() * 1000)
        with (self._folder / "bridge.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "isthmus", "pipeline", str(self.file)], stdout=log, stderr=log
            )
        return began_ms

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._process is not None and self._process.poll() is None

    def stop(self) -> None:
        """End it in good order."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()

    @property
    def said(self) -> str:
        """What it printed last, and Spark's log."""
        logs = (self._folder / "bridge.log", self._folder / "state" / "logs" / "spark.log")
        return "\n".join(log.read_text()[-3_000:] for log in logs if log.exists())


class Bridge(PipelineProcess):
    """A pipeline, and its Kafka: parts of them can be killed."""

    def __init__(self, folder: Path, broker: EmbeddedKafka, batch_s: float) -> None:
        super().__init__(folder, broker.bootstrap_servers, batch_s)
        self._broker = broker

    def kill(self, kind: str) -> int:
        """Kill a part of it, and start that again; says when that was, in ms."""
        assert self._process is not None
        if kind == "kafka":
            kill_kafka(self._broker)
            began_ms = round(time.time() * 1000)
            self._broker.start()
            return began_ms
        driver = _java_below(self._process.pid)
        os.kill(driver if kind == "driver" else self._process.pid, signal.SIGKILL)
        self._process.wait()
        began_ms = self.start()
        while Path(f"/proc/{driver}").exists():  # until then it may publish what is sent now
            time.sleep(0.01)
        return began_ms


def kill_kafka(broker: EmbeddedKafka) -> None:
    """Return when the broker is gone."""
    assert broker._server is not None
    os.kill(_java_below(broker._server.pid), signal.SIGKILL)
    while broker.alive:
        time.sleep(0.01)


def _java_below(pid: int) -> int:
    """The Java process that a process has started. Linux only."""
    children = [
        int(child)
        for file in Path(f"/proc/{pid}/task").glob("*/children")
        for child in file.read_text().split()
    ]
    [java] = [child for child in children if Path(f"/proc/{child}/comm").read_text().strip() == "java"]
    return java


def identity_of(record: Message) -> str:
    """The position in the journal of the message that was published."""
    return (dict(record.headers() or [])[layout.STABLE_ID] or b"").decode()  # type: ignore[union-attr]


def judge(journaled: Iterable[str], published: Iterable[Message]) -> dict[str, int]:
    """How many of these ids are lost, published more than once, and out of order."""
    copies: Counter[tuple[str | None, str]] = Counter()
    latest: dict[tuple[str | None, int | None, str], int] = defaultdict(lambda: -1)
    inversions = 0
    for record in published:
        identity = identity_of(record)
        copies[record.topic(), identity] += 1
        source, _, offset = identity.rpartition(":")
        way = (record.topic(), record.partition(), source)
        inversions += int(offset) < latest[way]
        latest[way] = max(latest[way], int(offset))
    return {
        "lost": len(set(journaled) - {identity for _, identity in copies}),
        "duplicates": sum(copies.values()) - len(copies),
        "inversions": inversions,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--rate", type=int, default=1_000, help="messages a second")
    parser.add_argument("--pause", type=float, nargs=2, default=(60.0, 120.0), help="s between two kills")
    parser.add_argument("--batch", type=float, default=120.0, help="s from checkpoint to checkpoint")
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    options = options_of(parser, arguments, kills=1, rate=200, pause=(1.0, 2.0), batch=5.0, seed=0)
    chance = random.Random(options.seed)
    kinds = [KINDS[number % len(KINDS)] for number in range(options.kills)]
    chance.shuffle(kinds)
    say(f"{machine()}; seed {options.seed}")
    recovery: dict[str, list[float]] = {kind: [] for kind in KINDS}
    with ExitStack() as ends:
        ends.enter_context(ending_in_good_order())
        folder = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="isthmus-once-")))
        broker = ends.enter_context(EmbeddedKafka(folder / "kafka"))
        kafka = Kafka(broker.bootstrap_servers)
        create_topics(kafka, [JOURNAL.topic, *DESTINATIONS], 4)
        bridge = Bridge(folder, broker, options.batch)
        ends.callback(bridge.stop)
        load, watch = Load(kafka, options.rate), Watch(kafka)
        load.start()
        watch.start()
        watch.real_time_since(bridge.start(), bridge)
        bar = ends.enter_context(progress())
        task = bar.add_task("", total=len(kinds))
        for kind in kinds:
            bar.update(task, description=f"{kind} is next")
            time.sleep(chance.uniform(*options.pause))
            recovery[kind].append(watch.real_time_since(bridge.kill(kind), bridge))
            say(f"{kind} killed: in real time again after {recovery[kind][-1]:.1f} s")
            bar.advance(task)
        load.finish()
        journaled = {
            layout.stable_id(record.topic() or "", record.partition() or 0, record.offset() or 0)
            for record in read_topic(kafka, JOURNAL.topic)
        }
        deadline = time.monotonic() + PATIENCE_S
        while not journaled <= watch.found and time.monotonic() < deadline:
            time.sleep(1)
        bridge.stop()
        figures = judge(journaled, [record for name in DESTINATIONS for record in read_topic(kafka, name)])
        if any(figures.values()):
            say(bridge.said)
    restarts = [*recovery["driver"], *recovery["bridge"]]
    times = {"recovery": restarts, "kafka_recovery": recovery["kafka"]}
    finish(
        "once",
        {
            "seed": options.seed,
            "rate_per_s": options.rate,
            "kills": options.kills,
            "sent": load.sent,
            "journaled": len(journaled),
            **figures,
            **{f"{name}_p50_s": round(middle(each), 1) for name, each in times.items() if each},
            **{f"{name}_max_s": round(max(each), 1) for name, each in times.items() if each},
        },
    )


if __name__ == "__main__":
    main()
