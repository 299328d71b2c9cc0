"""Kafka goes away while messages are taken from a broker: the broker keeps them, and none is lost."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

proton = pytest.importorskip("proton", reason="python-qpid-proton is not installed")

from tests.support.amqp.broker import Broker  # noqa: E402
from tests.support.asynchronous import eventually, running  # noqa: E402

from isthmus.config import JournalSettings  # noqa: E402
from isthmus.config.model.brokers import BrokerSettings  # noqa: E402
from isthmus.edges.amqp.client import AmqpClient, AmqpIntake  # noqa: E402
from isthmus.edges.journal import EdgeJournal  # noqa: E402
from isthmus.embedded.kafka import EmbeddedKafka  # noqa: E402
from isthmus.errors import SoftFailure  # noqa: E402
from isthmus.journal import layout  # noqa: E402
from isthmus.journal.layout import Record  # noqa: E402
from isthmus.kafka.blocking import create_topics, read_topic  # noqa: E402
from isthmus.kafka.options import Kafka  # noqa: E402
from isthmus.message import Message  # noqa: E402

CREDIT = 10


async def never(message: Message, failure: SoftFailure) -> None:
    raise AssertionError(f"{message} is a dead letter: {failure}")


def test_a_broker_keeps_its_messages_through_an_absence_of_kafka(tmp_path: Path) -> None:
    with EmbeddedKafka(tmp_path) as embedded, Broker() as broker:
        kafka = Kafka(embedded.bootstrap_servers)
        create_topics(kafka, ["journal"], 2)

        async def scenario() -> None:
            settings = {"url": broker.url, "intake.addresses": "orders", "intake.credit": str(CREDIT)}
            client = AmqpClient(BrokerSettings.of(settings), name="b", container_id="c")
            journal = await EdgeJournal.open(kafka, JournalSettings(topic="journal"))
            intake = AmqpIntake(client, journal, dead_letters=never, max_message_size=1_000_000)
            async with running(intake):
                broker.put("orders", proton.Message("0"))
                await eventually(lambda: intake.traffic.messages == 1)
                await asyncio.to_thread(embedded.stop)
                broker.put("orders", *(proton.Message(str(number)) for number in range(1, 101)))
                await eventually(lambda: len(broker.unsettled) >= CREDIT // 2)
                await asyncio.sleep(1)  # nothing may be settled, and no more may follow than there is credit
                assert len(broker.unsettled) <= CREDIT
                assert intake.traffic.messages == 1
                await asyncio.to_thread(embedded.start)
                await eventually(lambda: intake.traffic.messages == 101, timeout_s=60)
                await eventually(lambda: not broker.unsettled)
                assert client.counts.disconnects == 0
            await journal.close()

        asyncio.run(scenario())
        records = [
            Record(each.key(), each.value(), each.headers() or []) for each in read_topic(kafka, "journal")
        ]
        messages = [layout.decode(record).message for record in records]
        assert [each.body.slice(each.value) for each in messages] == [b"%d" % n for n in range(101)]
