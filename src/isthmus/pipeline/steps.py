"""What is done with rows, written down once and then done with any.

A column is made by a call to the JVM for each of its parts, and belongs to no rows. So the columns of a plan
serve every query that runs it: that of a rehearsal, that of the batch that catches up, the real-time one's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, cast

from pyspark.sql import DataFrame

Transformation = Callable[[DataFrame], DataFrame]


def recorded(make: Transformation) -> Transformation:
    """The same as ``make``, which is called but once, and does nothing but call methods of a `DataFrame` that
    give another one."""
    steps = cast(_Recorder, make(cast(DataFrame, _Recorder()))).steps
    return lambda rows: reduce(lambda done, step: getattr(done, step[0])(*step[1]), steps, rows)


class _Recorder:
    """Stands for the rows, and notes what is called."""

    def __init__(self, *steps: tuple[str, tuple[Any, ...]]) -> None:
        self.steps = steps

    def transform(self, make: Callable[[_Recorder], _Recorder]) -> _Recorder:
        return make(self)

    def __getattr__(self, name: str) -> Callable[..., _Recorder]:
        return lambda *arguments: _Recorder(*self.steps, (name, arguments))
