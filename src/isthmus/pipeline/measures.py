"""What the router counts: the aggregates that Spark observes, and what they say when a batch ends.

Each record is counted under its outcome and its route; one in `LATENCY_SAMPLE` also tells how long it took
from the journal's timestamp until the router took it up; to route and convert it takes microseconds more.

Two histograms hold it all, whatever the number of routes: an aggregate for each count of each route would
cost more than the routing. Both are exact in what is read from them. The one of counts has a bin for every
value. The one of latencies has fewer, and then merges the two bins that are nearest to each other, which
keeps their number and their sum; those of one route are always nearer than those of two.
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

COUNTS, LATENCIES = NAMES = ("counts", "latencies")
"""What is in it."""

LATENCY_SAMPLE = 17
"""One record in so many reads the clock: a call by reflection costs more than routing a record does."""

_LATENCY_BINS = 8
"""For each route."""
_LONGEST_MS = 2.0**31
"""Some 25 days. A longer latency counts as this."""
_ROUTE_WIDTH = 3 * _LONGEST_MS
"""From one route's latencies to the next one's: a gap of two before each, from whose middle it counts."""

_COUNTED = tuple(each for each in Outcome if each is not Outcome.IGNORED)


def code(outcome: Outcome) -> int:
    """The number that stands for an outcome in Spark: it compares faster than a text."""
    return _COUNTED.index(outcome)


def now_ms() -> Column:
    """The time as this row is worked on: a batch of the real-time mode goes on for minutes."""
    return F.reflect(F.lit("java.lang.System"), F.lit("currentTimeMillis")).cast("long")


def latency_ms() -> Column:
    """How long ago the journal got the record; null for all but the sample."""
    return F.when(F.col("offset") % LATENCY_SAMPLE == 0, now_ms() - F.unix_millis("timestamp"))


def aggregates(routes: int) -> list[Column]:
    """What to observe of rows with ``outcome``, ``route`` and ``latency_ms``."""
    route = F.coalesce(F.col("route") + 1, F.lit(0))  # 0 for no route
    count_bin = route * len(_COUNTED) + F.col("outcome")
    latency = F.greatest(F.least(F.col("latency_ms").cast("double"), F.lit(_LONGEST_MS)), F.lit(0.0))
    sampled = F.col("latency_ms").isNotNull() & (F.col("outcome") == code(Outcome.PUBLISHED))
    latency_bin = F.when(sampled, F.col("route").cast("double") * _ROUTE_WIDTH + _LONGEST_MS + latency)
    return [
        F.histogram_numeric(count_bin, F.lit((routes + 1) * len(_COUNTED))).alias(COUNTS),
        F.histogram_numeric(latency_bin, F.lit(max(2, routes * _LATENCY_BINS))).alias(LATENCIES),
    ]


def read(observed: Mapping[str, Sequence[Mapping[str, Any]] | None], routes: int) -> BatchCounts:
    """What an observation says."""
    counts: Counter[tuple[int, Outcome]] = Counter()
    for each in observed[COUNTS] or ():
        place, number = divmod(round(each["x"]), len(_COUNTED))
        counts[place - 1, _COUNTED[number]] += round(each["y"])
    latency_ms, sampled = Counter[int](), Counter[int]()
    for each in observed[LATENCIES] or ():
        place, latency = divmod(each["x"], _ROUTE_WIDTH)
        latency_ms[int(place)] += (latency - _LONGEST_MS) * each["y"]
        sampled[int(place)] += round(each["y"])
    return BatchCounts(
        routes=[
            RouteCounts(
                success=counts[place, Outcome.PUBLISHED],
                failure=sum(counts[place, outcome] for outcome in FAILURES),
                latency_ms=round(latency_ms[place]),
                sampled=sampled[place],
            )
            for place in range(routes)
        ],
        outcomes={
            outcome: sum(counts[place, outcome] for place in range(-1, routes)) for outcome in _COUNTED
        },
    )
