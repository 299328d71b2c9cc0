r"""A file in Java properties syntax, with the line of every key.

In: the bytes of a file: ``key=value`` lines, ``#`` comments, continuation lines, escapes such as ``\u00e9``.
Out: entries in order, and every problem of the syntax. A key that comes again overrides the earlier one and
keeps its place: the order of the routes is the order in which each is first named.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from isthmus.config.syntax.problem import Problem, Severity

MAX_BYTES = 1 << 20
"""More is no configuration, but a wrong path: a log file, a device."""

_NEWLINE = re.compile(r"\r\n|\r|\n")
_BLANKS = " \t\f"
_CONTINUED = re.compile(r"(?<!\\)(?:\\\\)*\\\Z")
_SEPARATOR = re.compile(r"(?<!\\)(?:\\\\)*([ \t\f]*[=:]|[ \t\f])[ \t\f]*")
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.))")
_BROKEN_ESCAPE = re.compile(r"(?<!\\)(?:\\\\)*\\u(?![0-9A-Fa-f]{4})")
_CONTROLS = {"t": "\t", "n": "\n", "f": "\f", "r": "\r"}
_SURROGATES = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_U_ESCAPE = re.compile(r"\\+u")
_DROPPED_BACKSLASH = re.compile(r"(?<!\\)(?:\\\\)*\\[^tnfru\\=:#!\"' \t\f\r\n]")
_DOUBLE_IT = "a backslash itself is written \\\\"


@dataclass(frozen=True, slots=True)
class Entry:
    """A key, its value, and where it was written."""

    key: str
    value: str | None = field(repr=False)
    """None for one that cannot be used; the reason has been reported."""
    file: str
    """The file, or ``$NAME`` for an environment variable."""
    line: int | None = None

    def problem(self, severity: Severity, message: str, hint: str | None = None) -> Problem:
        """A problem at this place."""
        return Problem(severity, message, self.file, self.line, self.key, hint)


class NotUtf8(ValueError):
    """Bytes that are not UTF-8, and the line on which that shows."""

    def __init__(self, line: int) -> None:
        super().__init__(f"not UTF-8 text (line {line})")
        self.line = line


def read_text(path: Path) -> str:
    """The text of a small file. Raises `ValueError` with a reason that a person understands."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a path that no file can have
        raise ValueError(f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(content) > MAX_BYTES:
        raise ValueError(f"larger than {MAX_BYTES >> 20} MiB")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start].decode("utf-8-sig")
        raise NotUtf8(len(_NEWLINE.findall(before)) + 1) from None


def read(path: Path) -> tuple[dict[str, Entry] | None, list[Problem]]:
    """The entries of a file by key, None if it cannot be read; and what is wrong or odd about its syntax."""
    file = str(path)
    try:
        text = read_text(path)
    except NotUtf8 as error:
        hint = "save the file as UTF-8, or write such characters as \\uXXXX"
        return None, [Problem(Severity.ERROR, "not UTF-8 text", file, error.line, hint=hint)]
    except ValueError as error:
        return None, [Problem(Severity.ERROR, str(error), file)]
    entries: dict[str, Entry] = {}
    problems: list[Problem] = []
    for entry, problem in _entries(text, file):
        if problem:
            problems.append(problem)
        if earlier := entries.get(entry.key):
            message = f"overrides line {earlier.line}, in its place"
            problems.append(entry.problem(Severity.NOTE, message))
        entries[entry.key] = entry
    return entries, problems


def reason_against(text: str) -> str | None:
    """Why a text can be no key and no value, if so."""
    if "\0" in text:
        return "holds a NUL character"
    if any("\ud800" <= each <= "\udfff" for each in text):
        return "holds half of a surrogate pair, which is no character"
    return None


def _entries(text: str, file: str) -> Iterator[tuple[Entry, Problem | None]]:
    for number, source, line in _logical_lines(text):
        separator = _SEPARATOR.search(line)
        written = (line[: separator.start(1)], line[separator.end() :]) if separator else (line, "")
        broken = any(map(_BROKEN_ESCAPE.search, written))
        # A key is known by what its escapes would be without their backslashes.
        key, value = (_unescaped(_U_ESCAPE.sub("u", each) if broken else each) for each in written)
        entry = Entry(key, value, file, number)
        unusable = Entry(key, None, file, number)
        if broken:
            message = "\\u without four hexadecimal digits"
            yield unusable, entry.problem(Severity.ERROR, message, _DOUBLE_IT)
        elif reason := reason_against(key) or reason_against(value):
            yield unusable, entry.problem(Severity.ERROR, reason)
        elif _DROPPED_BACKSLASH.search(source):
            message = "a backslash that Java properties syntax drops"
            yield entry, entry.problem(Severity.WARNING, message, _DOUBLE_IT)
        else:
            yield entry, None


def _logical_lines(text: str) -> Iterator[tuple[int, str, str]]:
    """Number, source and content of each line with a key, together with the lines that continue it."""
    lines = enumerate(_NEWLINE.split(text), 1)
    for number, first in lines:
        sources, pieces = [first], [first.lstrip(_BLANKS)]
        if pieces[0].startswith(("#", "!")):
            continue
        while _CONTINUED.search(pieces[-1]):
            pieces[-1] = pieces[-1][:-1]
            _, following = next(lines, (0, ""))
            sources.append(following)
            pieces.append(following.lstrip(_BLANKS))
        if line := "".join(pieces):
            yield number, "\n".join(sources), line


def _unescaped(text: str) -> str:
    return _SURROGATES.sub(_joined, _ESCAPE.sub(_character, text))


def _character(escape: re.Match[str]) -> str:
    digits, other = escape.groups()
    return chr(int(digits, 16)) if digits else _CONTROLS.get(other, other)


def _joined(pair: re.Match[str]) -> str:
    return pair[0].encode("utf-16-le", "surrogatepass").decode("utf-16-le")
