"""What is wrong with values that are right one by one, but not together.

An error here is a combination that can only be a mistake: a topic that the bridge would write and read in a
circle, a policy that has nowhere to go. The rules look at whatever could be understood, so that a mistake in
one place hides none in another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from isthmus.config import values
from isthmus.config.keys import ROUTES, route_groups
from isthmus.config.problem import Problem, Severity
from isthmus.config.properties import Entry
from isthmus.config.settings import Settings
from isthmus.errors import PredicateError
from isthmus.routing.predicate import Predicate, parse
from isthmus.routing.route import OnError

DEAD_LETTER = "routing.dead-letter.topic"
SOURCES = "routing.source.topics"

Entries = Mapping[str, Entry]


def judge(settings: Settings, entries: Entries) -> Iterator[Problem]:
    """Every rule that the settings break."""
    yield from _circles(settings, entries)
    yield from _nothing_to_route(entries)
    yield from _not_yet(entries)
    yield from _dead_letters(settings, entries)
    yield from _names(entries)
    yield from _predicates_that_never_match(entries)
    yield from _settings_without_effect(settings, entries)


def destinations(entries: Entries) -> dict[str, Entry]:
    """The destination topics of all routes, by route, those that have other mistakes too."""
    found = {}
    for route in route_groups(entries):
        entry = entries.get(f"{ROUTES}{route}.dest.topic")
        if entry and entry.value:
            try:
                values.topic_name(entry.value.strip())
            except ValueError:
                continue
            found[route] = entry
    return found


def is_embedded(settings: Settings, entries: Entries) -> bool:
    """Whether the embedded Kafka is meant, and not only the default in place of a mistake."""
    servers = entries.get("kafka.bootstrap.servers")
    return settings.kafka.embedded and (servers is None or (servers.value or "").strip() == values.EMBEDDED)


def _circles(settings: Settings, entries: Entries) -> Iterator[Problem]:
    journal = settings.journal.topic
    sources = settings.routing.source_topics
    dead_letter = settings.routing.dead_letter_topic
    addressed = _predicates(entries)
    for route, entry in destinations(entries).items():
        topic = (entry.value or "").strip()
        if topic == journal:
            yield entry.problem(Severity.ERROR, "the journal's own topic, which no route may write")
        if topic == dead_letter:
            message = f"{DEAD_LETTER} too: messages and dead letters would mix"
            yield entry.problem(Severity.WARNING, message)
        if topic in sources and addressed.get(route) in _addressed_to(topic):
            message = "a source topic whose records would be published to it again"
            yield entry.problem(Severity.ERROR, message)
    if dead_letter == journal:
        message = "the journal's own topic: dead letters would be routed again"
        yield entries[DEAD_LETTER].problem(Severity.ERROR, message)
    if journal in sources:
        message = "holds the journal's own topic, which is routed anyway"
        yield entries[SOURCES].problem(Severity.ERROR, message)
    if dead_letter in sources:
        message = f"holds {DEAD_LETTER}: dead letters would be routed again"
        yield entries[SOURCES].problem(Severity.ERROR, message)


def _nothing_to_route(entries: Entries) -> Iterator[Problem]:
    if not route_groups(entries):
        yield Problem(Severity.WARNING, "no routes: nothing will be routed")


def _not_yet(entries: Entries) -> Iterator[Problem]:
    if convert := entries.get("message.convert"):
        message = "not available yet: a topic for every address that no route takes"
        yield convert.problem(Severity.ERROR, message, "write a route for each address")


def _dead_letters(settings: Settings, entries: Entries) -> Iterator[Problem]:
    policies = [entries.get(key) for key in ("routing.on-error", *_parts(entries, "on-error"))]
    using = [each for each in policies if each and (each.value or "").strip() == OnError.DEAD_LETTER]
    if DEAD_LETTER not in entries:
        for entry in using:
            yield entry.problem(Severity.ERROR, f"{OnError.DEAD_LETTER} needs {DEAD_LETTER}")
    elif settings.routing.dead_letter_topic and not using:
        message = f"nothing goes there: no on-error is {OnError.DEAD_LETTER}"
        yield entries[DEAD_LETTER].problem(Severity.NOTE, message)


def _names(entries: Entries) -> Iterator[Problem]:
    owners: dict[str, str] = {}
    for route, first in route_groups(entries).items():
        named = entries.get(f"{ROUTES}{route}.name")
        name = (named.value or "").strip() if named else route
        if name and name in owners:
            message = f"the same name as {ROUTES}{owners[name]} has"
            yield (named or first).problem(Severity.ERROR, message)
        owners.setdefault(name, route)


def _predicates_that_never_match(entries: Entries) -> Iterator[Problem]:
    owners: dict[Predicate, str] = {}
    for route, predicate in _predicates(entries).items():
        if predicate in owners:
            message = f"never reached: {ROUTES}{owners[predicate]} takes the same messages first"
            yield entries[f"{ROUTES}{route}.predicate"].problem(Severity.WARNING, message)
        owners.setdefault(predicate, route)


def _settings_without_effect(settings: Settings, entries: Entries) -> Iterator[Problem]:
    batch = entries.get("pipeline.real-time.batch")
    if batch and settings.pipeline.mode != "real-time":
        yield batch.problem(Severity.NOTE, f"no effect in pipeline.mode {settings.pipeline.mode}")
    if is_embedded(settings, entries):
        secured = ("kafka.security.", "kafka.sasl.", "kafka.ssl.")
        for entry in entries.values():
            if entry.key.startswith(secured):
                message = "the embedded Kafka takes plain connections only"
                hint = "set kafka.bootstrap.servers"
                yield entry.problem(Severity.WARNING, message, hint)


def _parts(entries: Entries, part: str) -> list[str]:
    return [f"{ROUTES}{route}.{part}" for route in route_groups(entries)]


def _predicates(entries: Entries) -> dict[str, Predicate]:
    """The predicates that parse, by route."""
    found = {}
    for route in route_groups(entries):
        entry = entries.get(f"{ROUTES}{route}.predicate")
        try:
            found[route] = parse((entry.value or "") if entry else "")
        except PredicateError:
            continue
    return found


def _addressed_to(topic: str) -> tuple[Predicate, ...]:
    return parse(f"msg.address=={topic}"), parse(f'msg.address=="{topic}"')
