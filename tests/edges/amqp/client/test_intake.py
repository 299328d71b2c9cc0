"""Messages of an existing broker reach the journal: none is lost, whatever restarts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

proton = pytest.importorskip("proton", reason="python-qpid-proton is not installed")

from tests.support.amqp.broker import Broker  # noqa: E402
from tests.support.asynchronous import eventually, running  # noqa: E402
from tests.support.journals import DeadLetterBox, MemoryJournal, refusing  # noqa: E402
from tests.support.polling import eventually as eventually_sync  # noqa: E402

from isthmus.config.model.brokers import BrokerSettings  # noqa: E402
from isthmus.edges.amqp.client import AmqpClient, AmqpIntake  # noqa: E402
from isthmus.edges.amqp.client.intake import MAX_BYTES  # noqa: E402
from isthmus.errors import HardFailure  # noqa: E402


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


class Run:
    """An intake, its journal and its dead letters."""

    def __init__(
        self, url: str, addresses: str = "orders", *, max_bytes: int = MAX_BYTES, **settings: Any
    ) -> None:
        self.journal = MemoryJournal()
        self.dead = DeadLetterBox()
        given = {"reconnect.max-wait": "200ms", "intake.addresses": addresses, **settings}
        self.client = AmqpClient(
            BrokerSettings.of({"url": url, **given}), name="b", container_id="isthmus.test.b"
        )
        self.intake = AmqpIntake(
            self.client, self.journal, dead_letters=self.dead, max_message_size=100_000, max_bytes=max_bytes
        )

    @property
    def bodies(self) -> list[str]:
        messages = [entry.message for entry in self.journal.entries]
        return [(each.body.slice(each.value) or b"").decode() for each in messages]


@asynccontextmanager
async def taking(url: str, addresses: str = "orders", **settings: Any) -> AsyncIterator[Run]:
    taken = Run(url, addresses, **settings)
    async with running(taken.intake):
        yield taken


def numbered(count: int, start: int = 0) -> list[Any]:
    return [proton.Message(str(number), id=f"ID:{number}") for number in range(start, start + count)]


def test_a_message_is_in_the_journal_as_the_broker_has_it(broker: Broker) -> None:
    message = proton.Message(
        "hello", id="ID:1", subject="greeting", address="elsewhere", properties={"count": proton.int32(7)}
    )
    broker.put("orders", message)

    async def scenario() -> None:
        async with taking(broker.url) as taken:
            await eventually(lambda: taken.journal.entries)
            [entry] = taken.journal.entries
            assert (entry.op, entry.message.address, entry.message.id) == ("ADD", "orders", "ID:1")
            assert entry.message.headers["Destination"].text == "elsewhere"
            assert entry.message.headers["count"].value == 7
            assert entry.message.body.slice(entry.message.value) == b"hello"
            await eventually(lambda: not broker.unsettled)

    asyncio.run(scenario())


def test_messages_of_one_address_keep_their_order(broker: Broker) -> None:
    broker.put("orders", *numbered(2_000))

    async def scenario() -> None:
        async with taking(broker.url, **{"intake.credit": "50"}) as taken:
            await eventually(lambda: len(taken.journal.entries) == 2_000)
            assert taken.bodies == [str(number) for number in range(2_000)]
            assert taken.intake.traffic.messages == 2_000

    asyncio.run(scenario())
    assert broker.most_unsettled <= 50


def test_nothing_is_accepted_before_the_journal_has_it_and_no_more_comes_than_credit(broker: Broker) -> None:
    broker.put("orders", *numbered(100))

    async def scenario() -> None:
        async with taking(broker.url, **{"intake.credit": "10"}) as taken:
            taken.journal.held = True
            await eventually(lambda: taken.journal.waiting == 10)
            await asyncio.sleep(0.2)  # nothing may follow
            assert len(broker.unsettled) == taken.journal.waiting == 10
            taken.journal.release()
            await eventually(lambda: len(taken.journal.entries) == 100)
            await eventually(lambda: not broker.unsettled)

    asyncio.run(scenario())


def test_what_was_not_settled_is_redelivered_after_the_broker_restarts(broker: Broker) -> None:
    broker.put("orders", *numbered(50))

    async def scenario() -> None:
        async with taking(broker.url, **{"intake.credit": "20"}) as taken:
            taken.journal.held = True
            await eventually(lambda: taken.journal.waiting == 20)
            await asyncio.to_thread(broker.stop)
            await eventually(lambda: taken.client.unavailable)
            assert len(broker.queues["orders"]) == 50
            await asyncio.to_thread(broker.start)
            await eventually(lambda: taken.client.connected)
            assert taken.journal.waiting == 20  # those of the first connection count against the credit
            taken.journal.release()
            await eventually(lambda: {str(number) for number in range(50)} <= set(taken.bodies))
            await eventually(lambda: not broker.queues["orders"] and not broker.unsettled)
            counts = taken.client.counts
            assert (counts.connects, counts.disconnects, counts.reconnects) == (2, 1, 1)

    asyncio.run(scenario())


def test_an_intake_that_ends_settles_what_is_in_flight_and_leaves_the_rest(broker: Broker) -> None:
    broker.put("orders", *numbered(30))

    async def scenario() -> None:
        async with taking(broker.url, **{"intake.credit": "10"}) as taken:
            taken.journal.held = True
            await eventually(lambda: taken.journal.waiting == 10)
            asyncio.get_running_loop().call_later(0.2, _release, taken.journal)
        assert len(taken.journal.entries) == 10

    asyncio.run(scenario())
    assert [int(body) for body in broker.bodies("orders")] == list(range(10, 30))


def _release(journal: MemoryJournal) -> None:
    journal.release()


def test_queues_and_topics_are_asked_for_as_such(broker: Broker) -> None:
    async def scenario() -> None:
        async with taking(broker.url, "orders, topic://news, queue://more") as taken:
            await asyncio.wait_for(taken.intake.ready.wait(), 60)

    asyncio.run(scenario())
    assert sorted(broker.attached) == [("more", ["queue"]), ("news", ["topic"]), ("orders", ["queue"])]


def test_an_address_that_is_not_there_is_reported_and_asked_for_again(broker: Broker) -> None:
    async def scenario() -> None:
        async with taking(broker.url, "orders, no-such") as taken:
            await eventually(
                lambda: taken.intake.refusals == {"no-such": "amqp:not-found: there is no no-such"}
            )
            broker.put("orders", *numbered(1))
            await eventually(lambda: taken.bodies == ["0"])
            broker.defined.add("no-such")
            broker.put("no-such", *numbered(1, start=1))
            await eventually(lambda: taken.bodies == ["0", "1"])
            assert taken.intake.refusals == {}

    asyncio.run(scenario())


def test_a_message_with_a_name_of_the_bridges_own_is_a_dead_letter(broker: Broker) -> None:
    broker.put("orders", proton.Message("x", properties={"isthmus.id": "forged"}), *numbered(1))

    async def scenario() -> None:
        async with taking(broker.url) as taken:
            await eventually(lambda: taken.bodies == ["0"] and taken.dead.letters)
            [(message, failure)] = taken.dead.letters
            assert failure.code == "conversion"
            assert message.address == "orders"
            assert b"isthmus.id" in (message.value or b"")
            await eventually(lambda: not broker.unsettled)
            assert taken.intake.traffic.dead_letters == 1

    asyncio.run(scenario())


def test_a_message_that_is_too_large_for_the_journal_is_rejected_and_the_rest_goes_on(broker: Broker) -> None:
    broker.put("orders", proton.Message("x" * 100_000, id="ID:large"), *numbered(2))

    async def scenario() -> None:
        async with taking(broker.url) as taken:
            await eventually(lambda: taken.bodies == ["0", "1"])
            await eventually(lambda: not broker.unsettled)
            assert (taken.intake.traffic.messages, taken.intake.traffic.dead_letters) == (3, 1)
            assert taken.dead.letters == []

    asyncio.run(scenario())
    [(message, condition)] = broker.rejected
    assert (message.id, condition) == ("ID:large", "amqp:link:message-size-exceeded")


def test_the_socket_is_not_read_while_too_many_bytes_are_in_flight(broker: Broker) -> None:
    large = [proton.Message(f"{number}".ljust(20_000), id=f"ID:{number}") for number in range(200)]
    broker.put("orders", *large)

    async def scenario() -> None:
        async with taking(broker.url, max_bytes=50_000) as taken:
            taken.journal.held = True
            await eventually(lambda: taken.journal.waiting > 2)
            await asyncio.sleep(1)  # nothing may follow, beyond what the socket had read already
            assert taken.journal.waiting < 100
            taken.journal.release()
            await eventually(lambda: len(taken.journal.entries) == 200)
            assert [body.strip() for body in taken.bodies] == [str(number) for number in range(200)]

    asyncio.run(scenario())


def test_a_journal_that_refuses_ends_the_intake_and_the_message_stays_with_the_broker(broker: Broker) -> None:
    broker.put("orders", *numbered(1))

    async def scenario() -> None:
        taken = Run(broker.url)
        taken.journal.refuse = refusing(HardFailure("no room", remedy="none"))
        with pytest.raises(HardFailure, match="no room"):
            await asyncio.wait_for(taken.intake.run(), 60)

    asyncio.run(scenario())
    eventually_sync(lambda: broker.bodies("orders") == ["0"], timeout_s=10)
