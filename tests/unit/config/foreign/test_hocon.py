"""HOCON, as far as configurations use it."""

from __future__ import annotations

import pytest

from isthmus.config.foreign.hocon import MAX_DEPTH, parse
from isthmus.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("", {}),
        ("a = 1", {"a": "1"}),
        ("a : x y z  # comment", {"a": "x y z"}),
        ('a = " x "', {"a": " x "}),
        ('a = "tab\\t\\u00e9"', {"a": "tab\té"}),
        ('a = """two\n"lines" """', {"a": 'two\n"lines" '}),
        ("a.b.c = 1\na.b.d = 2 // comment", {"a": {"b": {"c": "1", "d": "2"}}}),
        ('a { "b.c" = 1 }', {"a": {"b.c": "1"}}),
        ("a { b = 1 }, a { c = 2 }", {"a": {"b": "1", "c": "2"}}),
        ("a = { b = 1 }\na = 2", {"a": "2"}),
        ('{"a": {"b": [1, "x", {"c": null}]}}', {"a": {"b": ["1", "x", {"c": None}]}}),
        ("a = [\n 1\n 2\n]", {"a": ["1", "2"]}),
        ("a = [1]\na += 2\na += { b = 3 }", {"a": ["1", "2", {"b": "3"}]}),
        ("a += 1", {"a": ["1"]}),
        ("a = x\nb = ${a}/${a} y", {"a": "x", "b": "x/x y"}),
        ("a { b = 1 }\nc = ${a} { d = 2 }", {"a": {"b": "1"}, "c": {"b": "1", "d": "2"}}),
        ("a = [1]\nb = ${a} [2]", {"a": ["1"], "b": ["1", "2"]}),
        ("a = ${?NOPE}", {"a": None}),
        ("a = 1\na = ${?NOPE}", {"a": "1"}),
        ("a = 1\na = ${?b}\na = ${?NOPE}\nb = 2", {"a": "2", "b": "2"}),
        ("a { b = 1 }\na { b = ${?NOPE} }", {"a": {"b": "1"}}),
        ("a = [1]\na = ${?NOPE}\na += 2", {"a": ["1", "2"]}),
        ("a = 1\n" + "a = ${?NOPE}\n" * 2000, {"a": "1"}),
        ("a += 1\n" * 2000, {"a": ["1"] * 2000}),
        ("a = ${HOME}/x", {"a": "${env:HOME}/x"}),
        ('a = http"://x"', {"a": "http://x"}),
    ],
)
def test_a_text_means(text, meaning):
    assert parse(text) == meaning


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a", "line 1, column 2: expected =, : or {"),
        ("a = 1\nb = ", "line 2, column 5: expected a value"),
        ("a = [1", "line 1, column 7: expected ]"),
        ("a {\n b = 1\n", "line 3, column 1: expected }"),
        ("a = 1\n}", "expected a key"),
        ('include "other.conf"', "include is not understood"),
        ("a = ${b}\nb = ${a}", "leads to itself"),
        ("a = " + "[" * (MAX_DEPTH + 2), "nested more than 50 deep"),
        ("a {" * (MAX_DEPTH + 2), "nested more than 50 deep"),
        (r'a = "\x"', "is not a text as JSON has it"),
    ],
)
def test_a_mistake_is_told_with_its_place(text, said):
    with pytest.raises(ConfigError) as caught:
        parse(text)
    assert said in str(caught.value)
