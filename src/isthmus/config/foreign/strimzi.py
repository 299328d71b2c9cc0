"""The configuration of the AMQP-Kafka bridge that became Strimzi's: the same bridge, in our keys.

It had three spellings over the years:

=====================================  ==============================================================
``bridge.properties``, until 2017      ``bootstrap.servers``, ``bind.port``, ``message.converter``, …
``application.properties``, 2017-2019  ``kafka.bootstrapServers``, ``amqp.messageConverter``, …
``application.properties``, 2019-2022  ``kafka.bootstrap.servers``, ``kafka.consumer.auto.offset.reset``, …
=====================================  ==============================================================

The first is read as it is, since nothing in it is a key of ours with another meaning. The others are: so
`isthmus check` names the command that turns them into ours. What the old bridge did unasked is written down:
it listened on every address, let anybody in, and sent every message to the topic that its address names, by
the default converter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from isthmus.config.foreign.lines import left_out, setting
from isthmus.config.judgement.keys import FIXED, open_prefix, split_key
from isthmus.config.model.amqp import AmqpSettings
from isthmus.config.syntax.problem import Problem, Severity
from isthmus.config.syntax.properties import Entry
from isthmus.converters.registry import canonical_name
from isthmus.errors import ConfigError

_RENAMED: Final = {
    "bootstrap.servers": "kafka.bootstrap.servers",
    "kafka.bootstrapServers": "kafka.bootstrap.servers",
    "kafka.bootstrap.servers": "kafka.bootstrap.servers",
    "bind.host": "amqp.host",
    "bind.port": "amqp.port",
    "flow.credit": "amqp.credit",
    "message.convert": "message.convert",
    "message.converter": "message.convert",
    "amqp.bindHost": "amqp.host",
    "amqp.bindPort": "amqp.port",
    "amqp.enabled": "amqp.enabled",
    "amqp.flowCredit": "amqp.credit",
    "amqp.host": "amqp.host",
    "amqp.messageConverter": "message.convert",
    "amqp.port": "amqp.port",
    "bridge.id": "bridge.id",
}
_LEFT_OUT: Final = (
    (r"(kafka\.producer\.)?acks", "the journal always waits for all replicas that are in sync"),
    (
        r"(kafka\.(producer|consumer)\.)?(key|value)\.?(de)?serializer",
        "keys are text and values are bytes, as they were",
    ),
    (
        r"(kafka\.consumer\.)?auto\.?offset\.?reset",
        "a receiver says where it begins, by its group or its filters: see docs/jms.md",
    ),
    (r"amqp\.mode", "the bridge is a server, unless amqp.connect.* names a broker"),
    (r"http\..*", "there is no HTTP bridge here"),
    (r"bridge\.tracing", "no equal"),
    (r"kafka\.(producer|consumer|admin)\..*", "no equal: kafka.* is for all clients"),
)
_OLDEST: Final = frozenset(
    {"bootstrap.servers", "bind.host", "bind.port", "flow.credit", "message.converter"}
)
_WITHOUT_TLS: Final = ("amqp.enabled", "amqp.port")
_OF_A_SERVER: Final = (*_WITHOUT_TLS, "amqp.host", "amqp.flowCredit")
_SHARED: Final = frozenset({"message.convert", "bridge.id"})
_NEWER: Final = re.compile(
    r"amqp\.(messageConverter|flowCredit|mode|certDir|bindHost|bindPort)|kafka\.bootstrapServers"
    r"|bridge\.tracing|http\..*|kafka\.(producer|consumer|admin)\..*"
)
_UNKNOWN: Final = "no equal"
_EVERYWHERE: Final = "0.0.0.0"
_PORT: Final = "5672"


class _Setting(NamedTuple):
    """What became of a setting: ours, or why there is none."""

    old: str
    key: str | None
    value: str
    reason: str = ""


def is_oldest(keys: Mapping[str, object]) -> bool:
    """Whether these are the keys of a ``bridge.properties`` from before 2017, and not ours with a mistake."""
    ours = (key in FIXED or split_key(key) or open_prefix(key) for key in keys if key not in _SHARED)
    braces = ("{" in key or "}" in key for key in keys)
    return not _OLDEST.isdisjoint(keys) and not any(ours) and not any(braces)


def is_newer(keys: Mapping[str, object]) -> bool:
    """Whether these are the keys of an ``application.properties``."""
    return any(_NEWER.fullmatch(key) for key in keys)


def convert(text: str) -> str:
    """Our configuration for one of any spelling. Raises `ConfigError` for what is none."""
    import javaproperties  # only here: it imports parsers of XML, and every command asks `is_newer`

    try:
        written = javaproperties.loads(text)
    except (javaproperties.InvalidUEscapeError, ValueError) as error:
        raise ConfigError(f"not in the syntax of Java properties: {error}") from None
    if not any(key in _RENAMED for key in written):
        raise ConfigError("not a configuration of the AMQP-Kafka bridge: it has none of its keys")
    lines = ["# From a configuration of the AMQP-Kafka bridge."]
    for made in _translated(written):
        if made.key is not None:
            lines.append(setting(made.key, made.value))
        elif made.value:
            lines.append(left_out(made.old, made.value, made.reason))
    lines += [setting(key, value) for key, value in _unasked(written)]
    lines += list(_comments(written))
    return "\n".join(lines) + "\n"


def as_ours(entries: Mapping[str, Entry]) -> tuple[dict[str, Entry], list[Problem]]:
    """The entries of a ``bridge.properties`` under our keys, each with its line."""
    written = {key: entry.value or "" for key, entry in entries.items()}
    ours: dict[str, Entry] = {}
    problems: list[Problem] = []
    for made in _translated(written):
        entry = entries[made.old]
        if made.key is not None:
            ours[made.key] = replace(entry, key=made.key)
        elif made.reason is _UNKNOWN:
            ours[made.old] = entry
        else:
            problems.append(entry.problem(Severity.NOTE, f"no effect: {made.reason}"))
    file = next(iter(entries.values())).file
    for key, value in _unasked(written):
        ours.setdefault(key, Entry(key, value, file))
    return ours, problems


def _translated(written: Mapping[str, str]) -> Iterator[_Setting]:
    for old, value in written.items():
        reason = next(
            (why for pattern, why in _LEFT_OUT if re.fullmatch(pattern, old, re.IGNORECASE)), _UNKNOWN
        )
        if old in (_OF_A_SERVER if _is_client(written) else _WITHOUT_TLS if _folder(written) else ()):
            continue  # other keys have it
        if key := _RENAMED.get(old):
            if value.strip():
                yield _Setting(old, key, canonical_name(value) if key == "message.convert" else value)
        elif old == "amqp.certDir":
            yield from _tls(_folder(written), written)
        elif old.startswith("kafka.") and reason is _UNKNOWN:
            yield _Setting(old, old, value)
        else:
            yield _Setting(old, None, value, reason)


def _tls(folder: str, written: Mapping[str, str]) -> Iterator[_Setting]:
    """With certificates the old bridge spoke TLS, on its one port."""
    if folder and not _is_client(written):
        port = written.get("amqp.port", "").strip() or _PORT
        yield _Setting("amqp.certDir", "amqps.port", port)
        yield _Setting("amqp.certDir", "amqps.certificate", f"{folder}/tls.crt")
        yield _Setting("amqp.certDir", "amqps.key", f"{folder}/tls.key")


def _unasked(written: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """What the old bridge did without being told."""
    named = {_RENAMED.get(key, key): value.strip() for key, value in written.items() if value.strip()}
    if "message.convert" not in named:
        yield "message.convert", "default"
    if _is_client(written):
        scheme = "amqps" if _folder(written) else "amqp"
        router = named.get("amqp.host", _EVERYWHERE), named.get("amqp.port", _PORT)
        yield "amqp.connect.router.url", f"{scheme}://{router[0]}:{router[1]}"
        yield "amqp.enabled", "false"
        return
    host = named.get("amqp.host", _EVERYWHERE)
    if "amqp.host" not in named:
        yield "amqp.host", host
    if not AmqpSettings(host=host).on_loopback:
        yield "amqp.anonymous", "true"
    if _folder(written):
        yield "amqp.enabled", "false"
    yield "amqp.auto-create", "true"


def _is_client(written: Mapping[str, str]) -> bool:
    return written.get("amqp.mode", "").strip().upper() == "CLIENT"


def _folder(written: Mapping[str, str]) -> str:
    return written.get("amqp.certDir", "").strip()


def _comments(written: Mapping[str, str]) -> Iterator[str]:
    if _is_client(written):
        yield "# The old bridge was a client of a router. Name the addresses to take messages from:"
        yield "# amqp.connect.router.intake.addresses=…"
    if "Json" in written.get("amqp.messageConverter", written.get("message.converter", "")):
        yield "# The old bridge encoded data in Base64 twice. For topics that hold such documents:"
        yield "# json.compat=true"
    if ("amqp.anonymous", "true") in _unasked(written):
        yield "# Anybody may connect, as before: amqp.users.file says who may, isthmus user add writes it."
