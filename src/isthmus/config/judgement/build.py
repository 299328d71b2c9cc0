"""From entries to settings: keys are recognised, and values become what their keys say they are."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from isthmus.config.judgement.keys import (
    CONNECTOR_FAMILY,
    FAMILIES,
    FIXED,
    OPEN,
    ROUTE_FAMILY,
    Family,
    groups,
    nearest,
    open_prefix,
    split_key,
)
from isthmus.config.model.brokers import AMQP
from isthmus.config.model.plan import REPLIES
from isthmus.config.model.section import Section
from isthmus.config.model.settings import RouteSettings, Settings
from isthmus.config.syntax.hidden import Hidden, alike, shown
from isthmus.config.syntax.problem import Problem, Severity
from isthmus.config.syntax.properties import Entry
from isthmus.converters.contract import NoBody
from isthmus.errors import ConfigError, PredicateError, SettingsError
from isthmus.routing.predicate import parse
from isthmus.routing.route import OnError, Route

_MAX_SHOWN = 80
"""How much of a refused value an error repeats."""

DESTINATIONS = ("dest.topic", "dest.subject", "dest.queue", "dest.address")
"""The parts of a route that say where messages go: each route has one of them."""


def recognise(entries: Mapping[str, Entry]) -> tuple[dict[str, Entry], list[Problem]]:
    """The entries whose keys are known; the others are problems."""
    known: dict[str, Entry] = {}
    problems: list[Problem] = []
    for key, entry in entries.items():
        family, _, part = split_key(key) or (ROUTE_FAMILY, "", "")
        if key in FIXED or part in family.parts:
            known[key] = entry
        elif open_prefix(key):
            known[key] = entry
            problems += _doubts_about_option(entry)
        else:
            near = nearest(key, [each for each in entries if each != key])
            hint = f"did you mean {near}?" if near else None
            problems.append(entry.problem(Severity.ERROR, "unknown key", hint))
    return known, problems


def _doubts_about_option(entry: Entry) -> Iterator[Problem]:
    if entry.value and entry.value[-1].isspace():
        yield entry.problem(Severity.WARNING, "the blanks at the end are a part of the value")


def build(entries: Mapping[str, Entry]) -> tuple[Settings, list[Problem]]:
    """The settings that the entries make; what they cannot make is a problem, and left at its default."""
    problems: list[Problem] = []
    named: dict[str, dict[str, Section]] = {}
    for family in FAMILIES:
        if family is not ROUTE_FAMILY:
            named[family.field], refused = _sections(entries, family)
            problems += refused
    given = {key: entry for key, entry in entries.items() if entry.value is not None and not split_key(key)}
    try:
        settings = Settings.of({**_nested(given), **named})
    except SettingsError as error:
        problems += _refusals(error, given)
        # A key, or a section whose values do not go together.
        places = {".".join(each.path) for each in error.refusals}
        rest = {key: given[key] for key in given if places.isdisjoint({key, key.partition(".")[0]})}
        settings = Settings.of({**_nested(rest), **named})
    routes, refused = _routes(entries, settings)
    problems += refused
    try:
        routes += _connector_routes(settings)
    except ConfigError as error:
        first = next(entry for each in groups(entries, CONNECTOR_FAMILY).values() for entry in each.values())
        problems.append(first.problem(Severity.ERROR, str(error)))
        settings = settings.replace(connectors=Settings().connectors)
    settings = settings.replace(routes=tuple(routes))
    if (routes or settings.message_convert) and not settings.takes_messages and settings.amqp.enabled:
        # Routes that nothing could come to: such a bridge is one for JMS clients.
        settings = settings.replace(amqp=settings.amqp.replace(enabled=True))
    return settings, problems


def _sections(entries: Mapping[str, Entry], family: Family) -> tuple[dict[str, Section], list[Problem]]:
    sections: dict[str, Section] = {}
    problems: list[Problem] = []
    for name, parts in groups(entries, family).items():
        problems += _missing_parts(family, name, parts)
        try:
            sections[name] = family.section.of(_values(parts))
        except SettingsError as error:
            problems += _refusals(error, parts)
    return sections, problems


def _routes(entries: Mapping[str, Entry], settings: Settings) -> tuple[list[Route], list[Problem]]:
    routes: list[Route] = []
    problems: list[Problem] = []
    for name, parts in groups(entries, ROUTE_FAMILY).items():
        problems += _missing_parts(ROUTE_FAMILY, name, parts)
        given = [part for part in DESTINATIONS if part in parts]
        for part in given[1:]:
            problems.append(parts[part].problem(Severity.ERROR, f"a route has one destination: {given[0]}"))
        try:
            route = RouteSettings.of(_values(parts))
        except SettingsError as error:
            problems += _refusals(error, parts)
        else:
            if given and parts[given[0]].value is not None:
                routes.append(_route(name, route, parts["predicate"].value or "", settings))
    return routes, problems


def _route(name: str, route: RouteSettings, written: str, settings: Settings) -> Route:
    topic, destination = route.topic or "", None
    if route.address is not None:
        broker, _, destination = route.address.partition(":")
        topic = settings.outbox(f"{AMQP}{broker}")
    elif route.topic is None:
        topic = settings.outbox("mq" if route.subject is None else "nats")
        destination = route.subject or route.queue
    return Route(
        name=route.name or name,
        predicate=route.predicate,
        topic=topic,
        key=route.key,
        key_pattern=route.key_pattern,
        no_body=route.no_body or (NoBody.EMPTY if destination is None else NoBody.NULL),
        convert=route.convert,
        on_error=route.on_error,
        written=alike(written, written.strip()),
        destination=destination,
    )


def _connector_routes(settings: Settings) -> list[Route]:
    # An answer that comes when nobody waits for it any more is no reason to stop.
    too_late = OnError.SKIP if settings.routing.on_error is OnError.STOP else None
    return [
        Route(
            name=each.name,
            predicate=parse(each.predicate),
            topic=settings.outbox(each.outbox),
            on_error=too_late if each.name == REPLIES else None,
            written=each.predicate,
            destination=each.destination,
        )
        for each in settings.plan.routes
    ]


def _nested(entries: Mapping[str, Entry]) -> dict[str, Any]:
    """The values in the shape that `Settings` takes."""
    nested: dict[str, Any] = {}
    for key, entry in entries.items():
        prefix = open_prefix(key)
        *sections, last = (FIXED[key] if key in FIXED else OPEN[prefix or ""]).path
        place = nested
        for section in sections:
            place = place.setdefault(section, {})
        if key in FIXED:
            place[last] = _stripped(entry)
        else:
            place.setdefault(last, {})[key.removeprefix(".".join(sections) + ".")] = entry.value
    return nested


def _stripped(entry: Entry) -> str | None:
    # Java properties keep blanks at the end of a line; in the values that are ours they mean nothing.
    return None if entry.value is None else alike(entry.value, entry.value.strip())


def _values(parts: Mapping[str, Entry]) -> dict[str, str]:
    return {part: value for part, entry in parts.items() if (value := _stripped(entry)) is not None}


def _missing_parts(family: Family, name: str, parts: Mapping[str, Entry]) -> Iterator[Problem]:
    # Preferably in the file: there is nothing wrong with a variable that sets another part.
    first = min(parts.values(), key=lambda entry: entry.line is None)
    needed = [part for part, key in family.parts.items() if key.required]
    if family is ROUTE_FAMILY and not any(part in parts for part in DESTINATIONS):
        needed.append("dest.topic")
    for part in needed:
        if part not in parts:
            missing = dataclasses.replace(first, key=f"{family.prefix}{name}.{part}")
            every = {
                "<route>": "route",
                "<intake>": "intake",
                "<id>": "connector",
                "<broker>": "broker",
            }[family.placeholder]
            yield missing.problem(Severity.ERROR, f"missing: every {every} needs it")


def _refusals(error: SettingsError, entries: Mapping[str, Entry]) -> list[Problem]:
    """Why values were refused. A part that is missing has been reported as such."""
    return [_refusal(entries, each.path, each.reason) for each in error.refusals if each.reason]


def _refusal(entries: Mapping[str, Entry], path: tuple[str, ...], reason: ValueError) -> Problem:
    place = ".".join(path)
    entry = entries.get(place)
    if entry is None:  # what is wrong is not one value, but several of them together
        entry = next(each for key, each in entries.items() if key.startswith(place))
        return entry.problem(Severity.ERROR, str(reason))
    cause = reason.__cause__
    if isinstance(cause, PredicateError) and not isinstance(entry.value, Hidden):
        problem = entry.problem(Severity.ERROR, cause.message)
        return dataclasses.replace(problem, text=cause.text, column=cause.column)
    value = shown(entry.value or "")
    value = value if len(value) <= _MAX_SHOWN else f"{value[:_MAX_SHOWN]}…"
    return entry.problem(Severity.ERROR, f"{reason}, not {value!r}")
