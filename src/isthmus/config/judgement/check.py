"""Everything that is wrong with a configuration, in one pass, with or without a Kafka to ask.

Goes beyond reading: the topics that the routes write to, the dead-letter topic and the source topics must be
there, and the bridge must be allowed to use them.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from isthmus.config.judgement.keys import ROUTES
from isthmus.config.judgement.reading import Reading, read
from isthmus.config.judgement.rules import DEAD_LETTER, SOURCES, destinations, is_embedded, predicates
from isthmus.config.model.values import is_topic_name
from isthmus.config.syntax.hidden import alike, scrub
from isthmus.config.syntax.problem import Problem, Severity
from isthmus.config.syntax.properties import Entry
from isthmus.errors import ConfigError, HardFailure
from isthmus.routing.predicate import named_addresses
from isthmus.routing.route import topic_of_address

JOURNAL = "journal.topic"


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """What Kafka says about a topic, and about what the bridge may do with it."""

    exists: bool
    writable: bool
    readable: bool
    max_message_bytes: int | None
    partitions: int


class TopicProbe(Protocol):
    """Asks Kafka about topics: one call for all of them."""

    def __call__(self, names: Collection[str]) -> Mapping[str, TopicFacts]:
        """The facts by name; a name left out does not exist.

        Raises `HardFailure` without an answer, `ConfigError` for options that the client does not take.
        """


def check(
    path: Path | None, environ: Mapping[str, str] = os.environ, topics: TopicProbe | None = None
) -> list[Problem]:
    """Every problem of a configuration, in the order of the file; those of its topics last."""
    reading = read(path, environ)
    return [*reading.problems, *_topic_problems(reading, topics)]


@dataclass(frozen=True, slots=True)
class _Use:
    """A topic that the bridge is to write or read, and the entry that says so."""

    topic: str
    entry: Entry | None
    writes: bool = False
    reads: bool = False
    made: bool = False
    """Whether the bridge makes it when it is not there."""
    destination: bool = False
    """Whether it is but that of an address which a route takes messages from."""


def _uses(reading: Reading) -> Iterator[_Use]:
    settings, entries = reading.settings, reading.entries
    for entry in destinations(entries).values():
        value = entry.value or ""
        yield _Use(alike(value, value.strip()), entry, writes=True)
    if settings.routing.dead_letter_topic:
        yield _Use(settings.routing.dead_letter_topic, entries.get(DEAD_LETTER), writes=True)
    for topic in settings.routing.source_topics:
        yield _Use(topic, entries.get(SOURCES), reads=True)
    for route in settings.routes:
        if route.destination is not None:
            yield _Use(route.topic, None, writes=True, reads=True, made=True)
    if settings.keeps_destinations and not settings.amqp.auto_create:
        for name, predicate in predicates(entries).items():
            for address in sorted(named_addresses(predicate)):
                topic = topic_of_address(address)
                if is_topic_name(topic) and topic not in settings.reserved_topics:
                    yield _Use(topic, entries[f"{ROUTES}{name}.predicate"], writes=True, destination=True)
    yield _Use(settings.journal.topic, entries.get(JOURNAL), writes=True, reads=True, made=True)


def _topic_problems(reading: Reading, topics: TopicProbe | None) -> Iterator[Problem]:
    uses = list(_uses(reading))
    if topics is None:
        if len(uses) > 1:
            embedded = is_embedded(reading.settings, reading.entries)
            reason = "the embedded Kafka creates them" if embedded else "Kafka was not asked"
            yield Problem(Severity.NOTE, f"topics are not checked: {reason}")
        return
    try:
        facts = topics({str(use.topic) for use in uses})
    except (HardFailure, ConfigError) as failure:
        values = [entry.value for entry in reading.entries.values() if entry.value]
        message = scrub(f"topics cannot be checked: {failure}", values)
        remedy = scrub(failure.remedy, values) if isinstance(failure, HardFailure) else None
        yield Problem(Severity.ERROR, message, hint=remedy)
        return
    for use in uses:
        yield from _complaints(use, facts.get(use.topic))
    journal = facts.get(reading.settings.journal.topic)
    wanted = reading.settings.journal.all_partitions
    if journal and journal.exists and journal.partitions != wanted:
        entry = reading.entries.get("journal.partitions") or reading.entries.get(JOURNAL)
        message = f"the journal is there already, with {journal.partitions} partitions instead of {wanted}"
        yield _at(entry, Severity.WARNING, message)


def _complaints(use: _Use, facts: TopicFacts | None) -> Iterator[Problem]:
    if facts is None or not facts.exists:
        if use.destination:
            message = f"there is no topic {use.topic!r}: JMS clients cannot receive from that address"
            yield _at(use.entry, Severity.NOTE, message, "create it, or set amqp.auto-create=true")
        elif not use.made:
            hint = "create it, or allow the bridge's principal to see it"
            yield _at(use.entry, Severity.ERROR, f"topic {use.topic!r} does not exist", hint)
        return
    for needed, allowed, verb, operation in (
        (use.writes, facts.writable, "written", "Write"),
        (use.reads, facts.readable, "read", "Read"),
    ):
        if needed and not allowed:
            hint = f"allow {operation} on it to the bridge's principal"
            yield _at(use.entry, Severity.ERROR, f"topic {use.topic!r} may not be {verb}", hint)


def _at(entry: Entry | None, severity: Severity, message: str, hint: str | None = None) -> Problem:
    return entry.problem(severity, message, hint) if entry else Problem(severity, message, hint=hint)
