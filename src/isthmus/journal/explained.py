"""What becomes of a message by a bridge's settings and, if it is asked, by what its Kafka says of topics.

For ``isthmus explain`` and the monitor's page, which give a message or a position, and get what
`isthmus.routing.explain` says of it. Nothing is published, and no Kafka client is needed unless it is asked.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from isthmus.config.judgement.routing_plan import (
    address_topic,
    assumed_topic,
    creates_topics,
    routing_plan,
    topics_to_describe,
)
from isthmus.config.model.settings import Settings
from isthmus.config.model.values import is_topic_name
from isthmus.errors import ConfigError
from isthmus.journal.layout import AddressTopic, Record
from isthmus.kafka.received import record_of
from isthmus.routing.explain import Explanation, explain
from isthmus.routing.plan import RoutingPlan
from isthmus.routing.route import topic_of_address

if TYPE_CHECKING:
    from isthmus.kafka.options import Kafka

Place = tuple[str, int, int]
"""Topic, partition and offset."""

NOT_ASKED = "every topic exists and takes the record: Kafka was not asked (--connect asks)"


def explanation(settings: Settings, kafka: Kafka | None, record: Record, place: Place | None) -> Explanation:
    """What becomes of a record at that place, or of one that is yet to be journaled."""
    plan = routing_plan(settings) if kafka is None else live_plan(settings, kafka)
    assumed = (NOT_ASKED,) if kafka is None else ()
    return explain(plan, record, now_ms=time.time_ns() // 1_000_000, position=place, assumed=assumed)


def live_plan(settings: Settings, kafka: Kafka) -> RoutingPlan:
    """The plan, by what Kafka says of its topics now."""
    from isthmus.kafka.blocking import describe, topic_names

    names = topic_names(kafka) if settings.message_convert else set()
    return routing_plan(settings, describe(kafka, topics_to_describe(settings, names)))


def topic_for(settings: Settings, kafka: Kafka | None, address: str) -> AddressTopic | None:
    """The topic of the address, as an edge would find it."""
    topic = assumed_topic(settings, address)
    if kafka is None:
        return topic
    from isthmus.kafka.blocking import describe

    name = topic_of_address(address)
    if not (settings.keeps_destinations or settings.message_convert) or name in settings.reserved_topics:
        return None
    facts = describe(kafka, [name]).get(name) if is_topic_name(name) else None
    if facts is None:
        return topic if creates_topics(settings) else None
    return address_topic(name, facts, keep=settings.keeps_destinations)


def known_place(settings: Settings, place: Place) -> Place:
    """The place, if the router reads there. Raises `ConfigError` for any other."""
    if place[0] not in (settings.journal.topic, *settings.routing.source_topics):
        raise ConfigError(
            f"the router does not read {place[0]}: a position is one of the journal "
            f"({settings.journal.topic}) or of routing.source.topics"
        )
    return place


def stored_record(kafka: Kafka, place: Place) -> Record:
    """The record there. Raises `ConfigError` if there is none."""
    from isthmus.kafka.blocking import read_one

    message = read_one(kafka, *place)
    if message is None:
        raise ConfigError(f"there is no record at {':'.join(map(str, place))}")
    return record_of(message)
