"""The journal record in Spark: a row of Spark's Kafka source, seen as a message.

In: rows with ``key, value, topic, partition, offset, timestamp, headers``, of the journal and of any other
topics that feed the router. Out: a `MessageColumns`, which says of each row what `layout.decode` and
`layout.adopt` say of a record. All of it is native: no Python runs for a record.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F

from isthmus.journal import layout
from isthmus.message import BodyKind

HEADERS_TYPE = "array<struct<key:string,value:binary>>"


class MessageColumns:
    """What a row of Spark's Kafka source says as a message.

    With no topic but the journal the expressions are the short ones. A row of another topic is a message
    whose address is its topic; see `layout.adopt`.
    """

    def __init__(self, journal_topic: str, *, other_topics: bool) -> None:
        self._other_topics = other_topics
        self._journaled = F.col("topic") == journal_topic
        # Of several headers with one name the last counts, as Kafka has it. The journal has each once.
        self._lookup = F.reverse("headers") if other_topics else F.col("headers")

    def _by_origin(self, journal: Column, other: Column) -> Column:
        return F.when(self._journaled, journal).otherwise(other) if self._other_topics else journal

    def _index(self, name: str) -> Column:
        return F.get("headers", F.lit(layout.INDEX.index(name)))

    def _raw_header(self, kafka_name: str) -> Column:
        place = F.array_position(self._lookup["key"], kafka_name)
        return F.get(self._lookup, place.cast("int") - 1)["value"]

    def header(self, name: str) -> Column:
        """The text of a header by its canonical name; null where the message has none."""
        value = self.header_bytes(name)
        if not self._other_topics:  # the journal's writer writes nothing but UTF-8
            return value.cast("string")
        return F.when(F.is_valid_utf8(value), value.cast("string")).otherwise(F.base64(value))

    def header_bytes(self, name: str) -> Column:
        """A header as it stands in Kafka, by its canonical name; null where the message has none."""
        if layout.is_reserved(layout.HEADER_PREFIX + name):
            return F.lit(None).cast("binary")
        value = self._present(layout.HEADER_PREFIX + name)
        if self._other_topics and not layout.is_reserved(name):
            value = F.coalesce(value, self._present(name))
        return value

    def _present(self, kafka_name: str) -> Column:
        """A header's value; empty, not null, where the header is there without one."""
        if not self._other_topics:  # the journal's writer leaves no value out
            return self._raw_header(kafka_name)
        there = F.array_contains(self._lookup["key"], kafka_name)
        return F.when(there, F.coalesce(self._raw_header(kafka_name), F.lit(b"")))

    @property
    def types(self) -> Column:
        """The text of ``jms.types``; null where every header is a string."""
        return self._raw_header(layout.TYPES).cast("string")

    @property
    def op(self) -> Column:
        """What the record does; a record of another topic is added."""
        return self._by_origin(self._index(layout.OP)["value"].cast("string"), F.lit(layout.Op.ADD.value))

    @property
    def address(self) -> Column:
        """Where the message was sent."""
        return self._by_origin(self._index(layout.ADDRESS)["value"].cast("string"), F.col("topic"))

    @property
    def _body(self) -> Column:
        return self._index(layout.BODY)["value"].cast("string")

    @property
    def _spans(self) -> Column:
        return F.when(self._body.contains(":"), F.substring_index(self._body, ":", -1))

    @property
    def body_kind(self) -> Column:
        """What the body is."""
        other = F.when(F.col("value").isNull(), BodyKind.EMPTY.value).otherwise(BodyKind.BYTES.value)
        return self._by_origin(F.substring_index(self._body, ":", 1), other)

    @property
    def body_bytes(self) -> Column:
        """The body, cut out of the value."""
        spans = self._spans
        cut = F.when(spans.isNull(), F.col("value")).otherwise(_cut(F.col("value"), spans))
        has_body = F.substring_index(self._body, ":", 1) != BodyKind.EMPTY.value
        return self._by_origin(F.when(has_body, cut), F.col("value"))

    @property
    def defect(self) -> Column:
        """What is wrong with a record that is not laid out as the journal's are; null when nothing is."""
        in_place = F.lit(True)
        for name in layout.INDEX:
            in_place = in_place & (self._index(name)["key"] == name)
        op = self._index(layout.OP)["value"].cast("string")
        known_op = op.isin([each.value for each in layout.Op])
        defect = (
            F.when(
                ~F.coalesce(in_place, F.lit(False)),
                f"a journal record begins with the headers {', '.join(layout.INDEX)}",
            )
            .when(
                ~F.coalesce(known_op, F.lit(False)),
                F.concat(F.lit(f"unknown {layout.OP}: "), F.make_valid_utf8(op)),
            )
            .when(
                (op == layout.Op.ADD.value) & ~self._body_readable,
                F.concat(F.lit(f"{layout.BODY} cannot be read: "), F.make_valid_utf8(self._body)),
            )
        )
        return self._by_origin(defect, F.lit(None).cast("string"))

    @property
    def _body_readable(self) -> Column:
        whole = self._body.isin(*_WHOLE_BODIES)
        kind_known = F.substring_index(self._body, ":", 1).isin([kind.value for kind in BodyKind])
        placed = self._body.rlike(rf"\A[a-z]+:{layout.SPANS}\z")
        inside = _inside(F.col("value"), self._spans)
        return F.coalesce(whole | (kind_known & placed & inside), F.lit(False))

    @property
    def tombstone(self) -> Column:
        """Whether the record only says that others of its key are gone: no value, and no headers."""
        return self._by_origin(F.col("value").isNull() & F.col("headers").isNull(), F.lit(False))

    @property
    def own_headers(self) -> Column:
        """The headers to carry on: all that the sender set, none of the journal's own."""
        journal = F.slice("headers", len(layout.INDEX) + 1, F.greatest(F.size("headers"), F.lit(0)))
        other = F.filter("headers", lambda header: ~_is_bridges_own(header["key"]))
        return F.coalesce(self._by_origin(journal, other), no_headers())

    def published_by(self, bridge_id: str) -> Column:
        """Whether this bridge itself published the record: what guards against circles; never null."""
        mark = kafka_header(layout.ORIGIN, F.lit(bridge_id.encode()))
        return F.coalesce(F.array_contains("headers", mark), F.lit(False))

    @property
    def stable_id(self) -> Column:
        """See `layout.stable_id`."""
        return F.concat_ws(":", "topic", F.col("partition").cast("string"), F.col("offset").cast("string"))


_WHOLE_BODIES = tuple(kind.value for kind in BodyKind)


def _bounds(span: Column) -> tuple[Column, Column]:
    offset, length = (F.split_part(span, F.lit("+"), F.lit(part)) for part in (1, 2))
    return offset.try_cast("int"), length.try_cast("int")


def _cut(value: Column, spans: Column) -> Column:
    def piece(span: Column) -> Column:
        offset, length = _bounds(span)
        return F.substring(value, offset + 1, length)

    pieces = F.aggregate(F.split(spans, ","), F.lit(b""), lambda done, span: F.concat(done, piece(span)))
    return F.when(spans.contains(","), pieces).otherwise(piece(spans))


def _inside(value: Column, spans: Column) -> Column:
    size = F.coalesce(F.octet_length(value), F.lit(0))

    def fits(span: Column) -> Column:
        offset, length = _bounds(span)
        return offset + length <= size

    return F.when(spans.contains(","), F.forall(F.split(spans, ","), fits)).otherwise(fits(spans))


def _is_bridges_own(name: Column) -> Column:
    return F.lower(name).startswith(layout.RESERVED_PREFIX)


def kafka_header(name: str, value: Column) -> Column:
    """One Kafka header, as Spark's sink takes it."""
    return F.struct(F.lit(name).alias("key"), value.cast("binary").alias("value"))


def kafka_headers(values: Mapping[str, Column]) -> Column:
    """Kafka headers by name, in their order."""
    return F.array(*[kafka_header(name, value) for name, value in values.items()])


def no_headers() -> Column:
    """An empty list of Kafka headers."""
    return F.array().cast(HEADERS_TYPE)
