"""docs/seeds.md has every sentence under its number, what happens here, and tests that exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "seeds.md"
SENTENCES = {"C": 26, "J": 44, "N": 29}
"""How many there are of each document."""


class Sentence(NamedTuple):
    number: str
    says: str
    here: str
    tests: tuple[str, ...]


def sentences() -> list[Sentence]:
    rows = re.findall(r"^\| ([A-Z][0-9]+) \| (.+) \| (.+) \| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    return [
        Sentence(number, says, here, tuple(re.findall("`([^`]+)`", tests)))
        for number, says, here, tests in rows
    ]


def test_every_sentence_is_there_once_and_in_order() -> None:
    numbers = [each.number for each in sentences()]
    assert numbers == [
        f"{letter}{number}" for letter, count in SENTENCES.items() for number in range(1, count + 1)
    ]


@cache
def functions(file: str) -> frozenset[str]:
    tree = ast.parse((TESTS / file).read_text())
    return frozenset(
        node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


@pytest.mark.parametrize("sentence", sentences(), ids=lambda each: each.number)
def test_a_sentence_has_tests_that_exist(sentence: Sentence) -> None:
    assert sentence.tests, f"{sentence.number} has no test: {sentence.says}"
    for test in sentence.tests:
        file, _, name = test.partition("::")
        assert (TESTS / file).is_file(), f"{sentence.number}: there is no {file}"
        assert name in functions(file), f"{sentence.number}: there is no test {name} in {file}"
