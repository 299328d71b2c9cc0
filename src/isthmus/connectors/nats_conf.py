"""Reads the configuration syntax of nats-server, which the NATS-MQ bridge shares.

::

    # a comment                    // another
    reconnectinterval: 5000,       numbers may have a suffix: 1k, 2MB
    nats: { servers: ["a:4222"] }  ':' and '=' are the same, and may be left out
    password: $SECRET              a key of the file, else a variable of the environment

Out comes a tree of `Node`s, each with its line and column; keys are in lower case, since case
does not count. ``include FILE`` stands for the pairs of that file, which is looked for beside the one that
includes it. Whatever cannot be read is a `ConfSyntaxError` with line and column.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from lark import Lark, Token, Transformer, UnexpectedCharacters, UnexpectedInput, UnexpectedToken, v_args
from lark.exceptions import VisitError

from isthmus import grammars
from isthmus.errors import ConfSyntaxError

# Values and items are alike, and apart all the same: what may follow them, a key or a bare item, tells the
# lexer which of the two it reads.
_GRAMMAR = r"""
start: pair*
pair: (KEY | QUOTED) (":" | "=")? value
value: "{" pair* "}"    -> map
     | "[" item* "]"    -> array
     | QUOTED           -> quoted
     | BARE             -> bare
item: "{" pair* "}"     -> map
    | "[" item* "]"     -> array
    | QUOTED            -> quoted
    | BARE              -> bare

KEY: /[^\s:=,;{}\[\]"'#\/][^\s:=,;{}\[\]"']*/
QUOTED: /"(?:\\.|[^"\\])*"/ | /'[^']*'/
BARE: /(?!\/\/)[^\s,;:={}\[\]"'#][^\s,;{}\[\]]*/
COMMENT: /(?:#|\/\/)[^\n]*/

%ignore COMMENT
%ignore /[\s,;]+/
"""

_SIZES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY_SIZES = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_NUMBER = re.compile(r"([+-]?[0-9]{1,18})(?:([kmgt])(i?b?))?", re.IGNORECASE)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\"}
_TRUE, _FALSE = ("true", "yes", "on"), ("false", "no", "off")
_EXPECTED = {"KEY": "a key", "QUOTED": "a quoted text", "BARE": "a value", "$END": "the end"}

Plain = str | int | bool


@dataclass(frozen=True, slots=True)
class Variable:
    """``$NAME``, where the file itself has no such key."""

    name: str


@dataclass(frozen=True, slots=True)
class Node:
    """A value, and where it is."""

    value: Any
    """Text, a number, true or false, a `Variable`, a mapping of nodes, or a tuple of them."""
    line: int
    column: int

    def error(self, message: str) -> ConfSyntaxError:
        """An error about this value."""
        return ConfSyntaxError(message, self.line, self.column)


_Pairs = dict[str, Node]


def parse(text: str, folder: Path | None = None) -> Node:
    """The tree of a configuration. Raises `ConfSyntaxError`.

    ``folder`` is where included files are looked for; without it there can be none.
    """
    try:
        return _resolved(_tree(text, folder), ())
    except RecursionError:
        raise ConfSyntaxError("nested too deeply, or a file that includes itself", 1, 1) from None


def _tree(text: str, folder: Path | None) -> Node:
    try:
        built: Node = _Builder(folder).transform(_parser().parse(text))
        return built
    except UnexpectedInput as error:
        raise _explained(error, text) from None
    except VisitError as error:
        if isinstance(error.orig_exc, ConfSyntaxError):
            raise error.orig_exc from None
        if isinstance(error.orig_exc, RecursionError):
            raise error.orig_exc from None
        raise


@cache
def _parser() -> Lark:
    return grammars.parser("nats-conf", _GRAMMAR, propagate_positions=True)


@v_args(meta=True)
class _Builder(Transformer[Token, Node]):
    def __init__(self, folder: Path | None) -> None:
        super().__init__()
        self._folder = folder

    def start(self, _: Any, pairs: list[_Pairs]) -> Node:
        return Node(_joined(pairs), 1, 1)

    def map(self, meta: Any, pairs: list[_Pairs]) -> Node:
        return Node(_joined(pairs), meta.line, meta.column)

    def array(self, meta: Any, items: list[Node]) -> Node:
        return Node(tuple(items), meta.line, meta.column)

    def pair(self, _: Any, children: list[Any]) -> _Pairs:
        token, node = children
        key = _unquoted(token).lower()
        return self._included(node) if key == "include" else {key: node}

    def _included(self, node: Node) -> _Pairs:
        if self._folder is None or not isinstance(node.value, str):
            raise node.error("there is no file to include")
        file = self._folder / node.value
        try:
            pairs: _Pairs = _tree(file.read_text(encoding="utf-8"), file.parent).value
        except OSError as error:
            raise node.error(f"{file} cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise node.error(f"{file} is not UTF-8 text") from None
        except ConfSyntaxError as error:
            raise node.error(f"{file}: {error}") from None
        return pairs

    def quoted(self, meta: Any, children: list[Token]) -> Node:
        return Node(_unquoted(children[0]), meta.line, meta.column)

    def bare(self, meta: Any, children: list[Token]) -> Node:
        return Node(_meaning(str(children[0])), meta.line, meta.column)


def _joined(pairs: list[_Pairs]) -> _Pairs:
    return {key: node for each in pairs for key, node in each.items()}


def _unquoted(token: str) -> str:
    if token.startswith("'"):
        return token[1:-1]
    if not token.startswith('"'):
        return str(token)
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[0]), token[1:-1])


def _meaning(text: str) -> Plain | Variable:
    if text.startswith("$") and len(text) > 1:
        return Variable(text[1:])
    if text.lower() in _TRUE + _FALSE:
        return text.lower() in _TRUE
    if number := _NUMBER.fullmatch(text):
        unit, suffix = (number[2] or "").lower(), (number[3] or "").lower()
        return int(number[1]) * (_BINARY_SIZES[unit] if suffix else _SIZES[unit])
    return text


def _resolved(node: Node, scopes: tuple[Mapping[str, Node], ...]) -> Node:
    """The node with every variable that some key around it explains."""
    match node.value:
        case Variable(name):
            for scope in scopes:
                found = scope.get(name.lower())
                if found is not None and not isinstance(found.value, Variable):
                    return Node(found.value, node.line, node.column)
            return node
        case tuple() as items:
            return Node(tuple(_resolved(item, scopes) for item in items), node.line, node.column)
        case dict() as pairs:
            inner = (pairs, *scopes)
            return Node({key: _resolved(each, inner) for key, each in pairs.items()}, node.line, node.column)
        case _:
            return node


def _explained(error: UnexpectedInput, text: str) -> ConfSyntaxError:
    if isinstance(error, UnexpectedCharacters):
        if error.char in "\"'":
            return ConfSyntaxError("a quote that is never closed", error.line, error.column)
        return ConfSyntaxError(f"unexpected {error.char!r}", error.line, error.column)
    if isinstance(error, UnexpectedToken):
        if error.token.type != "$END":
            return ConfSyntaxError(f"unexpected {str(error.token)[:40]!r}", error.line, error.column)
        spelled = {terminal.name: terminal.pattern.value for terminal in _parser().terminals}
        wanted = sorted({_EXPECTED.get(name) or repr(spelled[name]) for name in error.expected})
        lines = text.splitlines() or [""]
        return ConfSyntaxError(
            f"the file ends where {' or '.join(wanted)} is expected", len(lines), len(lines[-1]) + 1
        )
    return ConfSyntaxError(str(error), 1, 1)
