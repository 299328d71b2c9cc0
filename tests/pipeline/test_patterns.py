"""What RE2 finds in Spark is what Python finds, and no text is too much for it."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tests.support.patterns import PATTERNS, SLOW_IN_PYTHON, TEXTS

from isthmus.routing.columns import finds
from isthmus.routing.pattern import compiled


def test_re2_finds_what_python_finds(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(text,) for text in TEXTS], "text string").repartition(2)
    found = rows.select("text", *[F.coalesce(finds(F.col("text"), each), F.lit(False)) for each in PATTERNS])
    for text, *results in found.collect():
        for pattern, result in zip(PATTERNS, results, strict=True):
            if len(text) < 40 or not any(each in pattern for each in SLOW_IN_PYTHON):
                expected = compiled(pattern).search(text) is not None
                assert result == expected, (pattern, text[:60], result)


def test_a_long_text_neither_overflows_nor_takes_for_ever(spark: SparkSession) -> None:
    """Java's engine fails with the first two patterns, and never ends with the others."""
    rows = spark.createDataFrame([("ab" * 20_000 + "c",), ("a" * 40_000 + "!",)], "text string")
    patterns = ["^(a|b)*c$", "^((a|b)|(b|a))*!$", "^(a+)+$", "^(a|aa)+b$", "(a*)*$"]
    found = rows.select(*[finds(F.col("text"), pattern) for pattern in patterns]).collect()
    assert [list(row) for row in found] == [
        [True, False, False, False, True],
        [False, True, False, False, True],
    ]


def test_a_text_that_is_null_is_nothing_to_find_anything_in(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(None,)], "text string")
    assert rows.select(finds(F.col("text"), "a")).first() == (None,)
