"""The table of known keys: the one list that settings, environment, hints and documentation go by.

It is read off the fields of `Settings`, where each key is declared. ``*`` stands for the rest of a key, and
``<route>`` for the name under which a route's keys are grouped.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from pydantic.fields import FieldInfo

from isthmus.config.hidden import Options
from isthmus.config.settings import RouteSettings, Section, Settings
from isthmus.config.values import duration_text

ROUTES = "routes."

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Key:
    """A key that users can set."""

    name: str
    path: tuple[str, ...]
    """Where `Settings` takes it: sections, then the key within the last."""
    fields: tuple[str, ...]
    """Where `Settings` has it."""
    default: str | None
    """As a user would write it; None if there is none, and the key may be left out."""
    meaning: str
    required: bool = False


def _keys(section: type[Section], *path: str) -> Iterator[Key]:
    for name, field in section.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, Section):
            yield from _keys(inner, *path, name)
        elif isinstance(field.validation_alias, str):
            here = (*path, field.validation_alias)
            fields = (*path, name)
            default = _default_text(field)
            meaning = field.description or ""
            yield Key(".".join(here), here, fields, default, meaning, field.is_required())


def _default_text(field: FieldInfo) -> str | None:
    extra = field.json_schema_extra
    if isinstance(extra, dict) and extra.get("default_text"):
        return str(extra["default_text"])
    if field.is_required() or field.default is None or isinstance(field.default, tuple | Options):
        return None
    return duration_text(field.default) if isinstance(field.default, float) else str(field.default)


FIXED = {key.name: key for key in _keys(Settings) if "*" not in key.name}
OPEN = {key.name.removesuffix("*"): key for key in _keys(Settings) if "*" in key.name}
"""Prefixes under which everything is an option of Kafka's clients or Spark's."""
ROUTE_PARTS = {key.name: key for key in _keys(RouteSettings)}

COMING_PARTS = {
    "dest.subject": "NATS subjects",
    "dest.queue": "IBM MQ queues",
    "dest.address": "addresses of a remote AMQP broker",
}
"""Destinations that are planned: refused, but not called unknown."""


def all_keys() -> list[Key]:
    """Every key that can be set, for the documentation."""
    routes = (replace(key, name=f"{ROUTES}<route>.{part}") for part, key in ROUTE_PARTS.items())
    return [*FIXED.values(), *OPEN.values(), *routes]


def open_prefix(key: str) -> str | None:
    """The open prefix that a key which is not fixed belongs to, if it does."""
    return next((each for each in OPEN if key.startswith(each) and len(key) > len(each)), None)


def split_route_key(key: str) -> tuple[str, str] | None:
    """Route and part of ``routes.<route>.<part>``; None for any other key."""
    prefix, _, rest = key.partition(".")
    route, _, part = rest.partition(".")
    return (route, part) if f"{prefix}." == ROUTES and route and part else None


def route_groups(entries: Mapping[str, T]) -> dict[str, T]:
    """The routes that keys speak of, in the order of their first keys, each with the entry of that key."""
    groups: dict[str, T] = {}
    for key, entry in entries.items():
        if split := split_route_key(key):
            groups.setdefault(split[0], entry)
    return groups


def nearest(key: str, routes: Collection[str]) -> str | None:
    """The known key that an unknown one was probably meant to be."""
    candidates = [*FIXED]
    first, *rest = key.split(".")
    if rest:
        groups = {*routes, rest[0]}
        candidates += [f"{ROUTES}{route}.{part}" for route in groups for part in ROUTE_PARTS]
        candidates += [prefix + ".".join(rest) for prefix in OPEN]
    if first == "spark":
        candidates.append(f"pipeline.{key}")
    found = difflib.get_close_matches(key, candidates, n=1, cutoff=0.7)
    return found[0] if found else None
