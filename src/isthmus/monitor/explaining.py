"""Where messages go, for the page: one that somebody types or picks, or the last ones by a changed route."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

import yaml

from isthmus.config.model.settings import Settings
from isthmus.config.model.values import key_header
from isthmus.converters.captured import line_record
from isthmus.errors import ConfigError, PredicateError, SoftFailure
from isthmus.journal import layout
from isthmus.journal.explained import explanation, known_place, live_plan, stored_record, topic_for
from isthmus.journal.layout import Record
from isthmus.kafka.options import Kafka
from isthmus.monitor.messages import journaled, route_named, shown_headers, text_of
from isthmus.routing.decide import Decision, decide
from isthmus.routing.explain import Explanation
from isthmus.routing.plan import RoutingPlan
from isthmus.routing.predicate import parse
from isthmus.routing.samples import SampleMessage, Value, from_yaml, sample_record

LAST_TRIED: Final = 500
"""Of each partition of the journal, so many messages show what a changed route would do."""
CHANGES_SHOWN: Final = 50

_MAX_DEPTH: Final = 2  # the headers, and one that says its type
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def explain_sample(settings: Settings, kafka: Kafka, address: str, headers: str, body: str | None) -> Any:
    """What becomes of a message as somebody types it; headers are lines of YAML, ``name: value``.

    Raises `ConfigError` for what is no message.
    """
    message = SampleMessage(address=address, headers=typed_headers(headers), body=body)
    try:
        record, _ = sample_record(
            message,
            live_plan(settings, kafka),
            Path(),
            json=settings.uses_json,
            topic_of=lambda address: topic_for(settings, kafka, address),
        )
    except SoftFailure as error:
        raise ConfigError(f"the bridge refuses such a message: {error}") from None
    return _document(explanation(settings, kafka, record, None), bodies=True)


def typed_headers(text: str) -> dict[str, Value]:
    """Headers as somebody types them. Raises `ConfigError` for anything else.

    Nothing is made of the text before its shape is known. An alias (``*a``) stands for what was written
    before, and a few hundred bytes of them for gigabytes; what is nested by the thousand overflows the stack.
    """
    depth = 0
    try:
        for event in yaml.parse(text, _LOADER):
            if isinstance(event, yaml.AliasEvent):
                raise ConfigError("*name stands for another value: write that out, or quote it if it is text")
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > _MAX_DEPTH:
                raise ConfigError("a value is nested: it can be one value, or {type: value}")
        return from_yaml(text.encode(), dict[str, Value] | None) or {}
    except (ConfigError, yaml.YAMLError) as error:
        raise ConfigError(f"headers are lines of name: value: {error}") from None


def explain_position(settings: Settings, kafka: Kafka, position: str) -> Any:
    """What becomes of the message at a position of the journal or of a source topic."""
    place = known_place(settings, place_of(position))
    found = explanation(settings, kafka, stored_record(kafka, place), place)
    return _document(found, bodies=settings.monitor.show_bodies)


def explain_captured(settings: Settings, kafka: Kafka, line: str) -> Any:
    """What becomes of a record of the journal or a source topic, as ``isthmus receive --json`` prints it.

    Raises `ConfigError` for any other text.
    """
    try:
        found = line_record(line.encode())
    except SoftFailure as error:
        raise ConfigError(str(error)) from None
    place = known_place(settings, (found.topic, found.partition, found.offset))
    record = Record(found.key, found.value, found.headers)
    return _document(explanation(settings, kafka, record, place), bodies=True)


def place_of(position: str) -> tuple[str, int, int]:
    """Topic, partition and offset of a position. Raises `ConfigError` for anything else."""
    parsed = re.fullmatch("([^:]+):([0-9]{1,9}):([0-9]{1,18})", position)
    if parsed is None:
        raise ConfigError(f"{position!r:.100} is not topic:partition:offset")
    return parsed[1], int(parsed[2]), int(parsed[3])


def try_route(settings: Settings, kafka: Kafka, name: str, predicate: str, key: str | None = None) -> Any:
    """What another predicate, or key, of a route would have done with the last messages. Nothing changes.

    ``key`` is as ``conv.key`` has it, empty for the message id, and None for the one that the route has.
    Raises `ConfigError` for what cannot be used.
    """
    header = route_named(settings, name).key
    try:
        changed = parse(predicate)
        if key is not None:
            header = key_header(key.strip()) if key.strip() else None
    except (PredicateError, ValueError) as error:
        raise ConfigError(str(error)) from None
    now = live_plan(settings, kafka)
    then = replace(
        now,
        routes=tuple(
            replace(each, predicate=changed, written=predicate, key=header) if each.name == name else each
            for each in now.routes
        ),
    )
    tried, took, takes, rekeyed = 0, 0, 0, 0
    changes: Counter[tuple[str, str]] = Counter()
    examples: list[dict[str, str]] = []
    for message, record, entry in journaled(settings, kafka, LAST_TRIED):
        place = (message.topic() or "", message.partition() or 0, message.offset() or 0)
        was, would_be = _decided(now, place, record), _decided(then, place, record)
        before, after = _outcome(was), _outcome(would_be)
        tried += 1
        took += _takes(was, name)
        takes += _takes(would_be, name)
        if before != after:
            changes[before, after] += 1
            if len(examples) < CHANGES_SHOWN:
                position = layout.stable_id(*place)
                address = entry.message.address
                examples.append({"position": position, "address": address, "before": before, "after": after})
        else:
            rekeyed += _keys(was) != _keys(would_be)
    return {
        "tried": tried,
        "took": took,
        "takes": takes,
        "rekeyed": rekeyed,
        "changes": [{"before": b, "after": a, "count": n} for (b, a), n in changes.most_common()],
        "examples": examples,
    }


def _decided(plan: RoutingPlan, place: tuple[str, int, int], record: Record) -> Sequence[Decision]:
    return [*decide(plan, *place, record, now_ms=time.time_ns() // 1_000_000)]


def _takes(decisions: Sequence[Decision], name: str) -> bool:
    """Whether a route takes a record, also where it fails on it then."""
    return any(each.route is not None and each.route.name == name for each in decisions)


def _keys(decisions: Sequence[Decision]) -> list[bytes | None]:
    return [each.record.key for each in decisions if each.record is not None]


def _outcome(decisions: Sequence[Decision]) -> str:
    """What becomes of a record, in a few words."""
    return ", ".join(
        f"{each.route.name if each.route else 'no route'} → {each.topic or each.outcome}"
        if each.error is None
        else f"{each.route.name if each.route else 'no route'} fails: {each.error.code}"
        for each in decisions
    )


def _document(found: Explanation, *, bodies: bool) -> Any:
    document = asdict(found)
    document["headers"] = [[name, header.text] for name, header in found.headers.items()]
    document["results"] = [
        {
            **{
                field: getattr(each, field)
                for field in ("outcome", "route", "topic", "partition", "key_from", "code", "reason")
            },
            "key": text_of(each.key),
            "headers": shown_headers(each.headers, bodies=bodies),
            "size": len(each.value or b""),
            "value": text_of(each.value) if bodies else None,
            "hidden": not bodies and each.value is not None,
        }
        for each in found.results
    ]
    return document
