"""A predicate as text again: what `isthmus.routing.predicate.parse` reads as the same tree."""

from __future__ import annotations

import re

from isthmus.routing.predicate import (
    NUMBER,
    Address,
    All,
    Any,
    Compare,
    Exists,
    Field,
    Literal,
    Match,
    Not,
    OneOf,
    Predicate,
)

_BARE = re.compile(r"[^\s\"'(),&|!=<>~]+")
_NAME = re.compile(r"[A-Za-z_$][\w$.\-]*")


def written(predicate: Predicate) -> str:
    """The text of a predicate."""
    match predicate:
        case All(terms):
            return " && ".join(_nested(term, All, Any) for term in terms)
        case Any(terms):
            return " || ".join(_nested(term, Any) for term in terms)
        case Not(term):
            return f"!{_nested(term, All, Any, Not)}"
        case Exists(field):
            return f"exists({field_text(field)})"
        case Compare(field, sign, literal):
            return f"{field_text(field)}{sign}{_literal(literal)}"
        case Match(field, pattern):
            return f"{field_text(field)}=~{_quoted(pattern)}"
        case OneOf(field, literals):
            return f"{field_text(field)} in ({', '.join(map(_literal, literals))})"


def field_text(field: Field) -> str:
    """The text of a field."""
    if isinstance(field, Address):
        return "msg.address"
    return f"msg.header.{field.name if _NAME.fullmatch(field.name) else _quoted(field.name)}"


def _nested(term: Predicate, *kinds: type) -> str:
    return f"({written(term)})" if isinstance(term, kinds) else written(term)


def _literal(literal: Literal) -> str:
    if literal.number is not None:
        return literal.text
    is_plain = _BARE.fullmatch(literal.text) and not re.fullmatch(NUMBER, literal.text)
    return literal.text if is_plain else _quoted(literal.text)


def _quoted(text: str) -> str:
    return '"' + re.sub(r"([\\\"])", r"\\\1", text) + '"'
