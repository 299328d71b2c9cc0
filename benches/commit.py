"""How long a committed message takes to its topic: through the ledger, back into the journal, by the router.

``python -m benches.commit [--rate N] [--seconds N] [--warm-up N]``: a Kafka of its own, the pipeline with
both queries as users run it, a process that writes transactions into the journal at an even rate, each with
its commit right behind, and a consumer process that polls for single records. The time of sending travels in
the body, so that ``p50_ms`` and ``p99_ms`` are of the whole way. ``lost`` counts what did not arrive.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benches.harness import (
    embedded_kafka,
    ending_in_good_order,
    finish,
    machine,
    options_of,
    percentile,
    progress,
    say,
)
from benches.latency import QUIET_S, STAMP, TOPIC, EncodedEntry, consume
from isthmus.config.model.settings import (
    LEDGER,
    ROUTER,
    JournalSettings,
    KafkaSettings,
    MonitorSettings,
    PipelineSettings,
    Settings,
)
from isthmus.journal.layout import Entry, Op
from isthmus.journal.writer import JournalWriter
from isthmus.kafka.blocking import create_topics
from isthmus.kafka.options import Kafka
from isthmus.message import Body, BodyKind, Message
from isthmus.pipeline.run import Pipeline
from isthmus.routing.predicate import parse
from isthmus.routing.route import Route

MESSAGES = 5
"""In each transaction."""
SESSIONS = 50
PADDING = bytes(256 - STAMP.size)


def commit(kafka: Kafka, journal: JournalSettings, rate: int, seconds: float) -> None:
    """Write transactions at an even rate, over some sessions in turn."""
    with JournalWriter(kafka, journal) as writer:
        started = time.monotonic()
        for number in range(int(rate * seconds)):
            time.sleep(max(0.0, started + number / rate - time.monotonic()))
            name, session = f"t{number}", f"s{number % SESSIONS}"
            for place in range(MESSAGES):
                value = STAMP.pack(number * MESSAGES + place, time.time_ns()) + PADDING
                writer.write(Entry(Op.ADD_TX, _message(f"{name}/{place}", session, value), name, place))
            writer.write(Entry(Op.COMMIT, _message("", session, b""), name, MESSAGES))


def _message(id: str, session: str, value: bytes) -> Message:
    body = Body(BodyKind.BYTES if value else BodyKind.EMPTY)
    return Message(id=id, address="orders", protocol="amqp", value=value, body=body, session=session)


def measure(kafka: Kafka, folder: Path, rate: int, seconds: float) -> list[EncodedEntry]:
    """What arrived, in the order sent."""
    settings = Settings(
        bridge_id="commit",
        kafka=KafkaSettings(bootstrap_servers=kafka.servers),
        journal=JournalSettings(partitions=2),
        pipeline=PipelineSettings(queries=(ROUTER, LEDGER)),
        routes=(Route("r", parse("msg.address==orders"), TOPIC),),
        state_dir=str(folder / "state"),
        monitor=MonitorSettings(port=0),
    )
    count = int(rate * seconds) * MESSAGES
    context = multiprocessing.get_context("spawn")
    ready, done, results = context.Event(), context.Event(), context.Queue()
    with Pipeline(settings, kafka) as running:
        receiver = context.Process(
            target=consume, args=(kafka.servers, count, ready, done, results), daemon=True
        )
        sender = context.Process(target=commit, args=(kafka, settings.journal, rate, seconds), daemon=True)
        receiver.start()
        ready.wait(60)
        sender.start()
        with progress() as bar:
            task = bar.add_task("transactions", total=seconds)
            while sender.is_alive():
                running.poll()
                sender.join(0.5)
                bar.advance(task, 0.5)
        done.set()
        arrivals: dict[int, EncodedEntry] = results.get(timeout=QUIET_S + 60)
        receiver.join(10)
    return [arrivals[number] for number in sorted(arrivals)]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benches.commit", description="latency of a commit")
    parser.add_argument("--rate", type=int, default=200, help="transactions a second")
    parser.add_argument("--seconds", type=float, default=60, help="how long to measure")
    parser.add_argument("--warm-up", type=float, default=45, help="how long to send before that")
    options = options_of(parser, arguments, rate=20, seconds=2, warm_up=0)
    say(f"[bold]commit[/]: {options.rate} transactions of {MESSAGES} messages a second on {machine()}")
    total_s = options.warm_up + options.seconds
    with ending_in_good_order(), tempfile.TemporaryDirectory(prefix="isthmus-bench-") as name:
        folder = Path(name)
        with embedded_kafka(folder / "kafka") as kafka:
            create_topics(kafka, [TOPIC], 2)
            arrivals = measure(kafka, folder, options.rate, total_s)
    begin = arrivals[0].sent_s + options.warm_up
    ordered = sorted(each.latency_ms for each in arrivals if each.sent_s >= begin)
    finish(
        "commit",
        {
            "p50_ms": round(percentile(ordered, 0.5), 1),
            "p99_ms": round(percentile(ordered, 0.99), 1),
            "max_ms": round(ordered[-1], 1),
            "lost": int(options.rate * total_s) * MESSAGES - len(arrivals),
            "rate": options.rate,
        },
    )


if __name__ == "__main__":
    main()
