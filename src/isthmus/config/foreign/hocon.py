"""HOCON, as far as configurations of a bridge use it; JSON is a part of it.

In: the text. Out: a dict of dicts, lists and texts, each setting under its whole path. Comments, paths with
dots, ``=``, ``:``, ``+=``, objects that are merged, values that are joined, and ``${path}`` are understood;
includes are refused. All values that are not objects or lists are texts, as they were written; null is None.
A mistake is a `ConfigError` with line and column.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple, NoReturn

import msgspec

from isthmus.errors import ConfigError

MAX_DEPTH: Final = 50
_BLANK: Final = re.compile(r"(?:[ \t\r\f\ufeff\xa0]|(?:#|//)[^\n]*)*")
_LINES: Final = re.compile(r"(?:[\s\ufeff\xa0]|(?:#|//)[^\n]*)*")
_SPACE: Final = re.compile(r"(?:[\s,\ufeff\xa0]|(?:#|//)[^\n]*)*")
_SEPARATOR: Final = re.compile(r"\+=|[=:]|(?=\{)")
_TRIPLE: Final = re.compile(r'"""(.*?)"""+', re.DOTALL)
_QUOTED: Final = re.compile(r'"(?:\\.|[^"\\\n])*"')
_REFERENCE: Final = re.compile(r"\$\{(\??)([^}\n]+)\}")
_UNQUOTED: Final = re.compile(r'(?:(?!//)[^$"{}\[\]:=,+#`^?!@*&\\\n])+')
_PIECE_OF_PATH: Final = re.compile(
    r'"((?:\\.|[^"\\\n])*)"|[^\s."{}\[\]:=,+#$]+(?:[ \t]+[^\s."{}\[\]:=,+#$]+)*'
)


class _Reference(NamedTuple):
    path: str
    optional: bool


class _Last(NamedTuple):
    """A value and the optional references that followed it: the last one that leads somewhere counts."""

    choices: tuple[Any, ...]


class _Joined(NamedTuple):
    """Values that stand beside each other, until it is known what they are."""

    parts: tuple[Any, ...]


class _Appended(NamedTuple):
    """What ``+=`` adds, to whatever list is there."""

    value: Any


def parse(text: str) -> dict[str, Any]:
    """The settings of a text."""
    reader = _Reader(text)
    root = reader.document()
    resolved = _resolve(root, root, ())
    assert isinstance(resolved, dict)
    return resolved


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def document(self) -> dict[str, Any]:
        self._skip(_SPACE)
        braces = self._take("{")
        root = self._members("}" if braces else "", 0)
        self._skip(_SPACE)
        if self._at < len(self._text):
            self._fail("expected the end")
        return root

    def _members(self, end: str, depth: int) -> dict[str, Any]:
        if depth > MAX_DEPTH:
            self._fail(f"nested more than {MAX_DEPTH} deep")
        members: dict[str, Any] = {}
        while True:
            self._skip(_SPACE)
            if end and self._take(end):
                return members
            if self._at >= len(self._text):
                if end:
                    self._fail(f"expected {end}")
                return members
            path = self._path()
            self._skip(_BLANK)
            sign = self._match(_SEPARATOR)
            if sign is None:
                self._fail("expected =, : or {")
            value = self._value(depth + 1)
            if sign[0] == "+=":
                value = _Appended(value)
            _put(members, path, value)

    def _path(self) -> list[str]:
        pieces = []
        while True:
            piece = self._match(_PIECE_OF_PATH)
            if piece is None:
                self._fail("expected a key")
            if piece[0] == "include" and self._text[self._at : self._at + 1] in (" ", "\t"):
                self._fail("include is not understood: put the files together")
            pieces.append(piece[0] if piece[1] is None else _unescape(piece[0]))
            if not self._take("."):
                return pieces

    def _value(self, depth: int) -> Any:
        self._skip(_LINES)
        parts: list[Any] = []
        while True:
            blank = self._match(_BLANK)
            found = self._piece(depth)
            if found is None:
                break
            if parts and blank and blank[0]:
                parts.append(blank[0])
            parts.append(found)
        if not parts:
            self._fail("expected a value")
        if type(parts[-1]) is str:
            parts[-1] = parts[-1].rstrip()
        return parts[0] if len(parts) == 1 else _Joined(tuple(parts))

    def _piece(self, depth: int) -> Any:
        if self._take("{"):
            return self._members("}", depth)
        if self._take("["):
            return self._items(depth)
        if (found := self._match(_TRIPLE)) is not None:
            return _Quoted(found[1])
        if (found := self._match(_QUOTED)) is not None:
            return _Quoted(_unescape(found[0]))
        if (found := self._match(_REFERENCE)) is not None:
            return _Reference(found[2].strip(), bool(found[1]))
        if (found := self._match(_UNQUOTED)) is not None and found[0].strip():
            return found[0]
        return None

    def _items(self, depth: int) -> list[Any]:
        if depth > MAX_DEPTH:
            self._fail(f"nested more than {MAX_DEPTH} deep")
        items: list[Any] = []
        while True:
            self._skip(_SPACE)
            if self._take("]"):
                return items
            if self._at >= len(self._text):
                self._fail("expected ]")
            items.append(self._value(depth + 1))

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self._text, self._at)
        if found is not None:
            self._at = found.end()
        return found

    def _skip(self, pattern: re.Pattern[str]) -> None:
        self._match(pattern)

    def _take(self, character: str) -> bool:
        taken = self._text.startswith(character, self._at)
        self._at += len(character) * taken
        return taken

    def _fail(self, message: str) -> NoReturn:
        before = self._text[: self._at]
        line, column = before.count("\n") + 1, self._at - before.rfind("\n")
        raise ConfigError(f"line {line}, column {column}: {message}")


class _Quoted(str):
    """A text that was quoted: its blanks are its own."""


def _unescape(quoted: str) -> str:
    try:
        text: str = msgspec.json.decode(quoted, type=str)
    except (msgspec.DecodeError, UnicodeEncodeError):
        raise ConfigError(f"{quoted:.80} is not a text as JSON has it") from None
    return text


def _put(members: dict[str, Any], path: list[str], value: Any) -> None:
    """Set what a path leads to. An object is merged with one that is there, all else takes its place."""
    *above, last = path
    for name in above:
        inner = members.get(name)
        if not isinstance(inner, dict):
            inner = members[name] = {}
        members = inner
    there = members.get(last)
    if isinstance(value, dict) and isinstance(there, dict):
        for name, each in value.items():
            _put(there, [name], each)
    elif isinstance(value, _Appended):
        before = there.parts if isinstance(there, _Joined) else (there,)
        members[last] = value if there is None else _Joined((*before, value))
    elif isinstance(value, _Reference) and value.optional and there is not None:
        before = there.choices if isinstance(there, _Last) else (there,)
        members[last] = _Last((*before, value))
    else:
        members[last] = value


def _resolve(value: Any, root: dict[str, Any], asked: tuple[str, ...]) -> Any:
    match value:
        case dict():
            return {name: _resolve(each, root, asked) for name, each in value.items()}
        case list():
            return [_resolve(each, root, asked) for each in value]
        case _Appended(appended):
            return [_resolve(appended, root, asked)]
        case _Reference(path, optional):
            return _follow(path, optional, root, asked)
        case _Last(choices):
            found = (_resolve(each, root, asked) for each in reversed(choices))
            return next((each for each in found if each is not None), None)
        case _Joined(parts):
            return _join([_resolve(each, root, asked) for each in parts])
        case _Quoted():
            return str(value)
        case "null":
            return None
        case _:
            return value


def _follow(path: str, optional: bool, root: dict[str, Any], asked: tuple[str, ...]) -> Any:
    if path in asked or len(asked) > MAX_DEPTH:
        raise ConfigError(f"${{{path}}} leads to itself")
    found: Any = root
    for name in path.replace('"', "").split("."):
        found = found.get(name) if isinstance(found, dict) else None
    if found is None:
        # What is not there is to come from the environment.
        return None if optional else f"${{env:{path}}}"
    return _resolve(found, root, (*asked, path))


def _join(parts: list[Any]) -> Any:
    objects = [each for each in parts if isinstance(each, dict)]
    lists = [each for each in parts if isinstance(each, list)]
    if objects:
        merged: dict[str, Any] = {}
        for each in objects:
            for name, inner in each.items():
                _put(merged, [name], inner)
        return merged
    if lists:
        return [item for each in lists for item in each]
    return "".join(each for each in parts if isinstance(each, str))
