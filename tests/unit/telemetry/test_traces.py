"""Spans of sampled messages, as a collector gets them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from tests.support.otlp import Collector, running_collector
from tests.support.polling import eventually

from isthmus import events
from isthmus.config.model.otel import OtelSettings
from isthmus.errors import SettingsError
from isthmus.telemetry.events import Event
from isthmus.telemetry.traces import Hop, Traces, routed, sampled, traces_of

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"
HOP = Hop("intake", "orders", PARENT, "congo=t61", 1_000, 2_500, {"messaging.system": "amqp"})


@pytest.fixture
def collector() -> Iterator[Collector]:
    with running_collector() as collector:
        yield collector


def exporting(collector: Collector, **options: float) -> Traces:
    settings = OtelSettings(endpoint=collector.url, headers={"authorization": "Bearer secret"})
    return Traces(settings, "b", every_s=0.02, **options)  # type: ignore[arg-type]


def test_a_span_is_the_child_of_the_one_that_the_message_names(collector: Collector) -> None:
    with closing(exporting(collector)) as traces:
        traces.add(HOP)
        eventually(lambda: collector.spans)
    [span] = collector.spans
    assert (span.name, span.trace_id.hex(), span.parent_span_id.hex()) == ("intake orders", TRACE, SPAN)
    assert (span.start_time_unix_nano, span.end_time_unix_nano) == (1_000, 2_500)
    assert span.trace_state == "congo=t61"
    assert span.span_id.hex() not in (SPAN, "")
    assert [(each.key, each.value.string_value) for each in span.attributes] == [("messaging.system", "amqp")]
    assert span.kind == span.SPAN_KIND_CONSUMER
    assert span.status.code == span.status.STATUS_CODE_UNSET
    assert collector.services == {"b"}
    assert collector.paths == {"/v1/traces"}
    assert collector.headers[0]["authorization"] == "Bearer secret"


def test_the_environment_does_not_say_what_is_sampled(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    with closing(exporting(collector)) as traces:
        traces.add(HOP)
        eventually(lambda: collector.spans)


def test_a_failure_is_the_status_of_its_span(collector: Collector) -> None:
    with closing(exporting(collector)) as traces:
        traces.add(HOP._replace(kind="deliver", error="too large"))
        eventually(lambda: collector.spans)
    status = collector.spans[0].status
    assert (status.code, status.message) == (status.STATUS_CODE_ERROR, "too large")


def test_what_is_left_is_exported_when_it_is_closed(collector: Collector) -> None:
    traces = Traces(OtelSettings(endpoint=collector.url, service_name="shop"), "b", every_s=60)
    for _ in range(600):
        traces.add(HOP)
    traces.close()
    assert len(collector.spans) == 600
    assert collector.services == {"shop"}


def test_a_collector_that_takes_nothing_costs_spans_and_two_lines(
    collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "isthmus.traces")
    collector.status = 400
    events.take_counts()
    with closing(exporting(collector)) as traces:

        def sent(count: int) -> bool:
            traces.add(HOP)  # over and over: what comes while a request fails is dropped with it
            return len(collector.headers) >= count

        eventually(lambda: sent(2))
        collector.status = 200
        eventually(lambda: sent(3) and collector.spans)
    assert events.counts()["traces.collector_unavailable"] == 1
    assert events.counts()["traces.collector_available"] == 1
    assert "takes no spans" in caplog.text
    assert "takes spans again" in caplog.text


def test_a_collector_that_hangs_holds_nobody_up(collector: Collector) -> None:
    collector.answers.clear()
    events.take_counts()
    traces = exporting(collector, kept=10)
    try:
        for _ in range(1_000):
            traces.add(HOP)
    finally:
        collector.answers.set()
        traces.close()
    assert len(collector.spans) < 1_000
    assert events.counts()["traces.spans_dropped"] >= 1


@pytest.mark.parametrize(
    "parent",
    [
        None,
        b"",
        PARENT.encode()[:-1],
        PARENT[:-2].encode() + b"00",
        PARENT[:-2].encode() + b"02",
        b"\xff" * 55,
    ],
)
def test_a_message_that_nobody_samples_has_no_span(parent: bytes | None) -> None:
    assert sampled([("region", b"EU"), ("traceparent", parent)]) is None
    assert sampled([("region", b"EU")]) is None


def test_a_sampled_message_has_its_trace_and_state() -> None:
    headers = [("tracestate", b"congo=t61"), ("traceparent", PARENT.encode())]
    assert sampled(headers) == (PARENT, "congo=t61")
    assert sampled(headers[1:]) == (PARENT, "")


def test_what_only_looks_like_a_trace_is_no_span(collector: Collector) -> None:
    with closing(exporting(collector)) as traces:
        traces.add(HOP._replace(traceparent="x" * 54 + "1"))
        traces.add(HOP._replace(traceparent=f"00-{'0' * 32}-{SPAN}-01"))
        traces.add(HOP)
        eventually(lambda: collector.spans)
    assert len(collector.spans) == 1


def test_the_router_tells_of_a_span_by_its_event() -> None:
    event = Event(
        position="j:0:7", outcome="published", route="eu", traceparent=PARENT, taken_ms=5, published_ms=9
    )
    about = {"isthmus.position": "j:0:7", "isthmus.outcome": "published", "isthmus.route": "eu"}
    assert routed(event) == Hop("route", "eu", PARENT, "", 5_000_000, 9_000_000, about, None)
    assert routed(Event(position="j:0:7", outcome="published", taken_ms=5, published_ms=9)) is None


def test_without_an_endpoint_there_is_nothing() -> None:
    assert traces_of(OtelSettings(), "b") is None


@pytest.mark.parametrize(
    "wrong", ["collector:4318", "ftp://collector", "http://", "http://u:p@collector", ""]
)
def test_an_endpoint_is_a_url(wrong: str) -> None:
    with pytest.raises(SettingsError, match="expected a URL"):
        OtelSettings(endpoint=wrong)


def test_an_endpoint_without_a_path_has_that_of_otlp() -> None:
    assert OtelSettings(endpoint="http://c:4318").endpoint == "http://c:4318/v1/traces"
    assert OtelSettings(endpoint="http://c:4318/").endpoint == "http://c:4318/v1/traces"
    assert OtelSettings(endpoint="https://c/otlp/v1/traces").endpoint == "https://c/otlp/v1/traces"


def test_no_header_is_shown() -> None:
    assert "secret" not in repr(OtelSettings(headers={"x-team": "secret"}))
