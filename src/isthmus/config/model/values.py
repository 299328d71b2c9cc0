"""The types of configuration values: text in, the typed value out.

Every function takes what the file has, or the typed value itself, and raises `ValueError` with what was
expected. None of them repeats the text that it refuses: it may be a secret.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from isthmus.config.syntax.hidden import Hidden, Options, alike, hide
from isthmus.converters.registry import canonical_name
from isthmus.errors import PredicateError
from isthmus.message import canonical_header_name
from isthmus.routing.pattern import in_re2
from isthmus.routing.predicate import Exists, HeaderField, Predicate, parse

EMBEDDED = "embedded"
"""The value of kafka.bootstrap.servers for a Kafka that the bridge starts itself."""

available_converters = ("jms", "default", "json", "raw")

_CLASS = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")

MAX_TOPIC_LENGTH = 249
"""Kafka's limit: a topic's name, a partition number and a suffix must fit into the name of a folder."""

MAX_DURATION_S = 24 * 3600.0

_SERVER = re.compile(r"(?:[A-Za-z0-9_]+://)?(?:[A-Za-z0-9._%-]+|\[[0-9A-Fa-f:.%]+\]):([0-9]{1,5})")
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h)")
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}
_MASTER = re.compile(r"local(?:\[.+\])?|local-cluster\[.+\]|yarn|[A-Za-z0-9+.-]+://.+")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def text(value: object) -> str:
    """Any text that is not empty."""
    if isinstance(value, str) and value:
        return value
    raise ValueError("expected a text")


def origins(value: object) -> tuple[str, ...]:
    """Origins of web pages, separated by commas, or ``*``."""
    if isinstance(value, str):
        value = tuple(each.strip().lower() for each in value.split(","))
    if isinstance(value, tuple) and all(
        each == "*" or re.fullmatch(r"https?://[^/\s]+", each) for each in value
    ):
        return value
    raise ValueError("expected origins such as https://shop.example, separated by commas, or *")


def token(value: object) -> str:
    """What others are known by, and nobody shall see or guess."""
    if isinstance(value, str) and len(value) >= 16 and value.isascii() and value.isprintable():
        return value if isinstance(value, Hidden) else Hidden(value)
    raise ValueError("expected 16 or more printable ASCII characters")


def is_loopback(host: str) -> bool:
    """Whether an address is reached from this machine alone."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def bridge_id(value: object) -> str:
    """A name that can be a part of topic names."""
    # 200 leaves room for the longest topic that is named after it.
    if isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9._-]{1,200}", value):
        return value
    raise ValueError("expected 1 to 200 letters, digits, '.', '_' or '-'")


def topic_name(value: object) -> str:
    """The name of a topic, by Kafka's own rules."""
    if isinstance(value, str) and value not in (".", "..") and re.fullmatch(r"[A-Za-z0-9._-]+", value):
        if len(value) <= MAX_TOPIC_LENGTH:
            return value
        raise ValueError(f"expected a topic's name of at most {MAX_TOPIC_LENGTH} characters")
    raise ValueError("expected a topic's name: letters, digits, '.', '_' or '-'")


def is_topic_name(text: str) -> bool:
    """Whether Kafka takes it for the name of a topic."""
    try:
        topic_name(text)
    except ValueError:
        return False
    return True


def topic_names(value: object) -> tuple[str, ...]:
    """Topics, each named once, separated by commas."""
    if isinstance(value, str):
        names = [topic_name(alike(value, each.strip())) for each in value.split(",")]
    elif isinstance(value, Iterable):
        names = [topic_name(each) for each in value]
    else:
        raise ValueError("expected names of topics, separated by commas")
    if len(set(names)) < len(names):
        raise ValueError("expected every topic once")
    return tuple(names)


def choice(*choices: str) -> Callable[[object], str]:
    """One of a few words."""

    def word(value: object) -> str:
        for each in choices:
            if value == each:
                return each
        raise ValueError(f"expected {', '.join(choices[:-1])} or {choices[-1]}")

    return word


def choices(*words: str) -> Callable[[object], tuple[str, ...]]:
    """Some of a few words, each once, separated by commas, in the order that is given here."""

    def chosen(value: object) -> tuple[str, ...]:
        each = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
        if isinstance(each, Iterable) and (asked_for := list(each)) and set(asked_for) <= set(words):
            return tuple(word for word in words if word in asked_for)
        raise ValueError(f"expected one or more of {', '.join(words)}, separated by commas")

    return chosen


def whole_number(low: int, high: int) -> Callable[[object], int]:
    """A number without a fraction, within bounds."""

    def number(value: object) -> int:
        if isinstance(value, str) and re.fullmatch(r"[+-]?[0-9]{1,18}", value):
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
            return value
        raise ValueError(f"expected a whole number from {low} to {high}")

    return number


def duration_s(value: object) -> float:
    """A duration such as ``120s``, in seconds."""
    if isinstance(value, str) and (written := _DURATION.fullmatch(value)):
        value = float(written[1]) * _SECONDS[written[2]]
    if isinstance(value, int | float) and 0 < value <= MAX_DURATION_S:
        return float(value)
    raise ValueError("expected a duration of up to 24h, such as 500ms, 120s or 5m")


def duration_text(seconds: float) -> str:
    """The text of a duration, as a person would write it."""
    return f"{seconds:g}s" if seconds >= 1 else f"{seconds * 1000:g}ms"


def servers(value: object) -> str:
    """Where Kafka is, or that there is none yet."""
    if value == EMBEDDED:
        return EMBEDDED
    if isinstance(value, str):
        addresses = [each.strip() for each in value.split(",")]
        matches = [_SERVER.fullmatch(each) for each in addresses]
        if all(match and 0 < int(match[1]) < 65_536 for match in matches):
            return alike(value, ",".join(addresses))
    raise ValueError(f"expected {EMBEDDED}, or host:port, several of them separated by commas")


def spark_master(value: object) -> str:
    """A Spark master."""
    if isinstance(value, str) and _MASTER.fullmatch(value):
        return value
    raise ValueError("expected a Spark master, such as local[*], yarn, spark://host:7077 or k8s://…")


def folder(value: object) -> str:
    """A local folder, made absolute, or a Hadoop URI as it is."""
    path = text(str(value) if isinstance(value, Path) else value)
    return path if _URI.match(path) else alike(path, str(Path.cwd() / path))


def options(value: object) -> Options:
    """Options by name, for somebody else's software to judge; those that look secret are hidden."""
    if isinstance(value, Mapping) and all(isinstance(each, str) for pair in value.items() for each in pair):
        return Options({name: hide(name, each) for name, each in value.items()})
    raise ValueError("expected texts by name")


def converter(value: object) -> str:
    """The name of a message converter; the old names of built-in ones become ours."""
    if isinstance(value, str):
        name = canonical_name(value)
        if name in available_converters or _CLASS.fullmatch(name):
            return alike(value, name)
    raise ValueError(f"expected {', '.join(available_converters)} or package.module:Class")


def key_header(value: object) -> str:
    """The canonical name of the header in ``msg.header.<Name>``, spelled as in a predicate."""
    if isinstance(value, str):
        try:
            # The predicate's own grammar, so that a header has one spelling everywhere.
            tree = parse(f"exists({value})")
        except PredicateError:
            tree = None
        if isinstance(tree, Exists) and isinstance(tree.field, HeaderField) and tree.field.name:
            return alike(value, canonical_header_name(tree.field.name))
    raise ValueError('expected msg.header.<Name>, or msg.header."<Name>" for a name with odd characters')


def pattern(value: object) -> str:
    """A regular expression of those that `isthmus.routing.pattern` takes."""
    if not isinstance(value, str) or not value:
        raise ValueError("expected a regular expression")
    try:
        in_re2(value)
    except ValueError as error:
        # The reason quotes the pattern, which may be a secret.
        reason = "" if isinstance(value, Hidden) else f": {error}"
        raise ValueError(f"expected a regular expression that RE2 can run{reason}") from None
    return value


def predicate(value: object) -> Predicate:
    """The tree of a predicate. The `ValueError` has the `PredicateError` as its cause."""
    if not isinstance(value, str):
        raise ValueError("expected a predicate")
    try:
        return parse(value)
    except PredicateError as error:
        raise ValueError("expected a predicate") from error
