from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Iterator, Sequence

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.support.asynchronous import eventually, running

from isthmus.edges.contract import OutboundMessage
from isthmus.edges.outbox import DESTINATION, Outbox, outbound_message
from isthmus.edges.running import run_together
from isthmus.embedded.kafka import EmbeddedKafka
from isthmus.errors import ConversionFailure, DecodeError, HardFailure, SoftFailure, Unreachable
from isthmus.journal.layout import Record
from isthmus.kafka.blocking import create_topics
from isthmus.kafka.options import Kafka


class Destination:
    """Takes messages while it is available; refuses those that say so."""

    def __init__(self) -> None:
        self.taken: list[OutboundMessage] = []
        self.unavailable = False
        self.attempts = 0

    async def deliver(self, messages: Sequence[OutboundMessage]) -> Sequence[SoftFailure | None]:
        self.attempts += 1
        if self.unavailable:
            raise Unreachable("nobody is there")
        self.taken += messages
        return [
            ConversionFailure("refused") if message.record.value == b"bad" else None for message in messages
        ]

    @property
    def bodies(self) -> list[bytes | None]:
        return [message.record.value for message in self.taken]


class DeadLetters:
    def __init__(self) -> None:
        self.kept: list[tuple[OutboundMessage, SoftFailure]] = []

    async def __call__(self, message: OutboundMessage, failure: SoftFailure) -> None:
        self.kept.append((message, failure))


class Fixture:
    def __init__(self, servers: str, *, partitions: int = 1) -> None:
        self.kafka = Kafka(servers)
        self.topic = f"isthmus.t{uuid.uuid4().hex[:8]}.outbox.test"
        create_topics(self.kafka, [self.topic], partitions)
        self.destination, self.dead_letters = Destination(), DeadLetters()
        self._producer = Producer({**self.kafka.python_options(), "acks": "all"})

    def outbox(self) -> Outbox:
        return Outbox(
            self.kafka,
            self.topic,
            self.destination,
            dead_letters=self.dead_letters,
            batch=10,
            longest_wait_s=0.1,
        )

    def post(self, *bodies: bytes, destination: str | None = "there", partition: int = 0) -> None:
        for body in bodies:
            headers: list[tuple[str, bytes | None]] = [
                ("jms.a", b"1"),
                ("jms.types", b"a=int;"),
                ("jmsbridge.origin", b"b"),
            ]
            headers += [("isthmus.id", b"j:0:" + body)]
            headers += [(DESTINATION, destination.encode())] if destination else []
            self._producer.produce(self.topic, body, b"k", headers=headers, partition=partition)
        assert self._producer.flush(20) == 0

    def committed(self, partition: int = 0) -> int:
        consumer = Consumer({**self.kafka.python_options(), "group.id": self.topic})
        try:
            return consumer.committed([TopicPartition(self.topic, partition)], timeout=60)[0].offset
        finally:
            consumer.close()


@pytest.fixture
def outbox(kafka_servers: str) -> Iterator[Fixture]:
    return Fixture(kafka_servers)


def numbers(first: int, last: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, last)]


def test_a_message_has_its_id_and_destination_and_none_of_the_bridges_headers() -> None:
    headers = [
        ("jms.a", b"1"),
        ("isthmus.id", b"j:0:7"),
        (DESTINATION, b"orders"),
        ("jmsbridge.origin", b"b"),
        ("jms.types", b"a=int;"),
    ]
    message = outbound_message(Record(b"k", b"v", headers), "outbox:0:1")
    assert message == ("j:0:7", "orders", (b"k", b"v", [("jms.a", b"1"), ("jms.types", b"a=int;")]))


def test_a_record_without_an_id_has_its_place_in_the_outbox_for_one() -> None:
    assert outbound_message(Record(None, None, [(DESTINATION, b"x")]), "outbox:0:1").id == "outbox:0:1"


def test_a_record_without_a_destination_is_malformed() -> None:
    with pytest.raises(DecodeError, match=r"without isthmus\.destination"):
        outbound_message(Record(b"k", b"v", []), "outbox:0:1")


def test_messages_are_delivered_in_order_and_committed_at_the_end(outbox: Fixture) -> None:
    outbox.post(*numbers(0, 25))

    async def scenario() -> None:
        async with running(outbox.outbox()):
            await eventually(lambda: len(outbox.destination.taken) >= 25)

    asyncio.run(scenario())
    assert outbox.destination.bodies == numbers(0, 25)
    assert outbox.committed() == 25


def test_the_next_run_goes_on_behind_the_last(outbox: Fixture) -> None:
    async def scenario(expected: int) -> None:
        async with running(outbox.outbox()):
            await eventually(lambda: len(outbox.destination.taken) >= expected)

    outbox.post(*numbers(0, 5))
    asyncio.run(scenario(5))
    outbox.post(*numbers(5, 10))
    asyncio.run(scenario(10))
    assert outbox.destination.bodies == numbers(0, 10)


def test_messages_wait_while_the_system_is_unavailable(outbox: Fixture) -> None:
    async def scenario() -> None:
        outbox.destination.unavailable = True
        outbox.post(*numbers(0, 5))
        reading = outbox.outbox()
        async with running(reading):
            await eventually(lambda: outbox.destination.attempts >= 3)
            assert reading.lag == 5
            outbox.post(*numbers(5, 10))
            await eventually(lambda: reading.lag == 10)
            outbox.destination.unavailable = False
            await eventually(lambda: len(outbox.destination.taken) >= 10)
            await eventually(lambda: reading.lag == 0)
        assert reading.counts.retries >= 3

    asyncio.run(scenario())
    assert outbox.destination.bodies == numbers(0, 10)


def test_nothing_is_committed_of_messages_that_were_not_delivered(outbox: Fixture) -> None:
    async def scenario() -> None:
        outbox.destination.unavailable = True
        async with running(outbox.outbox()):
            await eventually(lambda: outbox.destination.attempts >= 2)

    outbox.post(*numbers(0, 5))
    asyncio.run(scenario())
    assert outbox.committed() < 0


def test_a_message_that_can_never_be_delivered_is_dead_lettered_and_settled(outbox: Fixture) -> None:
    outbox.post(b"0", b"bad", b"1")
    outbox.post(b"lost", destination=None)
    outbox.post(b"2")

    async def scenario() -> None:
        reading = outbox.outbox()
        async with running(reading):
            await eventually(lambda: reading.counts.delivered >= 3 and len(outbox.dead_letters.kept) >= 2)
        assert (reading.counts.delivered, reading.counts.dead_letters) == (3, 2)

    asyncio.run(scenario())
    assert [(message.record.value, failure.code) for message, failure in outbox.dead_letters.kept] == [
        (b"lost", "malformed"),
        (b"bad", "conversion"),
    ]
    assert outbox.committed() == 5


def test_two_members_share_an_outbox_and_lose_nothing(kafka_servers: str) -> None:
    shared = Fixture(kafka_servers, partitions=2)
    shared.post(*numbers(0, 20), partition=0)
    shared.post(*numbers(20, 40), partition=1)

    async def scenario() -> None:
        async with running(shared.outbox()):
            await eventually(lambda: len(shared.destination.taken) >= 40)
            shared.destination.unavailable = True
            shared.post(*numbers(40, 60), partition=0)
            shared.post(*numbers(60, 80), partition=1)
            before = shared.destination.attempts
            await eventually(lambda: shared.destination.attempts > before)
            async with running(shared.outbox()):
                # The second member gets a partition only if the first answers while its messages wait.
                await eventually(lambda: shared.destination.attempts > before + 20)
                shared.destination.unavailable = False
                await eventually(lambda: len(set(shared.destination.bodies)) >= 80)

    asyncio.run(scenario())
    assert set(shared.destination.bodies) == set(numbers(0, 80))


def test_a_kafka_that_was_unavailable_is_read_again(tmp_path_factory: pytest.TempPathFactory) -> None:
    kafka = EmbeddedKafka(tmp_path_factory.mktemp("kafka"))
    kafka.start()
    try:
        outbox = Fixture(kafka.bootstrap_servers)

        async def scenario() -> None:
            outbox.post(*numbers(0, 5))
            async with running(outbox.outbox()):
                await eventually(lambda: len(outbox.destination.taken) >= 5)
                await asyncio.to_thread(kafka.stop)
                await asyncio.to_thread(kafka.start)
                await asyncio.to_thread(outbox.post, *numbers(5, 10))
                await eventually(lambda: set(outbox.destination.bodies) >= set(numbers(0, 10)))

        asyncio.run(scenario())
        assert outbox.committed() == 10
    finally:
        kafka.stop()


def test_the_first_failure_ends_all_parts_together() -> None:
    ended: list[str] = []

    class Part:
        def __init__(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
            self.name, self.work = name, work

        async def run(self) -> None:
            try:
                await self.work()
            finally:
                ended.append(self.name)

    async def fail() -> None:
        raise HardFailure("broken", remedy="mend it")

    async def scenario() -> None:
        forever = Part("forever", lambda: asyncio.sleep(60))
        await run_together({"forever": forever, "failing": Part("failing", fail)}, asyncio.Event())

    with pytest.raises(HardFailure, match="broken"):
        asyncio.run(scenario())
    assert sorted(ended) == ["failing", "forever"]
