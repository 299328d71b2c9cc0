"""Samples of messages, held against what a plan makes of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.routing import NOW_MS, plan, route

from isthmus import AmqpMessage, AmqpValue
from isthmus.errors import ConfigError
from isthmus.journal.layout import AddressTopic
from isthmus.message import Header, HeaderType
from isthmus.routing.plan import RoutingPlan
from isthmus.routing.route import destinations_route
from isthmus.routing.samples import SampleReport, read_samples, run_sample

EU = route("msg.address==orders && msg.header.region==EU", "orders-eu", name="eu", key="CustomerId")
REST = route("msg.address=~'^orders'", "orders-rest", name="rest")


def tried(
    text: str, by: RoutingPlan | None = None, folder: Path = Path(), topic: AddressTopic | None = None
) -> SampleReport:
    (one,) = read_samples(f"- name: it\n  {text}".encode(), "samples.yaml")
    by = plan(EU, REST, source_topics=("orders-in",)) if by is None else by
    return run_sample(one, by, folder, json=False, topic_of=lambda _: topic, now_ms=NOW_MS)


def differences(text: str, **options: object) -> list[str]:
    return [str(each) for each in tried(text, **options).differences]  # type: ignore[arg-type]


def test_what_is_as_expected_has_no_difference() -> None:
    report = tried(
        "message: {address: orders, headers: {region: EU, CustomerId: c}, body: hello}\n"
        "  expect: {route: eu, outcome: published, topic: orders-eu, key: c, value: hello, code: null,"
        " headers: {jms.region: EU}}"
    )
    assert report.ok, report


def test_each_field_that_differs_is_named() -> None:
    found = differences(
        "message: {address: orders, headers: {region: US, MessageId: m}, body: hello}\n"
        "  expect: {key: c, value: bye, topic: null, partition: 3, headers: {jms.region: EU, jms.x: y}}"
    )
    assert found == [
        "topic: expected null, is orders-rest",
        "partition: expected 3, is null",
        "key: expected c, is m",
        "value: expected bye, is hello",
        "header jms.region: expected EU, is US",
        "header jms.x: expected y, is not there",
    ]


def test_a_failure_that_nobody_expected_is_told() -> None:
    found = differences("message: {address: orders, headers: {region: EU}}\n  expect: {outcome: published}")
    assert found == [
        "outcome: expected published, is stopped",
        "failure: expected none, is no header CustomerId (code key)",
    ]


def test_the_route_that_was_expected_says_why_not() -> None:
    report = tried("message: {address: orders, headers: {region: US}}\n  expect: {route: eu}")
    assert report.hints == (
        "eu: msg.header.region==EU does not hold, and msg.header.region is US",
        "rest takes it: " + REST.written,
    )


def test_headers_have_the_types_of_yaml_or_those_that_are_written() -> None:
    report = tried(
        "message: {address: x, headers: {a: 1, b: 1.5, c: true, d: text, e: {long: 1}, Expiration: 0,"
        " CorrelationId: 42}}\n  expect: {route: null}"
    )
    headers = dict(report.explanation.headers)
    del headers["MessageId"]
    assert report.ok
    assert headers == {
        "a": Header("1", HeaderType.INT),
        "b": Header("1.5", HeaderType.DOUBLE),
        "c": Header("true", HeaderType.BOOLEAN),
        "d": Header("text"),
        "e": Header("1", HeaderType.LONG),
        "Expiration": Header("0", HeaderType.LONG),
        "CorrelationId": Header("42"),
    }


def test_a_record_of_a_source_topic_is_tried_as_one() -> None:
    by = plan(route("msg.address==orders-in", "t", name="in"), source_topics=("orders-in",))
    assert tried(
        "message: {source: orders-in, key: k, body: v}\n  expect: {route: in, key: k, value: v}", by
    ).ok


def test_a_captured_amqp_message_is_tried(tmp_path: Path) -> None:
    (tmp_path / "order.amqp").write_bytes(AmqpMessage(body=AmqpValue("hello")).encode())
    text = "message: {address: orders, amqp: order.amqp}\n  expect: {route: rest, value: hello}"
    assert tried(text, folder=tmp_path).ok


def test_a_list_compares_every_record_that_a_message_becomes() -> None:
    by = plan(REST, destinations_route(), keep_destinations=True)
    topic = AddressTopic("orders", 1, 1_000_000, True)
    text = "message: {address: orders}\n  expect: [{topic: orders-rest}, {topic: orders}]"
    assert tried(text, by, topic=topic).ok
    assert differences(text, by=by) == ["records: expected 2, is 1"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "no sample"),
        ("- name: x\n  message: {adress: a}\n  expect: {}", r"adress.*message"),
        ("- name: x\n  message: {address: a}\n  expect: {outcome: lost}", "lost"),
        ("- {", "samples.yaml"),
        ("- name: x\n  message: {address: a, headers: {day: 2026-02-30}}", "samples.yaml: .* quote it"),
        ("- name: x\n  message: {address: a, headers: {x: !!bool x}}", "samples.yaml: .* quote it"),
    ],
)
def test_a_file_that_cannot_be_read_says_where(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read_samples(text.encode(), "samples.yaml")


NUMBER = f"0x{'F' * 5_000}"
TOO_LARGE = (
    f"x: {NUMBER}",
    f"x: {{long: -{NUMBER}}}",
    f"x: {{double: {NUMBER}}}",
    f"CorrelationId: {NUMBER}",
)


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("{}", "an address, or amqp, or source"),
        ("{address: a, source: b}", "an address, or amqp, or source"),
        ("{source: b}", "not one of routing.source.topics"),
        ("{address: a, headers: {x: {number: 1}}}", "a type and a value"),
        ("{address: a, headers: {x: {byte: 1000}}}", "out of range"),
        *(
            (f"{{address: a, headers: {{{each}}}}}", "header .*: no type has .* quote it")
            for each in TOO_LARGE
        ),
        ("{amqp: nowhere.amqp}", "nowhere.amqp"),
    ],
)
def test_a_message_that_nobody_could_send_is_refused(message: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        tried(f"message: {message}\n  expect: {{}}")
