from __future__ import annotations

import asyncio

import pytest

from isthmus.edges.amqp.server import addresses
from isthmus.edges.amqp.server.addresses import KafkaAddresses
from isthmus.kafka.admin import KafkaAdmin
from isthmus.kafka.options import Kafka
from isthmus.routing.predicate import parse
from isthmus.routing.reserved import ReservedTopics
from isthmus.routing.route import Route


def find(predicate: str, address: str) -> str | None:
    nowhere = KafkaAdmin(Kafka("127.0.0.1:1"))
    book = KafkaAddresses(nowhere, [Route("r", parse(predicate), "t")], direct=False, auto_create=False)
    problem = asyncio.run(book.find(address))
    assert book.knows(address) is (problem is None)
    return problem


@pytest.mark.parametrize(
    "predicate",
    [
        "msg.address==orders",
        "msg.address=~'^ord'",
        "msg.address in (orders, returns)",
        "exists(msg.address)",
        "msg.header.Region==EU",
        "msg.address==orders && msg.header.Region==EU",
        "msg.address==other || msg.header.Region==EU",
        "!(msg.address==other)",
        "msg.address!=other",
        "!(msg.address==orders && msg.header.Region==EU)",
        "msg.address=~'(o)rders\\1?'",
    ],
)
def test_an_address_that_a_route_may_take_is_taken(predicate: str) -> None:
    assert find(predicate, "orders") is None


@pytest.mark.parametrize(
    "predicate",
    [
        "msg.address==other",
        "msg.address==other && msg.header.Region==EU",
        "!(msg.address==orders || msg.header.Region==EU)",
        "msg.address!=orders",
        "msg.address=~'^x'",
    ],
)
def test_an_address_that_no_route_can_take_is_not(predicate: str) -> None:
    assert find(predicate, "orders") == "'orders': no route takes it"


def test_a_name_that_no_topic_can_have_is_refused_without_asking_kafka() -> None:
    book = KafkaAddresses(KafkaAdmin(Kafka("127.0.0.1:1")), [], direct=True, auto_create=True)
    problem = asyncio.run(book.find("not a topic"))
    assert problem is not None
    assert "no topic can have that name" in problem


def test_only_so_many_addresses_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "KEPT", 3)
    any_route = [Route("r", parse("msg.header.Region==EU"), "t")]
    book = KafkaAddresses(KafkaAdmin(Kafka("127.0.0.1:1")), any_route, direct=False, auto_create=False)

    async def find(*names: str) -> None:
        for name in names:
            assert await book.find(name) is None

    asyncio.run(find("a", "b", "c", "d"))
    assert [name for name in "abcd" if book.knows(name)] == ["d"]
    asyncio.run(find("a"))
    assert book.knows("a")


@pytest.mark.parametrize(
    "address", ["__consumer_offsets", "isthmus.main.journal", "isthmus/main/x", "failed"]
)
def test_no_address_leads_to_a_reserved_topic(address: str) -> None:
    reserved = ReservedTopics(dead_letters="failed")
    admin = KafkaAdmin(Kafka("127.0.0.1:1"))
    book = KafkaAddresses(admin, [], direct=True, auto_create=True, reserved=reserved)
    assert "keeps for itself" in (asyncio.run(book.find(address)) or "")


def test_a_pattern_does_not_let_an_address_keep_the_server_busy() -> None:
    assert find("msg.address=~'^(a+)+$'", "a" * 999 + "b") is not None


def test_an_address_has_a_length_that_can_be_remembered() -> None:
    problem = find("msg.header.Region==EU", "a" * 1001)
    assert problem is not None
    assert "1000 characters" in problem
