"""The routes to temporary queues, in the reference router."""

from __future__ import annotations

from tests.support.routing import decided, message, plan, route

from isthmus.journal.layout import Record
from isthmus.routing.decide import Decision
from isthmus.routing.plan import Outcome
from isthmus.routing.route import TEMPORARY_PREFIX, temporary_routes

QUEUE = f"{TEMPORARY_PREFIX}1"
PLAN = plan(*temporary_routes("temporary", ("answers", "others")), source_topics=("answers", "others"))


def reached(decision: Decision) -> tuple[str | None, bytes | None]:
    """Topic and key."""
    assert decision.outcome is Outcome.PUBLISHED
    assert decision.record is not None
    return decision.topic, decision.record.key


def test_what_is_sent_to_a_temporary_queue_goes_to_the_topic_of_all_as_it_is() -> None:
    decision = decided(PLAN, message(QUEUE, text="hello", Destination=QUEUE))
    assert reached(decision) == ("temporary", QUEUE.encode())
    assert decision.record is not None
    assert decision.record.value == b"hello"
    assert [name for name, _ in decision.record.headers] == ["jmsbridge.origin", "isthmus.id"]


def test_a_kafka_record_reaches_a_temporary_queue_by_its_destination() -> None:
    record = Record(None, b"v", [("jms.Destination", QUEUE.encode())])
    decision = decided(PLAN, record, topic="others")
    assert reached(decision) == ("temporary", QUEUE.encode())
    assert decision.record is not None
    assert ("jms.Destination", QUEUE.encode()) in decision.record.headers


def test_other_records_are_not_taken() -> None:
    assert decided(PLAN, Record(None, b"v", []), topic="answers").outcome is Outcome.UNMATCHED
    assert decided(PLAN, message("isthmus-temporary-1")).outcome is Outcome.UNMATCHED
    assert decided(PLAN, message("orders", Destination=QUEUE)).outcome is Outcome.UNMATCHED


def test_without_source_topics_only_addresses_are_looked_at() -> None:
    assert len(temporary_routes("temporary", ())) == 1


def test_a_route_of_the_file_comes_first() -> None:
    mine = route("exists(msg.address)", "mine")
    by = plan(mine, *temporary_routes("temporary", ()))
    assert decided(by, message(QUEUE, Destination=QUEUE)).route is mine
