"""Predicates, keys and sizes as Spark columns: the meaning that runs.

Native expressions only, so that the router stays eligible for Spark's real-time mode. Each function here has
a reference of the same meaning in `predicate`, `key` or `size`; property tests run both over the same
messages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from zlib import crc32

from pyspark.sql import Column
from pyspark.sql import functions as F

from isthmus.journal.layout import type_entry
from isthmus.message import OPAQUE_TYPES, HeaderType
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
from isthmus.routing.size import HEADER_OVERHEAD, RECORD_OVERHEAD

HeaderLookup = Callable[[str], Column]
"""From a header's canonical name to its text; null where the message has none."""


def matches(predicate: Predicate, address: Column, header: HeaderLookup) -> Column:
    """Whether the predicate holds: true or false, never null."""

    def value(field: Field) -> Column:
        return address if isinstance(field, Address) else header(field.name)

    def meaning(node: Predicate) -> Column:
        match node:
            case All(terms):
                return _balanced(Column.__and__, [meaning(term) for term in terms])
            case Any(terms):
                return _balanced(Column.__or__, [meaning(term) for term in terms])
            case Not(term):
                return ~meaning(term)
            case Exists(field):
                return value(field).isNotNull()
            case Compare(field, "!=", literal):
                return ~_compare(value(field), "==", literal)
            case Compare(field, sign, literal):
                return _compare(value(field), sign, literal)
            case OneOf(field, literals):
                return _balanced(Column.__or__, [_compare(value(field), "==", each) for each in literals])
            case Match(field, pattern):
                # (?d): only \n ends a line, as in Python
                return _certain(value(field).rlike(f"(?d){pattern}"))

    return meaning(predicate)


def address_of(predicate: Predicate) -> str | None:
    """The one address that a predicate takes, and whose messages it all takes; None if it is another kind."""
    match predicate:
        case Compare(Address(), "==", Literal(text, None)):
            return text
    return None


def look_up(table: Mapping[str, int], text: Column) -> Column:
    """The number that a text has in a table; null where it has none. A long table costs what a short one
    does.

    Spark searches a map from its beginning. So there is one for every few texts, found by their checksum.
    """
    maps: list[dict[bytes, int]] = [{} for _ in range(max(1, len(table) // 4))]
    for each, number in table.items():
        maps[crc32(each.encode()) % len(maps)][each.encode()] = number
    # One text instead of some calls for each entry.
    written = (", ".join(f"X'{key.hex()}', {number}" for key, number in entries.items()) for entries in maps)
    buckets = F.expr(f"array({', '.join(f'cast(map({each}) as map<binary, int>)' for each in written)})")
    bytes_ = text.cast("binary")
    return F.try_element_at(F.get(buckets, (F.crc32(bytes_) % len(maps)).cast("int")), bytes_)


def _compare(value: Column, sign: str, literal: Literal) -> Column:
    if literal.number is None:
        return _certain(value == literal.text)
    number = F.when(value.rlike(rf"\A(?:{NUMBER})\z"), value.try_cast("double"))
    operators: dict[str, Callable[[Column, Column], Column]] = {
        "==": Column.__eq__,
        "<": Column.__lt__,
        "<=": Column.__le__,
        ">": Column.__gt__,
        ">=": Column.__ge__,
    }
    return _certain(operators[sign](number, F.lit(literal.number)))


def _certain(condition: Column) -> Column:
    """Two truth values: unknown is false."""
    return F.coalesce(condition, F.lit(False))


def _balanced(join: Callable[[Column, Column], Column], terms: Sequence[Column]) -> Column:
    """Joins the terms as a shallow tree: Spark walks its trees by recursion."""
    if len(terms) <= 2:
        return reduce(join, terms)
    middle = len(terms) // 2
    return join(_balanced(join, terms[:middle]), _balanced(join, terms[middle:]))


def is_opaque(name: str, value: Column, types: Column) -> Column:
    """Whether a header is neither text nor a number, so that it cannot be a key; never null."""
    entry = type_entry(name, HeaderType.BINARY).removesuffix(f"{HeaderType.BINARY};")
    quoted = entry.replace(r"\E", r"\E\\E\Q")
    opaque = "|".join(sorted(OPAQUE_TYPES))
    declared = types.contains(entry) & types.rlike(rf"(?:^|;)\Q{quoted}\E(?:{opaque});")
    return _certain(declared) | ~_certain(F.is_valid_utf8(value))


def record_size(key: Column, value: Column, headers: Column) -> Column:
    """An upper bound of a record's size in bytes, as Kafka reckons it."""
    # Joining the texts and measuring them once is native all the way; adding up in a lambda is not.
    texts = F.concat_ws("", headers["key"], headers["value"].cast("array<string>"))
    return (
        F.lit(RECORD_OVERHEAD)
        + F.coalesce(F.octet_length(key), F.lit(0))
        + F.coalesce(F.octet_length(value), F.lit(0))
        + F.octet_length(texts)
        + F.size(headers) * HEADER_OVERHEAD
    )
