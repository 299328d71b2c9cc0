"""Combinations that can only be mistakes."""

from __future__ import annotations

import pytest

from isthmus.config import Problem, Severity

TO_X = "routes.x.predicate=msg.address==x\nroutes.x.dest.topic="


def summary(problems: list[Problem]) -> list[tuple[Severity, str | None]]:
    return [(each.severity, each.key) for each in problems]


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (f"{TO_X}isthmus.isthmus.journal", "routes.x.dest.topic"),
        (f"{TO_X}isthmus.b.journal\nbridge.id=b", "routes.x.dest.topic"),
        (f"{TO_X}j\njournal.topic=j", "routes.x.dest.topic"),
        (f"{TO_X}x\nrouting.source.topics=x", "routes.x.dest.topic"),
        ("routing.on-error=dead-letter", "routing.on-error"),
        (f"{TO_X}y\nroutes.x.on-error=dead-letter", "routes.x.on-error"),
        ("routing.source.topics=a,isthmus.isthmus.journal", "routing.source.topics"),
        (
            "routing.on-error=dead-letter\nrouting.dead-letter.topic=isthmus.isthmus.journal",
            "routing.dead-letter.topic",
        ),
        (
            "routing.on-error=dead-letter\nrouting.dead-letter.topic=d\nrouting.source.topics=d",
            "routing.source.topics",
        ),
        (f"{TO_X}y\nmonitor.host=0.0.0.0", "monitor.host"),
        (f"{TO_X}y\nmonitor.host=0.0.0.0\nmonitor.token=short", "monitor.token"),
    ],
)
def test_what_can_only_be_a_mistake_is_an_error(found, text, key):
    assert summary(found(text)) == [(Severity.ERROR, key)]


@pytest.mark.parametrize(
    "text",
    [
        f"{TO_X}y\nrouting.source.topics=x",
        f"{TO_X}s\nrouting.source.topics=s",
        "routing.on-error=dead-letter\nrouting.dead-letter.topic=d",
        f"{TO_X}y\nroutes.x.on-error=dead-letter\nrouting.dead-letter.topic=d",
        "amqp.port=5672\namqp.workers=4",
        "monitor.host=127.0.0.2",
        "monitor.host=0.0.0.0\nmonitor.token=0123456789abcdef",
    ],
)
def test_what_may_be_meant_is_no_problem(found, text):
    assert found(text) == []


def test_a_route_behind_one_with_the_same_predicate_is_never_reached(found):
    (problem,) = found("""
        routes.a.predicate=msg.address==a && msg.header.B==c
        routes.a.dest.topic=t
        routes.b.predicate=msg.address == "a"&&msg.header.B==c
        routes.b.dest.topic=u
    """)
    assert (problem.severity, problem.line, problem.key) == (Severity.WARNING, 4, "routes.b.predicate")
    assert "routes.a" in problem.message


def test_a_configuration_that_routes_nothing_is_a_warning(found):
    (problem,) = found("bridge.id=x", complete=True)
    assert problem.severity is Severity.WARNING
    assert "nothing will be routed" in problem.message


def test_a_converter_of_ones_own_costs_real_time_mode(found):
    (problem,) = found("message.convert=isthmus.converters.json:JsonConverter")
    assert (problem.severity, problem.key) == (Severity.WARNING, "message.convert")
    assert "real-time mode" in problem.message
    assert found("message.convert=isthmus.converters.json:JsonConverter\npipeline.mode=micro-batch") == []


def test_a_converter_that_cannot_be_loaded_is_an_error(found):
    (problem,) = found("message.convert=no.such.module:Converter\npipeline.mode=micro-batch")
    assert (problem.severity, problem.key) == (Severity.ERROR, "message.convert")
    assert "no.such.module" in problem.message


def test_json_and_raw_have_no_form_for_records_of_source_topics(found):
    (problem,) = found("message.convert=raw\nrouting.source.topics=events")
    assert (problem.severity, problem.key) == (Severity.WARNING, "message.convert")


def test_the_direct_route_keeps_its_name_to_itself(found):
    (problem,) = found(
        "message.convert=raw\nroutes.direct.predicate=msg.address==x\nroutes.direct.dest.topic=t"
    )
    assert (problem.severity, problem.key) == (Severity.ERROR, "routes.direct.predicate")


def test_a_destination_that_mixes_with_dead_letters_is_a_warning(found):
    problems = found(f"{TO_X}d\nrouting.dead-letter.topic=d\nrouting.on-error=dead-letter")
    assert summary(problems) == [(Severity.WARNING, "routes.x.dest.topic")]


def test_a_dead_letter_topic_that_nothing_goes_to_is_noted(found):
    assert summary(found("routing.dead-letter.topic=d")) == [(Severity.NOTE, "routing.dead-letter.topic")]


def test_a_batch_duration_in_micro_batch_mode_is_noted(found):
    problems = found("pipeline.mode=micro-batch\npipeline.real-time.batch=1m")
    assert summary(problems) == [(Severity.NOTE, "pipeline.real-time.batch")]


def test_security_options_for_the_embedded_kafka_are_a_warning(found):
    assert summary(found("kafka.security.protocol=SSL")) == [(Severity.WARNING, "kafka.security.protocol")]
    assert found("kafka.security.protocol=SSL\nkafka.bootstrap.servers=h:1") == []


def test_security_options_are_not_blamed_when_the_servers_are_wrong(found):
    problems = found("kafka.security.protocol=SSL\nkafka.bootstrap.servers=h")
    assert summary(problems) == [(Severity.ERROR, "kafka.bootstrap.servers")]
