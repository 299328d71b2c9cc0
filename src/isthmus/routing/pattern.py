"""Regular expressions that Java and Python read alike.

A route's pattern runs in Java; the reference and ``isthmus check`` are Python. What one of them refuses, or
reads otherwise than the other, is no pattern here: a route must not pass the check and then take the router
down, or take other messages than the reference says.
"""

from __future__ import annotations

import re
import warnings

_ELEMENT = re.compile(
    r"""
      (?P<escape>\\.)
    | (?P<group>\(\?(?:[A-Za-z-]+[:)]|<[=!]|.)?)
    | (?P<braces>\{[^}]*\}?)
    | (?P<class>\[\^?\]?(?:\\.|[^\]\\])*\])
    """,
    re.VERBOSE | re.DOTALL,
)
_GROUPS = re.compile(r"\(\?(?:[:=!>]|<[=!]|i[:)])")
_COUNT = re.compile(r"\{[0-9]{1,4}(?:,[0-9]{0,4})?\}")
_ESCAPES_IN_CLASS = frozenset("dDwWsSnrtf")
_ESCAPES = _ESCAPES_IN_CLASS | frozenset("bA123456789")


def check_pattern(pattern: str) -> None:
    """Raises `ValueError`, with what is wrong, for a pattern that Java or Python would not take as it is."""
    for element in _ELEMENT.finditer(pattern):
        text = element[0]
        if element["escape"] and not _portable_escape(
            text, _ESCAPES, pattern[element.end() : element.end() + 1]
        ):
            raise ValueError(f"{text} does not mean the same in Java and in Python")
        if element["group"] and not _GROUPS.fullmatch(text):
            raise ValueError(f"{text} is not for both Java and Python")
        if element["braces"] and not _COUNT.fullmatch(text):
            raise ValueError(f"{text} is not a count: a brace that stands for itself is written \\{{")
        if element["class"]:
            _check_class(text)
    try:
        with warnings.catch_warnings(action="error"):  # of what may come to mean something else
            re.compile(pattern, re.ASCII)
    except (re.error, OverflowError, RecursionError, Warning) as error:
        raise ValueError(str(error)) from None


def _check_class(text: str) -> None:
    inside = re.sub(r"\A\[\^?\]?|\]\Z", "", text)
    if re.search(r"\[|&&|--|~~|\|\|", re.sub(r"\\.", "", inside, flags=re.DOTALL)):
        raise ValueError(
            f"{text}: in a class, write [ as \\[, and no character twice that Java could combine"
        )
    for escape in re.findall(r"\\.", inside, re.DOTALL):
        if not _portable_escape(escape, _ESCAPES_IN_CLASS, ""):
            raise ValueError(f"{escape} in a class does not mean the same in Java and in Python")


def _portable_escape(escape: str, letters: frozenset[str], following: str) -> bool:
    character = escape[1]
    if character.isdigit():  # \1 is a group; \10 and \101 are read in three ways
        return character in letters and not following.isdigit()
    return character in letters or not character.isalnum()
