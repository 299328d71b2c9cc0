"""What must hold before the queries start: the journal and outboxes are there, and every topic can be used.

Hard failures are found here, before a message is touched: a destination that does not exist or may not be
written, a dead-letter topic likewise, a source that may not be read. The embedded Kafka is the bridge's own,
so there the topics are made.
"""

from __future__ import annotations

from collections.abc import Mapping

from isthmus.config.judgement.check import TopicFacts
from isthmus.config.judgement.routing_plan import (
    dead_letter_topics,
    destination_topics,
    routing_plan,
    source_topics,
    topics_to_describe,
)
from isthmus.config.model.settings import Settings
from isthmus.errors import HardFailure
from isthmus.journal.partitions import JournalPartitions
from isthmus.kafka.blocking import create_topics, describe, topic_names
from isthmus.kafka.options import Kafka
from isthmus.kafka.own_topics import make_own_topics
from isthmus.pipeline.ledger import LedgerPlan
from isthmus.routing.plan import RoutingPlan

EMBEDDED_PARTITIONS = 4
"""How many partitions a destination gets in the embedded Kafka."""


def prepare(settings: Settings, kafka: Kafka) -> tuple[RoutingPlan, int]:
    """The plan for the router, and how many partitions it reads. Raises `HardFailure` for what is missing."""
    make_own_topics(settings, kafka)
    if settings.kafka.embedded:
        named = destination_topics(settings) | dead_letter_topics(settings) | source_topics(settings)
        create_topics(kafka, named, EMBEDDED_PARTITIONS)
    return look(settings, kafka)


def look(settings: Settings, kafka: Kafka) -> tuple[RoutingPlan, int]:
    """The same by the topics as they are: nothing is made."""
    names = topic_names(kafka) if settings.message_convert else set()
    facts = describe(kafka, topics_to_describe(settings, names))
    check_topics(settings, facts)
    return routing_plan(settings, facts), sum(facts[name].partitions for name in source_topics(settings))


def prepare_ledger(settings: Settings, kafka: Kafka) -> LedgerPlan:
    """The plan for the ledger. Raises `HardFailure` for what is missing."""
    make_own_topics(settings, kafka)
    journal = settings.journal
    facts = describe(kafka, [journal.topic])[journal.topic]
    if not (facts.readable and facts.writable):
        raise HardFailure(
            f"topic {journal.topic}, the journal: the bridge is not authorized to read and write it",
            remedy=f"give the bridge's Kafka user the right to read and write {journal.topic}",
        )
    return LedgerPlan(
        bridge_id=settings.bridge_id,
        journal_topic=journal.topic,
        clock_topic=settings.clock_topic,
        places=JournalPartitions.of(journal.topic, facts.partitions, journal.ledger_partitions),
        timeout_ms=round(journal.transaction_timeout_s * 1000),
    )


def check_topics(settings: Settings, facts: Mapping[str, TopicFacts]) -> None:
    """Raises `HardFailure` for the first topic that the bridge needs and cannot use."""
    routes = (*settings.routes, *settings.temporary_routes)
    uses = [(route.topic, f"the destination of route {route.name}", "write") for route in routes]
    if settings.routing.dead_letter_topic:
        uses.append((settings.routing.dead_letter_topic, "the dead-letter topic", "write"))
    uses += [(topic, "a source of the router", "read") for topic in settings.routing.source_topics]
    uses.append((settings.journal.topic, "the journal", "read"))
    for topic, role, right in uses:
        if topic not in facts or not facts[topic].exists:
            raise HardFailure(
                f"topic {topic}, {role}, does not exist",
                remedy="create it, or name another one; `isthmus check` finds such topics before a start",
            )
        if not (facts[topic].writable if right == "write" else facts[topic].readable):
            raise HardFailure(
                f"topic {topic}, {role}: the bridge is not authorized to {right} it",
                remedy=f"give the bridge's Kafka user the right to {right} {topic}",
            )
