"""Why a message goes where it goes."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

from tests.support.routing import JOURNAL, NOW_MS, journaled, message, plan, route

from isthmus.cli.show import as_json
from isthmus.config.judgement.reading import read
from isthmus.config.judgement.routing_plan import routing_plan
from isthmus.journal import layout
from isthmus.journal.layout import AddressTopic, Entry, Op, Record
from isthmus.message import Header, Message
from isthmus.routing.explain import Explanation, Term, explain, sample
from isthmus.routing.plan import Outcome, RoutingPlan
from isthmus.routing.route import OnError, destinations_route, direct_route

EU = route("msg.address==orders && msg.header.region==EU", "orders-eu", name="eu", key="CorrelationId")
LARGE = route("msg.address==orders && msg.header.amount>=1000", "orders-large", name="large")
REST = route("msg.address=~'^orders'", "orders-rest", name="rest")


def explained(by: RoutingPlan, of: Message | Record, **options: object) -> Explanation:
    record = of if isinstance(of, Record) else journaled(of)
    return explain(by, record, now_ms=NOW_MS, **options)  # type: ignore[arg-type]


def test_each_earlier_route_says_which_term_fails_and_what_the_message_has() -> None:
    explanation = explained(plan(EU, LARGE, REST), message("orders", region="US"))
    assert [(each.name, each.takes) for each in explanation.routes] == [
        ("eu", False),
        ("large", False),
        ("rest", True),
    ]
    assert explanation.route == "rest"
    assert explanation.routes[0].term == Term(
        "msg.address==orders && msg.header.region==EU",
        False,
        terms=(
            Term("msg.address==orders", True, "msg.address", "orders"),
            Term("msg.header.region==EU", False, "msg.header.region", "US"),
        ),
    )
    assert explanation.routes[1].term.terms[1] == Term(
        "msg.header.amount>=1000", False, "msg.header.amount", None
    )


def test_routes_behind_the_one_that_takes_it_are_not_tried() -> None:
    explanation = explained(plan(EU, LARGE, REST), message("orders", region="EU", CorrelationId="c"))
    assert [each.name for each in explanation.routes] == ["eu"]


def test_the_record_is_what_the_router_would_publish() -> None:
    of = message("orders", text="hello", region="EU", CorrelationId="c")
    (result,) = explained(plan(EU), of, position=(JOURNAL, 2, 7)).results
    assert (result.outcome, result.route, result.topic) == (Outcome.PUBLISHED, "eu", "orders-eu")
    assert (result.key, result.key_from, result.value) == (b"c", "msg.header.CorrelationId", b"hello")
    assert dict(result.headers)["jms.region"] == b"EU"
    assert dict(result.headers)["isthmus.id"] == b"journal:2:7"


def test_a_message_that_is_nowhere_yet_has_no_position() -> None:
    explanation = explained(plan(REST), message("orders"))
    assert explanation.position is None
    assert dict(explanation.results[0].headers)["isthmus.id"] == b"?"
    assert explanation.results[0].key_from == "the message id"


def test_a_soft_failure_has_its_code_and_what_the_policy_makes_of_it() -> None:
    failing = message("orders", region="EU")
    (result,) = explained(plan(EU, on_error=OnError.SKIP), failing).results
    assert (result.outcome, result.code, result.reason) == (
        Outcome.SKIPPED,
        "key",
        "no header CorrelationId",
    )
    (result,) = explained(plan(EU, on_error=OnError.DEAD_LETTER, dead_letter_topic="dead"), failing).results
    assert (result.outcome, result.topic) == (Outcome.DEAD_LETTERED, "dead")
    assert dict(result.headers)["isthmus.error.route"] == b"eu"


def test_what_no_route_takes_says_so_and_shows_all_of_them() -> None:
    explanation = explained(plan(EU, LARGE), message("elsewhere"))
    assert explanation.route is None
    assert [each.takes for each in explanation.routes] == [False, False]
    assert explanation.results[0].outcome is Outcome.UNMATCHED


def test_what_is_left_aside_is_tried_by_no_route() -> None:
    expired = message("orders", Expiration="1")
    assert explained(plan(REST), expired).routes == ()
    assert explained(plan(REST), expired).results[0].outcome is Outcome.EXPIRED


def test_a_record_that_is_not_one_of_the_journal_is_a_soft_failure() -> None:
    explanation = explained(plan(REST), Record(b"k", b"v", [("x", b"y")]))
    assert explanation.address is None
    assert explanation.results[0].code == "malformed"


def test_a_jms_destination_gets_a_copy_beside_the_route() -> None:
    topic = AddressTopic("orders", 4, 1_000_000, True)
    record = layout.encode(Entry(Op.ADD, message("orders"), topic=topic))
    explanation = explained(plan(REST, destinations_route(), keep_destinations=True), record)
    assert [each.topic for each in explanation.results] == ["orders-rest", "orders"]
    assert [each.name for each in explanation.routes] == ["rest"]


def test_the_direct_route_says_why_it_leaves_records_of_source_topics() -> None:
    by = plan(direct_route("jms"), source_topics=("other",))
    explanation = explained(by, Record(b"k", b"v", []), position=("other", 0, 0))
    assert not explanation.routes[0].takes
    assert explanation.routes[0].why_not


def test_a_value_out_of_a_secret_is_not_shown(monkeypatch, tmp_path) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "bridge.properties"
    file.write_text(
        "bridge.id=b\nroutes.r.predicate=msg.address==a && msg.header.tenant==${env:TENANT}\n"
        "routes.r.dest.topic=t\nrouting.on-error=skip\n"
    )
    by = routing_plan(read(file, {"TENANT": "s3cret"}).settings)
    explanation = explained(by, journaled(message("a", tenant="other")))
    assert "s3cret" not in repr(explanation)
    assert explanation.routes[0].term.terms[1].text == "msg.header.tenant==${env:TENANT}"
    assert explained(by, journaled(message("a", tenant="s3cret"))).route == "r"


def test_an_explanation_becomes_json() -> None:
    record = sample("orders", {"region": Header("EU")}, b"\xff", json=False)
    made = json.loads(as_json(**asdict(explained(plan(replace(EU, key=None)), record))))
    assert made["results"][0]["value"] == {"base64": "/w=="}
    assert made["routes"][0]["term"]["terms"][1]["found"] == "EU"
