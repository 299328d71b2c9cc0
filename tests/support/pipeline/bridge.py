"""A bridge for tests: topics of its own in a shared Kafka, and a router that runs until all is routed."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from isthmus.cli.show import record_of
from isthmus.config.model.settings import JournalSettings, KafkaSettings, RoutingSettings, Settings
from isthmus.journal.layout import Entry, Op, Record
from isthmus.journal.writer import JournalWriter, Position
from isthmus.kafka.blocking import create_topics, read_topic
from isthmus.kafka.options import Kafka
from isthmus.message import Body, BodyKind, Header, HeaderValue, Message
from isthmus.pipeline import measures
from isthmus.pipeline.prepare import prepare
from isthmus.pipeline.publish import kafka_sink, read_topics
from isthmus.pipeline.router import route
from isthmus.routing.counts import BatchCounts
from isthmus.routing.predicate import parse
from isthmus.routing.route import Route
from isthmus.telemetry.events import Event, read_event


def text_message(address: str, body: str = "", session: str = "s", **headers: HeaderValue) -> Message:
    identity = f"ID:{uuid.uuid4()}"
    return Message(
        id=identity,
        address=address,
        protocol="amqp",
        value=body.encode(),
        body=Body(BodyKind.TEXT),
        headers={"MessageId": Header(identity)} | {name: Header.of(value) for name, value in headers.items()},
        session=session,
    )


class TestBridge:
    """Topic names are written short, and are unique to this bridge in Kafka."""

    __test__ = False

    def __init__(self, servers: str, folder: Path, *, partitions: int = 2) -> None:
        self.id = f"t{uuid.uuid4().hex[:8]}"
        self.folder = folder
        self.kafka = Kafka(servers)
        self.partitions = partitions

    def name(self, topic: str) -> str:
        return f"{self.id}-{topic}"

    def make_topics(self, *topics: str, config: Mapping[str, str] | None = None) -> None:
        create_topics(self.kafka, [self.name(topic) for topic in topics], 2, config)

    def route(self, name: str, predicate: str, topic: str, **more: object) -> Route:
        return Route(name, parse(predicate), self.name(topic), **more)  # type: ignore[arg-type]

    def settings(self, *routes: Route, **routing: object) -> Settings:
        return Settings(
            bridge_id=self.id,
            kafka=KafkaSettings(bootstrap_servers=self.kafka.servers),
            journal=JournalSettings(partitions=self.partitions),
            routing=RoutingSettings(**routing),  # type: ignore[arg-type]
            routes=routes,
            state_dir=str(self.folder),
        )

    def write(self, messages: Iterable[Message | Entry], settings: Settings) -> list[Position]:
        prepare(settings, self.kafka)
        with JournalWriter(self.kafka, settings.journal) as writer:
            entries = (each if isinstance(each, Entry) else Entry(Op.ADD, each) for each in messages)
            return [future.result() for future in [writer.write(entry) for entry in entries]]

    def run(self, spark: SparkSession, settings: Settings) -> BatchCounts:
        """Route everything that is there, and say what the router counted. Raises what it fails with."""
        plan, _ = prepare(settings, self.kafka)
        topics = (plan.journal_topic, *plan.source_topics)
        records = route(read_topics(spark, self.kafka, topics), plan)
        checkpoint = str(self.folder / "checkpoint")
        query = kafka_sink(records, self.kafka, plan, checkpoint).trigger(availableNow=True).start()
        query.awaitTermination()
        seen = [
            each.observedMetrics[measures.NAME].asDict()
            for each in query.recentProgress
            if each.observedMetrics
        ]
        bins = [each for batch in seen for each in batch[measures.COUNTS] or ()]
        return measures.read({measures.COUNTS: bins}, len(settings.all_routes))

    def records(self, topic: str) -> list[Record]:
        return [record_of(message) for message in read_topic(self.kafka, self.name(topic))]

    def events(self, settings: Settings) -> list[Event]:
        """What the router told, in order."""
        read = [read_event(record.value()) for record in read_topic(self.kafka, settings.events_topic)]  # type: ignore[arg-type]
        assert None not in read
        return [each for each in read if each is not None]

    def bodies(self, topic: str) -> list[str]:
        return sorted((record.value or b"").decode() for record in self.records(topic))
