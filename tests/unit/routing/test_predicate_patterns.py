"""Regular expressions run in Java: those that it refuses, or reads otherwise than Python, are no patterns.

Each of these was tried with Java 17 and Python 3.11. Without a refusal `isthmus check` would pass a route
that takes the router down at its first message, or that takes other messages than the reference says.
"""

from __future__ import annotations

import pytest

from isthmus.errors import PredicateError
from isthmus.routing.predicate import Match, parse


def pattern_of(pattern: str) -> str:
    quoted = pattern.replace("\\", "\\\\").replace('"', '\\"')
    predicate = parse(f'msg.address =~ "{quoted}"')
    assert isinstance(predicate, Match)
    return predicate.pattern


@pytest.mark.parametrize(
    "pattern",
    [
        "(?P<name>a)",
        "(?P<name>a)(?P=name)",
        "(a)(?(1)b|c)",
        "(?#comment)a",
        "(?a)b",
        "(?ai)b",
        "(?a:b)",
        "a{",
        "a{x}",
        "a{,3}",
        "[[a]",
        "[a[b]",
        r"\0",
        r"[\b]",
    ],
)
def test_a_pattern_that_java_refuses_is_refused(pattern: str) -> None:
    with pytest.raises(PredicateError) as caught:
        pattern_of(pattern)
    assert caught.value.column == 15


@pytest.mark.parametrize("pattern", ["[a&&b]", r"a\Z", r"\v", r"[\v]", r"\0377", r"\101", r"\B"])
def test_a_pattern_that_java_reads_otherwise_is_refused(pattern: str) -> None:
    with pytest.raises(PredicateError) as caught:
        pattern_of(pattern)
    assert caught.value.column == 15


@pytest.mark.parametrize(
    "pattern",
    [
        "^orders/[a-z]+$",
        r"\d{1,3}\.\d{2}",
        "a{2}b{3,}",
        "(?i)eu",
        "(?i:A)b",
        "(?:a|b)c",
        "(?=a)a(?!b)(?<=a)(?<!b)",
        "(a)\\1",
        "[]a]",
        "[^]a]",
        r"[\[\]]",
        r"\[\{\(",
        "[{(?P]",
        r"\Aa",
        r"\bx\b",
        r"\\Z",
        "a&&b",
        "a*+(?>b)",
        "a}",
        "[#]#",
        "é",
    ],
)
def test_what_both_read_alike_is_taken_as_it_is(pattern: str) -> None:
    assert pattern_of(pattern) == pattern
