"""The router's plan, out of the settings and what Kafka says of the topics that they name."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from isthmus.config.judgement.check import TopicFacts
from isthmus.config.model.settings import Settings
from isthmus.config.model.values import is_topic_name
from isthmus.config.syntax.hidden import shown
from isthmus.journal.layout import AddressTopic
from isthmus.routing.plan import RoutingPlan
from isthmus.routing.route import topic_of_address
from isthmus.routing.size import LARGEST_BYTES

MOST_PARTITIONS = 999_999_999
"""Of a topic that Kafka was not asked about: whichever partition a message asks for is one of them."""


def destination_topics(settings: Settings) -> set[str]:
    """The topics that routes publish to, as the settings name them."""
    return {route.topic for route in (*settings.routes, *settings.temporary_routes)}


def source_topics(settings: Settings) -> set[str]:
    """The topics that the router reads."""
    return {settings.journal.topic, *settings.routing.source_topics}


def dead_letter_topics(settings: Settings) -> set[str]:
    """The one that the settings name, if they do."""
    return {settings.routing.dead_letter_topic} if settings.routing.dead_letter_topic else set()


def topics_to_describe(settings: Settings, existing: Collection[str]) -> set[str]:
    """The topics that a plan depends on; with a direct route, also those of ``existing`` that an address may
    name: for messages whose address nobody has looked up, such as those of other programs."""
    named = destination_topics(settings) | dead_letter_topics(settings) | source_topics(settings)
    return named | {each for each in existing if _is_addressable(settings, each)}


def routing_plan(settings: Settings, facts: Mapping[str, TopicFacts] | None = None) -> RoutingPlan:
    """The plan. Without facts every topic counts as there, and as taking records of any size."""
    facts = facts or {}
    routed = destination_topics(settings)
    published = {
        name
        for name, fact in facts.items()
        if name in routed or (fact.writable and _is_addressable(settings, name))
    }
    limited = published | (dead_letter_topics(settings) & facts.keys())
    limits = {name: facts[name].max_message_bytes for name in limited}
    sources = [facts[name].max_message_bytes if name in facts else None for name in source_topics(settings)]
    known = [limit for limit in sources if limit is not None]
    return RoutingPlan(
        bridge_id=settings.bridge_id,
        journal_topic=settings.journal.topic,
        source_topics=settings.routing.source_topics,
        routes=tuple(replace(route, written=shown(route.written)) for route in settings.all_routes),
        on_error=settings.routing.on_error,
        dead_letter_topic=settings.routing.dead_letter_topic,
        events_topic=settings.events_topic,
        traced=settings.otel.endpoint is not None,
        propagate_non_durable=settings.routing.non_durable == "propagate",
        keep_destinations=settings.keeps_destinations,
        max_message_bytes={name: limit for name, limit in limits.items() if limit is not None},
        max_source_bytes=max(known) if len(known) == len(sources) else None,
        partitions={name: facts[name].partitions for name in published},
    )


def creates_topics(settings: Settings) -> bool:
    """Whether an address without a topic gets one when an AMQP client sends to it."""
    chosen = settings.amqp.auto_create
    return settings.listens_to_amqp and (settings.kafka.embedded if chosen is None else chosen)


def assumed_topic(settings: Settings, address: str) -> AddressTopic | None:
    """The topic that an edge finds for an address, if Kafka is not asked: one that takes anything, wherever
    messages may go to a topic because their address names it."""
    name = topic_of_address(address)
    if name in settings.reserved_topics or not is_topic_name(name):
        return None
    if settings.message_convert is None and not (settings.keeps_destinations and creates_topics(settings)):
        return None
    return AddressTopic(name, MOST_PARTITIONS, LARGEST_BYTES, settings.keeps_destinations)


def address_topic(name: str, facts: TopicFacts, *, keep: bool) -> AddressTopic:
    """What the journal is told of a topic; with ``keep`` it is a JMS destination."""
    limit = min(facts.max_message_bytes or LARGEST_BYTES, LARGEST_BYTES)
    return AddressTopic(name, facts.partitions, limit, keep)


def _is_addressable(settings: Settings, topic: str) -> bool:
    """Whether a message may name the topic by its address."""
    return settings.message_convert is not None and topic not in settings.reserved_topics
