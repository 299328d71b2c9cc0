"""What a predicate holds for."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from tests.support import strategies
from tests.support.routing import message

from isthmus.message import Header, HeaderType, Message
from isthmus.routing.predicate import Any, Not, Predicate, matches, parse


def holds(predicate: str, *, of: Message) -> bool:
    return matches(parse(predicate), of)


def header_holds(comparison: str, value: str) -> bool:
    return holds(f"msg.header.x {comparison}", of=message(x=value))


def test_the_address_is_compared() -> None:
    assert holds("msg.address==orders", of=message("orders"))
    assert not holds("msg.address==orders", of=message("order"))
    assert not holds("msg.address==orders", of=message("Orders"))
    assert holds("msg.address!=orders", of=message("order"))


def test_a_header_is_compared() -> None:
    assert holds("msg.header.region==EU", of=message(region="EU"))
    assert not holds("msg.header.region==EU", of=message(region="US"))
    assert not holds("msg.header.region==EU", of=message(Region="EU"))


def test_correlation_id_is_one_header_by_any_of_its_names() -> None:
    sent = message(CorrelationId="42")
    for name in ("CorrelationId", "CorrelationID", "JMSCorrelationID"):
        assert holds(f"msg.header.{name}=='42'", of=sent)


@pytest.mark.parametrize(
    ("comparison", "value", "expected"),
    [
        ("< 10", "9", True),
        ("< 10", "10", False),
        ("<= 10", "10.0", True),
        ("<= 10", "10.5", False),
        ("> 10", "1e2", True),
        ("> 10", "10", False),
        (">= 10", "10", True),
        (">= 10", "9.99", False),
        ("< 0", "-0.5", True),
        ("> 10", "9", False),  # by their texts it would be greater
    ],
)
def test_order_is_that_of_numbers(comparison: str, value: str, expected: bool) -> None:
    assert header_holds(comparison, value) is expected


@pytest.mark.parametrize("value", ["", "EU", "1a", " 1", "1\n", "NaN", "Infinity", "٣", "0x1", "1_0"])
@pytest.mark.parametrize("comparison", ["== 1", "< 1", "<= 1", "> 1", ">= 1", "in (1, 2)"])
def test_no_text_is_in_any_order_with_a_number_nor_equal_to_it(comparison: str, value: str) -> None:
    assert not header_holds(comparison, value)


def test_a_bare_number_is_equal_to_every_spelling_of_it() -> None:
    for value in ("1", "1.0", "01", "+1", "1e0", "10e-1"):
        assert header_holds("== 1", value)
        assert not header_holds("!= 1", value)


def test_a_number_in_quotes_is_equal_only_to_its_own_spelling() -> None:
    assert header_holds('== "01"', "01")
    assert not header_holds('== "01"', "1")


def test_the_type_of_a_header_makes_no_difference_to_its_text() -> None:
    assert holds("msg.header.x > 2", of=message(x=Header.of(3)))
    assert holds("msg.header.x == true", of=message(x=Header.of(True)))
    assert holds("msg.header.x == 1.5", of=message(x=Header.of(1.5, HeaderType.FLOAT)))


@pytest.mark.parametrize(
    ("pattern", "value", "expected"),
    [
        ("b", "abc", True),
        ("^b", "abc", False),
        ("^a.c$", "abc", True),
        (r"'\d+'", "ab12", True),
        (r"'^\w+$'", "öl", False),
        ("'(?i)EU'", "eu", True),
        ("'U|S'", "US", True),
        ("'^$'", "", True),
    ],
)
def test_a_pattern_is_found_anywhere_unless_it_is_tied(pattern: str, value: str, expected: bool) -> None:
    assert header_holds(f"=~ {pattern}", value) is expected


def test_one_of_several_values_is_enough() -> None:
    for value, expected in (("EU", True), ("UK", True), ("7.0", True), ("US", False), ("", False)):
        assert header_holds('in (EU, "UK", 7)', value) is expected


def test_a_header_exists_even_when_it_is_empty() -> None:
    assert holds("exists(msg.header.x)", of=message(x=""))
    assert holds("exists(msg.header.x)", of=message(x=Header.of(None)))
    assert not holds("exists(msg.header.x)", of=message())
    assert holds("exists(msg.address)", of=message(""))


@pytest.mark.parametrize("comparison", ["== a", "== ''", "< 1", "> 1", "=~ ''", "in (a, '')"])
def test_a_comparison_with_a_header_that_is_not_there_is_false(comparison: str) -> None:
    assert not holds(f"msg.header.x {comparison}", of=message())
    assert holds(f"!(msg.header.x {comparison})", of=message())


def test_a_header_that_is_not_there_is_different_from_everything() -> None:
    assert holds("msg.header.x != a", of=message())
    assert holds("msg.header.x != 1", of=message())


def test_terms_are_joined() -> None:
    sent = message("orders", region="EU", amount="150")
    assert holds("msg.address==orders && (msg.header.region!=EU || msg.header.amount>=100)", of=sent)
    assert not holds("msg.address==orders && msg.header.region!=EU || msg.header.amount<100", of=sent)
    assert holds("!(msg.address==other) && exists(msg.header.region)", of=sent)


@settings(max_examples=30)
@given(strategies.predicates, strategies.messages())
def test_there_are_two_truth_values(predicate: Predicate, sent: Message) -> None:
    holds = matches(predicate, sent)
    assert matches(Not(predicate), sent) is not holds
    assert matches(Any((predicate, Not(predicate))), sent)
