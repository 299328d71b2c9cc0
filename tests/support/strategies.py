"""Hypothesis strategies for messages, predicates and journal records."""

from __future__ import annotations

from hypothesis import strategies as st

from isthmus.journal import layout
from isthmus.journal.layout import AddressTopic, Entry, Op, Record
from isthmus.message import (
    INTEGER_RANGES,
    Body,
    BodyKind,
    Header,
    HeaderType,
    Message,
    Span,
    canonical_header_name,
)
from isthmus.routing import predicate as p

ADDRESSES = ["orders", "orders/eu", "a.b", "öl", "x y", ""]
NAMES = [
    "MessageId",
    "CorrelationId",
    "region",
    "amount",
    "my-prop",
    "property.Type",
    "traceparent",
    "tracestate",
    "odd name",
    "é",
    "a=b;c%",
]
TEXTS = [
    "EU",
    "eu",
    "US",
    "",
    "1",
    "1.0",
    "01",
    "-5",
    "1e3",
    "12345678901234567890",
    "NaN",
    "x\ny",
    "ä",
    "a'b\"c",
    "1\n",
    "!!! ***",
    "日本",
    "😀",
    "٣",
]

# Up to where every Unicode agrees on what is a letter: Java's is older than Python's.
texts = st.sampled_from(TEXTS) | st.text(st.characters(max_codepoint=0x86F), max_size=6)


def _integer(type: HeaderType) -> st.SearchStrategy[Header]:
    low, high = INTEGER_RANGES[type]
    return st.integers(low, high).map(lambda value: Header.of(value, type))


headers_of_any_type = st.one_of(
    texts.map(Header),
    st.sampled_from(sorted(INTEGER_RANGES)).flatmap(_integer),
    st.booleans().map(Header.of),
    st.floats().map(Header.of),
    st.floats(width=32).map(lambda value: Header.of(value, HeaderType.FLOAT)),
    st.binary(max_size=6).map(Header.of),
    st.none().map(Header.of),
    texts.map(lambda text: Header(text, HeaderType.SYMBOL)),
)


@st.composite
def messages(draw: st.DrawFn) -> Message:
    headers = draw(st.dictionaries(st.sampled_from(NAMES), headers_of_any_type, max_size=5))
    mode = draw(st.sampled_from([None, "PERSISTENT", "NON_PERSISTENT"]))
    if mode:
        headers["DeliveryMode"] = Header(mode)
    end = draw(st.sampled_from([None, None, None, "0", "1", " 1", "-1", "9" * 18, "9" * 19, "soon"]))
    if end:
        headers["Expiration"] = Header(end, HeaderType.LONG)
    value = draw(st.binary(max_size=40))
    body = Body(draw(st.sampled_from(BodyKind)))
    spans = draw(st.lists(st.tuples(st.integers(0, len(value)), st.integers(0, len(value))), max_size=3))
    inside = tuple(Span(start, min(length, len(value) - start)) for start, length in spans)
    return Message(
        id=draw(texts).replace(layout.SEPARATOR, ""),
        address=draw(st.sampled_from(ADDRESSES)),
        protocol=draw(st.sampled_from(["amqp", "nats", "mq"])),
        value=value,
        body=body._replace(spans=inside),
        headers=headers,
        session=draw(texts),
    )


conversions = st.tuples(
    st.sampled_from([None, b"0", b"3", b"7", b"-1", b"x", b"123456789012"]),
    st.none() | texts.map(str.encode),
    st.sampled_from([None, b"[1,2]"]),
    st.sampled_from(
        [
            None,
            b"{}",
            b'{"body":{"type":"data","section":',
            b'{"body":{"type":"amqpValue","section":',
            b'{"types":{"/body/section":"binary"},"body":{"type":"amqpValue","section":',
        ]
    ),
).map(
    lambda values: [
        (name, value) for name, value in zip(layout.CONVERSION, values, strict=True) if value is not None
    ]
)

address_topics = st.none() | st.builds(
    AddressTopic,
    st.sampled_from(["t0", "t2", "orders", "made.later", "gone"]),
    st.sampled_from([1, 4]),
    st.sampled_from([300, 9_000, 10_000_000]),
    st.booleans(),
)

entries = st.builds(
    lambda message, op, conversion, topic: Entry(
        op,
        message,
        None if op in layout.PLAIN else "tx-1",
        None if op in layout.PLAIN else 7,
        conversion if op is Op.ADD else [],
        topic if op is Op.ADD else None,
    ),
    messages(),
    st.sampled_from([Op.ADD] * 8 + list(Op)),
    st.just([]) | conversions,
    address_topics,
)


@st.composite
def damaged_records(draw: st.DrawFn) -> Record:
    """Journal records that nobody ought to have written."""
    record = layout.encode(draw(entries))
    headers = list(record.headers)
    place = draw(st.integers(0, len(headers) - 1))
    match draw(st.sampled_from(["drop", "rename", "value", "body", "topic", "none", "tombstone"])):
        case "drop":
            del headers[place]
        case "rename":
            headers[place] = ("isthmus.other", headers[place][1])
        case "value":
            headers[place] = (headers[place][0], draw(st.binary(max_size=4)))
        case "body":
            text = draw(
                st.sampled_from(
                    ["text:1", "text:1+", "text:0+99999", "bytes:0+1,x", "song", "text:", "map:0+1,0+99"]
                )
            )
            headers[4] = (layout.BODY, text.encode())
        case "topic":
            texts = [None, b"", b"t", b"t 1", b"t 1 x", b"t 1 2 jms ", b"a b 1 2", b"t 1 2 jmx", b"\xff 1 2"]
            headers.insert(len(layout.INDEX), (layout.TOPIC, draw(st.sampled_from(texts))))
        case "none":
            headers = []
        case "tombstone":
            return Record(record.key, None, [])
    return record._replace(headers=headers)


@st.composite
def foreign_records(draw: st.DrawFn) -> Record:
    """Records of a Kafka topic that anybody may write: doubled, reserved, binary and null headers."""
    names = [
        "region",
        "jms.region",
        "amount",
        "jms.amount",
        "traceparent",
        "tracestate",
        "isthmus.id",
        "ISTHMUS.x",
        "jmsbridge.origin",
        "jms.types",
    ]
    values = st.sampled_from(
        [b"EU", b"", None, b"1", b"\xff\xfe", b"this", b"amount=boolean;", b"region=int;amount=binary;"]
    )
    headers = draw(st.lists(st.tuples(st.sampled_from(names), values), max_size=6))
    key = draw(st.none() | st.binary(max_size=4))
    return Record(key, draw(st.none() | st.binary(max_size=20)), headers)


fields = st.just(p.Address()) | st.sampled_from(NAMES).map(
    lambda name: p.HeaderField(canonical_header_name(name))
)
numbers = st.integers(-20, 2000).map(str) | st.sampled_from(["1.5", "1e3", "-0.0", "12345678901234567890"])
number_literals = numbers.map(lambda text: p.Literal(text, float(text)))
literals = number_literals | (st.sampled_from(ADDRESSES) | texts).map(p.Literal)
patterns = st.sampled_from(
    [
        *("^EU$", "E", r"\d+", "^$", "[a-z]+/", "(?i)eu", "x.y", r"^\w*$", "ö", "U|1", r"\s", "^-?[0-9.]+$"),
        *(
            "(?i)[D-F]",
            "(?i)[^u]",
            "(?i:É|K)",
            "[^\\S]",
            r"\b1",
            "E??U{1,2}",
            "^(E|U)*$",
            "x\n",
            "^[^a-zA-Z]+$",
        ),
    ]
)

comparisons = st.one_of(
    st.builds(p.Compare, fields, st.sampled_from(["==", "!="]), literals),
    st.builds(p.Compare, fields, st.sampled_from(["<", "<=", ">", ">="]), number_literals),
    st.builds(p.Match, fields, patterns),
    st.builds(p.OneOf, fields, st.lists(literals, min_size=1, max_size=3).map(tuple)),
    st.builds(p.Exists, fields),
)
predicates: st.SearchStrategy[p.Predicate] = st.recursive(
    comparisons,
    lambda inner: st.one_of(
        st.builds(p.Not, inner),
        st.builds(p.All, st.lists(inner, min_size=2, max_size=4).map(tuple)),
        st.builds(p.Any, st.lists(inner, min_size=2, max_size=4).map(tuple)),
    ),
    max_leaves=6,
)
