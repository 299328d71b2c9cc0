"""Routes: their parts, their order, and what is wrong with one of them."""

from __future__ import annotations

import pytest

from isthmus.converters import NoBody
from isthmus.routing.predicate import parse
from isthmus.routing.route import OnError, Route

SEED = """
routing.dead-letter.topic=jms-bridge-to-kafka-dead-letter-topic

routes.foo-route.name=foo-route
routes.foo-route.predicate=msg.address==foo-topic
routes.foo-route.dest.topic=foobar-topic
routes.foo-route.conv.key=msg.header.CorrelationId

routes.bar-route.name=bar-route
routes.bar-route.predicate=msg.address==bar-topic
routes.bar-route.dest.topic=foobar-topic
routes.bar-route.conv.key=msg.header.CorrelationId
"""


def test_the_routes_of_the_design_are_read(loaded):
    settings = loaded(SEED)
    assert settings.routing.dead_letter_topic == "jms-bridge-to-kafka-dead-letter-topic"
    assert settings.routes == tuple(
        Route(
            f"{name}-route",
            parse(f"msg.address=={name}-topic"),
            "foobar-topic",
            "CorrelationId",
            no_body=NoBody.EMPTY,
        )
        for name in ("foo", "bar")
    )


def test_a_route_has_defaults_for_all_but_predicate_and_destination(loaded):
    (route,) = loaded("routes.x.predicate=msg.address==a\nroutes.x.dest.topic=t").routes
    assert (route.name, route.key, route.convert, route.on_error) == ("x", None, "jms", None)
    assert route.written == "msg.address==a"


def test_a_route_has_a_policy_and_a_converter_of_its_own(loaded):
    required = "routes.x.predicate=msg.address==a\nroutes.x.dest.topic=t\n"
    (route,) = loaded(f"{required}routes.x.on-error=skip\nroutes.x.conv.message=jms").routes
    assert route.on_error is OnError.SKIP
    assert route.convert == "jms"


def test_routes_keep_the_order_in_which_each_is_first_named(loaded):
    settings = loaded("""
        routes.b.dest.topic=t
        routes.a.predicate=msg.address==a
        routes.a.dest.topic=t
        routes.b.predicate=msg.address==b
        routes.b.dest.topic=u
    """)
    assert [(route.name, route.topic) for route in settings.routes] == [("b", "u"), ("a", "t")]


@pytest.mark.parametrize(
    ("written", "header"),
    [
        ("msg.header.CorrelationId", "CorrelationId"),
        ("msg.header.JMSCorrelationID", "CorrelationId"),
        ("msg.header.JMSXGroupID", "JMSXGroupID"),
        ('msg.header."odd name"', "odd name"),
        ("msg.header.'odd name'", "odd name"),
    ],
)
def test_the_key_is_a_header_by_its_canonical_name(loaded, written, header):
    text = f"routes.x.predicate=msg.address==a\nroutes.x.dest.topic=t\nroutes.x.conv.key={written}"
    (route,) = loaded(text).routes
    assert route.key == header


@pytest.mark.parametrize(
    ("written", "no_body"),
    [
        ("dest.topic=t", NoBody.EMPTY),
        ("dest.queue=Q", NoBody.NULL),
        ("dest.topic=t\nroutes.x.conv.no-body=null", NoBody.NULL),
        ("dest.topic=t\nroutes.x.conv.no-body=fail", NoBody.FAIL),
        ("dest.queue=Q\nroutes.x.conv.no-body=empty", NoBody.EMPTY),
    ],
)
def test_a_message_without_a_body_deletes_nothing_unless_the_route_says_so(loaded, written, no_body):
    (route,) = loaded(f"routes.x.predicate=msg.address==a\nroutes.x.{written}").routes
    assert route.no_body is no_body


def test_what_becomes_of_no_body_does_not_matter_where_the_value_is_more_than_the_body(found):
    problems = found("routes.r.conv.no-body=fail\nroutes.r.conv.message=json")
    assert [str(each.severity) for each in problems] == ["note"]
    assert "no effect with json" in problems[0].message


KEYED = "routes.x.predicate=msg.address==a\nroutes.x.dest.topic=t\nroutes.x.conv.key=msg.header.id\n"


def test_a_route_may_have_a_pattern_for_its_keys(loaded):
    (route,) = loaded(f"{KEYED}routes.x.conv.key.pattern=[A-Za-z0-9]+").routes
    assert route.key_pattern == "[A-Za-z0-9]+"


def test_a_pattern_that_re2_cannot_run_is_refused(found):
    (problem,) = found(f"{KEYED}routes.x.conv.key.pattern=(?=a)", complete=True)
    assert problem.key == "routes.x.conv.key.pattern"
    assert "that RE2 can run: it looks ahead" in problem.message


def test_a_pattern_without_a_header_for_the_key_is_refused(found):
    (problem,) = found("routes.r.conv.key.pattern=[a-z]+")
    assert str(problem).endswith("needs routes.r.conv.key: a pattern is for a key that senders choose")


@pytest.mark.parametrize(
    "written",
    [
        "CorrelationId",
        "msg.header.",
        "msg.address",
        "msg.header.a b",
        'msg.header.""',
        "",
        "msg.header.a) && exists(msg.header.b",
    ],
)
def test_any_other_key_is_an_error_that_says_what_is_expected(found, written):
    (problem,) = found(
        f"routes.x.predicate=msg.address==x\nroutes.x.dest.topic=t\nroutes.x.conv.key={written}"
    )
    assert (problem.line, problem.key) == (3, "routes.x.conv.key")
    assert "expected msg.header.<Name>" in problem.message


def test_a_predicate_that_does_not_parse_has_a_caret_under_the_place(found):
    (problem,) = found("routes.x.dest.topic=t\nroutes.x.predicate=msg.address== && x")
    assert problem.line == 2
    assert problem.text == "msg.address== && x"
    lines = str(problem).splitlines()
    assert lines[0].startswith(f"{problem.file}:2: error: routes.x.predicate: expected ")
    assert lines[1:] == ["    msg.address== && x", "                  ^"]


def test_a_caret_is_under_its_place_after_wide_characters(found):
    (problem,) = found('routes.x.dest.topic=t\nroutes.x.predicate=msg.address=="注文" && x')
    text, caret = problem.caret_lines
    assert problem.column == text.index("x")
    assert len(caret) - 1 == problem.column + 2


def test_missing_parts_are_errors_at_the_first_line_of_the_route(found):
    problems = found("\nroutes.x.name=x", {"ISTHMUS_ROUTES_X_ON_ERROR": "skip"})
    assert [(each.line, each.key) for each in problems] == [
        (2, "routes.x.predicate"),
        (2, "routes.x.dest.topic"),
    ]


def test_a_converter_is_a_built_in_one_or_a_class(found):
    route = "routes.x.predicate=msg.address==x\nroutes.x.dest.topic=t\nroutes.x.conv.message="
    (problem,) = found(f"{route}xml")
    assert problem.message == "expected jms, default, json, raw or package.module:Class, not 'xml'"
    assert found(f"{route}raw") == []


def test_a_destination_is_a_topic_by_the_rules_of_kafka(found):
    (problem,) = found("routes.x.predicate=msg.address==x\nroutes.x.dest.topic=foo/bar")
    assert problem.key == "routes.x.dest.topic"


def test_two_routes_with_one_name_are_an_error(found):
    problems = found("""
        routes.a.name=b
        routes.a.predicate=msg.address==1
        routes.a.dest.topic=t
        routes.b.predicate=msg.address==2
        routes.b.dest.topic=t
        routes.c.predicate=msg.address==3
        routes.c.dest.topic=t
        routes.c.name=b
    """)
    assert [(each.line, each.message) for each in problems] == [
        (5, "the same name as routes.a has"),
        (9, "the same name as routes.a has"),
    ]
