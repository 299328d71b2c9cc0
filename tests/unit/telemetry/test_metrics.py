"""The three metrics of a JMS bridge, for the bridge and for each route."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

from isthmus.events import take_counts
from isthmus.events.amqp import LoginRefused
from isthmus.routing.counts import BatchCounts, RouteCounts
from isthmus.routing.plan import Outcome
from isthmus.telemetry.events import Event
from isthmus.telemetry.metrics import RouterMetrics

Labels = frozenset[tuple[str, str]]


def scraped(metrics: RouterMetrics) -> dict[tuple[str, Labels], float]:
    """The samples of the exposition, by name and labels."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(metrics.exposition().decode())
        for sample in family.samples
    }


def labels(**values: str) -> Labels:
    return frozenset({"bridge": "b", **values}.items())


@pytest.fixture
def metrics() -> RouterMetrics:
    """After two batches: 5 and 2 records published, 1 skipped on a route, 1 dead-lettered without one."""
    metrics = RouterMetrics("b", {"orders": "t", "billing": "u"})
    metrics.add(
        BatchCounts(
            [RouteCounts(success=3, failure=1), RouteCounts()],
            {Outcome.PUBLISHED: 3, Outcome.SKIPPED: 1, Outcome.UNMATCHED: 4, Outcome.IGNORED: 9},
        )
    )
    metrics.add(
        BatchCounts(
            [RouteCounts(success=2), RouteCounts(success=2)],
            {Outcome.PUBLISHED: 4, Outcome.DEAD_LETTERED: 1},
        )
    )
    for route, routing_ms, age_ms in (("orders", 2, 30), ("orders", 4, 50), ("billing", 6, 10)):
        metrics.told(measured(route, routing_ms, age_ms))
    return metrics


def measured(route: str, routing_ms: int, age_ms: int, offset: int = 0) -> Event:
    return Event(
        position=f"j:0:{offset}",
        outcome="published",
        route=route,
        age_ms=age_ms,
        routing_ns=routing_ms * 1_000_000,
    )


def failed(route: str | None = "orders", outcome: str = "skipped") -> Event:
    return Event(position="j:0:7", outcome=outcome, route=route, code="key", reason="no header k")


def test_the_bridge_has_its_three_metrics(metrics: RouterMetrics) -> None:
    samples = scraped(metrics)
    assert samples["isthmus_routing_success_rate_total", labels()] == 7
    assert samples["isthmus_routing_failure_rate_total", labels()] == 2
    assert samples["isthmus_routing_latency_avg_seconds", labels()] == pytest.approx(0.004)
    assert samples["isthmus_routing_age_avg_seconds", labels()] == pytest.approx(0.03)


def test_every_route_has_its_three_metrics(metrics: RouterMetrics) -> None:
    samples = scraped(metrics)
    for route, success, failure, latency_ms in (("orders", 5, 1, 3), ("billing", 2, 0, 6)):
        assert samples["isthmus_route_success_rate_total", labels(route=route)] == success
        assert samples["isthmus_route_failure_rate_total", labels(route=route)] == failure
        assert samples["isthmus_route_latency_avg_seconds", labels(route=route)] == pytest.approx(
            latency_ms / 1000
        )


def test_the_metrics_are_found_by_the_names_of_the_design(metrics: RouterMetrics) -> None:
    text = metrics.exposition().decode()
    for name in ("routing-latency-avg", "routing-success-rate", "routing-failure-rate"):
        assert f"{name} of the bridge" in text
        assert f"{name} of a route" in text


def test_every_outcome_is_counted_but_not_what_was_no_message(metrics: RouterMetrics) -> None:
    samples = scraped(metrics)
    counts = {
        outcome: samples["isthmus_records_total", labels(outcome=outcome)]
        for outcome in Outcome
        if outcome is not Outcome.IGNORED
    }
    assert {outcome: count for outcome, count in counts.items() if count} == {
        Outcome.PUBLISHED: 7,
        Outcome.SKIPPED: 1,
        Outcome.DEAD_LETTERED: 1,
        Outcome.UNMATCHED: 4,
    }
    assert ("isthmus_records_total", labels(outcome="ignored")) not in samples


def test_a_failure_without_a_route_counts_for_the_bridge_alone(metrics: RouterMetrics) -> None:
    assert metrics.total.failure == 2
    assert sum(counts.failure for counts in metrics.routes.values()) == 1


def test_a_failure_is_counted_when_its_event_comes_and_once_when_the_batch_ends() -> None:
    metrics = RouterMetrics("b", {"orders": "t"})
    metrics.told(failed())
    metrics.told(failed(None, "dead-lettered"))
    assert (metrics.total.failure, metrics.routes["orders"].failure) == (2, 1)
    outcomes = {Outcome.SKIPPED: 1, Outcome.DEAD_LETTERED: 1}
    metrics.add(BatchCounts([RouteCounts(failure=1)], outcomes))
    assert (metrics.total.failure, metrics.routes["orders"].failure) == (2, 1)
    assert outcomes.items() <= metrics.outcomes.items()


def test_what_is_published_is_seen_in_the_topics_and_counted_when_the_batch_ends() -> None:
    metrics = RouterMetrics("b", {"orders": "t", "rest": ""})
    metrics.see_topics({"t": 100, "other": 7})
    metrics.see_topics({"t": 110, "other": 9})
    assert [counts.success for counts in metrics.routes.values()] == [10, 2]
    metrics.add(BatchCounts([RouteCounts(success=12), RouteCounts(success=2)], {Outcome.PUBLISHED: 14}))
    metrics.see_topics({"t": 112, "other": 9})
    assert [counts.success for counts in metrics.routes.values()] == [12, 2]
    metrics.see_topics({"t": 115, "other": 9, "new": 3})
    assert [counts.success for counts in metrics.routes.values()] == [15, 2]
    assert metrics.outcomes[Outcome.PUBLISHED] == 17


def test_routes_to_one_topic_share_what_is_seen_as_they_did_before() -> None:
    metrics = RouterMetrics("b", {"one": "t", "two": "t"})
    metrics.add(BatchCounts([RouteCounts(success=30), RouteCounts(success=10)]))
    metrics.see_topics({"t": 40})
    metrics.see_topics({"t": 48})
    assert [counts.success for counts in metrics.routes.values()] == [36, 12]


def test_a_count_never_falls_though_somebody_else_wrote_to_the_topic() -> None:
    metrics = RouterMetrics("b", {"orders": "t"})
    metrics.see_topics({"t": 0})
    metrics.see_topics({"t": 50})
    metrics.add(BatchCounts([RouteCounts(success=20)], {Outcome.PUBLISHED: 20}))
    assert metrics.total.success == 50


def test_a_backlog_is_lag_and_ends_when_the_last_sample_is_routed() -> None:
    metrics = RouterMetrics("b", {"orders": "t"})
    metrics.see_sources({("j", 0): 1_050, ("j", 1): 90})
    assert metrics.lag == 1_050
    metrics.told(measured("orders", 1, 1, offset=500))
    assert metrics.lag == 549
    metrics.told(measured("orders", 1, 1, offset=1_000))
    assert metrics.lag == 0
    metrics.see_sources({("j", 0): 5_000})
    metrics.routed({("j", 0): 4_990})
    assert metrics.lag == 0


def test_what_is_unmatched_is_neither_success_nor_failure() -> None:
    metrics = RouterMetrics("b", {})
    metrics.add(BatchCounts([], dict.fromkeys((Outcome.UNMATCHED, Outcome.LOOPED, Outcome.NON_DURABLE), 5)))
    assert (metrics.total.success, metrics.total.failure) == (0, 0)


def test_before_the_first_message_all_is_zero() -> None:
    samples = scraped(RouterMetrics("b", {"orders": "t"}))
    assert samples["isthmus_routing_latency_avg_seconds", labels()] == 0
    assert samples["isthmus_route_success_rate_total", labels(route="orders")] == 0
    assert {value for (name, _), value in samples.items() if name != "isthmus_events_total"} == {0}


def test_every_event_is_a_counter_that_begins_at_zero() -> None:
    take_counts()
    LoginRefused("10.0.0.1").emit(quietly=True)
    samples = scraped(RouterMetrics("b", {}))
    assert samples["isthmus_events_total", labels(event="amqp.login_refused", level="warning")] == 1
    assert samples["isthmus_events_total", labels(event="bridge.reloaded", level="warning")] == 0


def test_batches_are_counted(metrics: RouterMetrics) -> None:
    assert metrics.batches == 2
    assert RouterMetrics("b", {}).batches == 0


def test_names_that_prometheus_must_escape_survive() -> None:
    metrics = RouterMetrics('b"\\', {"a\nb": "t"})
    samples = scraped(metrics)
    names = frozenset({"bridge": 'b"\\', "route": "a\nb"}.items())
    assert ("isthmus_route_success_rate_total", names) in samples


def test_a_batch_of_another_plan_is_not_counted_in_silence() -> None:
    with pytest.raises(ValueError, match="is shorter"):
        RouterMetrics("b", {"orders": "t"}).add(BatchCounts([]))


def test_a_router_that_routes_nothing_while_records_wait_is_stalled() -> None:
    now = [0.0]
    metrics = RouterMetrics("b", {"r": "t"}, clock=lambda: now[0])
    metrics.see_sources({("j", 0): 1_000})
    now[0] = 40.0
    assert metrics.stalled_s == 40.0
    metrics.routed({("j", 0): 500})
    assert metrics.stalled_s == 0.0
    now[0] = 45.0
    assert metrics.stalled_s == 5.0
    metrics.routed({("j", 0): 1_000})
    now[0] = 500.0
    metrics.see_sources({("j", 0): 1_000})
    now[0] = 501.0
    metrics.see_sources({("j", 0): 2_000})  # much at once, after a long silence
    assert metrics.stalled_s == 1.0


def test_routes_that_stay_keep_their_counts_when_others_change() -> None:
    metrics = RouterMetrics("b", {"old": "o", "stays": "s"})
    metrics.add(BatchCounts((RouteCounts(1, 0), RouteCounts(2, 1)), {}))
    metrics.change_routes({"stays": "s", "new": "n"})
    assert metrics.routes.keys() == {"stays", "new"}
    assert (metrics.routes["stays"].success, metrics.routes["stays"].failure) == (2, 1)
    metrics.add(BatchCounts((RouteCounts(1, 0), RouteCounts(5, 0)), {}))
    assert [counts.success for counts in metrics.routes.values()] == [3, 5]


def published(route: str, latency_ms: int, size: int, offset: int = 0) -> Event:
    return replace(
        measured(route, 1, 1, offset), taken_ms=1_000_000, published_ms=1_000_000 + latency_ms, bytes=size
    )


def test_the_time_from_intake_to_publication_is_a_histogram_of_each_route(metrics: RouterMetrics) -> None:
    metrics.told(published("orders", 4, 100))
    metrics.told(published("orders", 700, 100))
    samples = scraped(metrics)
    name = "isthmus_end_to_end_latency_seconds"
    assert samples[f"{name}_bucket", labels(route="orders", le="0.0025")] == 0
    assert samples[f"{name}_bucket", labels(route="orders", le="0.005")] == 1
    assert samples[f"{name}_bucket", labels(route="orders", le="+Inf")] == 2
    assert samples[f"{name}_count", labels(route="orders")] == 2
    assert samples[f"{name}_sum", labels(route="orders")] == pytest.approx(0.704)
    assert samples[f"{name}_count", labels(route="billing")] == 0


def test_what_was_not_published_has_no_latency(metrics: RouterMetrics) -> None:
    metrics.told(replace(published("orders", 4, 100), outcome="skipped", code="key", reason="none"))
    samples = scraped(metrics)
    assert samples["isthmus_end_to_end_latency_seconds_count", labels(route="orders")] == 0


def test_bytes_of_a_route_go_by_the_sizes_that_were_measured(metrics: RouterMetrics) -> None:
    assert scraped(metrics)["isthmus_route_bytes_total", labels(route="orders")] == 0
    metrics.told(published("orders", 4, 100))
    assert scraped(metrics)["isthmus_route_bytes_total", labels(route="orders")] == 500


def test_restarts_of_queries_are_counted(metrics: RouterMetrics) -> None:
    metrics.restarted("router")
    samples = scraped(metrics)
    assert samples["isthmus_query_restarts_total", labels(query="router")] == 1
    assert samples["isthmus_query_restarts_total", labels(query="ledger")] == 0


def test_routes_that_stay_keep_their_latency_and_bytes(metrics: RouterMetrics) -> None:
    metrics.told(published("orders", 4, 100))
    metrics.change_routes({"orders": "t", "new": "v"})
    samples = scraped(metrics)
    assert samples["isthmus_end_to_end_latency_seconds_count", labels(route="orders")] == 1
    assert samples["isthmus_end_to_end_latency_seconds_count", labels(route="new")] == 0
    assert samples["isthmus_route_bytes_total", labels(route="orders")] == 500
