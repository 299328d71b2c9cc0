from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus.connectors.nats_conf import Node, Variable, parse
from isthmus.errors import ConfSyntaxError


def plain(node: Node) -> Any:
    if isinstance(node.value, dict):
        return {key: plain(each) for key, each in node.value.items()}
    if isinstance(node.value, tuple):
        return [plain(each) for each in node.value]
    return node.value


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("", {}),
        ("a: 1", {"a": 1}),
        ("a=1, B = two; c three", {"a": 1, "b": "two", "c": "three"}),
        ("a { b: c }", {"a": {"b": "c"}}),
        ("a: [1, 2\n3 [x]]", {"a": [1, 2, 3, ["x"]]}),
        ("# c\na: 1 # d\n// e\nb: 2 // f", {"a": 1, "b": 2}),
        ("url: nats://u:p@host:4222", {"url": "nats://u:p@host:4222"}),
        ("c: localhost(1414)", {"c": "localhost(1414)"}),
        ('a: "x # y, {z}" b: \'it "is"\'', {"a": "x # y, {z}", "b": 'it "is"'}),
        (r'a: "tab\tquote\"slash\\ \d"', {"a": 'tab\tquote"slash\\ \\d'}),
        ('"odd key": 1', {"odd key": 1}),
        ("a: true, b: off, c: YES", {"a": True, "b": False, "c": True}),
        ("a: 1k, b: 1KB, c: 2MiB, d: -1, e: 5s", {"a": 1000, "b": 1024, "c": 2 * 2**20, "d": -1, "e": "5s"}),
        ("x: 7, a: { b: $X }", {"x": 7, "a": {"b": 7}}),
        ("a: $HOME", {"a": Variable("HOME")}),
        ("a: 1, a: 2", {"a": 2}),
    ],
)
def test_a_configuration_is_read(text: str, tree: dict[str, Any]) -> None:
    assert plain(parse(text)) == tree


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("a: {\n  b: 1\n", 2, 7, "the file ends where"),
        ("a: 1\n}", 2, 1, "unexpected '}'"),
        ('a: "open', 1, 4, "a quote that is never closed"),
        ("a: 1\n  include './b.conf'", 2, 11, "there is no file to include"),
        ("a: 1\n: 2", 2, 1, "unexpected ':'"),
        ("a: [1, 2", 1, 9, "the file ends where"),
    ],
)
def test_an_error_says_line_and_column(text: str, line: int, column: int, message: str) -> None:
    with pytest.raises(ConfSyntaxError, match=message) as error:
        parse(text)
    assert (error.value.line, error.value.column) == (line, column)


@given(st.text("ab:={}[],;\"'#/$ \n1k\\", max_size=30))
def test_anything_is_read_or_is_one_kind_of_error(text: str) -> None:
    with contextlib.suppress(ConfSyntaxError):
        assert isinstance(parse(text).value, dict)
