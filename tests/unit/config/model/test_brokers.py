"""AMQP brokers: what their keys make, and what is wrong with them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from isthmus.config import Severity, dump
from isthmus.config.model.brokers import BrokerSettings, Node
from isthmus.edges.needs import amqp_intakes, needed, outboxes, queue_managers

PAGE = Path(__file__).parents[4] / "docs" / "amqp-client.md"

BROKER = "amqp.connect.main.url=amqp://broker:5672\n"
ROUTE = "routes.x.predicate=msg.address==x\nroutes.x.dest.address="


def test_a_broker_has_servers_addresses_and_defaults(loaded):
    settings = loaded(f"""{BROKER}
        amqp.connect.main.intake.addresses=orders, queue://more, topic://news
        amqp.connect.other.url=amqps://a, amqp://u:p@[::1]:1
    """)
    main, other = settings.amqp_brokers.values()
    assert main.nodes == (Node("orders"), Node("more"), Node("news", is_topic=True))
    assert (main.credit, main.delivery) == (500, "duplicate-id")
    first, second = other.servers
    assert (first.host, first.port, first.tls, first.user) == ("a", 5671, True, None)
    assert (second.host, second.port, second.tls, second.user) == ("::1", 1, False, "u")
    assert second.password == "p"
    assert not settings.listens_to_amqp


@pytest.mark.parametrize("address", ["orders", "topic://news", "queue::of-an-address", "*"])
def test_a_route_to_a_broker_goes_through_the_brokers_outbox(loaded, address):
    settings = loaded(f"bridge.id=b\n{BROKER}{ROUTE}main:{address}")
    (route,) = settings.routes
    assert (route.topic, route.destination) == ("isthmus.b.outbox.amqp.main", address)
    assert ("routes.x.dest.address", f"main:{address}") in dump(settings)


@pytest.mark.parametrize("written", ["orders", "main:", ":orders", "main:a b", "main:topic://"])
def test_a_destination_names_a_broker_and_an_address(found, written):
    (problem,) = found(f"{BROKER}{ROUTE}{written}\namqp.connect.main.intake.addresses=q")
    assert problem.message.startswith("expected <broker>:<address>, such as main:orders")


def test_a_route_to_an_unknown_broker_is_an_error(found):
    problems = found(f"{BROKER}{ROUTE}mian:orders\namqp.connect.main.intake.addresses=q")
    assert [(each.key, each.message, each.hint) for each in problems] == [
        ("routes.x.dest.address", "there is no broker 'mian'", "did you mean main?")
    ]


def test_a_route_back_to_the_address_that_is_taken_from_is_an_error(found):
    (problem,) = found(f"{BROKER}{ROUTE}main:x\namqp.connect.main.intake.addresses=x")
    assert problem.message == "an address that is taken from: its messages would be sent to it again"


def test_one_destination_has_one_converter(found):
    more = "routes.y.predicate=msg.address==y\nroutes.y.dest.address=main:o\nroutes.y.conv.message=raw"
    (problem,) = found(f"{BROKER}{ROUTE}main:o\n{more}")
    assert (problem.key, problem.message) == (
        "routes.y.dest.address",
        "another route goes there by the converter jms",
    )


def test_a_broker_that_nothing_is_done_with_is_a_warning(found):
    (problem,) = found(BROKER)
    assert problem.severity is Severity.WARNING
    assert problem.message == "nothing is taken from main, and no route goes there"


def test_a_brokers_name_can_be_a_part_of_a_topics(found):
    (problem,) = found("amqp.connect.a/b.url=amqp://h\namqp.connect.a/b.intake.addresses=q")
    assert problem.message == "expected up to 40 letters, digits, '_' or '-' as a broker's name"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("url", "http://h"),
        ("url", "amqp://h:0"),
        ("url", "amqp://h/path"),
        ("intake.addresses", "a,,b"),
        ("intake.addresses", "a, queue://a"),
        ("intake.credit", "0"),
        ("delivery", "twice"),
    ],
)
def test_a_value_that_cannot_be_read_is_an_error_at_its_key(found, key, value):
    given = {"url": "amqp://h", "intake.addresses": "q"} | {key: value}
    problems = found("\n".join(f"amqp.connect.m.{each}={text}" for each, text in given.items()))
    assert [(each.key, each.severity) for each in problems] == [(f"amqp.connect.m.{key}", Severity.ERROR)]
    assert problems[0].message.startswith("expected ")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"password": "p"}, "password needs user"),
        ({"tls.key": "k"}, "tls.key needs tls.cert"),
        ({"tls.ca": "c"}, "tls.* needs a URL with amqps://"),
        ({"intake.durable": "d"}, "intake.durable needs a topic:// among intake.addresses"),
    ],
)
def test_what_does_not_go_together_is_an_error(found, more, message):
    lines = "\n".join(f"amqp.connect.m.{key}={value}" for key, value in more.items())
    (problem,) = found(f"amqp.connect.m.url=amqp://h\namqp.connect.m.intake.addresses=q\n{lines}")
    assert problem.message == message


def test_a_tls_file_that_cannot_be_used_is_an_error_at_its_key(found, tmp_path):
    broker = "amqp.connect.m.url=amqps://h\namqp.connect.m.intake.addresses=q\n"
    (problem,) = found(f"{broker}amqp.connect.m.tls.ca={tmp_path}/none.pem")
    assert (problem.key, problem.message) == (
        "amqp.connect.m.tls.ca",
        "cannot be used: No such file or directory",
    )


def test_the_example_on_the_page_loads(loaded, tmp_path):
    example = re.search(r"```properties\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert example
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "broker").write_text("pw\n")
    settings = loaded(example[1])
    assert [server.password for server in settings.amqp_brokers["main"].servers] == ["pw", None]
    assert outboxes(settings) == ["amqp.main"]
    assert list(amqp_intakes(settings)) == ["main"]
    assert needed(settings)


def test_a_broker_that_is_only_delivered_to_has_no_intake(loaded):
    settings = loaded(f"{BROKER}{ROUTE}main:orders")
    assert (outboxes(settings), amqp_intakes(settings)) == (["amqp.main"], {})
    assert needed(settings)
    assert queue_managers(settings) == []


def test_a_password_is_shown_nowhere(found, loaded):
    url = "amqp.connect.main.url=amqp://bridge:s3cret@broker"
    settings = loaded(
        f"{url}\namqp.connect.more.url=amqp://h\namqp.connect.more.user=u\n"
        "amqp.connect.more.password=s3cret\n"
    )
    broker = settings.amqp_brokers["main"]
    for shown in (repr(settings), str(dump(settings)), repr(broker.servers)):
        assert "s3cret" not in shown
    assert "s3cret" not in str(found(f"{url}/no-path"))
    assert "s3cret" not in repr(BrokerSettings(url="amqp://u:s3cret@h"))
