"""What RE2 finds in Spark is what Python finds, and no text is too much for it."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from isthmus.routing.columns import finds
from isthmus.routing.pattern import compiled

PATTERNS = [
    *(
        "",
        "a",
        "^a",
        "a$",
        "^a$",
        "^$",
        "^",
        "$",
        "a|b",
        "a||b",
        "()",
        "(a|b)*c",
        "a.c",
        "a..c",
        "[]a]",
        "[^]a]",
    ),
    *(
        r"\d",
        r"\D",
        r"\w",
        r"\W",
        r"\s",
        r"\S",
        r"[\s]",
        r"[^\s]",
        r"[\S]",
        r"[^\S]",
        r"[\w-]",
        r"\bb",
        r"a\b",
    ),
    *(
        "(?i)a",
        "(?i)É",
        "(?i)k",
        "(?i)s",
        "(?i)[a-c]",
        "(?i)[^a]",
        "(?i)[Z-a]",
        "(?i:A)b",
        "a(?i:B)",
        r"(?i)[\W]",
    ),
    *("a{2}", "a{2,}", "a{,2}b", "a{1,3}?b", "(ab)+$", "(a*)*b", "(a+)+$", "^(a|aa)+$", "x*", "(?:a?){50}b"),
    *(
        "é",
        "[à-ü]",
        "\U0001f600",
        "[\U0001f600-\U0001f64f]",
        r"\x41",
        r"\n",
        r"\t",
        r"\\",
        r"\.",
        "[.]",
        "[$^]",
        r"\$",
    ),
    *(
        r"\Aa",
        r"a\Z",
        "(?P<n>a)b",
        "(?#c)b",
        "a$b",
        r"a$\n",
        "[a-]",
        "[+-.]",
        "a{",
        "a}",
        r"[\]\[]",
        r"\v",
        r"[\b]",
    ),
]
TEXTS = [
    *(
        "",
        "a",
        "A",
        "b",
        "ab",
        "AB",
        "aab",
        "abc",
        "a\nc",
        "a\n",
        "\n",
        "\n\n",
        "a b",
        "xa",
        "a-b",
        "7",
        "_",
        "²",
        "٣",
    ),
    *(
        "é",
        "É",
        "e",
        "K",
        "\u212a",
        "s",
        "\u017f",
        "ß",
        "i",
        "\u0130",
        "[",
        "]",
        "^",
        "$",
        "\\",
        ".",
        "{",
        "}",
        "a{",
        "`",
    ),
    *(
        "\v",
        "\x1c",
        "\x85",
        "\xa0",
        "\u2028",
        "\u3000",
        "\t",
        "\r",
        "\x08",
        "\x00",
        "\U0001f600",
        "a\U0001f600c",
        "\ud7ff",
    ),
    *("Z", "z", "a" * 50 + "b", "a" * 50, "ab" * 20, "ab" * 200, "ab" * 200 + "c", " " * 400),
]
SLOW_IN_PYTHON = ("(a+)+$", "(a*)*b", "(a|aa)+", "(?:a?){50}b")


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
