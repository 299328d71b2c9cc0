"""From entries to settings: keys are recognised, and values become what their keys say they are."""

from __future__ import annotations

import dataclasses
import difflib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from isthmus.config.hidden import Hidden, alike, shown
from isthmus.config.keys import (
    COMING_PARTS,
    FIXED,
    OPEN,
    ROUTE_PARTS,
    ROUTES,
    nearest,
    open_prefix,
    route_groups,
    split_route_key,
)
from isthmus.config.problem import Problem, Severity
from isthmus.config.properties import Entry
from isthmus.config.settings import RouteSettings, Settings
from isthmus.errors import PredicateError
from isthmus.routing.route import Route

_MAX_SHOWN = 80
"""How much of a refused value an error repeats."""


def recognise(entries: Mapping[str, Entry]) -> tuple[dict[str, Entry], list[Problem]]:
    """The entries whose keys are known; the others are problems."""
    known: dict[str, Entry] = {}
    problems: list[Problem] = []
    routes = route_groups(entries)
    for key, entry in entries.items():
        _, part = split_route_key(key) or ("", "")
        if key in FIXED or part in ROUTE_PARTS:
            known[key] = entry
        elif part in COMING_PARTS:
            known[key] = dataclasses.replace(entry, value=None)
            message = f"not available yet: {COMING_PARTS[part]} as destinations"
            problems.append(entry.problem(Severity.ERROR, message, "use dest.topic"))
        elif open_prefix(key):
            known[key] = entry
            problems += _doubts_about_option(entry)
        else:
            near = nearest(key, routes)
            hint = f"did you mean {near}?" if near else None
            problems.append(entry.problem(Severity.ERROR, "unknown key", hint))
    return known, problems


def _doubts_about_option(entry: Entry) -> Iterator[Problem]:
    # kafka.bootstrap.server would be passed on, and the bridge would start a Kafka of its own.
    if near := difflib.get_close_matches(entry.key, FIXED, n=1, cutoff=0.9):
        yield entry.problem(Severity.WARNING, "taken for a client's option", f"did you mean {near[0]}?")
    if entry.value and entry.value[-1].isspace():
        yield entry.problem(Severity.WARNING, "the blanks at the end are a part of the value")


def build(entries: Mapping[str, Entry]) -> tuple[Settings, list[Problem]]:
    """The settings that the entries make; what they cannot make is a problem, and left at its default."""
    routes, problems = _routes(entries)
    given = {
        key: entry for key, entry in entries.items() if entry.value is not None and not split_route_key(key)
    }
    try:
        return Settings.model_validate({**_nested(given), "routes": routes}), problems
    except ValidationError as error:
        refusals = _refusals(error, given)
    refused = {each.key for each in refusals}
    rest = {key: entry for key, entry in given.items() if key not in refused}
    return Settings.model_validate({**_nested(rest), "routes": routes}), [*problems, *refusals]


def _routes(entries: Mapping[str, Entry]) -> tuple[list[Route], list[Problem]]:
    groups: dict[str, dict[str, Entry]] = defaultdict(dict)
    for key, entry in entries.items():
        if split := split_route_key(key):
            group, part = split
            groups[group][part] = entry
    routes: list[Route] = []
    problems: list[Problem] = []
    for group, parts in groups.items():
        problems += _missing_parts(group, parts)
        try:
            routes.append(_route(group, parts))
        except ValidationError as error:
            problems += _refusals(error, parts)
    return routes, problems


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


def _route(group: str, parts: Mapping[str, Entry]) -> Route:
    given = {part: value for part, entry in parts.items() if (value := _stripped(entry)) is not None}
    route = RouteSettings.model_validate(given)
    return Route(
        name=route.name or group,
        predicate=route.predicate,
        topic=route.topic,
        key=route.key,
        convert=route.convert,
        on_error=route.on_error,
        written=given["predicate"],
    )


def _missing_parts(group: str, parts: Mapping[str, Entry]) -> Iterator[Problem]:
    # Preferably in the file: there is nothing wrong with a variable that sets another part.
    first = min(parts.values(), key=lambda entry: entry.line is None)
    for part, key in ROUTE_PARTS.items():
        elsewhere = part == "dest.topic" and not COMING_PARTS.keys().isdisjoint(parts)
        if key.required and part not in parts and not elsewhere:
            missing = dataclasses.replace(first, key=f"{ROUTES}{group}.{part}")
            yield missing.problem(Severity.ERROR, "missing: every route needs it")


def _refusals(error: ValidationError, entries: Mapping[str, Entry]) -> list[Problem]:
    """Why values were refused. A part that is missing has been reported as such."""
    details = error.errors(include_url=False, include_input=False)
    return [
        _refusal(entries[".".join(str(each) for each in detail["loc"])], detail)
        for detail in details
        if detail["type"] != "missing"
    ]


def _refusal(entry: Entry, detail: ErrorDetails) -> Problem:
    reason: Exception = detail["ctx"]["error"]
    cause = reason.__cause__
    if isinstance(cause, PredicateError) and not isinstance(entry.value, Hidden):
        problem = entry.problem(Severity.ERROR, cause.message)
        return dataclasses.replace(problem, text=cause.text, column=cause.column)
    value = shown(entry.value or "")
    value = value if len(value) <= _MAX_SHOWN else f"{value[:_MAX_SHOWN]}…"
    return entry.problem(Severity.ERROR, f"{reason}, not {value!r}")
