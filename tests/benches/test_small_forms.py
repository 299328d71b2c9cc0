"""The small form of every benchmark runs, and its last line has the figures that the docs quote."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
from tests.support.benches import NONE, last_lines

from isthmus.codecs import amqp

KINDS = ("async", "sync", "transacted", "receive")
COMPARED = ("boundaries", "index", "full", "encode", "pyamqp")

FIGURES: dict[str, tuple[str, ...]] = {
    "nats": ("intake_ratio", "intake_per_s", "delivery_ratio", "delivery_per_s"),
    "front_door": tuple(f"{kind}_{figure}" for kind in KINDS for figure in ("ratio", "per_s")),
    "soak": ("maximum_per_s", "completed", "journaled", "received", "growth", "rss_mib_at_end"),
    "converters": ("default_ratio", "json_ratio", "raw_ratio", "jms_ratio", "passthrough_per_s"),
    "router": ("ratio", "tuned_ratio", "streams_ratio", "router_per_s", "passthrough_per_s"),
    "ledger": ("ratio", "records_per_s", "state_bytes", "peak_bytes", "cost_of_many_sessions"),
    "latency": ("p50_ms", "p99_ms", "boundary_median_ms", "boundary_max_ms", "microbatch_p50_ms"),
    "commit": ("p50_ms", "p99_ms", "max_ms"),
    "once": ("recovery_p50_s", "sent", "journaled"),
    "reload": ("gap_max_ms", "age_max_ms", "reload_max_s", "sent", "journaled"),
    "hostile": ("honest_p99_ms", "undisturbed_p99_ms", "edge_mib"),
    "request_reply": ("p50_ms", "p99_ms", "max_ms", "requests"),
    "growth": ("routes_ratio", "partitions_ratio", "keys_ratio"),
    "idle": ("idle_cpu_percent", "kafka_percent", "spark_percent", "python_percent"),
}
"""Of those that need servers: they run in a row, with one Kafka and one JVM for Spark."""


@pytest.fixture(scope="module")
def in_a_row() -> dict[str, dict[str, Any]]:
    if shutil.which("javac") is None:
        pytest.skip("there is no javac for the programs that benchmarks compare with")
    return last_lines("benches", *FIGURES)


@pytest.mark.parametrize("name", FIGURES)
def test_a_benchmark_measures_what_it_says(in_a_row: dict[str, dict[str, Any]], name: str) -> None:
    last = in_a_row[name]
    assert [figure for figure in FIGURES[name] if not isinstance(last[figure], int | float)] == []
    assert {fault: last[fault] for fault in NONE if fault in last}.items() <= NONE.items()


@pytest.mark.skipif(not amqp.COMPILED, reason="the codec is not compiled here")
def test_the_codec_is_measured_in_both_its_forms() -> None:
    pytest.importorskip("proton", reason="python-qpid-proton is not installed")
    [last] = last_lines("benches.codec").values()
    assert {f"{form}{name}_ratio" for form in ("", "plain_") for name in COMPARED} <= last.keys()


def test_the_page_is_measured_in_a_browser() -> None:
    if shutil.which("chromium") is None:
        pytest.skip("there is no Chromium (chromium) on this machine")
    [last] = last_lines("benches.page").values()
    assert {"first_paint_ms", "age_max_s", "cpu_percent"} <= last.keys()
    assert last["published"] > 0


def test_bridge_messages_are_measured_beside_go() -> None:
    if shutil.which("go") is None:
        pytest.skip("there is no Go toolchain (go) on this machine")
    [last] = last_lines("benches.bridge_message").values()
    assert {"encode_ratio", "decode_ratio", "read_ratio"} <= last.keys()
