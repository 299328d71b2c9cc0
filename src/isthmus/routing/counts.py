"""What the router did, in numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from isthmus.routing.plan import Outcome

FAILURES = (Outcome.DEAD_LETTERED, Outcome.SKIPPED, Outcome.STOPPED)


@dataclass(frozen=True, slots=True)
class RouteCounts:
    """What happened on one route."""

    success: int = 0
    failure: int = 0
    routing_ns: int = 0
    """Added up over the sampled records: how long it took to route and to convert them."""
    age_ms: int = 0
    """Likewise: from the journal's timestamp until they were routed."""
    sampled: int = 0

    def __add__(self, other: RouteCounts) -> RouteCounts:
        return RouteCounts(
            self.success + other.success,
            self.failure + other.failure,
            self.routing_ns + other.routing_ns,
            self.age_ms + other.age_ms,
            self.sampled + other.sampled,
        )

    @property
    def routing_avg_ms(self) -> float | None:
        """The average over the sampled records; None before there is one."""
        return self.routing_ns / 1_000_000 / self.sampled if self.sampled else None

    @property
    def age_avg_ms(self) -> float | None:
        """Likewise."""
        return self.age_ms / self.sampled if self.sampled else None


@dataclass(frozen=True, slots=True)
class BatchCounts:
    """What happened in one batch: by route, in the order of the plan, and by outcome."""

    routes: Sequence[RouteCounts]
    outcomes: Mapping[Outcome, int] = field(default_factory=dict)
