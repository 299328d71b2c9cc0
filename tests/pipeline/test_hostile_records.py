"""No record takes the router down: whatever is in it, it has an outcome, and the next record has its own."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession
from tests.support.kafka.topics import produce
from tests.support.pipeline.bridge import TestBridge, text_message
from tests.support.pipeline.ledger_bridge import LedgerBridge, bodies, transaction
from tests.support.pipeline.rows import source_rows
from tests.support.polling import eventually

from isthmus.journal import layout
from isthmus.journal.columns import MessageColumns
from isthmus.journal.layout import Entry, Op, Record
from isthmus.message import Body, BodyKind, Message, Span
from isthmus.pipeline import measures, router
from isthmus.pipeline.prepare import prepare
from isthmus.pipeline.publish import start_router
from isthmus.routing.decide import decide
from isthmus.routing.plan import Outcome, RoutingPlan
from isthmus.routing.predicate import parse
from isthmus.routing.route import OnError, Route

LONG = "ab" * 20_000
PATTERNS = ("^(a|b)*c$", "^(a|b)+$", r"^(\d|,)*$")


def of_pieces(count: int) -> Message:
    """A bytes message of so many data sections of a byte each."""
    section = b"\x00\x53\x75\xa0\x01x"
    spans = tuple(Span(5 + len(section) * place, 1) for place in range(count))
    return Message(
        id=f"ID:{count}",
        address="a",
        protocol="amqp",
        value=section * count,
        body=Body(BodyKind.BYTES, spans),
        headers={},
        session="s",
    )


def test_hostile_messages_are_routed_in_real_time_and_so_is_the_next(
    spark: SparkSession, bridge: TestBridge
) -> None:
    bridge.make_topics("matched", "out")
    settings = bridge.settings(
        bridge.route("matched", f"msg.header.region =~ '{PATTERNS[0]}'", "matched"),
        bridge.route("rest", "msg.address==a", "out"),
    )
    bridge.write([of_pieces(1_200), text_message("a", "no match", region=LONG)], settings)
    bridge.write([text_message("a", "match", region=f"{LONG}c"), text_message("a", "next")], settings)
    plan, _ = prepare(settings, bridge.kafka)
    assert settings.pipeline.mode == "real-time"
    query = start_router(spark, bridge.kafka, plan, settings.pipeline, str(bridge.folder / "checkpoint"))
    try:
        eventually(lambda: not query.isActive or len(bridge.bodies("out")) == 3)
        assert query.exception() is None
        assert bridge.bodies("out") == ["next", "no match", "x" * 1_200]
        eventually(lambda: bridge.bodies("matched") == ["match"])
    finally:
        query.stop()


def journaled(message: Message, **index: bytes | None) -> Record:
    """The record of a message, with other values in its index."""
    record = layout.encode(Entry(Op.ADD, message))
    other = {f"isthmus.{name}": value for name, value in index.items()}
    return record._replace(headers=[(name, other.get(name, value)) for name, value in record.headers])


def conversion(message: Message, **headers: bytes) -> Record:
    """With what the sender asks a converter for."""
    found = [
        (name, headers[name.removeprefix("isthmus.")])
        for name in layout.CONVERSION
        if name.removeprefix("isthmus.") in headers
    ]
    return layout.encode(Entry(Op.ADD, message, conversion=found))


NUMBERS = (
    *("0", "-0", "1", "-1", "+1", "007", "2147483647", "2147483648", "-2147483648", "-2147483649"),
    *("9223372036854775807", "9223372036854775808", "-9223372036854775808", "9" * 400, "9" * 40_000),
    *(
        "1e308",
        "1e309",
        "-1e309",
        "1e-400",
        "1e99999999999",
        "NaN",
        "Infinity",
        "-inf",
        "0x10",
        "1_000",
        "1L",
        "1d",
    ),
    *("", " ", " 1 ", "1 ", "\t1", "١٢٣", "1.5.2", ".", "+", "e5", "\x00", "1\x00"),
)
TEXTS = (
    LONG,
    "a" * 40_000 + "!",
    "," * 40_000,
    "\x00" * 10,
    "\U0001f600" * 5_000,
    "%" * 10_000,
    "=;" * 10_000,
)
BODIES = (
    *(
        "bytes",
        "bytes:",
        "bytes:0",
        "bytes:0+",
        "bytes:+1",
        "bytes:0+1,",
        "bytes:,0+1",
        ":",
        "::",
        ":0+1",
        "",
        "x",
    ),
    *(
        "bytes:-1+2",
        "bytes:0+-1",
        "bytes:2147483647+1",
        "bytes:2147483647+2147483647",
        "bytes:999999999+999999999",
    ),
    *(
        "bytes:99999999999+1",
        "bytes:0+99999999999",
        "bytes:0+1,2147483647+2147483647",
        "bytes:1e3+1",
        "bytes: 0+1",
    ),
    *(
        "text:0+5",
        "map",
        "stream:0+1",
        "object:0+1",
        "other:0+5",
        "empty",
        "empty:0+1",
        "bytes:0+5\n",
        "BYTES:0+1",
    ),
    "bytes:" + ",".join(["0+1"] * 5_000),
    "bytes:" + ",".join(["0+1"] * 5_000) + ",9+9",
    "bytes:" + "0+1," * 5_000,
    "bytes:" + "1" * 40_000,
    "a" * 40_000,
    "bytes:" + "+" * 20_000,
)


def hostile() -> Iterator[tuple[str, Record]]:
    """Records of the journal and of another topic that nobody ought to have written, one for each danger."""
    for text in (*NUMBERS, *TEXTS):
        yield "journal", journaled(text_message("a", text, region=text, amount=text))
        yield "journal", journaled(text_message("a", text, Expiration=text, DeliveryMode=text))
        data = text.encode()
        yield "other", Record(data[:10], data, [("region", data), ("jms.amount", data), ("jms.types", data)])
        for name in ("partition", "key", "value", "json"):
            yield "journal", conversion(text_message("a", "hello"), **{name: data})
    for body in BODIES:
        yield "journal", journaled(text_message("a", "hello"), body=body.encode())
    for count in (2, 1_200, 10_000):
        yield "journal", journaled(of_pieces(count))
    for data in (
        None,
        b"",
        b"\xff\xfe",
        b"\xc0\x80",
        b"\xed\xa0\x80",
        b"\xf8\x88\x80\x80\x80",
        b"a\xff" * 20_000,
    ):
        for name in ("op", "address", "protocol", "session", "body", "transaction", "seq"):
            yield "journal", journaled(text_message("a", "hello"), **{name: data})
        for name in ("partition", "key", "value", "json"):
            yield "journal", conversion(text_message("a", "hello"), **{name: data or b""})
        base = journaled(text_message("a", "hello"))
        yield (
            "journal",
            base._replace(headers=[*base.headers, ("jms.region", data or b""), ("jms.amount", b"")]),
        )
        yield "journal", base._replace(headers=[*base.headers, ("jms.Expiration", data), ("jms.types", data)])
        yield "journal", base._replace(key=data, value=data)
        yield "other", Record(data, data, [("jms.Destination", data), ("region", data), ("jms.types", data)])
        yield (
            "other",
            Record(None, data, [("isthmus.body", data), ("isthmus.op", data), ("jmsbridge.origin", data)]),
        )
    for count in (1, 3, 7, 9, 5_000):
        yield "journal", Record(b"k", b"v", [("jms.x", b"y")] * count)
        yield "other", Record(b"k", b"v", [("jms.region", b"y")] * count)
        base = journaled(text_message("a", "many"))
        yield (
            "journal",
            base._replace(headers=[*base.headers, *((f"jms.h{each}", b"y") for each in range(count))]),
        )
    for depth in (1, 60, 5_000):
        deep = b"[" * depth + b"]" * depth
        yield "journal", conversion(text_message("a", "deep"), value=deep, json=b'{"body":{"section":')
        yield "journal", journaled(text_message("/" * depth, "deep"))


def everything(sources: tuple[str, ...]) -> RoutingPlan:
    """Routes by every comparison, key and converter that there is."""
    fields = ("region", "amount")
    conditions = [
        *(f"msg.header.{field} =~ '{pattern}'" for field in fields for pattern in PATTERNS),
        *(
            f"msg.header.{field} {sign} 7 && msg.header.{field} != 8"
            for field in fields
            for sign in ("<", "==")
        ),
        *(f"msg.address =~ '{pattern}'" for pattern in ("^/*$", r"^(\w|\W)*\d$")),
    ]
    converters = ("jms", "default", "json", "raw")
    return RoutingPlan(
        bridge_id="this",
        journal_topic="journal",
        source_topics=sources,
        routes=(
            *(
                Route(f"r{place}", parse(each), "t", fields[place % 2], converters[place % 4])
                for place, each in enumerate(conditions)
            ),
            Route("json", parse("msg.header.region < 10000000000"), "t", None, "json"),
            Route("default", parse("exists(msg.header.amount)"), "t", None, "default"),
        ),
        on_error=OnError.DEAD_LETTER,
        dead_letter_topic="dead",
        partitions={"t": 4},
        max_message_bytes={"t": 50_000, "dead": 10_000_000},
    )


@pytest.mark.parametrize("sources", [(), ("other",)], ids=["the-journal", "also-another-topic"])
def test_hostile_records_have_the_outcomes_that_the_reference_says(
    spark: SparkSession, sources: tuple[str, ...]
) -> None:
    placed = [each for each in hostile() if each[0] in ("journal", *sources)]
    assert len(placed) > 400
    plan, seen = everything(sources), MessageColumns("journal", other_topics=bool(sources))
    rows: dict[int, list[Row]] = defaultdict(list)
    for row in router.decide(source_rows(spark, placed), plan, seen).collect():
        rows[row["offset"]].append(row)
    wrong = []
    for offset, (topic, record) in enumerate(placed):
        decisions = decide(plan, topic, 0, offset, record, now_ms=round(time.time() * 1000))
        ignored = decisions[0].outcome is Outcome.IGNORED
        expected = [(measures.code(each.outcome), each.route) for each in decisions]
        found = [
            (row["outcome"], None if row["route"] is None else plan.routes[row["route"]])
            for row in rows[offset]
        ]
        if found != expected and not (ignored and not found):
            headers = [(name, (value or b"")[:60]) for name, value in record.headers[:12]]
            wrong.append((headers, [row["error"] for row in rows[offset]], decisions))
    assert not wrong


def for_the_ledger() -> Iterator[Record]:
    """Records of every operation with a transaction, a place in it and an expiration that cannot be."""
    strange = (None, b"", b"\xff\xfe", *(text.encode() for text in (*NUMBERS, LONG)))
    for op in Op:
        for data in strange:
            base = layout.encode(Entry(op, text_message("a", "hello"), "t", 1))
            for name in (layout.SESSION, layout.TRANSACTION, layout.SEQUENCE):
                yield base._replace(
                    headers=[(each, data if each == name else value) for each, value in base.headers]
                )
            yield base._replace(headers=[*base.headers, ("jms.Expiration", data)], key=data)


def test_hostile_records_do_not_keep_the_ledger_from_the_next_transaction(
    spark: SparkSession, kafka_servers: str, tmp_path: Path
) -> None:
    ledger = LedgerBridge(kafka_servers, tmp_path, spark)
    records = [*for_the_ledger(), *(record for topic, record in hostile() if topic == "journal")]
    produce(kafka_servers, ledger.plan.journal_topic, *records, partition=0)
    ledger.write(*transaction("next", ["a", "b"]))
    ledger.run()
    assert bodies(ledger.added())[-2:] == ["a", "b"]
