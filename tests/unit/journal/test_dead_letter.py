"""What a dead letter says, whoever wrote it, and the record that it was."""

from __future__ import annotations

import json

from tests.support.routing import decided, journaled, message, plan, route

from isthmus.journal.dead_letter import DeadLetter, history_of, read_dead_letter, replays_of, with_history
from isthmus.journal.layout import KafkaHeaders, Record
from isthmus.routing.route import OnError

ROUTED = plan(route(key="CustomerId", name="eu"), on_error=OnError.DEAD_LETTER, dead_letter_topic="dead")


def read(record: Record) -> DeadLetter:
    dead = read_dead_letter("dead", 1, 5, 1_000, record)
    assert dead is not None
    return dead


def of_router(record: Record) -> Record:
    made = decided(ROUTED, record).record
    assert made is not None
    return made


def marked(*own: tuple[str, bytes], marks: KafkaHeaders) -> Record:
    report = [("isthmus.error.code", b"redelivery"), ("isthmus.error.message", b"m")]
    return Record(b"k", b"v", [*own, *marks, *report, ("isthmus.error.route", b"")])


def test_a_dead_letter_of_the_router_is_the_journal_record_again() -> None:
    original = journaled(message("orders", region="EU"))
    dead = read(of_router(original))
    assert dead.original == original
    assert (dead.code, dead.route, dead.reason) == ("key", "eu", "no header CustomerId")
    assert (dead.position, dead.id, dead.source) == ("dead:1:5", "journal:2:7", ("journal", 2, 7))
    assert dead.address == "orders"


def test_what_the_router_did_not_convert_for_an_outbox_never_was_in_it() -> None:
    onward = route(key="CustomerId", name="nats", topic="outbox", destination="subject")
    policy = plan(onward, on_error=OnError.DEAD_LETTER, dead_letter_topic="dead")
    made = decided(policy, journaled(message("orders"))).record
    assert made is not None
    dead = read(made)
    assert (dead.destination, dead.of_outbox) == ("subject", False)


def test_marks_of_an_earlier_life_stay_with_the_record() -> None:
    published = (("jms.a", b"1"), ("jmsbridge.origin", b"b"), ("isthmus.id", b"journal:0:1"))
    dead = read(marked(*published, marks=[("isthmus.id", b"queue:0:9"), ("jmsbridge.origin", b"b")]))
    assert dead.original.headers == [*published]
    assert dead.source == ("queue", 0, 9)
    assert dead.entry is None


def test_a_record_that_says_nothing_of_a_failure_is_none() -> None:
    assert read_dead_letter("dead", 0, 0, 0, Record(b"k", b"v", [("isthmus.id", b"x")])) is None


def test_each_replay_counts_and_tells_why() -> None:
    original = journaled(message("orders"))
    once = with_history(original, read(of_router(original)), 2_000)
    assert (replays_of(original), replays_of(once)) == (0, 1)
    twice = with_history(once, read(of_router(once)), 3_000)
    assert replays_of(twice) == 2
    assert [name for name, _ in twice.headers].count("isthmus.replays") == 1
    first, second = (json.loads(each) for each in history_of(twice))
    assert (first["code"], first["route"], first["dead_letter"]) == ("key", "eu", "dead:1:5")
    assert (first["replayed_ms"], second["replayed_ms"]) == (2_000, 3_000)
    assert read(of_router(twice)).replays == 2
