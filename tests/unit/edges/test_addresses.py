from __future__ import annotations

import asyncio
from typing import Any, cast
from unittest.mock import ANY

import pytest

from isthmus.config import TopicFacts
from isthmus.edges import addresses
from isthmus.edges.addresses import KafkaAddresses, KnownAddress
from isthmus.errors import Outage
from isthmus.kafka.admin import KafkaAdmin
from isthmus.kafka.options import Kafka
from isthmus.routing.predicate import parse
from isthmus.routing.reserved import ReservedTopics
from isthmus.routing.route import Route
from isthmus.routing.size import LARGEST_BYTES


def find(predicate: str, address: str) -> str | None:
    nowhere = KafkaAdmin(Kafka("127.0.0.1:1"))
    book = KafkaAddresses(nowhere, [Route("r", parse(predicate), "t")], auto_create=False)
    problem = asyncio.run(book.find(address))
    assert book.known(address) == (None if problem else KnownAddress(None, expires=ANY))
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
    book = KafkaAddresses(KafkaAdmin(Kafka("127.0.0.1:1")), any_route, auto_create=False)

    async def find(*names: str) -> None:
        for name in names:
            assert await book.find(name) is None

    asyncio.run(find("a", "b", "c", "d"))
    assert [name for name in "abcd" if book.known(name)] == ["d"]
    asyncio.run(find("a"))
    assert book.known("a")


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


class Topics:
    """A Kafka with these topics, as `KafkaAdmin` has it."""

    def __init__(self, **partitions: int) -> None:
        self.facts = {name: topic(count) for name, count in partitions.items()}
        self.asked: list[str] = []
        self.unavailable = False
        self.answers = asyncio.Event()
        self.answers.set()

    async def describe(self, name: str) -> TopicFacts | None:
        self.asked.append(name)
        await asyncio.sleep(0)
        await self.answers.wait()
        if self.unavailable:
            raise Outage("Kafka does not answer", remedy="wait")
        return self.facts.get(name)

    async def create_topic(self, name: str, partitions: int) -> None:
        self.facts[name] = topic(partitions)


def topic(partitions: int, *, writable: bool = True, limit: int | None = 1000) -> TopicFacts:
    return TopicFacts(True, writable=writable, readable=True, max_message_bytes=limit, partitions=partitions)


def addresses_of(topics: Topics, *routes: str, **options: Any) -> KafkaAddresses:
    made = [Route("r", parse(each), "t") for each in routes]
    return KafkaAddresses(cast(KafkaAdmin, topics), made, **{"auto_create": False, **options})


def header(book: KafkaAddresses, address: str, *, jms: bool = False) -> str | None:
    """The topic that the journal is told of."""
    assert asyncio.run(book.find(address, jms=jms)) is None
    found = book.known(address)
    assert found is not None
    return None if found.header is None else (found.header[1] or b"").decode()


def refusal(book: KafkaAddresses, address: str) -> str:
    problem = asyncio.run(book.find(address))
    assert problem is not None
    assert book.known(address) is None
    return problem


def test_the_journal_is_told_which_topic_an_address_has() -> None:
    topics = Topics(**{"a.b": 3})
    assert header(addresses_of(topics, direct=True), "a/b") == "a.b 3 1000"
    assert header(addresses_of(topics, keep=True), "a/b") == "a.b 3 1000 jms"
    assert header(addresses_of(topics, "msg.address=='a/b'", keep=True), "a/b") == "a.b 3 1000 jms"
    assert header(addresses_of(topics, "msg.header.x==1", direct=True), "a/b") == "a.b 3 1000"


def test_an_address_that_only_routes_take_has_no_topic() -> None:
    topics = Topics()
    assert header(addresses_of(topics, "msg.address==a", keep=True), "a") is None
    assert header(addresses_of(topics, "msg.header.x==1", direct=True), "a") is None
    assert header(addresses_of(topics, "msg.address==a"), "a") is None


def test_a_topic_that_a_route_takes_messages_from_is_not_asked_for_where_it_gets_none() -> None:
    topics = Topics(a=1)
    assert header(addresses_of(topics, "msg.address==a", direct=True), "a") is None
    assert header(addresses_of(topics, "msg.header.x==1"), "a") is None
    assert not topics.asked


def test_an_address_without_a_topic_is_refused_or_gets_one() -> None:
    assert (
        refusal(addresses_of(Topics(), keep=True), "a") == "'a': there is no topic a, and no route takes it"
    )
    made = addresses_of(Topics(), "msg.address==a", keep=True, auto_create=True)
    assert header(made, "a", jms=True) == "a 1 1000 jms"
    assert header(made, "b") == "b 4 1000 jms"


def test_a_topic_that_may_not_be_written_is_refused() -> None:
    topics = Topics()
    topics.facts["a"] = topic(1, writable=False)
    assert refusal(addresses_of(topics, keep=True), "a") == "'a': the bridge may not write the topic a"


def test_a_topic_without_a_limit_takes_what_the_router_takes() -> None:
    topics = Topics()
    topics.facts["a"] = topic(1, limit=None)
    assert header(addresses_of(topics, keep=True), "a") == f"a 1 {LARGEST_BYTES} jms"


def test_what_has_become_of_a_topic_is_noticed() -> None:
    now, topics = 0.0, Topics(a=1)
    book = addresses_of(topics, keep=True, refresh_s=10, clock=lambda: now)
    assert header(book, "a") == "a 1 1000 jms"
    topics.facts["a"] = topic(2, limit=2000)
    now = 4
    assert header(book, "a") == "a 1 1000 jms"
    now = 10
    assert header(book, "a") == "a 2 2000 jms"
    topics.unavailable = True
    now = 20
    assert header(book, "a") == "a 2 2000 jms"
    topics.unavailable = False
    topics.facts.clear()
    now = 30
    assert refusal(book, "a") == "'a': there is no topic a, and no route takes it"


def test_an_address_in_use_is_looked_up_in_time_and_holds_while_kafka_is_slow() -> None:
    async def use() -> None:
        now, topics = 0.0, Topics(a=1)
        book = addresses_of(topics, keep=True, refresh_s=10, clock=lambda: now)
        topics.answers.clear()
        looking = asyncio.ensure_future(book.find("a"))
        topics.answers.set()
        assert await looking is None
        old = book.known("a")
        topics.answers.clear()
        topics.facts["a"] = topic(2)
        for now in (6, 9, 12, 19):  # noqa: B007, the clock has it
            assert book.known("a") is old
            await asyncio.sleep(0)
        assert topics.asked == ["a", "a"]
        now = 20
        assert book.known("a") is None  # that is too long ago
        topics.answers.set()
        assert await book.find("a") is None
        new = book.known("a")
        assert new is not None
        assert new.topic is not None
        assert new.topic.partitions == 2

    asyncio.run(use())


def test_those_who_ask_at_the_same_time_share_one_answer() -> None:
    topics = Topics(a=1)
    book = addresses_of(topics, keep=True)

    async def ask() -> list[str | None]:
        return await asyncio.gather(*(book.find("a") for _ in range(9)))

    assert asyncio.run(ask()) == [None] * 9
    assert topics.asked == ["a"]
