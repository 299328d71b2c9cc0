"""A route's predicate: from the text in the configuration to a tree, and what the tree means.

In: ``msg.address==foo-topic && (msg.header.Region!=EU || msg.header.Amount>=100)``. Out: a tree of frozen
dataclasses, or a `PredicateError` that knows the column. `matches` is the reference meaning, a plain
function; `isthmus.routing.columns` gives the same tree its meaning in Spark, and tests hold the two together.

There are two truth values, never three:

- a comparison with a header that is not there is false, and ``a != b`` is always ``!(a == b)``;
- a bare literal that reads as a number compares as a number, and no text equals it;
  in quotes it is text: ``msg.header.Zip=="01234"``;
- ``=~`` finds the pattern anywhere in the value; ``^`` and ``$`` tie it to the ends.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Protocol, cast

from lark import Lark, Token, Transformer, UnexpectedCharacters, UnexpectedInput, UnexpectedToken, v_args

from isthmus import grammars
from isthmus.errors import PredicateError
from isthmus.message import Header, canonical_header_name
from isthmus.routing.pattern import finder, in_re2

NUMBER = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
"""What reads as a number, in the syntax that Python's and Java's regular expressions share."""

MAX_DEPTH = 50
"""How deep parentheses may nest: far beyond any real predicate, far below any stack."""

_NUMBER = re.compile(NUMBER)
_QUOTED = r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'"


@dataclass(frozen=True, slots=True)
class Address:
    """``msg.address``: where the message was sent."""


@dataclass(frozen=True, slots=True)
class HeaderField:
    """``msg.header.<name>``: a header, by its canonical name."""

    name: str


Field = Address | HeaderField


@dataclass(frozen=True, slots=True)
class Literal:
    """A value to compare with: text, and the number that it stands for if it was written as one."""

    text: str
    number: float | None = None


@dataclass(frozen=True, slots=True)
class Compare:
    """``field operator literal``; the order operators have a number on their right."""

    field: Field
    operator: str
    literal: Literal


@dataclass(frozen=True, slots=True)
class Match:
    """``field =~ pattern``."""

    field: Field
    pattern: str


@dataclass(frozen=True, slots=True)
class OneOf:
    """``field in (a, b)``."""

    field: Field
    literals: tuple[Literal, ...]


@dataclass(frozen=True, slots=True)
class Exists:
    """``exists(field)``."""

    field: Field


@dataclass(frozen=True, slots=True)
class Not:
    """``!term``."""

    term: Predicate


@dataclass(frozen=True, slots=True)
class All:
    """``a && b && …``."""

    terms: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Any:
    """``a || b || …``."""

    terms: tuple[Predicate, ...]


Predicate = Compare | Match | OneOf | Exists | Not | All | Any


@lru_cache(1024)
def parse(text: str) -> Predicate:
    """The tree of a predicate. Raises `PredicateError` with the column at which the text goes wrong."""
    depth = 0
    for parenthesis in re.finditer(rf"{_QUOTED}|([()])", text):
        depth += {"(": 1, ")": -1}.get(parenthesis[0], 0)
        if depth > MAX_DEPTH:
            raise PredicateError(f"nested more than {MAX_DEPTH} deep", text, parenthesis.start())
    try:
        # The parser builds our tree, not Lark's: its annotation cannot know.
        return cast("Predicate", _parser().parse(text))
    except _Invalid as error:
        raise PredicateError(error.message, text, error.column) from None
    except UnexpectedInput as error:
        raise PredicateError(_explain(error), text, _column(error, text)) from None


class Matchable(Protocol):
    """What a predicate looks at: a `Message`, or anything with its address and headers."""

    @property
    def address(self) -> str:
        """Where it was sent."""

    @property
    def headers(self) -> Mapping[str, Header]:
        """Its headers by their canonical names."""


def matches(predicate: Predicate, message: Matchable) -> bool:
    """Whether the predicate holds for the message: the reference that the Spark form must agree with."""
    match predicate:
        case All(terms):
            return all(matches(term, message) for term in terms)
        case Any(terms):
            return any(matches(term, message) for term in terms)
        case Not(term):
            return not matches(term, message)
        case Exists(field):
            return value_of(field, message) is not None
        case Compare(field, "!=", literal):
            return not _compare(value_of(field, message), "==", literal)
        case Compare(field, sign, literal):
            return _compare(value_of(field, message), sign, literal)
        case OneOf(field, literals):
            return any(_compare(value_of(field, message), "==", literal) for literal in literals)
        case Match(field, pattern):
            value = value_of(field, message)
            return value is not None and finder(pattern)(value)


def value_of(field: Field, message: Matchable) -> str | None:
    """What the message has there; None if nothing."""
    if isinstance(field, Address):
        return message.address
    header = message.headers.get(field.name)
    return None if header is None else header.text


_ORDER: Mapping[str, Callable[[float, float], bool]] = {
    "==": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _compare(value: str | None, sign: str, literal: Literal) -> bool:
    if value is None:
        return False
    if literal.number is None:
        return value == literal.text
    return _NUMBER.fullmatch(value) is not None and _ORDER[sign](float(value), literal.number)


class _Invalid(Exception):
    """A text that the grammar takes, but that means nothing."""

    def __init__(self, message: str, column: int) -> None:
        self.message = message
        self.column = column


@dataclass(frozen=True, slots=True)
class _Located:
    """A literal and its place, for what is checked after the grammar."""

    literal: Literal
    column: int


@v_args(inline=True)
class _Builder(Transformer[Token, Predicate]):
    def any(self, *terms: Predicate) -> Predicate:
        return Any(terms)

    def all(self, *terms: Predicate) -> Predicate:
        return All(terms)

    def negation(self, term: Predicate) -> Predicate:
        return Not(term)

    def exists(self, field: Field) -> Predicate:
        return Exists(field)

    def compare(self, field: Field, sign: Token, right: _Located) -> Predicate:
        if sign not in ("==", "!=") and right.literal.number is None:
            raise _Invalid(f"{sign} compares numbers, and this is not one", right.column)
        return Compare(field, str(sign), right.literal)

    def match(self, field: Field, right: _Located) -> Predicate:
        try:
            in_re2(right.literal.text)
        except ValueError as error:
            raise _Invalid(f"not a regular expression: {error}", right.column) from None
        return Match(field, right.literal.text)

    def one_of(self, field: Field, *literals: _Located) -> Predicate:
        return OneOf(field, tuple(each.literal for each in literals))

    def address(self) -> Field:
        return Address()

    def header(self, name: Token) -> Field:
        return HeaderField(canonical_header_name(str(name)))

    def quoted_header(self, name: Token) -> Field:
        return HeaderField(canonical_header_name(_unquote(name)))

    def quoted(self, token: Token) -> _Located:
        return _Located(Literal(_unquote(token)), token.start_pos or 0)

    def bare(self, token: Token) -> _Located:
        text = str(token)
        number = float(text) if _NUMBER.fullmatch(text) else None
        return _Located(Literal(text, number), token.start_pos or 0)


def _unquote(token: str) -> str:
    r"""The text between the quotes. Only ``\\`` and quotes can be escaped: ``\d`` stays as it is."""
    return re.sub(r"\\([\\\"'])", r"\1", token[1:-1])


@cache
def _parser() -> Lark:
    grammar = Path(__file__).with_name("predicate.lark").read_text(encoding="utf-8")
    return grammars.parser("predicate", grammar, transformer=_Builder())


def _column(error: UnexpectedInput, text: str) -> int:
    at_end = isinstance(error, UnexpectedToken) and error.token.type == "$END"
    return len(text) if at_end or error.pos_in_stream is None else error.pos_in_stream


_TERMINALS = {
    "COMPARE": "a comparison",
    "NAME": "a header's name",
    "QUOTED": "a quoted text",
    "BARE": "a value",
    "EXISTS": "exists(…)",
    "IN": "in (…)",
    "$END": "the end",
}


def _explain(error: UnexpectedInput) -> str:
    if isinstance(error, UnexpectedCharacters):
        expected, found = error.allowed, error.char
    elif isinstance(error, UnexpectedToken):
        expected, found = error.expected, str(error.token)
    else:
        expected, found = set(), ""
    # A terminal that the grammar spells out is its own name.
    spelled = {terminal.name: terminal.pattern.value for terminal in _parser().terminals}
    wanted = sorted({_TERMINALS.get(name) or spelled[name] for name in expected})
    return f"expected {' or '.join(wanted)}, found {found!r}" if found else f"expected {' or '.join(wanted)}"


def named_addresses(predicate: Predicate) -> set[str]:
    """The addresses that a predicate names as those of messages that it may hold for."""
    match predicate:
        case All(terms) | Any(terms):
            return set().union(*(named_addresses(term) for term in terms))
        case Compare(Address(), "==", literal):
            return {literal.text}
        case OneOf(Address(), literals):
            return {literal.text for literal in literals}
        case _:
            return set()
