"""The AMQP server before a real Kafka: for senders, and for receivers too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.amqp.server import RunningServer
from tests.support.kafka.topics import new_topic, produce
from tests.support.names import unique

from isthmus.config.model.settings import JournalSettings
from isthmus.converters import MessageConverter, converter
from isthmus.edges.addresses import KafkaAddresses
from isthmus.edges.amqp.server.receivers import KafkaOutgoingLinks
from isthmus.edges.amqp.server.receivers.outgoing_link import Undeliverable, skip
from isthmus.edges.journal import EdgeJournal
from isthmus.journal import layout
from isthmus.journal.layout import Entry, Record
from isthmus.kafka.admin import KafkaAdmin
from isthmus.kafka.blocking import create_topics, read_topic
from isthmus.kafka.name_locks import NameLocks
from isthmus.kafka.options import Kafka


class ServerOnKafka(RunningServer):
    """A server whose journal is in Kafka."""

    temporary_topic = ""

    def __init__(self, servers: str, **settings: object) -> None:
        self.kafka = Kafka(servers)
        self.topic = unique("journal")
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
            self.run(self.amqp.close(grace_s=5))
            if isinstance(self.outgoing_links, KafkaOutgoingLinks):
                self.run(self.outgoing_links.close())
            self.run(self.edge_journal.close())
            self.run(self.admin.close())
        finally:
            self._stop()

    def entries(self) -> list[Entry]:
        """What the journal has: each session's in order."""
        return [
            layout.decode(Record(each.key(), each.value(), each.headers() or []))
            for each in read_topic(self.kafka, self.topic)
        ]


@contextmanager
def receiving_server(
    servers: str,
    convert: str | MessageConverter = "default",
    *,
    undeliverable: Undeliverable = skip,
    auto_create: bool = True,
    queue_views: bool = False,
    bare_is_queue: bool = False,
    link_bytes: int = 32 * 2**20,
    subscription_locks: NameLocks | None = None,
    journal_topic: str | None = None,
    **settings: object,
) -> Iterator[ServerOnKafka]:
    made = converter(convert) if isinstance(convert, str) else convert
    temporary_topic = new_topic(servers, 2)
    outgoing_links = KafkaOutgoingLinks(
        Kafka(servers),
        lambda _: made,
        temporary_topic=temporary_topic,
        journal_topic=journal_topic,
        undeliverable=undeliverable,
        auto_create=auto_create,
        queue_views=queue_views,
        bare_is_queue=bare_is_queue,
        link_bytes=link_bytes,
        subscription_locks=subscription_locks,
        partitions=1,
    )
    with ServerOnKafka(servers, outgoing_links=outgoing_links, **settings) as server:
        server.temporary_topic = temporary_topic
        yield server


def answer(servers: str, temporary_topic: str, address: str, text: str) -> None:
    """What the router publishes when a Kafka client answers to a temporary queue."""
    headers = [("jms.Destination", address.encode())]
    produce(servers, temporary_topic, Record(address.encode(), text.encode(), headers))
