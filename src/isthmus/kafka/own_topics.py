"""The topics a bridge makes for itself: journal, events, clock, outboxes, one for all temporary queues."""

from __future__ import annotations

from isthmus.config.model.settings import LEDGER, Settings
from isthmus.embedded.kafka import MAX_MESSAGE_BYTES
from isthmus.kafka.blocking import create_topics, describe
from isthmus.kafka.options import Kafka

DAY_MS = 24 * 60 * 60 * 1000

JOURNAL_CONFIG = {
    # Compacted, so that a tombstone removes what it deletes; and what nobody deleted goes after a week.
    "cleanup.policy": "compact,delete",
    "retention.ms": str(7 * DAY_MS),
    # Senders may use an id again. The router has a day to read a message before a later one replaces it.
    "min.compaction.lag.ms": str(DAY_MS),
    # Time-outs of transactions go by the journal's time, not by what a sender's clock says.
    "message.timestamp.type": "LogAppendTime",
}

EMBEDDED_JOURNAL_CONFIG = {"max.message.bytes": str(MAX_MESSAGE_BYTES + 2**19)}
"""Less than other topics take there, so that what the journal has fits anywhere: nobody has to measure."""

OUTBOX_CONFIG = {"retention.ms": JOURNAL_CONFIG["retention.ms"]}
"""Messages wait there while a system is unavailable: for a week, as messages do in the journal."""

TEMPORARY_CONFIG = {"retention.ms": str(60 * 60 * 1000)}
"""A temporary queue's messages are read as they come, or never."""


EVENTS_CONFIG = {
    # Events are read as they come; a day of them is for people who look into a failure.
    "retention.ms": str(DAY_MS),
    # An event goes out with the message that it tells of. Latency is what lies between the time at which
    # Kafka had the one in the journal and the other here: both by the brokers' clocks.
    "message.timestamp.type": "LogAppendTime",
}


CLOCK_CONFIG = {"retention.ms": str(60 * 60 * 1000), "segment.ms": str(60 * 60 * 1000)}
"""What woke the ledger is of no use once it has looked."""


def make_own_topics(settings: Settings, kafka: Kafka) -> None:
    """Make the bridge's own topics if they are not there. Raises `HardFailure` when Kafka refuses."""
    outboxes = {route.topic for route in settings.routes if route.destination is not None}
    temporary = {route.topic for route in settings.temporary_routes}
    may_have_ledger = settings.listens_to_amqp or LEDGER in settings.queries
    clock = {settings.clock_topic} if may_have_ledger else set()
    own = {settings.journal.topic, settings.events_topic, *clock, *outboxes, *temporary}
    # Only what is missing: who may use topics need not have the right to create any.
    missing = own - describe(kafka, own).keys()
    if settings.journal.topic in missing:
        config = JOURNAL_CONFIG | (EMBEDDED_JOURNAL_CONFIG if settings.kafka.embedded else {})
        create_topics(kafka, [settings.journal.topic], settings.journal.all_partitions, config)
    create_topics(kafka, outboxes & missing, settings.journal.partitions, OUTBOX_CONFIG)
    create_topics(kafka, {settings.events_topic} & missing, 1, EVENTS_CONFIG)
    create_topics(kafka, clock & missing, 1, CLOCK_CONFIG)
    create_topics(kafka, temporary & missing, settings.journal.partitions, TEMPORARY_CONFIG)
