"""Benchmarks in a row: ``python -m benches [--small] NAME…``. Each prints its own last line.

They are in one process, and so start one Kafka and one JVM for Spark between them.
"""

from __future__ import annotations

import argparse
import importlib
import tempfile
from pathlib import Path

from benches.harness import ending_in_good_order, one_kafka_for_all


def main() -> None:
    """Run them."""
    parser = argparse.ArgumentParser(prog="python -m benches", description="benchmarks in a row")
    parser.add_argument("names", nargs="+", metavar="NAME")
    parser.add_argument("--small", action="store_true", help="the small form of each")
    options = parser.parse_args()
    with (
        ending_in_good_order(),
        tempfile.TemporaryDirectory(prefix="isthmus-bench-") as folder,
        one_kafka_for_all(Path(folder)),
    ):
        for name in options.names:
            importlib.import_module(f"benches.{name}").main(["--small"] if options.small else [])


if __name__ == "__main__":
    main()
