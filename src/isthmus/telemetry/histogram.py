"""Durations, counted in buckets as Prometheus wants them."""

from __future__ import annotations

import math
from bisect import bisect_left
from itertools import accumulate
from typing import Final

BUCKETS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, math.inf)
"""From a message that is routed at once to one that waited for a restart of the router."""


class Histogram:
    """How many durations were at most so long, and how long all of them were together."""

    def __init__(self) -> None:
        self._counts = [0] * len(BUCKETS_S)
        self.sum_s = 0.0

    def observe(self, seconds: float) -> None:
        """Count one. What clocks make less than nothing is nothing."""
        seconds = max(0.0, seconds)
        self._counts[bisect_left(BUCKETS_S, seconds)] += 1
        self.sum_s += seconds

    @property
    def buckets(self) -> list[tuple[str, float]]:
        """The upper bound of each, and how many are not beyond it."""
        bounds = ("+Inf" if bound == math.inf else str(float(bound)) for bound in BUCKETS_S)
        return list(zip(bounds, map(float, accumulate(self._counts)), strict=True))
