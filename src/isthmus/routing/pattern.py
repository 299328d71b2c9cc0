r"""Regular expressions: the syntax and meaning of Python's, run by RE2.

A route's pattern meets whatever a sender puts into a message. Java's engine goes back and forth over such a
text: it overflows the stack where a group is repeated, and may take for ever. RE2 reads a text once, whatever
is in it. `in_re2` writes a pattern in RE2's syntax, from the tree that Python's parser makes of it, so that
it finds what Python finds; what RE2 cannot do (to look around, to find the same text again) is no pattern.

``\d``, ``\w``, ``\s``, ``\b`` and ``(?i)`` are about ASCII, and ``$`` is the end of the value.
"""

from __future__ import annotations

import re
import re._constants as op  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
import warnings
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Final

MAX_ELEMENTS: Final = 5_000
"""How long a pattern may be, repetitions written out: RE2 tries each of its elements at each character."""

_MAX_COUNT: Final = 1_000  # of a repetition in RE2
_DOLLARS: Final = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|(\$)", re.DOTALL)
_FLAGS: Final = re.IGNORECASE | re.ASCII

_POSITIONS: Final = {
    op.AT_BEGINNING: r"\A",
    op.AT_BEGINNING_STRING: r"\A",
    op.AT_END_STRING: r"\z",
    op.AT_BOUNDARY: r"\b",
}
_CATEGORIES: Final = {
    op.CATEGORY_DIGIT: r"\d",
    op.CATEGORY_NOT_DIGIT: r"\D",
    op.CATEGORY_WORD: r"\w",
    op.CATEGORY_NOT_WORD: r"\W",
    op.CATEGORY_SPACE: r"\t-\r ",  # RE2's own \s knows no vertical tab
    op.CATEGORY_NOT_SPACE: "\\x00-\\x08\\x0e-\\x1f\\x21-\U0010ffff",
}
_REFUSED: Final = {
    op.ASSERT: "looks ahead or behind, which RE2 does not: combine two patterns with &&",
    op.ASSERT_NOT: "looks ahead or behind, which RE2 does not: use a second pattern, && !(… =~ …)",
    op.GROUPREF: "refers to a group, which RE2 cannot",
    op.GROUPREF_EXISTS: "refers to a group, which RE2 cannot",
    op.ATOMIC_GROUP: "has an atomic group, which RE2 does not know",
    op.POSSESSIVE_REPEAT: "has a possessive repetition, which RE2 does not know",
}


@lru_cache(maxsize=1_000)
def compiled(pattern: str) -> re.Pattern[str]:
    """The pattern in Python: the reference for what it finds."""
    return re.compile(_strict(pattern), re.ASCII)


@lru_cache(maxsize=1_000)
def finder(pattern: str, *, whole: bool = False) -> Callable[[str], bool]:
    """Whether a text has what the pattern describes, or as a whole is that: what decides here.

    It is RE2 that looks, since the text is anybody's, and Python's engine keeps all threads of the process
    waiting for as long as it goes back and forth. Without the extra `bridge` there is only Python's.
    """
    try:
        import re2
    except ModuleNotFoundError:
        engine = compiled(pattern)
    else:
        engine = re2.compile(in_re2(pattern))
    find = engine.fullmatch if whole else engine.search
    return lambda text: find(text) is not None


def in_re2(pattern: str) -> str:
    """The pattern in RE2's syntax. Raises `ValueError`, with what is wrong, for what is no pattern here."""
    try:
        with warnings.catch_warnings(action="error"):  # of what may come to mean something else
            tree = parser.parse(_strict(pattern), re.ASCII)
            written, elements = _sequence(tree, tree.state.flags)
    except (re.error, OverflowError, RecursionError, Warning) as error:
        raise ValueError(str(error)) from None
    if elements > MAX_ELEMENTS:
        raise ValueError(
            f"too long: with its repetitions it has {elements} elements, and may have {MAX_ELEMENTS}"
        )
    return written


def literal_start(pattern: str) -> str | None:
    """The text that a value must begin with, if that is all that the pattern says; else None."""
    tree = parser.parse(_strict(pattern), re.ASCII)
    (first, *rest) = tree or [(None, None)]
    is_start = first == (op.AT, op.AT_BEGINNING) and not tree.state.flags & re.IGNORECASE
    if is_start and all(kind is op.LITERAL for kind, _ in rest):
        return "".join(chr(value) for _, value in rest)
    return None


def _strict(pattern: str) -> str:
    r"""The pattern with ``\Z`` for ``$``, which Python lets match before a newline at the end as well."""
    return _DOLLARS.sub(lambda found: r"\Z" if found[1] else found[0], pattern)


def _sequence(items: Iterable[tuple[Any, Any]], flags: int) -> tuple[str, int]:
    """The elements written one after the other, and how many they are."""
    if flags & ~_FLAGS:
        raise ValueError("of Python's flags only (?i) can be set")
    written = [_element(kind, value, flags) for kind, value in items]
    return "".join(text for text, _ in written), 1 + sum(elements for _, elements in written)


def _element(kind: Any, value: Any, flags: int) -> tuple[str, int]:
    if kind is op.ANY:
        return r"[^\n]", 1
    if kind is op.AT and value in _POSITIONS:
        return _POSITIONS[value], 1
    if kind is op.LITERAL:
        return _characters([(kind, value)], flags), 1
    if kind is op.NOT_LITERAL:
        return _characters([(op.NEGATE, None), (op.LITERAL, value)], flags), 1
    if kind is op.IN:
        return _characters(value, flags), 1
    if kind is op.BRANCH:
        branches = [_sequence(branch, flags) for branch in value[1]]
        return f"(?:{'|'.join(text for text, _ in branches)})", sum(elements for _, elements in branches)
    if kind is op.SUBPATTERN:
        _, added, removed, inside = value
        text, elements = _sequence(inside, (flags | added) & ~removed)
        return f"(?:{text})", elements
    if kind in (op.MAX_REPEAT, op.MIN_REPEAT):  # which of them matters only to what is found, not to whether
        least, most, inside = value
        return _repetition(least, most, inside, flags)
    raise ValueError(f"it {_REFUSED.get(kind, f'has what RE2 does not know: {value}')}")


def _repetition(least: int, most: int, inside: Iterable[tuple[Any, Any]], flags: int) -> tuple[str, int]:
    text, elements = _sequence(inside, flags)
    endless = most == op.MAXREPEAT
    if least > _MAX_COUNT or (not endless and most > _MAX_COUNT):
        raise ValueError(f"a count is at most {_MAX_COUNT}")
    count = {(0, True): "*", (1, True): "+"}.get((least, endless), f"{{{least},{'' if endless else most}}}")
    return f"(?:{text}){count}", elements * (least + 1 if endless else max(most, 1))


def _characters(items: Iterable[tuple[Any, Any]], flags: int) -> str:
    """A class of characters; without regard to case it has the ASCII letters in both."""
    ranges: list[tuple[int, int]] = []
    negated, others = "", ""
    for kind, value in items:
        if kind is op.NEGATE:
            negated = "^"
        elif kind is op.CATEGORY:
            others += _CATEGORIES[value]
        else:
            ranges.append((value, value) if kind is op.LITERAL else value)
    if flags & re.IGNORECASE:
        ranges += [both for each in ranges for both in _other_case(*each)]
    inside = "".join(_code(low) if low == high else f"{_code(low)}-{_code(high)}" for low, high in ranges)
    return f"[{negated}{inside}{others}]"


def _code(character: int) -> str:
    return f"\\x{character:02x}" if character < 128 else chr(character)


def _other_case(low: int, high: int) -> Iterable[tuple[int, int]]:
    for first, last, distance in ((ord("a"), ord("z"), -32), (ord("A"), ord("Z"), 32)):
        start, end = max(low, first), min(high, last)
        if start <= end:
            yield start + distance, end + distance
