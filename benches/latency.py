"""How long a message takes from its sender to a consumer of its topic, through the whole pipeline.

``python -m benches.latency [--rate N] [--seconds N] [--warm-up N]``: a Kafka of its own, the pipeline as
users run it, a producer process that writes journal records at an even rate, and a consumer process that
polls for single records. The time of sending travels in the body; all processes share one clock.

Three measurements, one after the other:

- *real-time*, with the default batch duration: ``p50_ms``, ``p99_ms``, ``max_ms``;
- *boundaries*: real-time with short batches, for the stall between two batches: ``boundary_median_ms``,
  ``boundary_max_ms``;
- *micro-batch*: ``microbatch_p50_ms``, ``microbatch_p99_ms``.

``lost`` counts messages that did not arrive, over all three.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import struct
import tempfile
import time
from collections.abc import Sequence
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, Producer
from rich.table import Table

from benches.harness import (
    console,
    embedded_kafka,
    ending_in_good_order,
    finish,
    machine,
    middle,
    options_of,
    percentile,
    progress,
    say,
)
from isthmus.config.model.settings import (
    JournalSettings,
    KafkaSettings,
    MonitorSettings,
    PipelineSettings,
    Settings,
)
from isthmus.journal import layout
from isthmus.journal.layout import Entry, Op
from isthmus.kafka.blocking import create_topics
from isthmus.kafka.options import Kafka
from isthmus.message import Body, BodyKind, Header, Message
from isthmus.pipeline.run import Pipeline
from isthmus.routing.predicate import parse
from isthmus.routing.route import Route

TOPIC = "latency-out"
PARTITIONS = 2
SHORT_BATCH_S = 15.0
QUIET_S = 120.0
"""What has not arrived after so long a pause is lost."""
STAMP = struct.Struct(">qq")  # number, and when it was sent, in ns


class EncodedEntry(NamedTuple):
    """One message: when it was sent, in seconds of the clock, and how long it took."""

    sent_s: float
    latency_ms: float


def produce(servers: str, topic: str, rate: int, seconds: float) -> None:
    """Write journal records at an even rate, as an edge does: what comes while one batch is on its way is the
    next."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 0, "acks": "all", "max.in.flight": 1})
    message = Message(
        id="ID:latency",
        address="latency",
        protocol="amqp",
        value=b"",
        body=Body(BodyKind.BYTES),
        headers={
            "MessageId": Header("ID:latency"),
            "CorrelationId": Header("c-1"),
            "region": Header("EU"),
            "amount": Header.of(42),
        },
        session="bench",
    )
    record = layout.encode(Entry(Op.ADD, message))
    padding = bytes(256 - STAMP.size)
    started = time.monotonic()
    for number in range(int(rate * seconds)):
        while (ahead_s := started + number / rate - time.monotonic()) > 0:
            producer.poll(min(ahead_s, 0.001))
        value = STAMP.pack(number, time.time_ns()) + padding
        producer.produce(
            topic, key=record.key, value=value, headers=list(record.headers), partition=number % PARTITIONS
        )
    producer.flush()


def consume(
    servers: str,
    count: int,
    ready: Event,
    done: Event,
    results: multiprocessing.Queue[dict[int, EncodedEntry]],
) -> None:
    """Take records one by one until there are so many, or the producer is done and nothing more comes."""
    gc.disable()  # it would look through all arrivals, and take 200 ms for a few hundred thousand
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": f"bench-{time.time_ns()}", "auto.offset.reset": "latest"}
    )
    consumer.subscribe([TOPIC])
    arrivals: dict[int, EncodedEntry] = {}
    while not consumer.assignment():
        consumer.poll(0.1)
    ready.set()
    quiet_since = time.monotonic()
    while len(arrivals) < count and not (done.is_set() and time.monotonic() - quiet_since > QUIET_S):
        record = consumer.poll(0.2)
        if record is None or record.error():
            continue
        now_ns = time.time_ns()
        quiet_since = time.monotonic()
        number, sent_ns = STAMP.unpack_from(record.value() or b"")
        arrivals.setdefault(number, EncodedEntry(sent_ns / 1e9, (now_ns - sent_ns) / 1e6))
    consumer.close()
    results.put(arrivals)


def measure(
    kafka: Kafka, folder: Path, pipeline: PipelineSettings, rate: int, seconds: float, what: str
) -> tuple[list[EncodedEntry], int]:
    """The arrivals of one run in the order sent, and how many did not come."""
    name = what.replace(" ", "-")
    settings = Settings(
        bridge_id=f"latency-{name}",
        kafka=KafkaSettings(bootstrap_servers=kafka.servers),
        journal=JournalSettings(partitions=PARTITIONS),
        pipeline=pipeline,
        routes=(Route("r", parse("msg.address==latency && msg.header.region==EU"), TOPIC, "CorrelationId"),),
        state_dir=str(folder / name),
        monitor=MonitorSettings(port=0),
    )
    context = multiprocessing.get_context("spawn")
    ready, done, results = context.Event(), context.Event(), context.Queue()
    with Pipeline(settings, kafka) as running:
        receiver = context.Process(
            target=consume, args=(kafka.servers, int(rate * seconds), ready, done, results), daemon=True
        )
        sender = context.Process(
            target=produce, args=(kafka.servers, settings.journal.topic, rate, seconds), daemon=True
        )
        receiver.start()
        ready.wait(60)
        sender.start()
        with progress() as bar:
            task = bar.add_task(what, total=seconds)
            while sender.is_alive():
                running.poll()
                sender.join(0.5)
                bar.advance(task, 0.5)
        done.set()
        arrivals: dict[int, EncodedEntry] = results.get(timeout=QUIET_S + 60)
        receiver.join(10)
    return [arrivals[number] for number in sorted(arrivals)], int(rate * seconds) - len(arrivals)


def stalls(arrivals: list[EncodedEntry], batch_s: float) -> list[float]:
    """The longest latency of each stretch of one batch's length: each holds one boundary."""
    begin = arrivals[0].sent_s
    longest: dict[int, float] = {}
    for arrival in arrivals:
        stretch = int((arrival.sent_s - begin) / batch_s)
        longest[stretch] = max(longest.get(stretch, 0.0), arrival.latency_ms)
    return list(longest.values())


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benches.latency", description="latency of the pipeline")
    parser.add_argument("--rate", type=int, default=1000, help="messages a second")
    parser.add_argument("--seconds", type=float, default=60, help="how long to measure")
    parser.add_argument("--warm-up", type=float, default=30, help="how long to send before that")
    parser.add_argument(
        "--batch", type=float, default=PipelineSettings().batch_duration_s, help="seconds a batch"
    )
    parser.add_argument(
        "--short-batch",
        type=float,
        default=SHORT_BATCH_S,
        help="the same for boundaries",
    )
    parser.add_argument("--boundaries", type=float, default=4, help="how many of those batches")
    options = options_of(
        parser, arguments, rate=100, seconds=1, warm_up=0, batch=5, short_batch=5, boundaries=0.2
    )
    say(f"[bold]latency[/]: {options.rate} messages a second on {machine()}")

    def after_warm_up(arrivals: list[EncodedEntry]) -> list[float]:
        begin = arrivals[0].sent_s + options.warm_up
        return sorted(each.latency_ms for each in arrivals if each.sent_s >= begin)

    with ending_in_good_order(), tempfile.TemporaryDirectory(prefix="isthmus-bench-") as name:
        folder = Path(name)
        with embedded_kafka(folder / "kafka") as kafka:
            create_topics(kafka, [TOPIC], PARTITIONS)
            long = options.warm_up + options.seconds
            real_time, lost_real_time = measure(
                kafka,
                folder,
                PipelineSettings(batch_duration_s=options.batch),
                options.rate,
                long,
                "real-time",
            )
            short, lost_short = measure(
                kafka,
                folder,
                PipelineSettings(batch_duration_s=options.short_batch),
                options.rate,
                options.warm_up + options.boundaries * options.short_batch,
                "boundaries",
            )
            micro_batch, lost_micro_batch = measure(
                kafka, folder, PipelineSettings(mode="micro-batch"), options.rate, long / 2, "micro-batch"
            )
    ordered = after_warm_up(real_time)
    warm = short[0].sent_s + options.warm_up
    boundaries = stalls([each for each in short if each.sent_s >= warm], options.short_batch)
    begin = micro_batch[0].sent_s + options.warm_up / 2
    in_batches = sorted(each.latency_ms for each in micro_batch if each.sent_s >= begin)
    results = {
        "p50_ms": percentile(ordered, 0.5),
        "p99_ms": percentile(ordered, 0.99),
        "max_ms": ordered[-1],
        "boundary_median_ms": middle(boundaries),
        "boundary_max_ms": max(boundaries),
        "microbatch_p50_ms": percentile(in_batches, 0.5),
        "microbatch_p99_ms": percentile(in_batches, 0.99),
    }
    table = Table(box=None)
    table.add_column("figure")
    table.add_column("ms", justify="right")
    for figure, value in results.items():
        table.add_row(figure.removesuffix("_ms"), f"{value:.1f}")
    console.print(table)
    lost = lost_real_time + lost_short + lost_micro_batch
    finish(
        "latency",
        {name: round(value, 2) for name, value in results.items()}
        | {"lost": lost, "rate": options.rate, "batch_s": options.batch},
    )


if __name__ == "__main__":
    main()
