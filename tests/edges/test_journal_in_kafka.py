"""The journal of edges in a real Kafka: order, and what Kafka refuses while a bridge is running."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from tests.support.asynchronous import eventually
from tests.support.journals import write as put
from tests.support.names import unique
from tests.support.polling import eventually as eventually_sync

from isthmus.config.model.settings import JournalSettings
from isthmus.edges.journal import EdgeJournal
from isthmus.errors import HardFailure, IsthmusError, OversizeFailure
from isthmus.journal import layout
from isthmus.journal.batches import BatchWriter
from isthmus.journal.layout import Entry, Op, Record
from isthmus.kafka.blocking import admin_client, create_topics, read_topic
from isthmus.kafka.options import Kafka
from isthmus.kafka.producer import Patience
from isthmus.message import Body, BodyKind, Header, Message


class Topic:
    """A journal of its own."""

    def __init__(self, servers: str) -> None:
        self.kafka = Kafka(servers)
        self._admin = admin_client(self.kafka)
        self.name = unique("journal")
        create_topics(self.kafka, [self.name], 4)

    async def open(self, patience: Patience | None = None) -> EdgeJournal:
        settings = JournalSettings(topic=self.name)
        return EdgeJournal(await BatchWriter.open(self.kafka, settings, patience=patience))

    def limit(self, max_message_bytes: int) -> None:
        entry = ConfigEntry(
            "max.message.bytes",
            str(max_message_bytes),
            incremental_operation=AlterConfigOpType.SET,
        )
        resource = ConfigResource(ResourceType.TOPIC, self.name, incremental_configs=[entry])
        self._admin.incremental_alter_configs([resource])[resource].result(60)
        eventually_sync(lambda: self._limit() == max_message_bytes)

    def _limit(self) -> int:
        resource = ConfigResource(ResourceType.TOPIC, self.name)
        return int(self._admin.describe_configs([resource])[resource].result(60)["max.message.bytes"].value)

    def delete(self) -> None:
        self._admin.delete_topics([self.name])[self.name].result(60)

    def messages(self) -> Iterator[Message]:
        for each in read_topic(self.kafka, self.name):
            yield layout.decode(Record(each.key(), each.value(), each.headers() or [])).message


@pytest.fixture
def topic(kafka_servers: str) -> Topic:
    return Topic(kafka_servers)


def entry(number: int, session: str = "s", size: int = 10) -> Entry:
    message = Message(
        id=f"{session}-{number}",
        address="a",
        protocol="amqp",
        value=b"x" * size,
        body=Body(BodyKind.BYTES),
        headers={"number": Header.of(number)},
        session=session,
    )
    return Entry(Op.ADD, message)


def test_sessions_keep_their_order_over_many_batches(topic: Topic) -> None:
    sessions = ["one", "two", "three", "four", "five"]
    told: list[IsthmusError | None] = []

    async def write() -> None:
        journal = await topic.open()
        for number in range(1_000):
            for session in sessions:
                journal.put(entry(number, session, size=900), told.append)
            if number % 10 == 0:
                await asyncio.sleep(0)
        await journal.close()

    asyncio.run(write())
    assert told == [None] * 5_000
    arrived: dict[str, list[object]] = defaultdict(list)
    for message in topic.messages():
        arrived[message.session].append(message.headers["number"].value)
    assert arrived == {session: list(range(1_000)) for session in sessions}


def test_what_kafka_refuses_since_its_limits_changed_is_told_and_what_follows_is_written(
    topic: Topic,
) -> None:
    async def write() -> None:
        journal = await topic.open()
        await put(journal, entry(0))
        await asyncio.to_thread(topic.limit, 5_000)
        with pytest.raises(OversizeFailure, match="did not take a message"):
            await put(journal, entry(1, size=20_000))
        for number in range(2, 5):
            await put(journal, entry(number))
        await journal.close()

    asyncio.run(write())
    assert [message.id for message in topic.messages()] == ["s-0", "s-2", "s-3", "s-4"]


def test_what_is_larger_than_the_topic_takes_is_refused_before_kafka_is_asked(topic: Topic) -> None:
    topic.limit(5_000)

    async def write() -> None:
        journal = await topic.open()
        with pytest.raises(OversizeFailure, match="too large for the journal"):
            await put(journal, entry(0, size=20_000))
        await put(journal, entry(1, size=4_000))
        await journal.close()

    asyncio.run(write())
    assert [message.id for message in topic.messages()] == ["s-1"]


def test_a_journal_that_is_deleted_is_a_hard_failure_of_what_is_written(
    topic: Topic, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[IsthmusError | None] = []

    async def write() -> None:
        journal = await topic.open(Patience(missing_s=0.5))
        await put(journal, entry(0))
        await asyncio.to_thread(topic.delete)
        journal.put(entry(1), told.append)
        await eventually(lambda: told, timeout_s=30)
        await journal.close()

    asyncio.run(write())
    assert isinstance(told[0], HardFailure)
    assert "check that the topic exists" in told[0].remedy
    assert len([line for line in caplog.messages if "does not take a batch" in line]) == 1
