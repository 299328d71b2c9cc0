"""Soft failures in the reference router: what counts as one, and what each policy does about it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support import strategies
from tests.support.routing import JOURNAL, PLACE, decided, journaled, message, plan, route

from isthmus.converters import NoBody
from isthmus.errors import ConversionFailure, DecodeError, KeyFailure, OversizeFailure, SoftFailure
from isthmus.journal import layout
from isthmus.journal.layout import Record
from isthmus.message import Body, BodyKind, Header, Message
from isthmus.routing.counts import FAILURES
from isthmus.routing.decide import Decision
from isthmus.routing.plan import Outcome, RoutingPlan
from isthmus.routing.route import OnError, Route
from isthmus.routing.size import record_size

KEYED = route(key="x")


def of_kind(kind: BodyKind) -> Message:
    return replace(message(), body=Body(kind))


def malformed() -> Record:
    record = journaled(message())
    return record._replace(headers=record.headers[1:])


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        (message(), "no header x"),
        (message(x=""), "header x is empty"),
        (message(x=Header.of(True)), "header x is neither text nor a number"),
        (message(x=Header.of(b"abc")), "header x is neither text nor a number"),
        (message(x=Header.of(None)), "header x is neither text nor a number"),
    ],
)
def test_a_message_without_a_usable_key_is_a_soft_failure(sent: Message, error: str) -> None:
    decision = decided(plan(KEYED), sent)
    assert isinstance(decision.error, KeyFailure)
    assert str(decision.error) == error
    assert decision.route is KEYED


@pytest.mark.parametrize("kind", [BodyKind.MAP, BodyKind.STREAM, BodyKind.OBJECT, BodyKind.OTHER])
def test_a_message_that_is_neither_text_nor_binary_is_a_soft_failure(kind: BodyKind) -> None:
    decision = decided(plan(route()), of_kind(kind))
    assert isinstance(decision.error, ConversionFailure)
    assert str(decision.error) == f"a message of the kind {kind} has no jms form"


@pytest.mark.parametrize("convert", ["jms", "default"])
def test_a_message_without_a_body_is_what_its_route_makes_of_it(convert: str) -> None:
    def of(no_body: NoBody) -> Decision:
        return decided(plan(route(convert=convert, no_body=no_body)), of_kind(BodyKind.EMPTY))

    null, empty = of(NoBody.NULL).record, of(NoBody.EMPTY).record
    assert null is not None
    assert null.value is None
    assert empty is not None
    assert empty.value == b""
    failed = of(NoBody.FAIL)
    assert isinstance(failed.error, ConversionFailure)
    assert str(failed.error) == "the message has no body"


@pytest.mark.parametrize("no_body", NoBody)
def test_a_tombstone_of_another_topic_stays_one(no_body: NoBody) -> None:
    by = plan(route("msg.address==other", no_body=no_body), source_topics=("other",))
    published = decided(by, Record(b"k", None, ()), "other").record
    assert published is not None
    assert (published.key, published.value) == (b"k", None)


def test_a_journal_record_that_cannot_be_read_is_a_soft_failure_without_a_route() -> None:
    decision = decided(plan(route()), malformed())
    assert isinstance(decision.error, DecodeError)
    assert decision.route is None


def test_a_failure_that_no_route_would_have_met_is_none() -> None:
    sent = replace(of_kind(BodyKind.MAP), address="elsewhere")
    assert decided(plan(KEYED), sent).outcome is Outcome.UNMATCHED


def test_a_record_larger_than_its_destination_takes_is_a_soft_failure() -> None:
    fits = decided(plan(route()), message()).record
    assert fits is not None
    size = record_size(fits)
    assert decided(plan(route(), max_message_bytes={"t": size}), message()).outcome is Outcome.PUBLISHED
    decision = decided(plan(route(), max_message_bytes={"t": size - 1}), message())
    assert isinstance(decision.error, OversizeFailure)
    assert str(decision.error) == f"the record has up to {size} bytes, and t takes {size - 1}"


def test_a_topic_without_a_known_limit_takes_any_size() -> None:
    sent = message(text="x" * 2_000_000)
    assert decided(plan(route(), max_message_bytes={"other": 1}), sent).outcome is Outcome.PUBLISHED


def test_headers_count_towards_the_size() -> None:
    limited = plan(route(), max_message_bytes={"t": 1000})
    assert decided(limited, message()).outcome is Outcome.PUBLISHED
    assert isinstance(decided(limited, message(x="y" * 1000)).error, OversizeFailure)


# --- policies -------------------------------------------------------------------------------------------

FAILING = [
    (KEYED, message(), "key"),
    (route(), of_kind(BodyKind.OBJECT), "conversion"),
    (route(topic="small"), message(text="x" * 500), "oversize"),
    (route(), malformed(), "malformed"),
]


@pytest.mark.parametrize(("taken_by", "sent", "code"), FAILING)
@pytest.mark.parametrize(
    ("policy", "outcome"),
    [
        (OnError.STOP, Outcome.STOPPED),
        (OnError.SKIP, Outcome.SKIPPED),
        (OnError.DEAD_LETTER, Outcome.DEAD_LETTERED),
    ],
)
def test_the_bridges_policy_decides_about_every_soft_failure(
    taken_by: Route, sent: Record | Message, code: str, policy: OnError, outcome: Outcome
) -> None:
    by = plan(taken_by, on_error=policy, dead_letter_topic="dead", max_message_bytes={"small": 300})
    decision = decided(by, sent)
    assert decision.outcome is outcome
    assert decision.error is not None
    assert decision.error.code == code
    assert (decision.record is not None) is (outcome is Outcome.DEAD_LETTERED)


def test_the_default_is_to_stop() -> None:
    assert decided(plan(KEYED), message()).outcome is Outcome.STOPPED
    assert decided(plan(KEYED, dead_letter_topic="dead"), message()).outcome is Outcome.STOPPED


def test_a_routes_own_policy_outranks_the_bridges() -> None:
    skipping, stopping = replace(KEYED, on_error=OnError.SKIP), replace(KEYED, on_error=OnError.STOP)
    assert decided(plan(skipping), message()).outcome is Outcome.SKIPPED
    assert decided(plan(stopping, on_error=OnError.SKIP), message()).outcome is Outcome.STOPPED


def test_a_record_without_a_route_goes_by_the_bridges_policy() -> None:
    by = plan(replace(KEYED, on_error=OnError.STOP), on_error=OnError.SKIP)
    assert decided(by, malformed()).outcome is Outcome.SKIPPED


def test_without_a_dead_letter_topic_the_bridge_stops() -> None:
    assert decided(plan(KEYED, on_error=OnError.DEAD_LETTER), message()).outcome is Outcome.STOPPED


# --- dead letters ---------------------------------------------------------------------------------------

DEAD_LETTERS: dict[str, Any] = {"on_error": OnError.DEAD_LETTER, "dead_letter_topic": "dead"}


def test_a_dead_letter_keeps_all_that_arrived_and_says_what_went_wrong_and_where() -> None:
    record = journaled(replace(message(region="EU"), body=Body(BodyKind.MAP)))
    decision = decided(plan(route(name="orders"), **DEAD_LETTERS), record)
    assert decision.topic == "dead"
    assert decision.record == Record(
        record.key,
        record.value,
        [
            *record.headers,
            ("jmsbridge.origin", b"b"),
            ("isthmus.id", PLACE.encode()),
            ("isthmus.error.code", b"conversion"),
            ("isthmus.error.message", b"a message of the kind map has no jms form"),
            ("isthmus.error.route", b"orders"),
        ],
    )


def test_a_dead_letter_of_no_route_says_so() -> None:
    letter = decided(plan(route(), **DEAD_LETTERS), malformed()).record
    assert letter is not None
    assert dict(letter.headers)["isthmus.error.route"] == b""
    assert dict(letter.headers)["isthmus.error.code"] == b"malformed"


def test_a_dead_letter_can_be_read_as_the_journal_record_that_it_was() -> None:
    record = journaled(message(region="EU"))
    letter = decided(plan(KEYED, **DEAD_LETTERS), record).record
    assert letter is not None
    assert layout.decode(letter) == layout.decode(record)


def test_a_dead_letter_that_its_topic_does_not_take_stops_the_bridge() -> None:
    by = plan(KEYED, **DEAD_LETTERS, max_message_bytes={"dead": 100})
    decision = decided(by, message())
    assert decision.outcome is Outcome.STOPPED
    assert isinstance(decision.error, OversizeFailure)
    assert "dead takes 100" in str(decision.error)
    assert decision.record is None


def test_a_dead_letter_that_comes_back_is_not_routed_again() -> None:
    by = plan(KEYED, **DEAD_LETTERS, source_topics=("dead",))
    letter = decided(by, message()).record
    assert letter is not None
    assert decided(by, letter, topic="dead").outcome is Outcome.LOOPED


# --- all of it ------------------------------------------------------------------------------------------

any_record = st.one_of(
    strategies.entries.map(lambda entry: (JOURNAL, layout.encode(entry))),
    strategies.damaged_records().map(lambda record: (JOURNAL, record)),
    strategies.foreign_records().map(lambda record: ("other", record)),
)
any_plan = st.builds(
    lambda predicate, key, policy, limit: plan(
        Route("r0", predicate, "t0", key),
        on_error=policy,
        dead_letter_topic="dead",
        source_topics=("other",),
        max_message_bytes={"t0": limit, "dead": 2 * limit},
    ),
    strategies.predicates,
    st.none() | st.sampled_from(strategies.NAMES),
    st.sampled_from(OnError),
    st.integers(150, 400),
)


@settings(max_examples=30)
@given(any_plan, any_record)
def test_every_record_has_one_outcome_and_is_never_lost_in_silence(
    by: RoutingPlan, placed: tuple[str, Record]
) -> None:
    topic, record = placed
    decision = decided(by, record, topic)
    assert (decision.error is not None) is (decision.outcome in FAILURES)
    assert decision.error is None or isinstance(decision.error, SoftFailure)
    written = decision.outcome in (Outcome.PUBLISHED, Outcome.DEAD_LETTERED)
    assert (decision.record is not None) is written
    assert (decision.topic is not None) is written
    if decision.record is not None and decision.topic is not None:
        assert record_size(decision.record) <= by.max_message_bytes[decision.topic]
        assert dict(decision.record.headers)["isthmus.id"] == f"{topic}:2:7".encode()
    if decision.outcome is Outcome.DEAD_LETTERED and decision.record is not None:
        assert decision.record[:2] == record[:2]
        assert list(decision.record.headers)[: len(record.headers)] == list(record.headers)
