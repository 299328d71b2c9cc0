"""From a predicate's text to its tree."""

from __future__ import annotations

import re

import pytest

from isthmus.message import STANDARD_HEADERS
from isthmus.routing.predicate import (
    Address,
    All,
    Any,
    Compare,
    Exists,
    HeaderField,
    Literal,
    Match,
    Not,
    OneOf,
    Predicate,
    parse,
)

ADDRESS = Address()
A, B, C, D = (Exists(HeaderField(name)) for name in "abcd")


@pytest.mark.parametrize("sign", ["==", "!=", "<", "<=", ">", ">="])
def test_every_comparison_is_read(sign: str) -> None:
    assert parse(f"msg.header.amount{sign}5") == Compare(HeaderField("amount"), sign, Literal("5", 5.0))
    assert parse(f"msg.header.amount  {sign}\t5") == parse(f"msg.header.amount{sign}5")


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("msg.address==foo-topic", Compare(ADDRESS, "==", Literal("foo-topic"))),
        ("msg.address=~^orders/", Match(ADDRESS, "^orders/")),
        ('msg.address =~ "^(a|b)$"', Match(ADDRESS, "^(a|b)$")),
        ("msg.address in (a)", OneOf(ADDRESS, (Literal("a"),))),
        ("msg.address in(a, 'b c',3)", OneOf(ADDRESS, (Literal("a"), Literal("b c"), Literal("3", 3.0)))),
        ("exists(msg.header.X)", Exists(HeaderField("X"))),
        ("exists ( msg.address )", Exists(ADDRESS)),
        ("!exists(msg.header.X)", Not(Exists(HeaderField("X")))),
        ("! msg.address==a", Not(Compare(ADDRESS, "==", Literal("a")))),
        ("((msg.address==a))", Compare(ADDRESS, "==", Literal("a"))),
    ],
)
def test_every_form_is_read(text: str, tree: Predicate) -> None:
    assert parse(text) == tree


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a && b", All((A, B))),
        ("a || b", Any((A, B))),
        ("a && b && c", All((A, B, C))),
        ("a || b || c", Any((A, B, C))),
        ("a || b && c", Any((A, All((B, C))))),
        ("a && b || c && d", Any((All((A, B)), All((C, D))))),
        ("(a || b) && c", All((Any((A, B)), C))),
        ("!a && b", All((Not(A), B))),
        ("!(a && b)", Not(All((A, B)))),
        ("!(!(a))", Not(Not(A))),
        ("a&&b||c", Any((All((A, B)), C))),
        ("a\n && b\r\n", All((A, B))),
    ],
)
def test_not_binds_before_and_which_binds_before_or(text: str, tree: Predicate) -> None:
    assert parse(re.sub("[abcd]", r"exists(msg.header.\g<0>)", text)) == tree


@pytest.mark.parametrize(
    "text",
    [
        "foo-topic",
        "orders/eu",
        "a.b",
        "ID:42",
        "öl",
        "a*b",
        "$x",
        "2024-01-01",
        "x;y",
        "in",
        "exists",
        "msg.address",
    ],
)
def test_a_plain_word_needs_no_quotes(text: str) -> None:
    assert parse(f"msg.address=={text}") == Compare(ADDRESS, "==", Literal(text))
    assert parse(f"msg.address in ({text})") == OneOf(ADDRESS, (Literal(text),))


@pytest.mark.parametrize(
    ("quoted", "text"),
    [
        ('"a b"', "a b"),
        ("'a b'", "a b"),
        ('""', ""),
        ('"it\'s"', "it's"),
        (r'"say \"x\""', 'say "x"'),
        (r"'it\'s'", "it's"),
        (r'"a\\b"', "a\\b"),
        (r'"\d+\.\n"', r"\d+\.\n"),
        ('"&& || ! ( ) , == ~"', "&& || ! ( ) , == ~"),
        ("' x '", " x "),
    ],
)
def test_quotes_hold_any_text(quoted: str, text: str) -> None:
    assert parse(f"msg.address=={quoted}") == Compare(ADDRESS, "==", Literal(text))


@pytest.mark.parametrize(
    ("text", "number"),
    [("1", 1), ("-1", -1), ("+1.5", 1.5), (".5", 0.5), ("5.", 5), ("1e3", 1000), ("1E-3", 0.001), ("007", 7)],
)
def test_a_bare_literal_that_reads_as_a_number_is_one(text: str, number: float) -> None:
    assert parse(f"msg.address=={text}") == Compare(ADDRESS, "==", Literal(text, number))


@pytest.mark.parametrize("text", ["1a", "1.2.3", "0x10", "1_000", "NaN", "Infinity", "e3", "-", "٣", "1e"])
def test_a_bare_literal_that_does_not_is_text(text: str) -> None:
    assert parse(f"msg.address=={text}") == Compare(ADDRESS, "==", Literal(text))


def test_a_number_in_quotes_is_text() -> None:
    assert parse('msg.header.Zip=="01234"') == Compare(HeaderField("Zip"), "==", Literal("01234"))


@pytest.mark.parametrize(("name", "jms_name"), STANDARD_HEADERS.items())
def test_a_standard_header_has_one_meaning_under_either_name(name: str, jms_name: str) -> None:
    assert parse(f"msg.header.{jms_name}==x") == parse(f"msg.header.{name}==x")
    assert parse(f'msg.header."{jms_name}"==x') == Compare(HeaderField(name), "==", Literal("x"))


@pytest.mark.parametrize(
    "name", ["region", "my-prop", "a.b.c", "_x", "$y", "JMSXGroupID", "in", "exists", "x9"]
)
def test_a_plain_name_of_a_header_needs_no_quotes(name: str) -> None:
    assert parse(f"exists(msg.header.{name})") == Exists(HeaderField(name))


@pytest.mark.parametrize("name", ["odd name", "9", "é", "a=b;c%", "a)b"])
def test_an_odd_name_of_a_header_stands_in_quotes(name: str) -> None:
    assert parse(f'exists(msg.header."{name}")') == Exists(HeaderField(name))


def test_a_name_that_collides_with_a_standard_header_is_reached_as_property() -> None:
    assert parse("exists(msg.header.property.Type)") == Exists(HeaderField("property.Type"))
