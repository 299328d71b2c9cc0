r"""Whether a route's pattern is found in a text, in a time that nobody who chooses the text can blow up.

Python's own search tries one way after the other: ``(a+)+$`` keeps it busy for years with 40 times ``a`` and
a ``b``. Here all ways are followed at once. A set of positions in the text is an integer, a bit for each; a
part of a pattern takes the set of positions where it may begin and returns that of those where it may end::

    a        (starts & where an a stands) << 1
    ab       b of the ends of a
    a|b      the ends of either
    a*       all that can be reached, step by step, until nothing is new

What it reads is what `isthmus.routing.pattern` writes for RE2, which has fewer forms than a pattern may have:
each character is a class, each group is ``(?:…)``, and nothing looks ahead or behind.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from isthmus.routing.pattern import in_re2

_TOKEN = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|\(\?:|\{([0-9]+),([0-9]*)\}|.", re.DOTALL)
_COUNTS = {"*": (0, None), "+": (1, None)}


class _Text:
    """A text, and where in it what stands."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.everywhere = (1 << len(text) + 1) - 1
        self._masks: dict[re.Pattern[str], int] = {}

    def mask(self, atom: re.Pattern[str]) -> int:
        """The positions at which a pattern fits: one of a single character, or of none."""
        if atom not in self._masks:
            text, found = self.text, 0
            for position in range(len(text) + 1):
                found |= (atom.match(text, position) is not None) << position
            self._masks[atom] = found
        return self._masks[atom]


_Part = Callable[[_Text, int], int]
"""Where a part of a pattern may end, of where it may begin."""


def found(pattern: str, text: str) -> bool:
    """Whether the pattern is anywhere in the text. It is one that `in_re2` takes."""
    where = _Text(text)
    return _parse(pattern)(where, where.everywhere) != 0


@lru_cache(maxsize=1024)
def _parse(pattern: str) -> _Part:
    return _Parser(in_re2(pattern)).alternatives()


class _Parser:
    def __init__(self, pattern: str) -> None:
        self._tokens = [*_TOKEN.finditer(pattern)]
        self._next = 0

    def alternatives(self) -> _Part:
        branches = [self._sequence()]
        while self._token == "|":
            self._next += 1
            branches.append(self._sequence())
        self._next += 1  # the parenthesis, or the end
        return branches[0] if len(branches) == 1 else _either(branches)

    @property
    def _token(self) -> str:
        return self._tokens[self._next][0] if self._next < len(self._tokens) else ")"

    def _sequence(self) -> _Part:
        parts: list[_Part] = []
        while self._token not in ("|", ")"):
            parts.append(self._repeated(self._single()))
        return _one_after_the_other(parts)

    def _single(self) -> _Part:
        token = self._token
        self._next += 1
        if token == "(?:":
            return self.alternatives()
        if token[0] == "\\":
            position = re.compile(r"\Z" if token == r"\z" else token, re.ASCII)
            return lambda text, starts: starts & text.mask(position)
        character = re.compile(token, re.ASCII)
        return lambda text, starts: (starts & text.mask(character)) << 1

    def _repeated(self, part: _Part) -> _Part:
        token = self._token
        if token in _COUNTS:
            low, high = _COUNTS[token]
        elif token[0] == "{":
            first, last = self._tokens[self._next].groups()
            low, high = int(first), int(last) if last else None
        else:
            return part
        self._next += 1
        return _repeat(part, low, high)


def _one_after_the_other(parts: list[_Part]) -> _Part:
    def sequence(text: _Text, starts: int) -> int:
        for part in parts:
            starts = part(text, starts)
        return starts

    return sequence


def _either(branches: list[_Part]) -> _Part:
    def either(text: _Text, starts: int) -> int:
        ends = 0
        for branch in branches:
            ends |= branch(text, starts)
        return ends

    return either


def _repeat(part: _Part, low: int, high: int | None) -> _Part:
    def repeat(text: _Text, starts: int) -> int:
        for _ in range(low):
            before, starts = starts, part(text, starts)
            if starts == before:
                break
        reached = fresh = starts
        count = low
        while fresh and (high is None or count < high):
            fresh = part(text, fresh) & ~reached
            reached |= fresh
            count += 1
        return reached

    return repeat
