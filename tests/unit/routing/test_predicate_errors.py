"""Texts that are no predicates: what is wrong, and at which column."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.support.routing import message

from isthmus.errors import PredicateError
from isthmus.routing.predicate import MAX_DEPTH, Predicate, matches, parse


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("", 0, "expected"),
        ("   ", 3, "expected"),
        ("msg.address", 11, "a comparison or in (…)"),
        ("msg.address==", 13, "expected a quoted text or a value"),
        ("msg.address = a", 12, "expected"),
        ("msg.address === a", 14, "expected a quoted text or a value, found '='"),
        ("msg.adress==a", 0, "expected"),
        ("address==a", 0, "expected"),
        ("msg.header.==a", 11, "expected a header's name or a quoted text"),
        ("msg.header==a", 0, "expected"),
        ("msg.address==a msg.address==b", 15, "expected"),
        ("msg.address==a &&", 17, "expected"),
        ("msg.address==a & msg.address==b", 15, "expected"),
        ("msg.address==a and msg.address==b", 15, "expected"),
        ("(msg.address==a", 15, r"expected"),
        ("msg.address==a)", 14, "expected"),
        ("()", 1, "expected"),
        ("!", 1, "expected"),
        ("msg.address in ()", 16, "expected a quoted text or a value"),
        ("msg.address in (a,)", 18, "expected a quoted text or a value"),
        ("msg.address in (a b)", 18, "expected"),
        ("msg.address in a", 15, "expected"),
        ("exists()", 7, "expected"),
        ("exists(a)", 7, "expected"),
        ("exists msg.address", 7, "expected"),
        ('msg.address=="a', 13, "expected a quoted text or a value"),
        ("a==msg.address", 0, "expected"),
    ],
)
def test_the_error_is_at_the_first_column_that_does_not_fit(text: str, column: int, message: str) -> None:
    with pytest.raises(PredicateError) as caught:
        parse(text)
    assert caught.value.column == column
    assert caught.value.text == text
    assert message in caught.value.message


@pytest.mark.parametrize("sign", ["<", "<=", ">", ">="])
@pytest.mark.parametrize("literal", ["EU", '"5"', "''"])
def test_order_needs_a_number_on_its_right(sign: str, literal: str) -> None:
    text = f"msg.address==a && msg.header.x {sign} {literal}"
    with pytest.raises(PredicateError, match=f"{sign} compares numbers") as caught:
        parse(text)
    assert caught.value.column == text.rindex(literal)


@pytest.mark.parametrize(
    "pattern", ["(", "[", "*a", "a**", r"\p{L}", "a{2,1}", "(?<n>a)", "(?z)", "a" + "\\"]
)
def test_a_pattern_that_is_no_regular_expression_is_pointed_at(pattern: str) -> None:
    text = "msg.address =~ '" + pattern.replace("\\", "\\\\") + "'"
    with pytest.raises(PredicateError, match="not a regular expression") as caught:
        parse(text)
    assert caught.value.column == 15


def test_the_caret_stands_under_the_column() -> None:
    with pytest.raises(PredicateError) as caught:
        parse("msg.address == && x")
    _, shown, caret = str(caught.value).splitlines()
    assert shown[caret.index("^")] == "&"


def nested(depth: int) -> str:
    return "(" * depth + "msg.address==a" + ")" * depth


def test_parentheses_nest_as_deep_as_anybody_needs() -> None:
    assert parse(nested(MAX_DEPTH)) == parse("msg.address==a")


def test_deeper_ones_are_an_error_and_not_a_stack_overflow() -> None:
    for depth in (MAX_DEPTH + 1, 100_000):
        with pytest.raises(PredicateError, match="nested more than 50 deep") as caught:
            parse(nested(depth))
        assert caught.value.column == MAX_DEPTH


def test_parentheses_in_quotes_do_not_nest() -> None:
    text = "(" * 100
    assert parse(f"msg.address=='{text}'") == parse(f'msg.address=="{text}"')


def test_a_long_chain_is_no_problem() -> None:
    assert parse(" || ".join(["msg.address==a"] * 500))


pieces = st.sampled_from(
    [
        *[
            "msg.address",
            "msg.header.",
            "msg.header.x",
            'msg.header."x y"',
            "==",
            "!=",
            "<",
            ">=",
            "=~",
            " in ",
        ],
        *[
            "(",
            ")",
            ",",
            "!",
            "&&",
            "||",
            "exists",
            "a",
            "1.5",
            '"q"',
            "'q'",
            '"',
            "'",
            "\\",
            " ",
            "\n",
            "\0",
        ],
        *['"[[a]"', '"(?u)a"', '"(?P<n>a)"', '"a{99999999999}"', '"[a||b]"', "'\\N{x}'", '"((a)"'],
    ]
)


def parsed(text: str) -> Predicate | PredicateError:
    try:
        return parse(text)
    except PredicateError as error:
        return error


@settings(max_examples=50)
@given(st.lists(pieces | st.text(max_size=3), max_size=8).map("".join))
@example("\ud800")
def test_any_text_is_a_predicate_or_a_predicate_error(text: str) -> None:
    found = parsed(text)
    if isinstance(found, PredicateError):
        assert found.text == text
        assert 0 <= found.column <= len(text)
        assert str(found).endswith("^")
    else:
        assert isinstance(found, Predicate)


regex_pieces = st.sampled_from(
    [*r"()[]{}|*+?.^$-,:=!<>#&~\aAbBdDsSwWzZuUxPLimsx019", "(?", "[[", "&&", "||", "--"]
)


@settings(max_examples=50)
@given(st.lists(regex_pieces, max_size=6).map("".join))
@example("(?u)a")
@example("[[a]")
@example("[[")
@example("[a||b]")
def test_any_pattern_can_be_searched_for_or_is_a_predicate_error(pattern: str) -> None:
    quoted = pattern.replace("\\", "\\\\")
    found = parsed(f'msg.address =~ "{quoted}"')
    if isinstance(found, PredicateError):
        assert found.column == 15
    else:
        assert matches(found, message("any address")) in (True, False)
