"""LIKE of JMS selectors, in time linear in the text.

A regular expression of the same meaning tries every way in which each ``%`` could share the text out, which
for ``%a%a%a%b`` never ends. None of that is needed: between two ``%``, the first occurrence of what stands
there is as good as any later one. So a pattern is cut at its ``%``; the first part is tied to the beginning
of the text, the last to its end, and each of the others is looked for once, behind the one before it. Only
with a ``_`` in it may looking take a step for each of its characters at each of the text's; so those are
counted, of the longest part.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from isthmus.errors import SelectorError

MAX_TEXT: Final = 32_768
"""How many characters a text may have for LIKE to look at it. A longer one is neither like nor unlike."""

_ANY: Final = None
"""Stands for ``_`` in a part."""
_Part = list[str | None]


class Like:
    """A pattern, in which ``escape`` takes ``%`` and ``_`` their meaning. Raises `SelectorError`."""

    def __init__(self, pattern: str, escape: str = "") -> None:
        if len(escape) > 1:
            raise SelectorError("the escape character of LIKE must be one character")
        first, *others = _parts(pattern, escape)
        self._first = re.compile(_regex(first), re.DOTALL)
        self._last: re.Pattern[str] | None = None
        """What the text ends with; None for a pattern without ``%``, which is the first part alone."""
        if others:
            last = others.pop()
            self._last_length = len(last)
            self._last = re.compile(_regex(last), re.DOTALL)
        self._between = [re.compile(_regex(part), re.DOTALL) for part in others if part]
        self.steps = max((len(part) for part in others if _ANY in part), default=0)
        """How many steps a match may take for each character of the text."""

    def matches(self, text: str) -> bool | None:
        """Whether the whole text is like the pattern; None for one that is too long to tell."""
        if len(text) > MAX_TEXT:
            return None
        if self._last is None:
            return self._first.fullmatch(text) is not None
        begin = self._first.match(text)
        if begin is None:
            return False
        pos, end = begin.end(), len(text) - self._last_length
        for part in self._between:
            found = part.search(text, pos, max(pos, end))
            if found is None:
                return False
            pos = found.end()
        return pos <= end and self._last.fullmatch(text, end) is not None


def _parts(pattern: str, escape: str) -> Iterator[_Part]:
    """What stands between the ``%``, character by character."""
    part: _Part = []
    characters = iter(pattern)
    for character in characters:
        if escape and character == escape:
            escaped = next(characters, "")
            if not escaped:
                raise SelectorError("the pattern of LIKE ends with its escape character")
            part.append(escaped)
        elif character == "%":
            yield part
            part = []
        else:
            part.append(_ANY if character == "_" else character)
    yield part


def _regex(part: _Part) -> str:
    """A part as a regular expression: of one length, so that there is nothing to try again."""
    return "".join("." if character is _ANY else re.escape(character) for character in part)
