"""Messages reach an existing broker: each once accepted, and what the broker says of them is heeded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

proton = pytest.importorskip("proton", reason="python-qpid-proton is not installed")

from tests.support.amqp.broker import Broker, modifying, rejecting, releasing  # noqa: E402
from tests.support.asynchronous import eventually, running  # noqa: E402

from isthmus.config.model.brokers import BrokerSettings  # noqa: E402
from isthmus.converters import converter  # noqa: E402
from isthmus.edges.amqp.client import AmqpClient, AmqpDelivery  # noqa: E402
from isthmus.edges.contract import OutboundMessage  # noqa: E402
from isthmus.errors import Unreachable  # noqa: E402
from isthmus.journal import layout  # noqa: E402
from isthmus.journal.layout import Record  # noqa: E402
from isthmus.message import Header, HeaderType  # noqa: E402


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@asynccontextmanager
async def delivering(
    url: str, convert: str = "jms", *, answer_s: float = 30, patience_s: float = 30, **settings: Any
) -> AsyncIterator[AmqpDelivery]:
    given = {"url": url, "reconnect.max-wait": "200ms", **settings}
    client = AmqpClient(BrokerSettings.of(given), name="b", container_id="isthmus.test.b")
    async with running(client):
        await eventually(lambda: client.connected)
        yield AmqpDelivery(client, lambda _: converter(convert), answer_s=answer_s, patience_s=patience_s)


def outbound(number: int, destination: str = "orders", **headers: Header) -> OutboundMessage:
    record = Record(b"k", b"%d" % number, layout.encode_headers(headers))
    return OutboundMessage(f"journal:0:{number}", destination, record)


def test_messages_arrive_in_order_with_their_headers_and_their_types(broker: Broker) -> None:
    headers = {
        "MessageId": Header("ID:1"),
        "Destination": Header("where-it-was-sent"),
        "region": Header("EU"),
        "count": Header.of(7, HeaderType.INT),
    }

    async def scenario() -> None:
        async with delivering(broker.url) as delivery:
            messages = [outbound(number, **headers) for number in range(250)]
            assert await delivery.deliver(messages) == [None] * 250

    asyncio.run(scenario())
    assert broker.bodies("orders") == [str(number) for number in range(250)]
    first = broker.queues["orders"][0]
    assert (first.id, first.address, first.durable) == ("ID:1", "orders", True)
    assert first.properties == {"region": "EU", "count": proton.int32(7), "_AMQ_DUPL_ID": "journal:0:0"}
    assert first.annotations == {proton.symbol("x-opt-jms-msg-type"): proton.byte(5)}
    assert broker.attached == [("orders", ["queue"])]


def test_plain_messages_carry_no_duplicate_id(broker: Broker) -> None:
    async def scenario() -> None:
        async with delivering(broker.url, delivery="plain") as delivery:
            assert await delivery.deliver([outbound(0, region=Header("EU"))]) == [None]

    asyncio.run(scenario())
    assert broker.queues["orders"][0].properties == {"region": "EU"}


def test_a_raw_message_keeps_all_its_sections_and_types(broker: Broker) -> None:
    sent = proton.Message(
        {"list": [proton.ubyte(1), proton.symbol("s")]},
        id=proton.ulong(7),
        annotations={proton.symbol("x-opt-own"): proton.short(3)},
        properties={"when": proton.timestamp(1_700_000_000_000)},
        priority=9,
    )

    async def scenario() -> None:
        async with delivering(broker.url, "raw", delivery="plain") as delivery:
            raw = OutboundMessage("journal:0:0", "topic://news", Record(None, bytes(sent.encode()), ()))
            assert await delivery.deliver([raw]) == [None]

    asyncio.run(scenario())
    [got] = broker.queues["news"]
    assert (got.body, got.id, got.priority) == (sent.body, sent.id, 9)
    assert (got.annotations, got.properties, got.address) == (sent.annotations, sent.properties, "news")
    assert broker.attached == [("news", ["topic"])]


def test_a_message_for_anywhere_goes_where_its_destination_says(broker: Broker) -> None:
    async def scenario() -> None:
        async with delivering(broker.url) as delivery:
            answers = [outbound(0, "*", Destination=Header("inbox")), outbound(1, "*")]
            arrived, failed = await delivery.deliver(answers)
            assert arrived is None
            assert failed is not None
            assert failed.code == "conversion"

    asyncio.run(scenario())
    assert broker.bodies("inbox") == ["0"]


def test_a_large_message_travels_in_many_frames(broker: Broker) -> None:
    body = bytes(range(256)) * 8192

    async def scenario() -> None:
        async with delivering(broker.url) as delivery:
            large = OutboundMessage("journal:0:0", "orders", Record(None, body, ()))
            assert await delivery.deliver([large]) == [None]

    asyncio.run(scenario())
    assert bytes(broker.queues["orders"][0].body) == body


def test_what_the_broker_rejects_is_refused_and_the_rest_arrives(broker: Broker) -> None:
    broker.outcomes["orders"].append(rejecting("amqp:precondition-failed", "no such order"))
    broker.outcomes["orders"].append(modifying(undeliverable=True))

    async def scenario() -> None:
        async with delivering(broker.url) as delivery:
            rejected, undeliverable, arrived = await delivery.deliver([outbound(n) for n in range(3)])
            assert rejected is not None
            assert (rejected.code, str(rejected)) == (
                "refused",
                "rejected by the broker: amqp:precondition-failed: no such order",
            )
            assert undeliverable is not None
            assert undeliverable.code == "refused"
            assert arrived is None

    asyncio.run(scenario())
    assert broker.bodies("orders") == ["2"]


@pytest.mark.parametrize(
    "not_now",
    [
        releasing,
        modifying(undeliverable=False),
        rejecting("amqp:resource-limit-exceeded", "the address is full"),
    ],
)
def test_what_the_broker_does_not_take_now_is_sent_again_and_the_rest_is_not(
    broker: Broker, not_now: Any
) -> None:
    broker.outcomes["orders"].append(not_now)

    async def scenario() -> None:
        async with delivering(broker.url) as delivery:
            messages = [outbound(number) for number in range(3)]
            with pytest.raises(Unreachable):
                await delivery.deliver(messages)
            assert broker.bodies("orders") == ["1", "2"]
            assert await delivery.deliver(messages) == [None] * 3

    asyncio.run(scenario())
    assert broker.bodies("orders") == ["1", "2", "0"]


def test_a_message_that_is_released_again_and_again_is_refused(broker: Broker) -> None:
    broker.outcomes["orders"].extend([releasing] * 1000)

    async def scenario() -> None:
        async with delivering(broker.url, patience_s=0.2) as delivery:
            assert (await _until_answered(delivery, [outbound(0)]))[0].code == "refused"

    asyncio.run(scenario())


async def _until_answered(delivery: AmqpDelivery, messages: list[OutboundMessage]) -> Any:
    while True:
        try:
            return await asyncio.wait_for(delivery.deliver(messages), 60)
        except Unreachable:
            await asyncio.sleep(0.02)


def test_an_address_that_is_not_there_is_waited_for(broker: Broker) -> None:
    async def scenario() -> None:
        async with delivering(broker.url) as delivery:
            messages = [outbound(0), outbound(1, "no-such")]
            with pytest.raises(Unreachable, match="there is no no-such"):
                await delivery.deliver(messages)
            assert broker.bodies("orders") == []
            broker.defined.add("no-such")
            assert await _until_answered(delivery, messages) == [None, None]

    asyncio.run(scenario())
    assert (broker.bodies("orders"), broker.bodies("no-such")) == (["0"], ["1"])


def test_messages_for_an_address_that_never_comes_are_refused(broker: Broker) -> None:

    async def scenario() -> None:
        async with delivering(broker.url, patience_s=0.2) as delivery:
            arrived, refused = await _until_answered(delivery, [outbound(0), outbound(1, "no-such")])
            assert arrived is None
            assert (refused.code, str(refused)) == ("refused", "no-such cannot be sent to")

    asyncio.run(scenario())
    assert broker.bodies("orders") == ["0"]


def test_messages_wait_while_the_broker_is_unavailable(broker: Broker) -> None:
    async def scenario() -> None:
        async with delivering(broker.url) as delivery:
            assert await delivery.deliver([outbound(0)]) == [None]
            await asyncio.to_thread(broker.stop)
            await eventually(lambda: delivery.client.unavailable)
            with pytest.raises(Unreachable):
                await delivery.deliver([outbound(1)])
            await asyncio.to_thread(broker.start)
            assert await _until_answered(delivery, [outbound(1)]) == [None]

    asyncio.run(scenario())
    assert broker.bodies("orders") == ["0", "1"]


def test_a_broker_without_credit_is_waited_for(broker: Broker) -> None:
    broker.gives_credit = False

    async def scenario() -> None:
        async with delivering(broker.url, answer_s=0.3) as delivery:
            with pytest.raises(Unreachable, match="no credit"):
                await delivery.deliver([outbound(0)])

    asyncio.run(scenario())


def test_a_message_that_the_converter_cannot_read_is_malformed(broker: Broker) -> None:
    async def scenario() -> None:
        async with delivering(broker.url, "raw") as delivery:
            [failure] = await delivery.deliver([outbound(0)])
            assert failure is not None
            assert failure.code == "malformed"

    asyncio.run(scenario())
