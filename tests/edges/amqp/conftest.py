"""What the tests with a real Kafka share: a front door to it, and Qpid JMS."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest
from tests.edges.amqp.door import Door

from isthmus.config.model.settings import JournalSettings
from isthmus.edges.amqp.server.addresses import KafkaAddresses
from isthmus.edges.amqp.server.receivers import KafkaOutgoingLinks
from isthmus.edges.journal import EdgeJournal
from isthmus.journal import layout
from isthmus.journal.layout import Entry, Record
from isthmus.kafka.admin import KafkaAdmin
from isthmus.kafka.blocking import create_topics, read_topic
from isthmus.kafka.options import Kafka


class KafkaDoor(Door):
    """A front door whose journal is in Kafka."""

    temporary_topic = ""

    def __init__(self, servers: str, **settings: object) -> None:
        self.kafka = Kafka(servers)
        self.topic = f"journal-{uuid.uuid4().hex[:8]}"
        create_topics(self.kafka, [self.topic], 4)
        self.admin = KafkaAdmin(self.kafka)
        super().__init__(
            journal=self._open,
            addresses=KafkaAddresses(self.admin, [], direct=True, auto_create=True),
            **settings,
        )

    async def _open(self) -> EdgeJournal:
        self.edge_journal = await EdgeJournal.open(self.kafka, JournalSettings(topic=self.topic))
        return self.edge_journal

    def __exit__(self, *_: object) -> None:
        try:
            self.run(self.server.close(grace_s=5))
            self.run(self.edge_journal.close())
            self.run(self.admin.close())
            if isinstance(self.outgoing_links, KafkaOutgoingLinks):
                self.run(self.outgoing_links.close())
        finally:
            self._stop()

    def entries(self) -> list[Entry]:
        """What the journal has: each session's in order."""
        return [
            layout.decode(Record(each.key(), each.value(), each.headers() or []))
            for each in read_topic(self.kafka, self.topic)
        ]


@pytest.fixture
def kafka_door(kafka_servers: str) -> Iterator[KafkaDoor]:
    with KafkaDoor(kafka_servers) as door:
        yield door


@pytest.fixture
def door_to(kafka_servers: str) -> Callable[..., KafkaDoor]:
    return lambda **settings: KafkaDoor(kafka_servers, **settings)
