"""What Kafka's client for C reads, as the record that it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from isthmus.journal.layout import KafkaHeaders, Record

if TYPE_CHECKING:
    from confluent_kafka import Message


def record_of(message: Message) -> Record:
    """The record that Kafka's client read; it leaves the headers out when there are none."""
    return Record(message.key(), message.value(), cast("KafkaHeaders", message.headers() or []))
