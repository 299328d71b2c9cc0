"""Kafka goes down and comes back while messages flow: every one that was acknowledged arrives."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import count

import pytest
from confluent_kafka import KafkaError, Message, Producer
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
from isthmus.embedded.kafka import EmbeddedKafka
from isthmus.errors import SoftFailure
from isthmus.kafka.blocking import create_topics, read_topic
from isthmus.kafka.options import Kafka

SOME = 500
"""How many messages flow before Kafka goes down, and after it is back."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(tmp_path_factory.mktemp("kafka")) as kafka:
        yield kafka


async def restart(broker: EmbeddedKafka) -> None:
    await asyncio.to_thread(broker.stop)
    await asyncio.to_thread(broker.start)


def test_every_acknowledged_message_of_a_stream_reaches_the_journal(
    nats_url: str, broker: EmbeddedKafka
) -> None:
    kafka, topic, stream = Kafka(broker.bootstrap_servers), unique("journal"), unique("load")
    create_topics(kafka, [topic], 3)
    acknowledged: set[int] = set()

    async def scenario() -> None:
        async with bridge(nats_url) as client, peer(nats_url) as sender:
            jetstream = sender.jetstream()
            await jetstream.add_stream(name=stream, subjects=[stream])

            over = asyncio.Event()  # Python 3.11 may lose a cancellation when an answer comes at that moment

            async def send() -> None:
                for number in count():
                    if over.is_set():
                        return
                    await jetstream.publish(stream, b"%d" % number)
                    acknowledged.add(number)
                    await asyncio.sleep(0.001)

            async def settled() -> bool:
                info = await jetstream.consumer_info(stream, "bridge")
                return (info.num_pending, info.num_ack_pending) == (0, 0)

            journal = await EdgeJournal.open(kafka, JournalSettings(topic=topic))
            source = NatsIntakeSettings(subject=stream, durable="bridge")
            intake = StreamIntake(client, journal, source, dead_letters=DeadLetterBox(), ack_wait_s=2)
            async with running(intake):
                sending = asyncio.create_task(send())
                await eventually(lambda: intake.traffic.messages > SOME)
                await restart(broker)
                before = intake.traffic.messages
                await eventually(lambda: intake.traffic.messages > before + SOME, timeout_s=90)
                over.set()
                await sending
                async with asyncio.timeout(60):
                    while not await settled():
                        await asyncio.sleep(0.1)
            await journal.close()

    asyncio.run(scenario())
    assert acknowledged <= {int(record.value() or b"") for record in read_topic(kafka, topic)}


def test_every_message_of_an_outbox_is_in_its_stream_once(nats_url: str, broker: EmbeddedKafka) -> None:
    kafka, topic, stream = Kafka(broker.bootstrap_servers), unique("outbox"), unique("load")
    create_topics(kafka, [topic], 3)
    acknowledged: set[int] = set()

    async def nobody(message: OutboundMessage, failure: SoftFailure) -> None:
        raise AssertionError(f"{message} is a dead letter: {failure}")

    async def post(producer: Producer) -> None:
        for number in count():

            def done(error: KafkaError | None, _: Message, number: int = number) -> None:
                if error is None:
                    acknowledged.add(number)

            headers: list[tuple[str, str | bytes | None]] = [
                ("isthmus.id", b"j:0:%d" % number),
                (DESTINATION, b"jetstream:%s" % stream.encode()),
            ]
            producer.produce(topic, b"%d" % number, headers=headers, on_delivery=done)
            producer.poll(0)
            await asyncio.sleep(0.002)

    async def scenario() -> list[int]:
        async with bridge(nats_url) as client:
            await client.jetstream.add_stream(name=stream, subjects=[stream])
            producer = Producer({**kafka.python_options(), "enable.idempotence": True})
            outbox = Outbox(kafka, topic, NatsDelivery(client), dead_letters=nobody)
            async with running(outbox):
                posting = asyncio.create_task(post(producer))
                await eventually(lambda: outbox.counts.delivered > SOME)
                await restart(broker)
                before = outbox.counts.delivered
                await eventually(lambda: outbox.counts.delivered > before + SOME, timeout_s=90)
                posting.cancel()
                assert await asyncio.to_thread(producer.flush, 30) == 0
                await eventually(lambda: outbox.counts.delivered >= len(acknowledged))
            kept = (await client.jetstream.stream_info(stream)).state.messages
            reader = await client.jetstream.subscribe(stream, ordered_consumer=True)
            return [int((await reader.next_msg(60)).data) for _ in range(kept)]

    arrived = asyncio.run(scenario())
    assert sorted(arrived) == sorted(acknowledged)
