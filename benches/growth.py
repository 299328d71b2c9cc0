"""What a record costs as a bridge grows: in routes, in partitions, and in distinct keys.

``python -m benches.growth [--records N] [--rounds N] [--routes N] [--partitions N] [--keys N] [--plot SVG]``:
journals in a Kafka of its own, routed by the plan that users get, each route ``msg.address==…``. What is
counted is the CPU time of Spark's JVM for a record: a run over the journal without what the same plan takes
for an empty one. ``routes_ratio`` is 1,000 routes by 10, ``partitions_ratio`` 64 partitions of the journal by
4, and ``keys_ratio`` 1,000,000 keys by 1,000; the plot also has a point between the two. Linux only. The last
line is JSON.
"""

from __future__ import annotations

import argparse
import itertools
import math
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from pyspark.sql import SparkSession

from benches.harness import (
    cpu_s,
    embedded_kafka,
    ending_in_good_order,
    finish,
    in_turn,
    machine,
    middle,
    options_of,
    say,
)
from benches.plot import svg
from benches.router import load
from isthmus.config.model.settings import JournalSettings, PipelineSettings, Settings
from isthmus.journal import layout
from isthmus.kafka.blocking import create_topics, end_offsets
from isthmus.kafka.options import Kafka
from isthmus.message import Body, BodyKind, Header, Message
from isthmus.pipeline.prepare import prepare
from isthmus.pipeline.publish import kafka_sink, read_topics
from isthmus.pipeline.router import route
from isthmus.pipeline.session import start_session
from isthmus.routing.predicate import parse
from isthmus.routing.route import Route


@dataclass(frozen=True, slots=True)
class Size:
    """How large a bridge is."""

    routes: int = 10
    partitions: int = 4
    keys: int = 1_000


FIRST = Size()
LARGE = Size(routes=1_000, partitions=64, keys=1_000_000)


class GrowthBench:
    """Journals of all sizes, and empty ones like them."""

    def __init__(
        self, spark: SparkSession, kafka: Kafka, folder: Path, sizes: Sequence[Size], records: int
    ) -> None:
        self._spark, self._kafka, self._folder, self._records = spark, kafka, folder, records
        self._runs = itertools.count()
        self._settings = {size: self._make(size, records) for size in sizes}
        self._empty = {size: self._make(size, 0) for size in sizes}

    def _make(self, size: Size, records: int) -> Settings:
        name = f"growth-{uuid.uuid4().hex[:8]}"
        create_topics(self._kafka, [f"{name}-out"], 4)
        settings = Settings(
            bridge_id=name,
            journal=JournalSettings(partitions=size.partitions),
            routes=tuple(
                Route(f"r{number}", parse(f"msg.address=='{_address(number)}'"), f"{name}-out", "key")
                for number in range(size.routes)
            ),
            state_dir=str(self._folder),
        )
        prepare(settings, self._kafka)
        if records:
            journal = settings.journal
            load(self._kafka, journal.topic, journal.partitions, _records(size), records)
        return settings

    def cost_us(self, size: Size) -> float:
        """The CPU time for a record, in µs."""
        return (self._cpu_s(self._settings[size]) - self._cpu_s(self._empty[size])) / self._records * 1e6

    def _cpu_s(self, settings: Settings) -> float:
        jvm = self._spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]
        plan, _ = prepare(settings, self._kafka)
        routed = route(read_topics(self._spark, self._kafka, (plan.journal_topic,)), plan)
        checkpoint = str(self._folder / "checkpoints" / str(next(self._runs)))
        writer = kafka_sink(routed, self._kafka, plan, checkpoint)
        before = cpu_s(jvm) or 0.0
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return (cpu_s(jvm) or 0.0) - before

    def lost(self, size: Size, runs: int) -> int:
        """How many records did not arrive in so many runs."""
        [topic] = {each.topic for each in self._settings[size].routes}
        return runs * self._records - sum(end_offsets(self._kafka, [topic]).values())


def _address(number: int) -> str:
    return f"queue/orders.{number}"


def _records(size: Size) -> Iterator[layout.Record]:
    for number in itertools.count():
        message = Message(
            id=f"ID:{number}",
            address=_address(number % size.routes),
            protocol="amqp",
            value=b"x" * 256,
            body=Body(BodyKind.TEXT),
            headers={"MessageId": Header(f"ID:{number}"), "key": Header(f"key-{number % size.keys}")},
            session=f"s{number % size.partitions}",
        )
        yield layout.encode(layout.Entry(layout.Op.ADD, message))


def _steps(first: int, last: int) -> tuple[int, int, int]:
    return first, round(math.sqrt(first * last)), last


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--records", type=int, default=500_000, help="of each journal")
    parser.add_argument("--rounds", type=int, default=3, help="how many runs of each, after the warm-up")
    for grows, by_default in asdict(LARGE).items():
        parser.add_argument(f"--{grows}", type=int, default=by_default, help="how many it grows to")
    parser.add_argument("--plot", type=Path, metavar="SVG", help="where to draw the costs")
    options = options_of(parser, arguments, records=200, rounds=1, routes=40, partitions=8, keys=10_000)
    points = {
        grows: [replace(FIRST, **{grows: many}) for many in _steps(first, getattr(options, grows))]
        for grows, first in asdict(FIRST).items()
    }
    sizes = list(dict.fromkeys(size for growing in points.values() for size in growing))
    say(f"[bold]growth[/]: {options.records:,} records, {machine()}")
    with ending_in_good_order(), tempfile.TemporaryDirectory(prefix="isthmus-growth-") as name:
        folder = Path(name)
        with embedded_kafka(folder / "kafka") as kafka:
            pipeline = PipelineSettings(master="local[2]")
            spark = start_session("growth", pipeline, tasks=2, log_dir=folder / "logs")
            try:
                bench = GrowthBench(spark, kafka, folder, sizes, options.records)
                costs = in_turn(
                    {str(size): lambda size=size: bench.cost_us(size) for size in sizes},  # type: ignore[misc]
                    rounds=options.rounds,
                    warm_up=not options.small,
                )
                runs = options.rounds + (not options.small)
                lost = sum(bench.lost(size, runs) for size in sizes)
            finally:
                spark.stop()
    cost = {
        grows: [(getattr(size, grows), middle(costs[str(size)])) for size in growing]
        for grows, growing in points.items()
    }
    for grows, measured in cost.items():
        say(f"{grows:<12}" + ", ".join(f"{many:,}: {cost_us:.1f} µs a record" for many, cost_us in measured))
    if options.plot:
        options.plot.write_text(svg(cost, "µs a record"))
    finish(
        "growth",
        {
            **{
                f"{grows}_ratio": round(last / max(0.001, first), 3)
                for grows, [(_, first), *_, (_, last)] in cost.items()
            },
            **{f"{grows}_us": [round(each, 2) for _, each in measured] for grows, measured in cost.items()},
            "lost": lost,
            "records": options.records,
        },
    )


if __name__ == "__main__":
    main()
