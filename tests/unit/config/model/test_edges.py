"""NATS, MQ and connectors: what their keys make, and what is wrong with them."""

from __future__ import annotations

import pytest

from isthmus.config import Severity, dump

NATS = "nats.servers=nats://h:4222\n"
CONNECTOR = "connectors.in.type=NATS2Queue\nconnectors.in.subject=orders\nconnectors.in.queue=ORDERS\n"


def test_intakes_have_names_and_keep_their_order(loaded):
    settings = loaded(f"""{NATS}
        nats.intake.b.subject=orders.>
        nats.intake.a.subject=events
        nats.intake.b.durable=d
        mq.intake.q.queue=DEV.QUEUE.1
    """)
    assert {name: each.subject for name, each in settings.nats_intakes.items()} == {
        "b": "orders.>",
        "a": "events",
    }
    assert list(settings.nats_intakes) == ["b", "a"]
    assert settings.nats_intakes["b"].durable == "d"
    assert settings.mq_intakes["q"].queue == "DEV.QUEUE.1"


@pytest.mark.parametrize(
    ("part", "value", "outbox"),
    [
        ("dest.subject", "orders.eu", "isthmus.b.outbox.nats"),
        ("dest.subject", "jetstream:orders", "isthmus.b.outbox.nats"),
        ("dest.queue", "DEV.QUEUE.1", "isthmus.b.outbox.mq"),
        ("dest.queue", "Q@QM1", "isthmus.b.outbox.mq"),
        ("dest.queue", "topic://dev/one", "isthmus.b.outbox.mq"),
    ],
)
def test_a_route_to_another_system_goes_through_its_outbox(loaded, part, value, outbox):
    settings = loaded(f"{NATS}bridge.id=b\nroutes.r.predicate=msg.address==a\nroutes.r.{part}={value}")
    (route,) = settings.routes
    assert (route.topic, route.destination) == (outbox, value)
    assert (f"routes.r.{part}", value) in dump(settings)


def test_a_route_has_one_destination(found):
    route = "routes.x.predicate=msg.address==x\nroutes.x.dest.queue=Q\nroutes.x.dest.topic=t"
    (problem,) = found(route)
    assert (problem.key, problem.message) == (
        "routes.x.dest.queue",
        "a route has one destination: dest.topic",
    )


@pytest.mark.parametrize(("part", "value"), [("dest.subject", "orders.*"), ("dest.queue", "not a queue")])
def test_a_destination_that_nothing_can_go_to_is_an_error(found, part, value):
    (problem,) = found(f"{NATS}routes.x.predicate=msg.address==x\nroutes.x.{part}={value}")
    assert problem.key == f"routes.x.{part}"
    assert problem.message.startswith("expected ")


def test_connectors_are_routes_behind_those_of_the_file(loaded):
    settings = loaded(f"{NATS}{CONNECTOR}routes.r.predicate=msg.address==a\nroutes.r.dest.topic=t")
    assert [route.name for route in settings.routes] == ["r", "in"]
    route = settings.routes[1]
    assert (route.topic, route.destination) == ("isthmus.isthmus.outbox.mq", "ORDERS")
    assert route.written == 'msg.address=="orders"'


@pytest.mark.parametrize(("policy", "of_answers"), [("stop", "skip"), ("skip", None), ("dead-letter", None)])
def test_an_answer_that_nobody_waits_for_never_ends_the_bridge(loaded, policy, of_answers):
    settings = loaded(
        f"{NATS}{CONNECTOR}mq.reply-queue=R\nrouting.on-error={policy}\nrouting.dead-letter.topic=dead"
    )
    assert [(route.name, route.on_error) for route in settings.routes] == [
        ("in", None),
        ("replies", of_answers),
    ]


def test_a_dump_has_what_was_written_and_no_routes_of_connectors(loaded):
    lines = dict(
        dump(
            loaded(
                f"{NATS}{CONNECTOR}connectors.in.mq.username=u\nconnectors.in.mq.password=pw\nnats.token=t0p"
            )
        )
    )
    assert lines["connectors.in.type"] == "NATS2Queue"
    assert lines["connectors.in.excludeheaders"] == "false"
    assert (lines["connectors.in.mq.password"], lines["nats.token"]) == ("********", "********")
    assert not [key for key in lines if key.startswith("routes.")]


@pytest.mark.parametrize(
    "needing",
    [
        "nats.intake.a.subject=s",
        CONNECTOR,
        "routes.x.predicate=msg.address==x\nroutes.x.dest.subject=s",
        "mq.reply-queue=R",
    ],
)
def test_whoever_speaks_nats_needs_servers(found, needing):
    (problem,) = found(needing)
    assert problem.severity is Severity.ERROR
    assert problem.message.startswith("needs nats.servers")


@pytest.mark.parametrize(
    ("written", "key", "message"),
    [
        ("mq.intake.a.batch=5", "mq.intake.a.batch", "expected queue or topic"),
        ("nats.intake.a.queue=g", "nats.intake.a.subject", "missing: every intake needs it"),
        ("connectors.c.subject=s", "connectors.c.type", "missing: every connector needs it"),
        (
            "connectors.c.type=Queue2NATS\nconnectors.c.subject=s",
            "connectors.c.type",
            "Queue2NATS needs queue",
        ),
        (
            f"{CONNECTOR}connectors.in.mq.password=pw",
            "connectors.in.type",
            "connectors.in.mq: mq.password needs",
        ),
        ("mq.password=pw", "mq.password", "mq.password needs mq.user"),
        ("nats.user=u\nnats.token=t", "nats.servers", "expected one of nats.user, nats.token, since"),
    ],
)
def test_what_does_not_go_together_is_one_error_in_its_place(found, written, key, message):
    (problem,) = found(f"{NATS}{written}")
    assert (problem.key, problem.severity) == (key, Severity.ERROR)
    assert problem.message.startswith(message)


def test_connectors_in_a_circle_are_an_error(found):
    back = "connectors.out.type=Queue2NATS\nconnectors.out.subject=orders\nconnectors.out.queue=ORDERS\n"
    (problem,) = found(f"{NATS}{CONNECTOR}{back}")
    assert "connectors go round in a circle" in problem.message
    assert problem.key == "connectors.in.type"


def test_a_route_from_a_subject_to_itself_is_an_error(found):
    (problem,) = found(
        f"{NATS}nats.intake.i.subject=a.*\nroutes.x.predicate=msg.address==a.b\nroutes.x.dest.subject=core:a.b"
    )
    assert problem.key == "routes.x.dest.subject"
    assert "would be published to it again" in problem.message


def test_a_route_and_a_connector_to_one_queue_are_an_error(found):
    (problem,) = found(f"{NATS}{CONNECTOR}routes.x.predicate=msg.address==x\nroutes.x.dest.queue=ORDERS")
    assert problem.message == "connector in delivers there too, in another form"


def test_a_route_and_a_connector_with_one_name_are_an_error(found):
    (problem,) = found(f"{NATS}{CONNECTOR}routes.in.predicate=msg.address==x\nroutes.in.dest.topic=t")
    assert problem.message == "the same name as the route of connector in has"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("nats.server", "nats.servers"),
        ("nats.intake.a.subjct", "nats.intake.a.subject"),
        ("mq.intake.a.que", "mq.intake.a.queue"),
        ("connectors.in.excludeheader", "connectors.in.excludeheaders"),
        ("routes.x.dest.subjct", "routes.x.dest.subject"),
    ],
)
def test_a_misspelt_key_is_told_what_it_was_meant_to_be(found, written, meant):
    problems = found(f"{written}=s")
    assert f"did you mean {meant}?" in [each.hint for each in problems]


def test_a_variable_sets_a_part_of_an_intake(loaded):
    text = f"{NATS}nats.intake.in.subject=a"
    assert loaded(text, {"ISTHMUS_NATS_INTAKE_IN_SUBJECT": "b"}).nats_intakes["in"].subject == "b"


def test_outboxes_are_made_by_the_bridge_and_need_not_exist(found):
    asked = []

    def probe(names):
        asked.extend(names)
        return {}

    text = f"{NATS}kafka.bootstrap.servers=h:1\n{CONNECTOR}"
    assert found(text, topics=probe, complete=True) == []
    assert "isthmus.isthmus.outbox.mq" in asked
