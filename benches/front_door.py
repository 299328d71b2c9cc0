"""JMS through the front door, beside Artemis: ``python -m benches.front_door [--rounds N] [--only KIND]``.

One warm Qpid JMS client talks to both in turn, on one connection (senders: ``--connections``), with
persistent text messages of 256 bytes and three properties:

- *async*: sends with a completion listener, from the first send to the last completion;
- *sync*: sends that each wait for their acknowledgement;
- *transacted*: sends in a transacted session, 100 to a commit;
- *receive*: a queue is read with AUTO_ACKNOWLEDGE, from the first message to the last. Artemis' queue is
  filled by JMS sends, the front door's by writing to the topic behind it what the router would.

A round takes some seconds each, and one goes before that does not count: with 20,000 messages in a round,
the three JVMs are not warm. What was sent to Artemis is taken from it, off the
clock, so that no queue of its grows.

Artemis has its default journal. The front door is the process that ``isthmus edge`` starts, on the embedded
Kafka; its acknowledgement includes Kafka's, on acks=all. A ratio is the front door's rate over that of
Artemis, the median of those of all rounds; the last line is JSON.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Producer

from benches.harness import (
    cpu_s,
    embedded_kafka,
    ending_in_good_order,
    finish,
    in_turn,
    machine,
    options_of,
    say,
)
from benches.jms import JmsLoad
from isthmus.codecs.amqp import AmqpMessage, AmqpValue, MessageHeader, MessageProperties
from isthmus.converters import converter
from isthmus.embedded.claim import answers
from isthmus.embedded.ports import HOST, free_port
from isthmus.kafka.blocking import create_topics
from isthmus.kafka.options import Kafka
from isthmus.testing.artemis import Artemis

COUNTS = {"async": 60_000, "sync": 2_000, "transacted": 40_000, "receive": 60_000}
BARS = {"async": 1.75, "sync": 4.0, "transacted": 2.5, "receive": 1.5}
ROUNDS = 5
PARTITIONS = 4
BODY = "x" * 256
START_S = 300.0

numbers = itertools.count()


@contextmanager
def front_door(folder: Path, kafka: Kafka, more: str = "") -> Iterator[tuple[str, int]]:
    """The edge as users run it: its URL and process id."""
    port = free_port()
    file = folder / "edge.properties"
    file.write_text(
        f"bridge.id=bench\nkafka.bootstrap.servers={kafka.servers}\nstate.dir={folder}/state\n"
        f"message.convert=jms\njournal.partitions={PARTITIONS}\nmonitor.port=0\n"
        f"amqp.port={port}\namqp.auto-create=true\n{more}"
    )
    with (folder / "edge.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "isthmus", "edge", str(file)], stdout=log, stderr=subprocess.STDOUT
        )
    try:
        deadline = time.monotonic() + START_S
        while not answers(f"{HOST}:{port}"):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the edge does not answer: {(folder / 'edge.log').read_text()[-2000:]}")
            time.sleep(0.05)
        yield f"amqp://{HOST}:{port}", process.pid
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def fill(kafka: Kafka, topic: str, count: int) -> None:
    """Write to a topic what the router would of the load's messages."""
    create_topics(kafka, [topic], PARTITIONS)
    producer = Producer({**kafka.python_options(), "linger.ms": 5})
    for number in range(count):
        message = AmqpMessage(
            header=MessageHeader(durable=True),
            properties=MessageProperties(
                message_id=f"ID:bench:{number}", to=topic, correlation_id=f"c-{number}"
            ),
            application_properties={"Region": "EU", "Amount": 42},
            body=AmqpValue(BODY),
        )
        record = converter("jms").to_kafka_record(message)
        producer.produce(topic, record.value, headers=list(record.headers), partition=number % PARTITIONS)
        producer.poll(0)
    producer.flush(30)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--only", choices=COUNTS, action="append", help="measure this alone; may be repeated")
    parser.add_argument("--connections", type=int, default=1, help="senders at a time")
    parser.add_argument("--share", type=float, default=1.0, help="which part of the messages a round has")
    options = options_of(parser, arguments, rounds=1, share=0.01)
    counts = {kind: int(count * options.share) for kind, count in COUNTS.items()}
    kinds = options.only or list(COUNTS)
    say(machine())
    with (
        ending_in_good_order(),
        tempfile.TemporaryDirectory() as name,
        embedded_kafka(Path(name) / "kafka") as kafka,
        Artemis(Path(name) / "artemis") as artemis,
        JmsLoad(Path(name) / "jms") as jms,
    ):
        with front_door(Path(name), kafka) as (url, pid):
            cpu: dict[str, list[float]] = {kind: [] for kind in kinds}

            def connections(kind: str) -> int:
                return 1 if kind == "receive" else options.connections

            def ours(kind: str) -> Callable[[], float]:
                def run() -> float:
                    queue = f"{kind}-{next(numbers)}"
                    if kind == "receive":
                        fill(kafka, queue, counts[kind])
                    before = cpu_s(pid)
                    rate = jms.run(kind, url, queue, counts[kind], connections(kind))
                    after = cpu_s(pid)
                    if before is not None and after is not None:
                        cpu[kind].append(1e6 * (after - before) / counts[kind])
                    return rate

                return run

            def theirs(kind: str) -> Callable[[], float]:
                def run() -> float:
                    queue = f"{kind}-{next(numbers)}"
                    if kind == "receive":
                        jms.run("async", artemis.url, queue, counts[kind])
                    rate = jms.run(kind, artemis.url, queue, counts[kind], connections(kind))
                    if kind != "receive":
                        jms.run("receive", artemis.url, queue, counts[kind])
                    return rate

                return run

            candidates = {
                f"{kind}, {name}": run(kind)
                for kind in kinds
                for name, run in (("Artemis", theirs), ("front door", ours))
            }
            rates = in_turn(candidates, rounds=options.rounds, warm_up=not options.small)
        version = artemis.version
    results: dict[str, object] = {"artemis": version, "connections": options.connections, "bars": BARS}
    for kind in kinds:
        theirs_per_s, ours_per_s = rates[f"{kind}, Artemis"], rates[f"{kind}, front door"]
        ratios = [mine / other for mine, other in zip(ours_per_s, theirs_per_s, strict=True)]
        ratio = statistics.median(ratios)
        spent = f", {statistics.median(cpu[kind][1:]):.0f} µs CPU a message" if cpu[kind][1:] else ""
        say(
            f"{kind:<11}{statistics.median(ours_per_s):>8,.0f} msg/s{spent}; "
            f"Artemis {statistics.median(theirs_per_s):>8,.0f} msg/s; ratio {ratio:.2f} "
            f"({min(ratios):.2f} to {max(ratios):.2f}), bar {BARS[kind]:g}"
        )
        results[f"{kind}_ratio"] = round(ratio, 2)
        results[f"{kind}_per_s"] = round(statistics.median(ours_per_s))
        results[f"{kind}_artemis_per_s"] = round(statistics.median(theirs_per_s))
    finish("front_door", results)


if __name__ == "__main__":
    main()
