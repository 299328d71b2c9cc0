"""A bridge for a monitor to show, without the bridge."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from isthmus.monitor.app import Watched
from isthmus.routing.predicate import parse
from isthmus.routing.route import Route
from isthmus.telemetry.held import Held
from isthmus.telemetry.metrics import RouterMetrics
from isthmus.telemetry.overview import Overview
from isthmus.telemetry.parts import PartMetrics, PartReport


def watched(
    metrics: RouterMetrics | None = None,
    health: Callable[[], Mapping[str, str]] = dict,
    *,
    parts: Callable[[], list[PartReport]] = list,
    facts: Mapping[str, str] | None = None,
    held: Held = lambda: None,
) -> Watched:
    """One whose routes take every message."""
    metrics = metrics or RouterMetrics("b", {})
    written = "exists(msg.address)"
    routes = [Route(name, parse(written), topic, written=written) for name, topic in metrics.topics.items()]
    overview = Overview(
        metrics,
        PartMetrics("b", parts),
        "isthmus.b.journal",
        lambda: routes,
        facts or {},
        queries=["router"],
        held=held,
    )
    return Watched(overview, health)
