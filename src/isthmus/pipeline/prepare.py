"""What must hold before the queries start: the journal and outboxes are there, and every topic can be used.

Hard failures are found here, before a message is touched: a destination that does not exist or may not be
written, a dead-letter topic likewise, a source that may not be read. The embedded Kafka is the bridge's own,
so there the topics are made.
"""

from __future__ import annotations

from collections.abc import Mapping

from isthmus.config.judgement.check import TopicFacts
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
        _, destinations, sources = _named_topics(settings)
        create_topics(kafka, destinations | sources, EMBEDDED_PARTITIONS)
    return look(settings, kafka)


def look(settings: Settings, kafka: Kafka) -> tuple[RoutingPlan, int]:
    """The same by the topics as they are: nothing is made."""
    routed, destinations, sources = _named_topics(settings)
    # For messages whose addresses nobody has looked up, such as those of other programs.
    names = topic_names(kafka) if settings.message_convert else set()
    addressable = {name for name in names if name not in settings.reserved_topics}
    facts = describe(kafka, destinations | sources | addressable)
    check_topics(settings, facts)
    writable = {name for name in addressable if name in facts and facts[name].writable}
    published = writable | routed
    limits = {
        name: limit
        for name in published | destinations
        if (limit := facts[name].max_message_bytes) is not None
    }
    plan = RoutingPlan(
        bridge_id=settings.bridge_id,
        journal_topic=settings.journal.topic,
        source_topics=settings.routing.source_topics,
        routes=settings.all_routes,
        on_error=settings.routing.on_error,
        dead_letter_topic=settings.routing.dead_letter_topic,
        events_topic=settings.events_topic,
        propagate_non_durable=settings.routing.non_durable == "propagate",
        keep_destinations=settings.keeps_destinations,
        max_message_bytes=limits,
        max_source_bytes=_largest([facts[name].max_message_bytes for name in sources]),
        partitions={name: facts[name].partitions for name in published},
    )
    return plan, sum(facts[name].partitions for name in sources)


def _named_topics(settings: Settings) -> tuple[set[str], set[str], set[str]]:
    """The topics that the settings name: of routes, of routes and dead letters, and those that are read."""
    routed = {route.topic for route in (*settings.routes, *settings.temporary_routes)}
    dead_letters = {settings.routing.dead_letter_topic} if settings.routing.dead_letter_topic else set()
    return routed, routed | dead_letters, {settings.journal.topic, *settings.routing.source_topics}


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
        places=JournalPartitions.of(journal.topic, facts.partitions, journal.ledger_partitions),
        timeout_ms=round(journal.transaction_timeout_s * 1000),
    )


def _largest(limits: list[int | None]) -> int | None:
    known = [limit for limit in limits if limit is not None]
    return max(known) if len(known) == len(limits) else None


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
