"""What runs on Spark means what the reference says, over generated predicates, plans and records."""

from __future__ import annotations

from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import Row, SparkSession
from tests import strategies
from tests.pipeline.rows import source_rows

from isthmus.journal import layout
from isthmus.journal.columns import MessageColumns
from isthmus.journal.layout import Entry, Op
from isthmus.message import Message
from isthmus.pipeline import router
from isthmus.routing import columns
from isthmus.routing.decide import decide
from isthmus.routing.plan import Outcome, RoutingPlan
from isthmus.routing.predicate import Predicate, matches
from isthmus.routing.route import OnError, Route

JOURNAL = "journal"
MESSAGES_A_JOB = 25

# Every example is a Spark job: shrinking would take minutes, and the assertion names the record.
a_spark_job = settings(max_examples=40, phases=[Phase.explicit, Phase.reuse, Phase.generate])


@a_spark_job
@given(
    st.lists(strategies.predicates, min_size=30, max_size=30),
    st.lists(strategies.messages(), min_size=MESSAGES_A_JOB, max_size=MESSAGES_A_JOB),
)
def test_predicates_mean_the_same_in_spark_as_in_python(
    spark: SparkSession, predicates: list[Predicate], messages: list[Message]
) -> None:
    """40 jobs of 30 predicates: 1,200 predicates, each over 25 messages."""
    records = [(JOURNAL, layout.encode(Entry(Op.ADD, message))) for message in messages]
    seen = MessageColumns(JOURNAL, other_topics=False)
    evaluated = seen.read(source_rows(spark, records)).select(
        *[columns.matches(predicate, seen.address, seen.header) for predicate in predicates]
    )
    expected = [[matches(predicate, message) for predicate in predicates] for message in messages]
    assert [list(row) for row in evaluated.collect()] == expected


plans = st.builds(
    lambda routes, on_error, propagate, limit: RoutingPlan(
        bridge_id="this",
        journal_topic=JOURNAL,
        source_topics=("other",),
        routes=tuple(
            Route(f"r{place}", predicate, f"t{place}", key, on_error=policy)
            for place, (predicate, key, policy) in enumerate(routes)
        ),
        on_error=on_error,
        dead_letter_topic="dead",
        propagate_non_durable=propagate,
        max_message_bytes={"t0": limit, "t1": 10_000, "dead": limit + 150},
    ),
    st.lists(
        st.tuples(
            strategies.predicates,
            st.none() | st.sampled_from(strategies.NAMES),
            st.none() | st.sampled_from(OnError),
        ),
        max_size=4,
    ),
    st.sampled_from(OnError),
    st.booleans(),
    st.integers(250, 450),
)

records = st.one_of(
    strategies.entries.map(lambda entry: (JOURNAL, layout.encode(entry))),
    strategies.damaged_records().map(lambda record: (JOURNAL, record)),
    strategies.foreign_records().map(lambda record: ("other", record)),
)


@a_spark_job
@given(plans, st.lists(records, min_size=30, max_size=30))
def test_the_router_decides_as_the_reference_does(
    spark: SparkSession, plan: RoutingPlan, placed: list[tuple[str, layout.Record]]
) -> None:
    seen = MessageColumns(plan.journal_topic, other_topics=True)
    rows = {row["offset"]: row for row in router.decide(source_rows(spark, placed), plan, seen).collect()}
    for offset, (topic, record) in enumerate(placed):
        expected = decide(plan, topic, 0, offset, record)
        if expected.outcome is Outcome.IGNORED:
            assert offset not in rows
            continue
        row = rows[offset]
        assert row["outcome"] == expected.outcome, (record, row, expected)
        assert row["route"] == (None if expected.route is None else plan.routes.index(expected.route))
        if expected.error is not None:
            assert (row["error"]["code"], row["error"]["message"]) == (
                expected.error.code,
                str(expected.error),
            )
        if expected.outcome is Outcome.PUBLISHED:
            assert _record(row, "new_key", "new_value", "new_headers") == expected.record
        if expected.outcome is Outcome.DEAD_LETTERED:
            assert _record(row, "key", "value", "dead_letter_headers") == expected.record


def _record(row: Row, key: str, value: str, headers: str) -> layout.Record:
    def plain(data: bytearray | None) -> bytes | None:
        return None if data is None else bytes(data)

    return layout.Record(
        plain(row[key]), plain(row[value]), [(each["key"], plain(each["value"])) for each in row[headers]]
    )
