"""The configuration of the JMS bridge, as HOCON or as properties: the same routes, in our keys.

In: the text of the old file. Out: the text of ours. A rule for topics that names one topic becomes a route to
it; one that is a pattern becomes a comment with the route to write for each topic, since a route here has one
topic. What has no equal is a comment that says so; nothing is left out in silence. What cannot be read is a
`ConfigError`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import javaproperties

from isthmus.config.foreign import hocon
from isthmus.config.foreign.lines import left_out, setting
from isthmus.errors import ConfigError

_BRACES: Final = re.compile(r'\s*(?:"?[\w.-]+"?\s*(?:\+?=|:)?\s*)?[{\[]')
_REGEX: Final = re.compile(r"[\\^$*+?()\[\]{}|]")
_UNITS: Final = {"": 1, "b": 1, "k": 1024, "m": 1024**2, "g": 1024**3}
_OURS: Final = ("routes.", "routing.")
_NOTES: Final = (
    (r"bridge\.(kafka\.)?ha\b.*", "no equal: what a second bridge needs is in Kafka"),
    (r"bridge\.streams\..*", "Spark routes here, not Kafka Streams: see pipeline.*"),
    (r"bridge\.journals\.topic\..*", "the topic of the journal is made by the bridge, or by you before"),
    (
        r"bridge\.journals\.(messages|bindings)\..*",
        "the journal has a layout of its own",
    ),
    (r"bridge\.security\..*", "isthmus user add makes users, and amqp.users.file names their file"),
    (r"bridge\.routing\.metadata\..*", "topics are looked up when they are named"),
)
_DEFAULT_TEMPLATE: Final = "kafka.${topic}"
_MESSAGE_ID: Final = "JMSMessageID"


def convert(text: str) -> str:
    """Our configuration for one of the JMS bridge."""
    settings = _flat(_read(text))
    lines = [
        "# From a configuration of the JMS bridge. The acceptors of its broker.xml are not read:",
        "# clients speak AMQP 1.0, at this port.",
        "amqp.port=5672",
    ]
    routes: list[str] = []
    names: set[str] = set()
    for path, value in settings.items():
        if path == "bridge.routing.topics":
            for number, rule in enumerate(_rules(path, value)):
                routes += ["", *_topic_rule(number, rule, names)]
        elif path == "bridge.routing.routes":
            for number, rule in enumerate(_rules(path, value)):
                routes += ["", *_old_route(number, rule, names)]
        elif value is not None:
            lines.append(_line(path, value if isinstance(value, str) else repr(value)))
    return "\n".join(lines + routes) + "\n"


def _read(text: str) -> dict[str, Any]:
    if any(_BRACES.match(line) for line in text.splitlines()):
        return hocon.parse(text)
    try:
        written = javaproperties.loads(text)
    except (javaproperties.InvalidUEscapeError, ValueError) as error:
        raise ConfigError(f"neither HOCON nor properties: {error}") from None
    nested: dict[str, Any] = {}
    for key, value in written.items():
        place, *rest = [nested, *key.split(".")]
        for name in rest[:-1]:
            inner = place.get(name)
            place[name] = inner if isinstance(inner, dict) else {}
            place = place[name]
        place[rest[-1]] = value
    return {name: _listed(value) for name, value in nested.items()}


def _listed(value: Any) -> Any:
    """Objects whose keys count from 0 are lists, as HOCON reads properties."""
    if not isinstance(value, dict):
        return value
    inner = {name: _listed(each) for name, each in value.items()}
    numbered = sorted(inner, key=lambda name: int(name) if name.isdigit() else -1)
    return [inner[name] for name in numbered] if inner and all(map(str.isdigit, inner)) else inner


def _flat(value: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, each in value.items():
        path = f"{above}{name}"
        flat |= _flat(each, f"{path}.") if isinstance(each, dict) else {path: each}
    return flat


def _line(path: str, value: str) -> str:
    inner = path.removeprefix("bridge.")
    for pattern, reason in _NOTES[:2]:
        if re.fullmatch(pattern, path):
            return left_out(path, value, reason)
    if path == "bridge.id" or (path != inner and inner.startswith("kafka.")):
        return setting(path if path == "bridge.id" else inner, value)
    if path == "bridge.journals.topic.partitions":
        return setting("journal.partitions", value)
    if path == "bridge.journals.max.message.size" and (size := _bytes(value)):
        return setting("amqp.max-message-size", str(size))
    if inner.startswith(("routing.dead-letter.", "routing.on-error")) or path.startswith(_OURS):
        return setting(inner, value)
    reason = next((why for pattern, why in _NOTES if re.fullmatch(pattern, path)), "no equal")
    return left_out(path, value, reason)


def _bytes(text: str) -> int | None:
    found = re.fullmatch(r"([0-9]{1,12})\s*([bkmg]?)(?:i?b|ytes)?", text.strip().lower())
    return int(found[1]) * _UNITS[found[2]] if found else None


def _rules(path: str, value: Any) -> Sequence[Mapping[str, Any]]:
    rules = value if isinstance(value, list) else [value]
    if not all(isinstance(each, dict) for each in rules):
        raise ConfigError(f"{path}: expected a list of objects")
    return rules


def _text(rule: Mapping[str, Any], name: str, default: str = "") -> str:
    value = rule.get(name)
    return default if value is None else str(value)


def _topic_rule(number: int, written: Mapping[str, Any], names: set[str]) -> Iterator[str]:
    rule = _flat(written)
    topic, template = _text(rule, "match"), _text(rule, "address.template", _DEFAULT_TEMPLATE)
    place = f"bridge.routing.topics.{number}"
    if type := _text(rule, "message.type"):
        yield left_out(f"{place}.message.type", type, "a record is a text message if it is UTF-8")
    if always := _text(rule, "consume.always"):
        yield left_out(f"{place}.consume.always", always, "receivers read Kafka's topics themselves")
    if topic and not _REGEX.search(topic):
        yield f"# JMS clients receive what is in {topic} at the address {topic}."
        yield from _routes(_name(topic, names), template.replace("${topic}", topic), topic, rule)
        return
    yield left_out(f"{place}.match", topic, "a route here has one topic; for each that this is to take:")
    example = _routes("<name>", template.replace("${topic}", "<topic>"), "<topic>", rule)
    yield from (f"# {line}" for line in example)


def _routes(name: str, address: str, topic: str, rule: Mapping[str, Any]) -> Iterator[str]:
    """The route of a topic: two, if the correlation id is to be the key wherever there is one."""
    predicate = f'msg.address=="{address}"'
    if _text(rule, "correlation.key.override", "true") == "true":
        both = f"{predicate} && exists(msg.header.CorrelationId)"
        yield from _route(f"{name}-correlated", both, topic, "CorrelationId")
    header = _text(rule, "key.property", _MESSAGE_ID)
    yield from _route(name, predicate, topic, None if header == _MESSAGE_ID else header)


def _route(name: str, predicate: str, topic: str, key: str | None) -> Iterator[str]:
    yield setting(f"routes.{name}.predicate", predicate)
    yield setting(f"routes.{name}.dest.topic", topic)
    if key is not None:
        quoted = key if re.fullmatch(r"[A-Za-z_$][\w$.\-]*", key) else f'"{key}"'
        yield setting(f"routes.{name}.conv.key", f"msg.header.{quoted}")


def _old_route(number: int, written: Mapping[str, Any], names: set[str]) -> Iterator[str]:
    """A route of the first versions: from one address to one topic."""
    rule = _flat(written)
    include = _text(rule, "from.include").removeprefix("address://")
    address = _text(rule, "from.address") or _text(rule, "from.include.address") or include
    topic, key = _text(rule, "to.topic"), _text(rule, "map.key").removeprefix("msg.header.")
    if not address or not topic:
        raise ConfigError(f"bridge.routing.routes.{number}: expected from.address and to.topic")
    name = _name(_text(rule, "name", topic), names)
    yield from _route(name, f'msg.address=="{address}"', topic, None if key in ("", "MessageId") else key)


def _name(text: str, names: set[str]) -> str:
    """A name for a route's keys, which has no dots and is nobody else's."""
    wanted = re.sub(r"[^A-Za-z0-9_-]", "-", text) or "route"
    name, number = wanted, 1
    while name in names:
        number += 1
        name = f"{wanted}-{number}"
    names.add(name)
    return name
