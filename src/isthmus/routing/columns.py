"""Predicates, keys and sizes as Spark columns: the meaning that runs.

Native expressions only, so that the router stays eligible for Spark's real-time mode. Each function here has
a reference of the same meaning in `predicate`, `key` or `size`; property tests run both over the same
messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from zlib import crc32

from py4j.java_gateway import JavaObject
from pyspark import SparkContext
from pyspark.sql import Column
from pyspark.sql import functions as F

from isthmus.journal.layout import type_entry
from isthmus.message import OPAQUE_TYPES, HeaderType
from isthmus.routing.key import FLOATING_TYPES, NOT_FINITE
from isthmus.routing.pattern import in_re2, literal_start
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
                return _certain(finds(value(field), pattern))

    return meaning(predicate)


def finds(value: Column, pattern: str, *, whole: bool = False) -> Column:
    """Whether a text has what the pattern describes, or as a whole is that; null where the text is null.

    Spark has no function for RE2, but one that calls a method, which its code generator takes as it does its
    own functions. ``rlike`` is Java's engine: a text can make it overflow its stack.
    """
    if not whole and (start := literal_start(pattern)) is not None:
        return value.startswith(start)
    jvm = SparkContext._jvm
    if jvm is None:
        raise RuntimeError("a pattern needs a Spark session")
    columns, types = jvm.org.apache.spark.sql.classic.ExpressionUtils, jvm.org.apache.spark.sql.types
    expressions = jvm.org.apache.spark.sql.catalyst.expressions

    def call(on: JavaObject, method: str, gives: JavaObject, *arguments: JavaObject) -> JavaObject:
        # The arguments' types are not checked; a null gives null; the same call gives the same.
        seq = jvm.PythonUtils.toSeq
        return expressions.objects.Invoke(on, method, gives, seq(list(arguments)), seq([]), True, True, True)

    written = rf"\A(?:{in_re2(pattern)})\z" if whole else in_re2(pattern)
    re2 = jvm.com.google.re2j.Pattern.compile(written)
    literal = expressions.Literal(re2, types.ObjectType(re2.getClass()))
    string = types.ObjectType(jvm.java.lang.Class.forName("java.lang.String"))
    text = call(columns.expression(value._jc), "toString", string)
    matcher = call(literal, "matcher", types.ObjectType(re2.matcher("").getClass()), text)
    return Column(columns.column(call(matcher, "find", types.DataTypes.BooleanType)))


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


def key_error(name: str, pattern: str | None, value: Column, types: Column) -> Column:
    """Why a header's bytes are no key; null when they are one. See `isthmus.routing.key`."""
    text = value.cast("string")
    infinite = text.isin(*NOT_FINITE) & _has_type(name, FLOATING_TYPES, types)
    opaque = _has_type(name, OPAQUE_TYPES, types) | ~_certain(F.is_valid_utf8(value))
    error = (
        F.when(value.isNull(), f"no header {name}")
        .when(opaque, f"header {name} is neither text nor a number")
        .when(F.octet_length(value) == 0, f"header {name} is empty")
        .when(infinite, f"header {name} is not a finite number")
        .when(~text.rlike(r"[0-9A-Za-z\p{L}\p{Nd}]"), f"header {name} has no letter or digit")
    )
    if pattern is None:
        return error
    return error.when(~finds(text, pattern, whole=True), f"header {name} does not match conv.key.pattern")


def _has_type(name: str, declared: Iterable[HeaderType], types: Column) -> Column:
    """Whether ``jms.types`` gives the header one of these types; never null."""
    entry = type_entry(name, HeaderType.BINARY).removesuffix(f"{HeaderType.BINARY};")
    quoted = entry.replace(r"\E", r"\E\\E\Q")
    either = "|".join(sorted(declared))
    return _certain(types.contains(entry) & types.rlike(rf"(?:^|;)\Q{quoted}\E(?:{either});"))


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
