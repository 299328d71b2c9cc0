"""Which error policy holds, and what is counted as what."""

from __future__ import annotations

import pytest
from tests.support.routing import plan, route

from isthmus.routing.counts import FAILURES, RouteCounts
from isthmus.routing.plan import Outcome
from isthmus.routing.route import OnError


def test_the_bridge_stops_at_a_soft_failure_by_default() -> None:
    assert plan().policy(None) is OnError.STOP
    assert plan().policy(route()) is OnError.STOP


@pytest.mark.parametrize("policy", OnError)
def test_the_bridges_policy_holds_for_routes_without_one(policy: OnError) -> None:
    assert plan(on_error=policy).policy(route()) is policy
    assert plan(on_error=policy).policy(None) is policy


@pytest.mark.parametrize("policy", OnError)
@pytest.mark.parametrize("bridge_policy", OnError)
def test_a_routes_own_policy_outranks_the_bridges(policy: OnError, bridge_policy: OnError) -> None:
    assert plan(on_error=bridge_policy).policy(route(on_error=policy)) is policy


def test_the_policies_are_called_as_in_the_configuration() -> None:
    assert [str(policy) for policy in OnError] == ["stop", "skip", "dead-letter"]


def test_a_route_does_not_show_its_predicate() -> None:
    """It may hold a value that was read from a secret."""
    assert "s3cret" not in repr(route("msg.header.token==s3cret"))


def test_what_is_dead_lettered_skipped_or_stopped_failed() -> None:
    assert set(FAILURES) == {Outcome.DEAD_LETTERED, Outcome.SKIPPED, Outcome.STOPPED}


def test_counts_add_up() -> None:
    assert RouteCounts(1, 2, 30, 4) + RouteCounts(10, 20, 300, 40) == RouteCounts(11, 22, 330, 44)


def test_the_average_is_over_sampled_records_only() -> None:
    counts = RouteCounts(success=100, routing_ns=2_000_000, age_ms=30, sampled=4)
    assert (counts.routing_avg_ms, counts.age_avg_ms) == (0.5, 7.5)


def test_there_is_no_average_before_the_first_record() -> None:
    assert (RouteCounts().routing_avg_ms, RouteCounts().age_avg_ms) == (None, None)
