"""The journal as a topic of Kafka: what must hold of it before anything is written."""

from __future__ import annotations

from typing import NamedTuple

from isthmus.config.judgement.check import TopicFacts
from isthmus.config.model.settings import JournalSettings
from isthmus.errors import HardFailure
from isthmus.journal.partitions import JournalPartitions


class JournalTopic(NamedTuple):
    """A journal that may be written."""

    partitions: JournalPartitions
    max_message_bytes: int | None
    """How large a batch it takes, if that is known."""


def journal_topic(journal: JournalSettings, facts: TopicFacts | None) -> JournalTopic:
    """The journal, by what Kafka says. Raises `HardFailure` if it is not there, or may not be written."""
    if facts is None or not facts.writable:
        raise HardFailure(
            f"the journal {journal.topic} {'may not be written' if facts else 'does not exist'}",
            remedy="start the bridge once: it makes its journal; or check journal.topic",
        )
    partitions = JournalPartitions.of(journal.topic, facts.partitions, journal.ledger_partitions)
    return JournalTopic(partitions, facts.max_message_bytes)
