"""The journal record in Spark: a row of Spark's Kafka source, seen as a message.

In: rows with ``key, value, topic, partition, offset, timestamp, headers``, of the journal and of any other
topics that feed the router. Out: a `MessageColumns`, which says of each row what `layout.decode` and
`layout.adopt` say of a record. All of it is native: no Python runs for a record.

Whatever is used more than once is a column of its own, so that Spark works it out once for a record.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from isthmus.journal import layout
from isthmus.message import SAMPLED_TRACE, TRACE_CONTEXT, BodyKind

HEADERS_TYPE = "array<struct<key:string,value:binary>>"


class MessageColumns:
    """What a row of Spark's Kafka source says as a message, once `read` has seen it.

    With no topic but the journal the expressions are the short ones. A row of another topic is a message
    whose address is its topic; see `layout.adopt`.
    """

    def __init__(self, journal_topic: str, *, other_topics: bool) -> None:
        self._other_topics = other_topics
        self._journaled = F.col("topic") == journal_topic

    @property
    def journaled(self) -> Column:
        """Whether the record is one of the journal's."""
        return self._by_origin(F.lit(True), F.lit(False))

    def read(
        self, rows: DataFrame, also: Mapping[str, Column] | None = None, *, tombstones: Column | None = None
    ) -> DataFrame:
        """The rows that are no tombstones, with the columns that all others are made from.

        ``tombstones`` says which of these to leave in.

        ``also`` is for further columns that Spark interprets instead of compiling, as it does with lambdas
        and reflection. They all stand here, before anything else: wherever one stands, the compiled code is
        in two halves, and the row is copied from the one to the other.
        """
        interpreted = {"body_pieces": self._pieces, **(also or {})}
        if self._other_topics:
            interpreted["foreign_headers"] = self._foreign_headers
        # Of several headers with one name the last counts, as Kafka has it. The journal has each once.
        lookup = F.reverse("headers") if self._other_topics else F.col("headers")
        body, spans = F.col("body"), F.col("body_spans")
        return (
            rows.withColumns(interpreted)
            .where(~self.tombstone if tombstones is None else ~self.tombstone | tombstones)
            .withColumns(
                {
                    "lookup": lookup,
                    "op": self._op,
                    "address": self._address,
                    "address_topic": self._address_topic,
                    "body": self._body,
                }
            )
            .withColumns(
                {
                    "names": F.col("lookup")["key"],
                    "body_spans": F.when(body.contains(":"), F.substring_index(body, ":", -1)),
                }
            )
            .withColumns(
                {
                    "body_kind": F.when(spans.isNull(), body).otherwise(F.substring_index(body, ":", 1)),
                    "body_part": F.when(spans.contains(","), F.col("body_pieces")).otherwise(_cut(spans)),
                }
            )
        )

    def _by_origin(self, journal: Column, other: Column) -> Column:
        return F.when(self._journaled, journal).otherwise(other) if self._other_topics else journal

    def _index(self, name: str) -> Column:
        return F.get("headers", F.lit(layout.position(name)))

    def _index_text(self, name: str) -> Column:
        """One of the index, as text: empty where there is no value, since a null would leave no outcome."""
        return F.coalesce(self._index(name)["value"], F.lit(b"")).cast("string")

    @property
    def _op(self) -> Column:
        return self._by_origin(self._index_text(layout.OP), F.lit(layout.Op.ADD.value))

    @property
    def _address(self) -> Column:
        return self._by_origin(self._index_text(layout.ADDRESS), F.col("topic"))

    @property
    def _address_topic(self) -> Column:
        """The text of ``isthmus.topic``; null where there is none."""
        header = F.get("headers", F.lit(layout.OPTIONAL_POSITIONS.start))
        text = F.when(header["key"] == layout.TOPIC, F.coalesce(header["value"], F.lit(b"")).cast("string"))
        return self._by_origin(text, F.lit(None).cast("string"))

    @property
    def _body(self) -> Column:
        other = F.when(F.col("value").isNull(), BodyKind.EMPTY.value).otherwise(BodyKind.BYTES.value)
        return self._by_origin(self._index_text(layout.BODY), other)

    @property
    def _pieces(self) -> Column:
        """A body of several spans; null for any other, and when one is not inside the value."""
        body = self._index(layout.BODY)["value"].cast("string")
        spans = F.split(F.substring_index(body, ":", -1), ",")
        joined = F.aggregate(spans, F.lit(b""), lambda done, span: F.concat(done, _cut(span)))
        return self._by_origin(F.when(body.contains(","), joined), F.lit(None).cast("binary"))

    @property
    def _foreign_headers(self) -> Column:
        return F.when(~self._journaled, F.filter("headers", lambda header: ~_is_bridges_own(header["key"])))

    @property
    def tombstone(self) -> Column:
        """Whether the record only says that others of its key are gone: no value, and no headers."""
        return self._by_origin(F.col("value").isNull() & F.col("headers").isNull(), F.lit(False))

    def _raw_header(self, kafka_name: str) -> Column:
        position = F.array_position("names", kafka_name)  # which counts from 1
        return F.get("lookup", position.cast("int") - 1)["value"]

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
        value = self._present(layout.kafka_name(name))
        if self._other_topics and not layout.is_reserved(name):
            value = F.coalesce(value, self._present(name))
        return value

    def conversion(self, name: str) -> Column:
        """One of `layout.CONVERSION`, as bytes; null where the journal has none."""
        return self._by_origin(self._raw_header(name), F.lit(None).cast("binary"))

    @property
    def protocol(self) -> Column:
        """What the message came over."""
        return self._by_origin(self._index_text(layout.PROTOCOL), F.lit("kafka"))

    def _present(self, kafka_name: str) -> Column:
        """A header's value; empty, not null, where the header is there without one."""
        if not self._other_topics:  # the journal's writer leaves no value out
            return self._raw_header(kafka_name)
        there = F.array_contains("names", kafka_name)
        return F.when(there, F.coalesce(self._raw_header(kafka_name), F.lit(b"")))

    def types(self, name: str) -> Column:
        """The text of ``jms.types``; null where that says nothing of a header, by its canonical name.

        It is about headers ``jms.<name>``: one of another topic that has only a name of its own is a string.
        """
        types = self._raw_header(layout.TYPES).cast("string")
        if not self._other_topics:
            return types
        return F.when(F.array_contains("names", layout.kafka_name(name)), types)

    @property
    def op(self) -> Column:
        """What the record does; a record of another topic is added."""
        return F.col("op")

    @property
    def address(self) -> Column:
        """Where the message was sent."""
        return F.col("address")

    @property
    def has_topic(self) -> Column:
        """Whether whoever wrote the record has found the topic of its address; never null."""
        return F.col("address_topic").isNotNull()

    @property
    def topic_name(self) -> Column:
        """See `layout.AddressTopic`; null where there is none."""
        return F.substring_index("address_topic", " ", 1)

    @property
    def topic_partitions(self) -> Column:
        """See `layout.AddressTopic`; null where there is none."""
        return F.substring_index(F.substring_index("address_topic", " ", 2), " ", -1).try_cast("int")

    @property
    def topic_max_bytes(self) -> Column:
        """See `layout.AddressTopic`; null where there is none."""
        return F.substring_index(F.substring_index("address_topic", " ", 3), " ", -1).try_cast("int")

    @property
    def is_destination(self) -> Column:
        """See `layout.AddressTopic`; never null."""
        return F.coalesce(F.col("address_topic").endswith(layout.IS_DESTINATION), F.lit(False))

    @property
    def body_kind(self) -> Column:
        """What the body is."""
        return F.col("body_kind")

    @property
    def body_bytes(self) -> Column:
        """The body, cut out of the value."""
        whole = F.when(F.col("body_spans").isNull(), F.col("value")).otherwise(F.col("body_part"))
        return F.when(self.body_kind != BodyKind.EMPTY.value, whole)

    @property
    def defect(self) -> Column:
        """What is wrong with a record that is not laid out as the journal's are; null when nothing is."""
        in_place = F.lit(True)
        for name in layout.INDEX:
            in_place = in_place & (self._index(name)["key"] == name)
        known_op = self.op.isin([each.value for each in layout.Op])
        defect = (
            F.when(
                ~F.coalesce(in_place, F.lit(False)),
                f"a journal record begins with the headers {', '.join(layout.INDEX)}",
            )
            .when(
                ~F.coalesce(known_op, F.lit(False)),
                F.concat(F.lit(f"unknown {layout.OP}: "), F.make_valid_utf8(self.op)),
            )
            .when(
                (self.op == layout.Op.ADD.value) & ~self._body_readable,
                F.concat(F.lit(f"{layout.BODY} cannot be read: "), F.make_valid_utf8("body")),
            )
            .when(
                (self.op == layout.Op.ADD.value)
                & F.coalesce(~F.col("address_topic").rlike(rf"\A{layout.TOPIC_TEXT}\z"), F.lit(False)),
                F.concat(F.lit(f"{layout.TOPIC} cannot be read: "), F.make_valid_utf8("address_topic")),
            )
        )
        return self._by_origin(defect, F.lit(None).cast("string"))

    @property
    def _body_readable(self) -> Column:
        known = self.body_kind.isin([kind.value for kind in BodyKind])
        placed = F.col("body").rlike(rf"\A[a-z]+:{layout.SPANS}\z") & F.col("body_part").isNotNull()
        return F.coalesce(known & (F.col("body_spans").isNull() | placed), F.lit(False))

    @property
    def own_headers(self) -> Column:
        """The headers to carry on: all that the sender set, none of the journal's own."""
        start = F.lit(layout.OPTIONAL_POSITIONS.stop)
        for position in reversed(layout.OPTIONAL_POSITIONS):
            name = F.get("headers", F.lit(position))["key"]
            start = F.when(F.coalesce(name.isin(*layout.OPTIONAL), F.lit(False)), start).otherwise(position)
        journal = F.slice("headers", start + 1, F.greatest(F.size("headers"), F.lit(0)))
        return F.coalesce(self._by_origin(journal, F.col("foreign_headers")), no_headers())

    @property
    def sender(self) -> Column:
        """The header that tells the client id of the sender; none if the message does not say."""
        name = layout.HEADER_PREFIX + layout.CLIENT
        value = self._raw_header(name)
        says_so = F.coalesce(F.array_contains("names", name), F.lit(False))
        told = F.when(says_so, kafka_headers({layout.CLIENT: value})).otherwise(no_headers())
        return self._by_origin(told, no_headers())

    @property
    def trace(self) -> Column:
        """The headers of the trace that the message belongs to; none if it belongs to none."""
        parent, state = (self._raw_header(name) for name in TRACE_CONTEXT)
        whole = kafka_headers(dict(zip(TRACE_CONTEXT, (parent, state), strict=True)))
        found = F.when(state.isNull(), F.slice(whole, 1, 1)).otherwise(whole)
        return F.when(parent.isNull(), no_headers()).otherwise(found)

    @property
    def sampled_trace(self) -> Column:
        """The ``traceparent`` of a message that somebody samples; null for any other."""
        parent = self._raw_header(TRACE_CONTEXT[0]).cast("string")
        return F.when(parent.rlike(rf"\A{SAMPLED_TRACE}\z"), parent)

    def published_by(self, bridge_id: str) -> Column:
        """Whether this bridge itself published the record: what guards against circles; never null."""
        mark = kafka_header(layout.ORIGIN, F.lit(bridge_id.encode()))
        # The names alone are compared much faster, and hardly any record has this one.
        marked = F.array_contains("names", layout.ORIGIN) & F.array_contains("headers", mark)
        return F.coalesce(marked, F.lit(False))

    @property
    def stable_id(self) -> Column:
        """See `layout.stable_id`."""
        return F.concat_ws(":", "topic", F.col("partition").cast("string"), F.col("offset").cast("string"))


def _cut(span: Column) -> Column:
    """The piece of the value that a span names; null when that is not inside the value."""
    offset, length = (F.substring_index(span, "+", side).try_cast("int") for side in (1, -1))
    inside = F.try_add(offset, length) <= F.coalesce(F.octet_length("value"), F.lit(0))
    return F.when(inside, F.substring("value", offset + 1, length))


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
