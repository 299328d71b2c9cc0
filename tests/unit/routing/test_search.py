"""Patterns followed all ways at once, and what Python's own search says of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus.routing.pattern import compiled, in_re2
from isthmus.routing.search import found

ATOMS = st.sampled_from(["a", "b", "B", ".", "[ab]", "[^a]", r"\d", r"\w", r"\.", "^", "$", r"\b", "1", "\n"])
COUNTS = st.sampled_from(["", "*", "+", "?", "{2}", "{1,}", "{0,2}", "*?", "+?"])


def grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    groups = st.sampled_from(["(", "(?:", "(?i:", "(?P<n>"])
    return st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map("|".join),
        st.tuples(groups, inner, COUNTS).map(lambda each: f"{each[0]}{each[1]}){each[2]}"),
    )


PATTERNS = st.recursive(st.tuples(ATOMS, COUNTS).map("".join), grow, max_leaves=6)


@given(st.sampled_from(["", "(?i)"]), PATTERNS, st.text("abB1.\n", max_size=8))
def test_what_is_found_is_what_pythons_search_finds(flags: str, pattern: str, text: str) -> None:
    try:
        in_re2(flags + pattern)
    except ValueError:
        return
    assert found(flags + pattern, text) is (compiled(flags + pattern).search(text) is not None)


@pytest.mark.parametrize("pattern", [r"(a+)+$", r"(a|a)*$", r"^(a*)*b$", r"^(.*a){20}b$", "a*" * 30 + "$"])
def test_a_search_ends_where_pythons_would_go_on_for_years(pattern: str) -> None:
    assert found(f"^{pattern}", "a" * 500 + "!") is False
