"""What the router counts: the aggregates that Spark observes, and what they say when a batch ends.

Each record is counted under its outcome and its route; one in `LATENCY_SAMPLE` also tells how long it took
from the journal's timestamp until it was routed and converted.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F

from isthmus.routing.counts import BatchCounts, RouteCounts
from isthmus.routing.plan import Outcome

NAME = "router"
"""The name under which Spark reports the observation."""

LATENCY_SAMPLE = 16
"""One record in so many reads the clock: a call by reflection costs more than routing a record does."""


def latency_ms() -> Column:
    """How long ago the journal got the record; null for all but the sample."""
    now_ms = F.reflect(F.lit("java.lang.System"), F.lit("currentTimeMillis")).cast("long")
    return F.when(F.col("offset") % LATENCY_SAMPLE == 0, now_ms - F.unix_millis("timestamp"))


def aggregates(routes: int) -> list[Column]:
    """What to observe of rows with ``outcome``, ``route`` and ``latency_ms``."""
    outcome, latency = F.col("outcome"), F.col("latency_ms")
    counts = [F.count_if(outcome == each.value).alias(_outcome_name(each)) for each in _COUNTED]
    for place in range(routes):
        published = F.col("success_route") == place
        counts += [
            F.count_if(published).alias(f"success_{place}"),
            F.count_if(F.col("failure_route") == place).alias(f"failure_{place}"),
            F.sum(F.when(published, latency)).alias(f"latency_ms_{place}"),
            F.count(F.when(published, latency)).alias(f"sampled_{place}"),
        ]
    return counts


def read(observed: Mapping[str, int | None], routes: int) -> BatchCounts:
    """What an observation says."""
    return BatchCounts(
        routes=[
            RouteCounts(
                *(
                    observed[f"{name}_{place}"] or 0
                    for name in ("success", "failure", "latency_ms", "sampled")
                )
            )
            for place in range(routes)
        ],
        outcomes={each: observed[_outcome_name(each)] or 0 for each in _COUNTED},
    )


_COUNTED = tuple(each for each in Outcome if each is not Outcome.IGNORED)


def _outcome_name(outcome: Outcome) -> str:
    return "outcome_" + outcome.value.replace("-", "_")
