"""What is wrong with values that are right one by one, but not together.

An error here is a combination that can only be a mistake: a topic that the bridge would write and read in a
circle, a policy that has nowhere to go. The rules look at whatever could be understood, so that a mistake in
one place hides none in another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from isthmus.config.judgement.broker_rules import DEFAULT_CONVERTER, judge_brokers
from isthmus.config.judgement.client_options import judge_client_options
from isthmus.config.judgement.keys import (
    CONNECTOR_FAMILY,
    ROUTE_FAMILY,
    ROUTES,
    groups,
    route_groups,
    split_key,
)
from isthmus.config.model import values
from isthmus.config.model.nats_values import CORE, JETSTREAM
from isthmus.config.model.plan import REPLIES, overlap
from isthmus.config.model.settings import Settings
from isthmus.config.syntax.problem import Problem, Severity
from isthmus.config.syntax.properties import Entry
from isthmus.converters import converter
from isthmus.converters.registry import BODY_FORMS, canonical_name
from isthmus.errors import ConfigError, PredicateError
from isthmus.routing.predicate import Predicate, parse
from isthmus.routing.route import DIRECT, OnError

DEAD_LETTER = "routing.dead-letter.topic"
SOURCES = "routing.source.topics"

Entries = Mapping[str, Entry]


def judge(settings: Settings, entries: Entries) -> Iterator[Problem]:
    """Every rule that the settings break."""
    yield from _circles(settings, entries)
    yield from _nothing_to_route(settings, entries)
    yield from _systems(settings, entries)
    yield from judge_brokers(settings, entries, predicates(entries))
    yield from judge_client_options(entries)
    yield from _own_converters(settings, entries)
    yield from _converters(settings, entries)
    yield from _key_patterns(entries)
    yield from _dead_letters(settings, entries)
    yield from _monitor(settings, entries)
    yield from _anybody(settings, entries)
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
    addressed = predicates(entries)
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


def _nothing_to_route(settings: Settings, entries: Entries) -> Iterator[Problem]:
    routes = route_groups(entries) or groups(entries, CONNECTOR_FAMILY) or settings.mq.reply_queue
    if not routes and "message.convert" not in entries and not settings.keeps_destinations:
        yield Problem(Severity.WARNING, "no routes: nothing will be routed")


def _systems(settings: Settings, entries: Entries) -> Iterator[Problem]:
    """What needs NATS or MQ, and what does not go together there."""
    speaks_nats = [entry for key, entry in entries.items() if _is_natss(key)]
    if "nats.servers" not in entries and speaks_nats:
        hint = "nats.servers=embedded starts one"
        yield speaks_nats[0].problem(Severity.ERROR, "needs nats.servers", hint)
    if settings.mq.reply_queue and "nats.servers" not in entries:
        yield entries["mq.reply-queue"].problem(Severity.ERROR, "needs nats.servers: inboxes are NATS's")
    written = {
        (settings.outbox(route.outbox), route.destination): route.name for route in settings.plan.routes
    }
    for route, entry in _edge_destinations(entries).items():
        edge = "nats" if entry.key.endswith(".dest.subject") else "mq"
        place = settings.outbox(edge), (entry.value or "").strip()
        if place in written:
            message = f"connector {written[place]} delivers there too, in another form"
            yield entry.problem(Severity.ERROR, message)
        if edge == "nats" and (predicate := predicates(entries).get(route)):
            subject = place[1].removeprefix(CORE).removeprefix(JETSTREAM)
            taken = any(overlap(each.subject, subject) for each in settings.nats_intakes.values())
            if taken and predicate in _addressed_to(subject):
                message = "a subject that is taken from: its messages would be published to it again"
                yield entry.problem(Severity.ERROR, message)


def _is_natss(key: str) -> bool:
    """Whether a key means that NATS is used."""
    family, _, part = split_key(key) or (None, "", "")
    if family is ROUTE_FAMILY:
        return part == "dest.subject"
    return family is CONNECTOR_FAMILY or (family is not None and family.prefix.startswith("nats."))


def _edge_destinations(entries: Entries) -> dict[str, Entry]:
    return {
        route: parts[part]
        for route, parts in groups(entries, ROUTE_FAMILY).items()
        for part in ("dest.subject", "dest.queue")
        if part in parts
    }


def _own_converters(settings: Settings, entries: Entries) -> Iterator[Problem]:
    for entry in conversions(entries):
        name = (entry.value or "").strip()
        if ":" not in name:
            continue
        try:
            converter(name)
        except ConfigError as error:
            yield entry.problem(Severity.ERROR, str(error))
        if settings.pipeline.mode == "real-time":
            message = "a class of your own takes Python, which real-time mode cannot run: micro-batch is used"
            yield entry.problem(Severity.WARNING, message, "set pipeline.mode=micro-batch to say so")


def _converters(settings: Settings, entries: Entries) -> Iterator[Problem]:
    for entry in conversions(entries):
        name = (entry.value or "").strip()
        if canonical_name(name) in ("json", "raw") and settings.routing.source_topics:
            message = f"records of {SOURCES} have no {name} form: on this route they are soft failures"
            yield entry.problem(Severity.WARNING, message)
    if "message.convert" in entries and (taken := entries.get(f"{ROUTES}{DIRECT}.predicate")):
        yield taken.problem(Severity.ERROR, f"{DIRECT} is what the route of message.convert is called")


def _key_patterns(entries: Entries) -> Iterator[Problem]:
    for route, parts in groups(entries, ROUTE_FAMILY).items():
        if "conv.key.pattern" in parts and "conv.key" not in parts:
            message = f"needs {ROUTES}{route}.conv.key: a pattern is for a key that senders choose"
            yield parts["conv.key.pattern"].problem(Severity.ERROR, message)


def conversions(entries: Entries) -> list[Entry]:
    """The entries that name a converter."""
    keys = ["message.convert", *_parts(entries, "conv.message")]
    return [entries[key] for key in keys if key in entries]


def _monitor(settings: Settings, entries: Entries) -> Iterator[Problem]:
    host = entries.get("monitor.host")
    if host is not None and "monitor.token" not in entries and not values.is_loopback(settings.monitor.host):
        message = "needs monitor.token: others than this machine can ask"
        yield host.problem(Severity.ERROR, message, "monitor.token=${file:token}")


def _anybody(settings: Settings, entries: Entries) -> Iterator[Problem]:
    entry = entries.get("amqp.anonymous")
    if entry is not None and settings.amqp.anonymous and not settings.amqp.on_loopback:
        message = "anybody on the network may connect"
        yield entry.problem(Severity.WARNING, message, "amqp.users.file says who may")


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
    taken = {*groups(entries, CONNECTOR_FAMILY), REPLIES}
    for name in taken & owners.keys():
        if name in groups(entries, CONNECTOR_FAMILY) or "mq.reply-queue" in entries:
            first = route_groups(entries)[owners[name]]
            yield first.problem(Severity.ERROR, f"the same name as the route of connector {name} has")


def _predicates_that_never_match(entries: Entries) -> Iterator[Problem]:
    owners: dict[Predicate, str] = {}
    for route, predicate in predicates(entries).items():
        if predicate in owners:
            message = f"never reached: {ROUTES}{owners[predicate]} takes the same messages first"
            yield entries[f"{ROUTES}{route}.predicate"].problem(Severity.WARNING, message)
        owners.setdefault(predicate, route)


def _settings_without_effect(settings: Settings, entries: Entries) -> Iterator[Problem]:
    batch = entries.get("pipeline.real-time.batch")
    if batch and settings.pipeline.mode != "real-time":
        yield batch.problem(Severity.NOTE, f"no effect in pipeline.mode {settings.pipeline.mode}")
    for parts in groups(entries, ROUTE_FAMILY).values():
        convert = canonical_name(
            ((parts["conv.message"].value or "") if "conv.message" in parts else DEFAULT_CONVERTER).strip()
        )
        if "conv.no-body" in parts and convert not in BODY_FORMS:
            message = f"no effect with {convert}: whatever the body, the record has a value"
            yield parts["conv.no-body"].problem(Severity.NOTE, message)
    if is_embedded(settings, entries):
        secured = ("kafka.security.", "kafka.sasl.", "kafka.ssl.")
        for entry in entries.values():
            if entry.key.startswith(secured):
                message = "no effect on the embedded Kafka, which has a password of its own"
                hint = "set kafka.bootstrap.servers"
                yield entry.problem(Severity.WARNING, message, hint)


def _parts(entries: Entries, part: str) -> list[str]:
    return [f"{ROUTES}{route}.{part}" for route in route_groups(entries)]


def predicates(entries: Entries) -> dict[str, Predicate]:
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
