"""What runs on Spark means what the reference says, over generated predicates, plans and records."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import replace

from hypothesis import HealthCheck, Phase, given, reject, settings
from hypothesis import strategies as st
from pyspark.sql import Row, SparkSession
from tests.support import strategies
from tests.support.amqp import strategies as amqp
from tests.support.pipeline.rows import source_rows

from isthmus import AmqpMessage, AmqpValue
from isthmus.codecs.jms import to_message
from isthmus.converters import NoBody, converter
from isthmus.converters.columns import convert
from isthmus.converters.conversion_headers import conversion_headers
from isthmus.errors import ConversionFailure, SoftFailure
from isthmus.journal import layout
from isthmus.journal.columns import MessageColumns
from isthmus.journal.layout import Entry, Op
from isthmus.message import Header, Message
from isthmus.pipeline import measures, router
from isthmus.routing import columns
from isthmus.routing.decide import Decision, decide
from isthmus.routing.plan import Outcome, RoutingPlan
from isthmus.routing.predicate import Predicate, matches, parse
from isthmus.routing.route import OnError, Route, destination_route, destinations_route, direct_route
from isthmus.telemetry.events import SAMPLE

JOURNAL = "journal"
MESSAGES_A_JOB = 25

# Every example is a Spark job, which is why there is much in it: what a job costs by itself is a second.
# Shrinking would take minutes, and the assertion names the record.
a_spark_job = settings(
    max_examples=6,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.data_too_large, HealthCheck.too_slow],
)


@a_spark_job
@given(
    st.lists(strategies.predicates, min_size=90, max_size=90),
    st.lists(strategies.messages(), min_size=MESSAGES_A_JOB, max_size=MESSAGES_A_JOB),
)
def test_predicates_mean_the_same_in_spark_as_in_python(
    spark: SparkSession, predicates: list[Predicate], messages: list[Message]
) -> None:
    """6 jobs of 90 predicates: 540 predicates, each over 25 messages."""
    records = [(JOURNAL, layout.encode(Entry(Op.ADD, message))) for message in messages]
    seen = MessageColumns(JOURNAL, other_topics=False)
    evaluated = seen.read(source_rows(spark, records)).select(
        *[columns.matches(predicate, seen.address, seen.header) for predicate in predicates]
    )
    expected = [[matches(predicate, message) for predicate in predicates] for message in messages]
    assert [list(row) for row in evaluated.collect()] == expected


converters = st.sampled_from(["jms", "default", "json", "raw"])

plans = st.builds(
    lambda routes, direct, keep, on_error, propagate, limit, source_limit: RoutingPlan(
        bridge_id="this",
        journal_topic=JOURNAL,
        source_topics=("other",),
        routes=(
            *(
                Route(
                    f"r{place}",
                    predicate,
                    f"t{place}",
                    key,
                    convert,
                    policy,
                    destination=destination,
                    key_pattern=pattern,
                    no_body=no_body,
                )
                for place, (predicate, key, pattern, convert, no_body, policy, destination) in enumerate(
                    routes
                )
            ),
            *([destination_route("t2", "default")] if keep else []),
            *([direct_route(direct)] if direct else [destinations_route()] if keep else []),
        ),
        keep_destinations=keep,
        missing_topics=frozenset({"gone"}),
        partitions={"t0": 4, "t1": 1, "t2": 12, "t3": 1, "orders": 4, "a.b": 1},
        on_error=on_error,
        dead_letter_topic="dead",
        propagate_non_durable=propagate,
        max_source_bytes=source_limit,
        max_message_bytes={"t0": limit, "t1": 10_000, "orders": limit, "dead": limit + 150},
    ),
    st.lists(
        st.tuples(
            strategies.predicates,
            st.none() | st.sampled_from(strategies.NAMES),
            st.none() | strategies.patterns,
            converters,
            st.sampled_from(NoBody),
            st.none() | st.sampled_from(OnError),
            st.sampled_from([None, None, "somewhere.else"]),
        ),
        max_size=4,
    ),
    st.none() | converters,
    st.booleans(),
    st.sampled_from(OnError),
    st.booleans(),
    st.integers(250, 450),
    st.sampled_from([None, 8_000, 8_980]),
)

records = st.one_of(
    strategies.entries.map(lambda entry: (JOURNAL, layout.encode(entry))),
    strategies.damaged_records().map(lambda record: (JOURNAL, record)),
    strategies.foreign_records().map(lambda record: ("other", record)),
)


@settings(a_spark_job)
@given(plans, st.lists(records, min_size=100, max_size=100))
def test_the_router_decides_as_the_reference_does(
    spark: SparkSession, plan: RoutingPlan, placed: list[tuple[str, layout.Record]]
) -> None:
    """6 plans, each over 100 records."""
    seen = MessageColumns(plan.journal_topic, other_topics=True)
    rows = defaultdict(list)
    for row in router.decide(source_rows(spark, placed), plan, seen).collect():
        rows[row["offset"]].append(row)
    for offset, (topic, record) in enumerate(placed):
        decisions = decide(plan, topic, 0, offset, record, now_ms=round(time.time() * 1000))
        if decisions[0].outcome is Outcome.IGNORED and offset % SAMPLE:
            assert offset not in rows
            continue
        for row, expected in zip(rows[offset], decisions, strict=True):
            _check(row, expected, plan)


def test_a_published_record_says_who_sent_it_in_every_form(spark: SparkSession) -> None:
    forms = ("jms", "default", "json", "raw")
    routes = tuple(Route(form, parse(f"msg.address=={form}"), form, convert=form) for form in forms)
    plan = RoutingPlan(bridge_id="this", journal_topic=JOURNAL, source_topics=(), routes=routes)
    data = AmqpMessage(body=AmqpValue("text")).encode()
    placed = []
    for form in forms:
        message = to_message(data, target=form, fallback_id=form)
        signed = replace(message, headers={**message.headers, layout.CLIENT: Header("shop")})
        extra = tuple(conversion_headers(message, json=True))
        placed.append((JOURNAL, layout.encode(Entry(Op.ADD, signed, conversion=extra))))
    rows = router.decide(
        source_rows(spark, placed), plan, MessageColumns(JOURNAL, other_topics=False)
    ).collect()
    for row, (topic, record) in zip(rows, placed, strict=True):
        (expected,) = decide(plan, topic, 0, row["offset"], record, now_ms=0)
        _check(row, expected, plan)
        assert expected.record is not None
        assert b"shop" in [value for name, value in expected.record.headers if name.endswith(layout.CLIENT)]


def _check(row: Row, expected: Decision, plan: RoutingPlan) -> None:
    assert row["outcome"] == measures.code(expected.outcome), (row, expected)
    assert row["route"] == (None if expected.route is None else plan.routes.index(expected.route))
    if expected.error is not None:
        assert (row["error"]["code"], row["error"]["message"]) == (expected.error.code, str(expected.error))
    if expected.outcome is Outcome.PUBLISHED:
        assert _record(row, "new_key", "new_value", "new_headers") == expected.record
        assert row["new_topic"] == expected.topic
        assert row.asDict().get("new_partition") == expected.partition
    if expected.outcome is Outcome.DEAD_LETTERED:
        assert _record(row, "key", "value", "dead_letter_headers") == expected.record


def test_converters_make_the_same_bytes_in_spark_as_in_python(spark: SparkSession) -> None:
    """1,000 generated messages, each through every converter, in one job."""
    encoded: list[bytes] = []
    records: list[tuple[str, layout.Record]] = []

    @settings(max_examples=1000, phases=[Phase.generate])
    @given(amqp.messages)
    def generate(message: AmqpMessage) -> None:
        data = message.encode()
        records.append((JOURNAL, layout.encode(journaled(data))))
        encoded.append(data)

    generate()
    seen = MessageColumns(JOURNAL, other_topics=False)
    converted = {name: convert(name, seen) for name in ("default", "json", "raw", "jms")}
    columns = [
        column.alias(f"{name}_{part}")
        for name, result in converted.items()
        for part, column in result._asdict().items()
    ]
    rows = seen.read(source_rows(spark, records)).select(*columns).collect()
    assert len(rows) == len(encoded) >= 900
    for row, data in zip(rows, encoded, strict=True):
        for name in converted:
            try:
                expected = converter(name).to_kafka_record(AmqpMessage.decode(data)).value
            except SoftFailure:
                assert row[f"{name}_error"] is not None
            else:
                assert row[f"{name}_error"] is None
                assert _plain(row[f"{name}_value"]) == expected


def journaled(data: bytes) -> Entry:
    """The entry of an AMQP message that asks for no place that is not there."""
    message = to_message(data, target="somewhere")
    try:
        return Entry(Op.ADD, message, conversion=conversion_headers(message, json=True))
    except ConversionFailure:  # annotations that no sender may set: the edge refuses such a message
        reject()


def _plain(data: bytearray | None) -> bytes | None:
    return None if data is None else bytes(data)


def _record(row: Row, key: str, value: str, headers: str) -> layout.Record:
    return layout.Record(
        _plain(row[key]), _plain(row[value]), [(each["key"], _plain(each["value"])) for each in row[headers]]
    )
