"""What the router counts: the aggregates that Spark observes, and what they say when a batch ends.

Each record is counted under its outcome and its route. One histogram holds it all, whatever the number of
routes: an aggregate for each count of each route would cost more than the routing. It is exact, since it has
a bin for every value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark import SparkContext
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
    return _clock("currentTimeMillis")


def now_ns() -> Column:
    """The same for measuring durations."""
    return _clock("nanoTime")


def _clock(method: str) -> Column:
    """A clock of Java's, in compiled code. SQL's own `reflect` would have Spark interpret the whole step, and
    copy every row before it and behind it."""
    jvm: Any = SparkContext._active_spark_context._jvm  # type: ignore[union-attr]
    nothing = getattr(getattr(jvm.scala.collection.immutable, "Nil$"), "MODULE$")
    none = getattr(getattr(jvm.scala, "None$"), "MODULE$")
    read = jvm.org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke(
        jvm.java.lang.Class.forName("java.lang.System"),
        jvm.org.apache.spark.sql.types.DataTypes.LongType,
        method,
        nothing,
        nothing,
        False,  # nothing to be null
        False,
        False,  # another value each time
        none,
    )
    return Column(jvm.org.apache.spark.sql.classic.ExpressionUtils.column(read))


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
