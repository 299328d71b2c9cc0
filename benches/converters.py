"""How fast the router is with each converter, beside Spark's own copy of the same topic.

``python -m benches.converters [--records N] [--rounds N]``: loads a journal in a Kafka of its own with AMQP
messages as a JMS client sends them (a text of 256 bytes, six properties), then routes it over ten routes to
three topics, keyed by a header, with `default`, `json`, `raw` and `jms` in turn. See `benches.router` for
what is measured.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.table import Table

from benches.harness import (
    console,
    embedded_kafka,
    ending_in_good_order,
    finish,
    in_turn,
    machine,
    middle,
    options_of,
    say,
)
from benches.router import ADDRESSES, BODY_BYTES, SPARK, RouterBench
from isthmus import AmqpMessage, AmqpValue, MessageHeader, MessageProperties
from isthmus.codecs.amqp import Byte, Symbol
from isthmus.codecs.jms import to_message
from isthmus.config.model.settings import PipelineSettings
from isthmus.converters.conversion_headers import conversion_headers
from isthmus.journal import layout
from isthmus.pipeline.session import start_session

CONVERTERS = ("default", "json", "raw", "jms")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benches.converters", description="the converters' speed")
    parser.add_argument("--records", type=int, default=500_000, help="how many records the journal has")
    parser.add_argument("--rounds", type=int, default=3, help="how many runs of each, after the warm-up")
    options = options_of(parser, arguments, records=200, rounds=1)
    with ending_in_good_order(), tempfile.TemporaryDirectory(prefix="isthmus-bench-") as folder:
        say(f"converters: {options.records:,} AMQP messages of {BODY_BYTES} B, {machine()}")
        with embedded_kafka(Path(folder, "kafka")) as kafka:
            bench = RouterBench(kafka, options.records, Path(folder), amqp_records())
            spark = start_session(
                "bench", PipelineSettings(master="local[2]"), tasks=2, log_dir=Path(folder, "logs")
            )
            try:
                candidates = {SPARK: lambda: bench.copy(spark)} | {
                    name: lambda name=name: bench.route(spark, name) for name in CONVERTERS
                }
                results = in_turn(candidates, rounds=options.rounds, warm_up=not options.small)
            finally:
                spark.stop()
    per_s = {name: options.records / middle([run.seconds for run in runs]) for name, runs in results.items()}
    table = Table("", "records/s", "of Spark's copy", "CPU µs/record")
    for name, runs in results.items():
        cpu = middle([run.cpu_s or 0 for run in runs]) / options.records * 1e6
        table.add_row(name, f"{per_s[name]:,.0f}", f"{per_s[name] / per_s[SPARK]:.2f}", f"{cpu:.1f}")
    console.print(table)
    ratios = {f"{name}_ratio": round(per_s[name] / per_s[SPARK], 3) for name in CONVERTERS}
    finish("converters", {**ratios, "passthrough_per_s": round(per_s[SPARK]), "records": options.records})


def amqp_records() -> Iterator[layout.Record]:
    """Messages as a JMS client sends them, without end."""
    for number in itertools.count():
        sent = AmqpMessage(
            header=MessageHeader(durable=True),
            message_annotations={Symbol("x-opt-jms-msg-type"): Byte(5), Symbol("x-opt-jms-dest"): Byte(0)},
            properties=MessageProperties(
                message_id=f"ID:bench-{number:09d}",
                to=ADDRESSES[number % len(ADDRESSES)],
                correlation_id=f"customer-{number % 9973}",
                creation_time=1_700_000_000_000 + number,
            ),
            application_properties={
                "region": "EU" if number % 3 else "US",
                "contentType": "application/json",
                "amount": float(number),
                "count": number,
                "tenant": "acme",
                "trace": f"{number:032x}",
            },
            body=AmqpValue(f"{number:09d} ".ljust(BODY_BYTES, "x")),
        )
        message = to_message(sent.encode(), session=f"session-{number % 4}")
        conversion = conversion_headers(message, json=True)
        yield layout.encode(layout.Entry(layout.Op.ADD, message, conversion=conversion))


if __name__ == "__main__":
    main()
