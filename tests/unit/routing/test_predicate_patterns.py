"""Regular expressions run in RE2, and mean what they mean in Python: what RE2 cannot do is no pattern.

Without a refusal `isthmus check` would pass a route that takes the router down when it starts, or that takes
other messages than the reference says.
"""

from __future__ import annotations

import pytest

from isthmus.errors import PredicateError
from isthmus.routing.pattern import compiled, literal_start
from isthmus.routing.predicate import Match, parse


def pattern_of(pattern: str) -> str:
    quoted = pattern.replace("\\", "\\\\").replace('"', '\\"')
    predicate = parse(f'msg.address =~ "{quoted}"')
    assert isinstance(predicate, Match)
    return predicate.pattern


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(?=a)a", "looks ahead or behind"),
        ("a(?!b)", r"looks ahead or behind.* && !\(… =~ …\)"),
        ("(?<=a)b", "looks ahead or behind"),
        ("(?<!a)b", "looks ahead or behind"),
        (r"(a)\1", "refers to a group"),
        ("(?P<name>a)(?P=name)", "refers to a group"),
        ("(a)(?(1)b|c)", "refers to a group"),
        ("a*+", "possessive"),
        ("(?>a)", "atomic"),
        (r"\B", "RE2 does not know"),
        ("(?s).", "only \\(\\?i\\)"),
        ("(?m)^a$", "only \\(\\?i\\)"),
        ("a(?x: b)", "only \\(\\?i\\)"),
        ("a{1001}", "at most 1000"),
        ("((a{100}){100}){100}", "too long"),
        ("a[", "unterminated"),
        ("[a&&b]", "intersection"),
        ("(" * 5000 + ")" * 5000, "recursion"),
    ],
)
def test_what_re2_cannot_do_is_refused_with_the_reason(pattern: str, why: str) -> None:
    with pytest.raises(PredicateError, match=why) as caught:
        pattern_of(pattern)
    assert caught.value.column == 15


@pytest.mark.parametrize(
    "pattern", ["^orders/[a-z]+$", "(?i:A)b", "(?P<name>a)", "(?#comment)a", "a{,3}", "a{", r"\101", "", "é"]
)
def test_what_it_can_is_taken_as_it_is(pattern: str) -> None:
    assert pattern_of(pattern) == pattern


def test_a_dollar_is_the_end_of_the_value_and_nothing_before_it() -> None:
    assert compiled("^EU$").search("EU")
    assert not compiled("^EU$").search("EU\n")
    assert compiled(r"[$]\$").search("$$ and more")


@pytest.mark.parametrize(
    ("pattern", "start"),
    [
        ("^orders/", "orders/"),
        ("^isthmus[.]temporary\\.", "isthmus.temporary."),
        ("^", ""),
        ("", None),
        ("a", None),
        ("^a$", None),
        ("^a*", None),
        ("^a|b", None),
        ("(?i)^a", None),
        ("^[ab]", None),
    ],
)
def test_a_pattern_that_is_only_a_beginning_is_known_as_one(pattern: str, start: str | None) -> None:
    assert literal_start(pattern) == start
