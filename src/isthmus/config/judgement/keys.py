"""The table of known keys: the one list that settings, environment, hints and documentation go by.

It is read off the fields of `Settings`, where each key is declared. ``*`` stands for the rest of a key, and
``<route>`` for the name under which a route's keys are grouped; other families of keys have names likewise.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from isthmus.config.model.brokers import BrokerSettings
from isthmus.config.model.connectors import ConnectorSettings
from isthmus.config.model.mq import MqIntakeSettings
from isthmus.config.model.nats import NatsIntakeSettings
from isthmus.config.model.section import Field, Section
from isthmus.config.model.settings import RouteSettings, Settings
from isthmus.config.model.values import duration_text
from isthmus.config.syntax.hidden import Options

ROUTES = "routes."
CONNECTORS = "connectors."

T = TypeVar("T")

_SAME_WORD = 0.75
"""How alike two spellings of a word are, from 0 to 1."""


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


@dataclass(frozen=True, slots=True)
class Family:
    """Keys that come once for each thing of a kind, under a name of the user's choice."""

    prefix: str
    placeholder: str
    section: type[Section]
    field: str
    """Where `Settings` has them."""
    parts: Mapping[str, Key]
    """The keys behind the name."""


def _keys(section: type[Section], *path: str) -> Iterator[Key]:
    for name, field in section.fields.items():
        if field.section is not None:
            yield from _keys(field.section, *path, name)
        elif field.key is not None:
            here = (*path, field.key)
            fields = (*path, name)
            default = _default_text(field)
            yield Key(".".join(here), here, fields, default, field.meaning, field.is_required)


def _default_text(field: Field) -> str | None:
    if field.default_text:
        return field.default_text
    match field.default:
        case bool() as flag:
            return str(flag).lower()
        case float() as seconds:
            return duration_text(seconds)
        case None | tuple() | Options():
            return None
        case default:
            return None if field.is_required else str(default)


def _family(prefix: str, placeholder: str, section: type[Section], field: str) -> Family:
    return Family(prefix, placeholder, section, field, {key.name: key for key in _keys(section)})


FIXED = {key.name: key for key in _keys(Settings) if "*" not in key.name}
OPEN = {key.name.removesuffix("*"): key for key in _keys(Settings) if "*" in key.name}
"""Prefixes under which everything is an option of Kafka's clients or Spark's."""
ROUTE_FAMILY = _family(ROUTES, "<route>", RouteSettings, "routes")
BROKER_FAMILY = _family("amqp.connect.", "<broker>", BrokerSettings, "amqp_brokers")
CONNECTOR_FAMILY = _family(CONNECTORS, "<id>", ConnectorSettings, "connectors")
FAMILIES = (
    ROUTE_FAMILY,
    _family("nats.intake.", "<intake>", NatsIntakeSettings, "nats_intakes"),
    _family("mq.intake.", "<intake>", MqIntakeSettings, "mq_intakes"),
    BROKER_FAMILY,
    CONNECTOR_FAMILY,
)


def all_keys() -> list[Key]:
    """Every key that can be set, for the documentation."""
    named = (
        replace(key, name=f"{family.prefix}{family.placeholder}.{part}")
        for family in FAMILIES
        for part, key in family.parts.items()
    )
    return [*FIXED.values(), *OPEN.values(), *named]


def open_prefix(key: str) -> str | None:
    """The open prefix that a key which is not fixed belongs to, if it does."""
    return next((each for each in OPEN if key.startswith(each) and len(key) > len(each)), None)


def split_key(key: str) -> tuple[Family, str, str] | None:
    """Family, name and part of ``<family>.<name>.<part>``; None for a key of no family."""
    for family in FAMILIES:
        name, _, part = key.removeprefix(family.prefix).partition(".")
        if key.startswith(family.prefix) and name and part:
            return family, name, part
    return None


def groups(entries: Mapping[str, T], family: Family) -> dict[str, dict[str, T]]:
    """What keys say of each thing of a family, by name and part, in the order of their first keys."""
    found: dict[str, dict[str, T]] = {}
    for key, entry in entries.items():
        if (split := split_key(key)) and split[0] is family:
            found.setdefault(split[1], {})[split[2]] = entry
    return found


def route_groups(entries: Mapping[str, T]) -> dict[str, T]:
    """The routes that keys speak of, in the order of their first keys, each with the entry of that key."""
    return {name: next(iter(parts.values())) for name, parts in groups(entries, ROUTE_FAMILY).items()}


def named_keys(entries: Mapping[str, T]) -> Iterator[str]:
    """Every key that things which have a name already could have."""
    for family in FAMILIES:
        for name in groups(entries, family):
            yield from (f"{family.prefix}{name}.{part}" for part in family.parts)


def nearest(key: str, entries: Collection[str]) -> str | None:
    """The known key that an unknown one was probably meant to be.

    Every word of the one is a word of the other, give or take a slip of the pen: what only looks alike, as
    ``mq.port`` does ``amqp.port``, means something else.
    """
    first, *rest = key.split(".")
    if not rest:
        return None
    candidates = [*FIXED, *named_keys(dict.fromkeys(entries))]
    candidates += [f"{ROUTES}{rest[0]}.{part}" for part in ROUTE_FAMILY.parts]
    candidates += [f"{CONNECTORS}{rest[0]}.{part}" for part in CONNECTOR_FAMILY.parts]
    candidates += [prefix + key.split(".", depth)[depth] for prefix, depth in _open_depths(key)]
    if len(rest) > 1:
        intakes = [family for family in FAMILIES if family.prefix.count(".") > 1]
        candidates += [f"{family.prefix}{rest[1]}.{part}" for family in intakes for part in family.parts]
    if first == "spark":
        candidates.append(f"pipeline.{key}")
    meant = [each for each in candidates if _says_all_of(each, key)]
    found = difflib.get_close_matches(key, meant, n=1, cutoff=0.5)
    return found[0] if found else None


def _open_depths(key: str) -> list[tuple[str, int]]:
    """The open prefixes that are shorter than the key, each with its number of words."""
    return [(prefix, prefix.count(".")) for prefix in OPEN if prefix.count(".") <= key.count(".")]


def _says_all_of(candidate: str, key: str) -> bool:
    """Whether the words of the key are all in the candidate, in their order."""
    words = iter(re.split("[.-]", candidate.lower()))
    return all(any(_alike(word, said) for word in words) for said in re.split("[.-]", key.lower()))


def _alike(word: str, other: str) -> bool:
    return difflib.SequenceMatcher(None, word, other).ratio() >= _SAME_WORD
