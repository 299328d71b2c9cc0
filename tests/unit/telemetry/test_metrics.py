"""The three metrics of a JMS bridge, for the bridge and for each route."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from isthmus.routing.counts import BatchCounts, RouteCounts
from isthmus.routing.plan import Outcome
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
    metrics = RouterMetrics("b", ["orders", "billing"])
    metrics.add(
        BatchCounts(
            [RouteCounts(success=3, failure=1, latency_ms=60, sampled=3), RouteCounts()],
            {Outcome.PUBLISHED: 3, Outcome.SKIPPED: 1, Outcome.UNMATCHED: 4, Outcome.IGNORED: 9},
        )
    )
    metrics.add(
        BatchCounts(
            [
                RouteCounts(success=2, latency_ms=20, sampled=1),
                RouteCounts(success=2, latency_ms=6, sampled=2),
            ],
            {Outcome.PUBLISHED: 4, Outcome.DEAD_LETTERED: 1},
        )
    )
    return metrics


def test_the_bridge_has_its_three_metrics(metrics: RouterMetrics) -> None:
    samples = scraped(metrics)
    assert samples["isthmus_routing_success_rate_total", labels()] == 7
    assert samples["isthmus_routing_failure_rate_total", labels()] == 2
    assert samples["isthmus_routing_latency_avg_seconds", labels()] == pytest.approx(86 / 6 / 1000)


def test_every_route_has_its_three_metrics(metrics: RouterMetrics) -> None:
    samples = scraped(metrics)
    for route, success, failure, latency_ms in (("orders", 5, 1, 20), ("billing", 2, 0, 3)):
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


def test_what_is_unmatched_is_neither_success_nor_failure() -> None:
    metrics = RouterMetrics("b", [])
    metrics.add(BatchCounts([], dict.fromkeys((Outcome.UNMATCHED, Outcome.LOOPED, Outcome.NON_DURABLE), 5)))
    assert (metrics.total.success, metrics.total.failure) == (0, 0)


def test_before_the_first_message_all_is_zero() -> None:
    samples = scraped(RouterMetrics("b", ["orders"]))
    assert samples["isthmus_routing_latency_avg_seconds", labels()] == 0
    assert samples["isthmus_route_success_rate_total", labels(route="orders")] == 0
    assert set(samples.values()) == {0}


def test_batches_are_counted(metrics: RouterMetrics) -> None:
    assert metrics.batches == 2
    assert RouterMetrics("b", []).batches == 0


def test_names_that_prometheus_must_escape_survive() -> None:
    metrics = RouterMetrics('b"\\', ["a\nb"])
    samples = scraped(metrics)
    names = frozenset({"bridge": 'b"\\', "route": "a\nb"}.items())
    assert ("isthmus_route_success_rate_total", names) in samples


def test_a_batch_of_another_plan_is_not_counted_in_silence() -> None:
    with pytest.raises(ValueError, match="is shorter"):
        RouterMetrics("b", ["orders"]).add(BatchCounts([]))
