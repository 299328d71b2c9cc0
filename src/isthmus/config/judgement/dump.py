"""The settings in effect as keys and values, for people: secrets are not shown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from isthmus.config.judgement.keys import FAMILIES, FIXED, OPEN, ROUTE_FAMILY, ROUTES, Family
from isthmus.config.model.brokers import AMQP
from isthmus.config.model.nats_values import Start
from isthmus.config.model.section import Section
from isthmus.config.model.settings import Settings
from isthmus.config.model.values import duration_text
from isthmus.config.syntax.hidden import Hidden, shown
from isthmus.converters.registry import BODY_FORMS
from isthmus.routing.route import Route


def dump(settings: Settings) -> list[tuple[str, str]]:
    """Every setting that has a value, with its key: written ones and defaults alike."""
    lines: list[tuple[str, str]] = []
    for key in FIXED.values():
        value = _field(settings, key.fields)
        if value not in (None, ()):
            lines.append((key.name, _text(value)))
    for key in OPEN.values():
        section = ".".join(key.fields[:-1])
        options = _field(settings, key.fields)
        lines += [(f"{section}.{name}", shown(value)) for name, value in options.items()]
    for family in FAMILIES:
        if family is not ROUTE_FAMILY:
            for name, section in getattr(settings, family.field).items():
                lines += _section(f"{family.prefix}{name}.", family, section)
    planned = {each.name for each in settings.plan.routes}
    for route in settings.routes:
        if route.name not in planned:
            name = shown(route.name)
            lines += [(f"{ROUTES}{name}.{part}", shown(value)) for part, value in _parts(route)]
    return lines


def _section(prefix: str, family: Family, section: Section) -> Iterator[tuple[str, str]]:
    for part, key in family.parts.items():
        value = section.shown_field(key.fields[-1])
        if value not in (None, ()):
            yield f"{prefix}{part}", _text(value)


def _field(settings: Settings, path: tuple[str, ...]) -> Any:
    section = settings
    for name in path[:-1]:
        section = getattr(section, name)
    return section.shown_field(path[-1])


def _text(value: Any) -> str:
    match value:
        case str():
            return shown(value)
        case bool():
            return str(value).lower()
        case Start():
            return str(value)
        case float():
            return duration_text(value)
        case tuple():
            return ", ".join(shown(each) for each in value)
        case _:
            return str(value)


def _parts(route: Route) -> Iterator[tuple[str, str]]:
    yield "name", route.name
    yield "predicate", route.written or repr(route.predicate)
    if route.destination is None:
        yield "dest.topic", route.topic
    else:
        yield _destination(route.topic.rpartition(".outbox.")[2], route.destination)
    if route.key is not None:
        yield "conv.key", _key_text(route.key)
    if route.key_pattern is not None:
        yield "conv.key.pattern", shown(route.key_pattern)
    yield "conv.message", route.convert
    if route.convert in BODY_FORMS:
        yield "conv.no-body", route.no_body
    if route.on_error is not None:
        yield "on-error", route.on_error


def _destination(edge: str, destination: str) -> tuple[str, str]:
    if edge.startswith(AMQP):
        return "dest.address", f"{edge.removeprefix(AMQP)}:{destination}"
    return ("dest.subject" if edge == "nats" else "dest.queue"), destination


def _key_text(header: str) -> str:
    if isinstance(header, Hidden):
        return header.shown
    plain = re.fullmatch(r"[A-Za-z_$][\w$.\-]*", header)
    return f"msg.header.{header}" if plain else f'msg.header."{header}"'
