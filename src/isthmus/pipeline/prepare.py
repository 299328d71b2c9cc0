"""What must hold before the router starts: the journal is there, and every topic can be used.

Hard failures are found here, before a message is touched: a destination that does not exist or may not be
written, a dead-letter topic likewise, a source that may not be read. The embedded Kafka is the bridge's own,
so there the topics are made.
"""

from __future__ import annotations

from collections.abc import Mapping

from isthmus.config.check import TopicFacts
from isthmus.config.settings import Settings
from isthmus.errors import HardFailure
from isthmus.kafka import Kafka, create_topics, describe
from isthmus.routing.plan import RoutingPlan

JOURNAL_CONFIG = {
    # Compacted, so that a tombstone removes what it deletes; and what nobody deleted goes after a week.
    "cleanup.policy": "compact,delete",
    "retention.ms": str(7 * 24 * 60 * 60 * 1000),
}

EMBEDDED_PARTITIONS = 4
"""How many partitions a destination gets in the embedded Kafka."""


def prepare(settings: Settings, kafka: Kafka) -> tuple[RoutingPlan, int]:
    """The plan for the router, and how many partitions it reads. Raises `HardFailure` for what is missing."""
    # Only if it is missing: who may use the journal need not have the right to create topics.
    if settings.journal.topic not in describe(kafka, [settings.journal.topic]):
        create_topics(kafka, [settings.journal.topic], settings.journal.partitions, JOURNAL_CONFIG)
    destinations = {route.topic for route in settings.routes} | (
        {settings.routing.dead_letter_topic} if settings.routing.dead_letter_topic else set()
    )
    sources = {settings.journal.topic, *settings.routing.source_topics}
    if settings.kafka.embedded:
        create_topics(kafka, destinations | sources, EMBEDDED_PARTITIONS)
    facts = describe(kafka, destinations | sources)
    check_topics(settings, facts)
    limits = {name: limit for name in destinations if (limit := facts[name].max_message_bytes) is not None}
    plan = RoutingPlan(
        bridge_id=settings.bridge_id,
        journal_topic=settings.journal.topic,
        source_topics=settings.routing.source_topics,
        routes=settings.routes,
        on_error=settings.routing.on_error,
        dead_letter_topic=settings.routing.dead_letter_topic,
        propagate_non_durable=settings.routing.non_durable == "propagate",
        max_message_bytes=limits,
    )
    return plan, sum(facts[name].partitions for name in sources)


def check_topics(settings: Settings, facts: Mapping[str, TopicFacts]) -> None:
    """Raises `HardFailure` for the first topic that the bridge needs and cannot use."""
    uses = [(route.topic, f"the destination of route {route.name}", "write") for route in settings.routes]
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
