"""Regular expressions run in RE2, and mean what they mean in Python: what RE2 cannot do is no pattern.

Without a refusal `isthmus check` would pass a route that takes the router down when it starts, or that takes
other messages than the reference says.
"""

from __future__ import annotations

import sys

import pytest
from hypothesis import given, settings
from tests.support import strategies
from tests.support.patterns import PATTERNS, SLOW_IN_PYTHON, TEXTS
from tests.support.routing import message

from isthmus.errors import PredicateError
from isthmus.routing.pattern import compiled, finder, literal_start
from isthmus.routing.predicate import Match, matches, parse


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


@pytest.mark.parametrize("pattern", PATTERNS)
def test_what_is_found_is_what_python_finds(pattern: str) -> None:
    slow = any(each in pattern for each in SLOW_IN_PYTHON)
    texts = [each for each in TEXTS if len(each) < 40 or not slow]
    for whole, find in ((False, compiled(pattern).search), (True, compiled(pattern).fullmatch)):
        expected = [find(text) is not None for text in texts]
        assert list(map(finder(pattern, whole=whole), texts)) == expected


@settings(max_examples=300)
@given(strategies.patterns, strategies.texts)
def test_it_is_so_in_any_text(pattern: str, text: str) -> None:
    assert finder(pattern)(text) == (compiled(pattern).search(text) is not None)
    assert finder(pattern, whole=True)(text) == (compiled(pattern).fullmatch(text) is not None)


@pytest.mark.parametrize("pattern", ["^([a-z]+-?)+$", "^(a+)+$", "^(a|aa)+b$"])
def test_no_text_keeps_a_pattern_busy(pattern: str) -> None:
    """Python's engine takes more than a lifetime for each."""
    assert not matches(parse(f"msg.header.x =~ '{pattern}'"), message(x="a" * 40_000 + "!"))


def test_without_re2_python_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    find = finder.__wrapped__
    assert find("^E.$")("EU")
    assert not find("E", whole=True)("EU")
