r"""A file in Java properties syntax, with the line of every key.

In: the bytes of a file: ``key=value`` lines, ``#`` comments, continuation lines, escapes such as ``\u00e9``.
Out: entries in order, and every problem of the syntax. A key that comes again overrides the earlier one and
keeps its place: the order of the routes is the order in which each is first named.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from javaproperties import InvalidUEscapeError, KeyValue, parse

from isthmus.config.syntax.problem import Problem, Severity

MAX_BYTES = 1 << 20
"""More is no configuration, but a wrong path: a log file, a device."""

_NEWLINE = re.compile(r"\r\n|\r|\n")
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
    stream = io.StringIO(text, newline="")
    elements = parse(stream)
    line = 1
    while True:
        start = stream.tell()
        broken = False
        try:
            element = next(elements, None)
        except InvalidUEscapeError:
            # The parser has given up: read this element without such escapes, and the lines after it anew.
            element = next(parse(_U_ESCAPE.sub("u", text[start : stream.tell()])))
            elements = parse(stream)
            broken = True
        if element is None:
            return
        if isinstance(element, KeyValue):
            yield _entry(element, broken, file, line)
        line += len(_NEWLINE.findall(text, start, stream.tell()))


def _entry(element: KeyValue, broken: bool, file: str, line: int) -> tuple[Entry, Problem | None]:
    entry = Entry(element.key, element.value, file, line)
    unusable = Entry(element.key, None, file, line)
    if broken:
        message = "\\u without four hexadecimal digits"
        return unusable, entry.problem(Severity.ERROR, message, _DOUBLE_IT)
    if reason := reason_against(element.key) or reason_against(element.value):
        return unusable, entry.problem(Severity.ERROR, reason)
    if _DROPPED_BACKSLASH.search(element.source_stripped):
        message = "a backslash that Java properties syntax drops"
        return entry, entry.problem(Severity.WARNING, message, _DOUBLE_IT)
    return entry, None
