"""The converters as Spark columns: the same bytes as their references, without Python for a record."""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F

from isthmus.converters.jms import CONVERTIBLE
from isthmus.errors import ConversionFailure
from isthmus.journal.columns import MessageColumns


class Converted(NamedTuple):
    """A converter's result: the value, or why there is none."""

    value: Column
    error_code: Column
    """Null when there is a value."""
    error_message: Column
    """Means something only when there is a code."""


def jms(message: MessageColumns) -> Converted:
    """See `isthmus.converters.jms`."""
    kind = message.body_kind
    return Converted(
        value=message.body_bytes,
        error_code=F.when(~kind.isin([kind.value for kind in CONVERTIBLE]), ConversionFailure.code),
        error_message=F.concat(F.lit("a "), kind, F.lit(" message has no jms form")),
    )
