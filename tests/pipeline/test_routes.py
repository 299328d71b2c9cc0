"""From the journal to Kafka topics, through a real Kafka and a real Spark.

All that is sent here goes through one run of one bridge: each test has addresses and topics of its own in it.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import NamedTuple

import pytest
from pyspark.sql import SparkSession
from tests.support.kafka.topics import produce
from tests.support.pipeline.bridge import TestBridge, text_message

from isthmus.journal import layout
from isthmus.journal.layout import Entry, Op, Record
from isthmus.journal.writer import Position
from isthmus.message import Body, BodyKind, Header, HeaderType
from isthmus.routing.counts import BatchCounts
from isthmus.routing.plan import Outcome
from isthmus.routing.route import OnError

IN_AN_HOUR = int(time.time() * 1000) + 3_600_000

ORDERS = [
    text_message("orders", "one", region="EU"),
    text_message("orders", "two", region="US"),
    text_message("orders", "three"),
    text_message("elsewhere", "four", region="EU"),
]

_typed = text_message("typed", "hello", CorrelationId="c-1", count=7, ratio=0.5, flag=True, blob=b"\x00\xff")
TYPED = replace(_typed, headers={**_typed.headers, "tiny": Header.of(-5, HeaderType.BYTE)})

_whole = replace(text_message("parts"), value=b"<<one>><<two>>")
PARTS = [
    replace(_whole, body=layout.decode_body("text:2+3", _whole.value)),
    replace(_whole, body=layout.decode_body("bytes:2+3,9+3", _whole.value)),
    replace(_whole, body=Body(BodyKind.EMPTY)),
]

KEYLESS = text_message("keyless")

NO_KEY = text_message("keyed", "no key")
KEYED = [
    text_message("keyed", "good", CorrelationId="c"),
    NO_KEY,
    replace(text_message("keyed", "a map", CorrelationId="c"), body=Body(BodyKind.MAP)),
]

SKIPPED = text_message("skipping", "skipped")

SIZES = [
    text_message("small", "y" * 5_000_000),
    text_message("small", "x" * 1500),
    text_message("small", "z", note="n" * 3000),
]

OPERATIONS = [
    Entry(Op.ADD_TX, text_message("operations", "not yet"), "tx", 0),
    Entry(Op.DELETE, text_message("operations", "gone")),
    text_message("operations", "now"),
]

DURABLE = [
    text_message("durable", "durable", DeliveryMode="PERSISTENT"),
    text_message("durable", "not durable", DeliveryMode="NON_PERSISTENT"),
    text_message("durable", "durable by default"),
]

EXPIRING = [text_message("expiring", str(end), Expiration=end) for end in (1_000, 0, IN_AN_HOUR)]

SENT = [
    *ORDERS,
    TYPED,
    *PARTS,
    KEYLESS,
    *KEYED,
    SKIPPED,
    *SIZES,
    *OPERATIONS,
    *DURABLE,
    *EXPIRING,
]


class Routed(NamedTuple):
    """A bridge that has routed all of it."""

    bridge: TestBridge
    counts: BatchCounts
    routes: list[str]
    positions: dict[str, Position]

    def bodies(self, topic: str) -> list[str]:
        return self.bridge.bodies(topic)

    def letters(self, *codes: str) -> dict[bytes, dict[str, bytes | None]]:
        """Headers of the dead letters with these errors, by body."""
        letters = {record.value or b"": dict(record.headers) for record in self.bridge.records("dead")}
        return {
            body: headers
            for body, headers in letters.items()
            if (headers["isthmus.error.code"] or b"").decode() in codes
        }

    def counted(self, route: str) -> tuple[int, int]:
        """How many the route has published, and on how many it has failed."""
        counted = self.counts.routes[self.routes.index(route)]
        return counted.success, counted.failure


@pytest.fixture(scope="module")
def routed(spark: SparkSession, kafka_servers: str, tmp_path_factory: pytest.TempPathFactory) -> Routed:
    bridge = TestBridge(kafka_servers, tmp_path_factory.mktemp("routes"))
    own = ("typed", "parts", "keyless", "keyed", "operations", "durable", "expiring")
    bridge.make_topics("eu", "all", *own, "in", "from-others", "dead")
    bridge.make_topics("small", config={"max.message.bytes": "2000"})
    source = bridge.name("in")
    keys = {"typed": "CorrelationId", "keyed": "CorrelationId"}
    routes = [
        bridge.route("eu", "msg.address==orders && msg.header.region==EU", "eu"),
        bridge.route("all", "msg.address==orders", "all"),
        *(bridge.route(name, f"msg.address=={name}", name, key=keys.get(name)) for name in (*own, "small")),
        bridge.route("skipping", "msg.address==skipping", "keyed", key="k", on_error=OnError.SKIP),
        bridge.route("others", f"msg.address=={source} && msg.header.region==EU", "from-others"),
    ]
    settings = bridge.settings(
        *routes,
        dead_letter_topic=bridge.name("dead"),
        on_error=OnError.DEAD_LETTER,
        non_durable="skip",
        source_topics=(source,),
    )
    positions = bridge.write(SENT, settings)
    produce_junk(bridge, settings.journal.topic)
    produce_others(bridge, source)
    counts = bridge.run(spark, settings)
    placed = {
        (each.message if isinstance(each, Entry) else each).id: position
        for each, position in zip(SENT, positions, strict=True)
    }
    return Routed(bridge, counts, [route.name for route in routes], placed)


def produce_junk(bridge: TestBridge, journal: str) -> None:
    produce(
        bridge.kafka.servers,
        journal,
        Record(b"k", b"junk", [("x", b"y")]),
        Record(b"k", b"bare junk", []),
        Record(b"gone", None, []),
    )


def produce_others(bridge: TestBridge, source: str) -> None:
    produce(
        bridge.kafka.servers,
        source,
        Record(b"k1", b"plain header", [("region", b"EU"), ("trace", b"\xff")]),
        Record(b"k2", b"jms header", [("jms.region", b"EU"), ("isthmus.id", b"x")]),
        Record(b"k3", b"ours", [("region", b"EU"), ("jmsbridge.origin", bridge.id.encode())]),
        Record(b"k4", b"another's", [("region", b"EU"), ("jmsbridge.origin", b"other")]),
        Record(b"k5", None, [("region", b"EU")]),
    )


def test_the_first_route_that_matches_takes_the_message(routed: Routed) -> None:
    assert routed.bodies("eu") == ["one"]
    assert routed.bodies("all") == ["three", "two"]
    assert (routed.counted("eu"), routed.counted("all")) == ((1, 0), (2, 0))


def test_a_published_record_has_every_header_with_its_type(routed: Routed) -> None:
    [record] = routed.bridge.records("typed")
    assert record.key == b"c-1"
    assert record.value == b"hello"
    assert layout.decode_headers(record.headers) == TYPED.headers
    published = dict(record.headers)
    assert published["jms.count"] == b"7"
    assert published["jmsbridge.origin"] == routed.bridge.id.encode()
    assert published["isthmus.id"] == str(routed.positions[TYPED.id]).encode()
    assert [name for name in published if name.startswith("isthmus.")] == ["isthmus.id"]


def test_the_body_is_cut_out_of_the_message_as_it_arrived(routed: Routed) -> None:
    values = sorted(record.value or b"null" for record in routed.bridge.records("parts"))
    assert values == [b"null", b"one", b"onetwo"]


def test_without_a_key_the_message_id_is_the_key(routed: Routed) -> None:
    assert [record.key for record in routed.bridge.records("keyless")] == [KEYLESS.id.encode()]


def test_soft_failures_are_dead_lettered_with_all_they_had(routed: Routed) -> None:
    assert routed.bodies("keyed") == ["good"]
    letters = routed.letters("key", "conversion")
    assert set(letters) == {b"no key", b"a map"}
    headers = letters[b"no key"]
    assert headers["isthmus.error.code"] == b"key"
    assert headers["isthmus.error.message"] == b"no header CorrelationId"
    assert headers["isthmus.error.route"] == b"keyed"
    assert headers["isthmus.id"] == str(routed.positions[NO_KEY.id]).encode()
    assert list(headers.items())[: len(layout.INDEX)] == layout.encode(Entry(Op.ADD, NO_KEY)).headers[:5]
    assert letters[b"a map"]["isthmus.error.code"] == b"conversion"
    assert routed.counted("keyed") == (1, 2)


def test_a_route_may_have_a_policy_of_its_own(routed: Routed) -> None:
    assert "skipped" not in routed.bodies("keyed") + routed.bodies("dead")
    assert routed.counted("skipping") == (0, 1)


def test_a_record_too_large_for_its_topic_is_a_soft_failure(routed: Routed) -> None:
    assert [len(body) for body in routed.bodies("small")] == [1500]
    assert sorted(map(len, routed.letters("oversize"))) == [1, 5_000_000]
    assert routed.counted("small") == (1, 2)


def test_junk_in_the_journal_is_a_soft_failure(routed: Routed) -> None:
    assert set(routed.letters("malformed")) == {b"bare junk", b"junk"}


def test_only_plain_adds_are_routed(routed: Routed) -> None:
    assert routed.bodies("operations") == ["now"]
    assert routed.counted("operations") == (1, 0)


def test_non_durable_messages_can_be_left_out(routed: Routed) -> None:
    assert routed.bodies("durable") == ["durable", "durable by default"]


def test_expired_messages_are_left_out(routed: Routed) -> None:
    assert routed.bodies("expiring") == ["0", str(IN_AN_HOUR)]


def test_other_topics_feed_the_router_without_going_in_circles(routed: Routed) -> None:
    records = {record.key: record for record in routed.bridge.records("from-others")}
    assert {key: record.value for key, record in records.items()} == {
        b"k1": b"plain header",
        b"k2": b"jms header",
        b"k4": b"another's",
        b"k5": None,
    }
    assert ("trace", b"\xff") in records[b"k1"].headers
    assert [value for name, value in records[b"k2"].headers if name == "isthmus.id"] != [b"x"]
    assert [value for name, value in records[b"k4"].headers if name == "jmsbridge.origin"] == [
        b"other",
        routed.bridge.id.encode(),
    ]


def test_everything_that_is_read_is_counted_once(routed: Routed) -> None:
    published = 1 + 2 + 1 + 3 + 1 + 1 + 1 + 1 + 2 + 2 + 4
    assert {outcome: count for outcome, count in routed.counts.outcomes.items() if count} == {
        Outcome.PUBLISHED: published,
        Outcome.UNMATCHED: 1,
        Outcome.DEAD_LETTERED: len(routed.bridge.records("dead")),
        Outcome.SKIPPED: 1,
        Outcome.NON_DURABLE: 1,
        Outcome.EXPIRED: 1,
        Outcome.LOOPED: 1,
    }
    assert len(routed.bridge.records("dead")) == 6
