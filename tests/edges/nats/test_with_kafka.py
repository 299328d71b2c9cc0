"""NATS and Kafka, both real: streams into the journal, an outbox into streams, with restarts in between."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from confluent_kafka import Producer
from nats.aio.client import Client
from tests.support.asynchronous import eventually, running
from tests.support.journals import DeadLetterBox
from tests.support.names import unique
from tests.support.nats.peers import bridge, peer

from isthmus.config.model.nats import NatsIntakeSettings
from isthmus.config.model.settings import JournalSettings
from isthmus.edges.contract import OutboundMessage
from isthmus.edges.journal import EdgeJournal
from isthmus.edges.nats.delivery import NatsDelivery
from isthmus.edges.nats.intake import StreamIntake
from isthmus.edges.outbox import DESTINATION, Outbox
from isthmus.embedded.nats import EmbeddedNats
from isthmus.errors import SoftFailure
from isthmus.kafka.blocking import create_topics, read_topic
from isthmus.kafka.options import Kafka

COUNT = 6000


async def nobody(message: OutboundMessage, failure: SoftFailure) -> None:
    raise AssertionError(f"{message} is a dead letter: {failure}")


async def fill(sender: Client, stream: str) -> None:
    jetstream = sender.jetstream()
    await jetstream.add_stream(name=stream, subjects=[stream])
    await asyncio.gather(*[await jetstream.publish_async(stream, b"%d" % n) for n in range(COUNT)])


def test_an_edge_that_restarts_under_load_loses_nothing_of_a_stream(
    nats_url: str, kafka_servers: str
) -> None:
    kafka, topic, stream = Kafka(kafka_servers), unique("journal"), unique("load")
    create_topics(kafka, [topic], 2)

    async def edge(sender: Client, until: int) -> None:
        """Run until so many messages were taken, or there are no more."""
        journal = await EdgeJournal.open(kafka, JournalSettings(topic=topic))
        async with bridge(nats_url) as client:
            source = NatsIntakeSettings(subject=stream, durable="bridge")
            intake = StreamIntake(client, journal, source, dead_letters=DeadLetterBox(), ack_wait_s=2)
            async with running(intake), asyncio.timeout(30):
                await intake.ready.wait()
                while intake.traffic.messages < until and not await settled(sender):
                    await asyncio.sleep(0.01)
        await journal.close()

    async def settled(sender: Client) -> bool:
        info = await sender.jetstream().consumer_info(stream, "bridge")
        return (info.num_pending, info.num_ack_pending) == (0, 0)

    async def scenario() -> None:
        async with peer(nats_url) as sender:
            await fill(sender, stream)
            for until in (10, 10, COUNT):
                await edge(sender, until)
            assert await settled(sender)

    asyncio.run(scenario())
    journaled = [int(record.value() or b"") for record in read_topic(kafka, topic)]
    assert set(journaled) == set(range(COUNT))


def test_a_message_too_large_for_the_journal_is_a_dead_letter_and_others_go_on(
    nats_url: str, kafka_servers: str
) -> None:
    kafka, topic, stream = Kafka(kafka_servers), unique("journal"), unique("large")
    create_topics(kafka, [topic], 2, {"max.message.bytes": "10000"})
    dead = DeadLetterBox()

    async def scenario() -> None:
        journal = await EdgeJournal.open(kafka, JournalSettings(topic=topic))
        async with peer(nats_url) as sender, bridge(nats_url) as client:
            jetstream = sender.jetstream()
            await jetstream.add_stream(name=stream, subjects=[stream])
            for body in (b"before", bytes(20_000), b"after"):
                await jetstream.publish(stream, body)
            source = NatsIntakeSettings(subject=stream, durable="bridge")
            intake = StreamIntake(client, journal, source, dead_letters=dead, ack_wait_s=2)
            async with running(intake):
                await eventually(lambda: intake.traffic.messages == 3)
        await journal.close()

    asyncio.run(scenario())
    assert {bytes(record.value() or b"") for record in read_topic(kafka, topic)} == {b"before", b"after"}
    [(message, failure)] = dead.letters
    assert (message.value, failure.code) == (bytes(20_000), "oversize")


def test_an_outbox_reaches_its_stream_once_while_nats_restarts(kafka_servers: str, tmp_path: Path) -> None:
    kafka, topic = Kafka(kafka_servers), unique("outbox")
    create_topics(kafka, [topic], 1)
    producer = Producer({**kafka.python_options(), "acks": "all"})
    for number in range(COUNT):
        headers: list[tuple[str, str | bytes | None]] = [
            ("isthmus.id", b"j:0:%d" % number),
            (DESTINATION, b"jetstream:load"),
        ]
        producer.produce(topic, b"%d" % number, b"k", headers=headers)
    assert producer.flush(30) == 0

    async def scenario() -> list[int]:
        server = EmbeddedNats(tmp_path)
        await asyncio.to_thread(server.start)
        async with bridge(server.url) as client:
            await client.jetstream.add_stream(name="load", subjects=["load"])
            outbox = Outbox(
                kafka, topic, NatsDelivery(client), dead_letters=nobody, batch=100, longest_wait_s=0.2
            )
            async with running(outbox):
                await eventually(lambda: outbox.counts.delivered >= 200)
                await asyncio.to_thread(server.stop)
                await asyncio.to_thread(server.start)
                await eventually(lambda: outbox.counts.delivered >= COUNT)
            kept = (await client.jetstream.stream_info("load")).state.messages
            bodies = [(await client.jetstream.get_msg("load", n)).data for n in range(1, kept + 1)]
        await asyncio.to_thread(server.stop)
        return [int(body or b"") for body in bodies]

    assert asyncio.run(scenario()) == list(range(COUNT))


@pytest.mark.parametrize("amount", [1, 250])
def test_a_message_is_delivered_soon_after_it_was_posted(
    nats_url: str, kafka_servers: str, amount: int
) -> None:
    kafka, topic, subject = Kafka(kafka_servers), unique("outbox"), unique("soon")
    create_topics(kafka, [topic], 1)

    async def scenario() -> None:
        async with bridge(nats_url) as client, peer(nats_url) as reader:
            arrived = await reader.subscribe(subject)
            await reader.flush()
            async with running(Outbox(kafka, topic, NatsDelivery(client), dead_letters=nobody)):
                producer = Producer(kafka.python_options())
                for _ in range(amount):
                    producer.produce(topic, b"x", headers=[(DESTINATION, subject.encode())])
                await asyncio.to_thread(producer.flush, 10)
                for _ in range(amount):
                    await arrived.next_msg(60)

    asyncio.run(scenario())
