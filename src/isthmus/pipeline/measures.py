"""What the router counts: the aggregates that Spark observes, and what they say when a batch ends.

Each record is counted under its outcome and its route. One histogram holds it all, whatever the number of
routes: an aggregate for each count of each route would cost more than the routing. It is exact, since it has
a bin for every value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from isthmus.routing.counts import FAILURES, BatchCounts, RouteCounts
from isthmus.routing.plan import Outcome

NAME = "router"
"""The name under which Spark reports the observation."""

COUNTS = "counts"
"""What is in it."""

_CODED = tuple(Outcome)


def code(outcome: Outcome) -> int:
    """The number that stands for an outcome in Spark: it compares faster than a text."""
    return _CODED.index(outcome)


def now_ms() -> Column:
    """The time as this row is worked on: a batch of the real-time mode goes on for minutes."""
    return F.reflect(F.lit("java.lang.System"), F.lit("currentTimeMillis")).cast("long")


def now_ns() -> Column:
    """The same for measuring durations."""
    return F.reflect(F.lit("java.lang.System"), F.lit("nanoTime")).cast("long")


def aggregates(routes: int) -> list[Column]:
    """What to observe of rows with ``outcome`` and ``route``."""
    route = F.coalesce(F.col("route") + 1, F.lit(0))  # 0 for no route
    count_bin = route * len(_CODED) + F.col("outcome")
    return [F.histogram_numeric(count_bin, F.lit((routes + 1) * len(_CODED))).alias(COUNTS)]


def read(observed: Mapping[str, Sequence[Mapping[str, Any]] | None], routes: int) -> BatchCounts:
    """What an observation says."""
    counts: Counter[tuple[int, Outcome]] = Counter()
    for each in observed[COUNTS] or ():
        place, number = divmod(round(each["x"]), len(_CODED))
        counts[place - 1, _CODED[number]] += round(each["y"])
    return BatchCounts(
        routes=[
            RouteCounts(
                success=counts[place, Outcome.PUBLISHED],
                failure=sum(counts[place, outcome] for outcome in FAILURES),
            )
            for place in range(routes)
        ],
        outcomes={
            outcome: sum(counts[place, outcome] for place in range(-1, routes))
            for outcome in _CODED
            if outcome is not Outcome.IGNORED  # of which there are only those that were sampled
        },
    )
