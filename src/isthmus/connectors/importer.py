"""From a configuration of the NATS-MQ bridge to ours: the same connectors, under the same names.

In: the text of the old file. Out: the text of a properties file, and what was left out of it. What has no
equal here is a comment that says why it is not needed, or what to do; nothing is left out in silence. What
cannot be right is a `ConfigError` with line and column.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import javaproperties

from isthmus.config.model.connectors import ConnectorSettings
from isthmus.connectors.nats_conf import Node, Variable, parse
from isthmus.errors import SettingsError

_BACKOFF = "attempts to connect back off by themselves"
_NO_STAN = "NATS Streaming is retired, and JetStream needs no such thing"
_LOGGING = "lines of the log have their time, and go to standard error"
_HTTPS = "the monitor speaks HTTP: put a proxy before it for TLS"
_NOT_KNOWN = "not a key of the NATS-MQ bridge"
_CHANNELS = "Channels came into being when they were first used; so do streams."
_CIPHER_SPEC = "TLS_RSA_WITH_AES_128_CBC_SHA256"
_CIPHER = (
    "The only one that the NATS-MQ bridge had. It must be the channel's SSLCIPH: to change it, change both."
)
_KAFKA = "Messages go through Kafka: the bridge starts one unless kafka.bootstrap.servers names another."
_NATS_KEYS = {"username": "user", "password": "password", "credsfile": "creds", "usercredentials": "creds"}
_TLS_KEYS = {"root": "ca", "cert": "cert", "key": "key"}
_NOTES = {
    "reconnectinterval": _BACKOFF,
    "nats.maxreconnects": "the bridge never gives up",
    "nats.connecttimeout": "an attempt to connect takes 5 seconds at most",
    **{f"stan.{key}": _NO_STAN for key in ("clusterid", "clientid", "pubackwait", "discoverprefix")},
    **{f"stan.{key}": _NO_STAN for key in ("maxpubacksinflight", "connectwait")},
    **{f"logging.{key}": _LOGGING for key in ("time", "debug", "trace", "colors", "pid")},
    "monitoring.httpport": "monitoring was off: here it is on, for this machine only",
    "monitoring.httpsport": _HTTPS,
    **{f"monitoring.tls.{key}": _HTTPS for key in _TLS_KEYS},
    "usepolling": "messages are got as they come",
    "incomingbuffersize": "messages of any size are taken",
    "incomingmessagewait": "messages are got as they come",
    "startatsequence": "startattime counts, where both are given",
    "startattime": "0 is no time",
}
_CONNECTOR_KEYS = {field.key for field in ConnectorSettings.fields.values() if field.key}


class LeftOut(NamedTuple):
    """A key of the old file that has no equal."""

    key: str
    value: str
    why: str

    def __str__(self) -> str:
        return f"# {self.key}={self.value}: {self.why}"


class Converted(NamedTuple):
    """The text of our configuration, and what is only a comment in it."""

    text: str
    left_out: tuple[LeftOut, ...]


_Lines = Iterator[str | LeftOut]


def convert(text: str, folder: Path | None = None) -> Converted:
    """Our configuration for an old one. Raises `ConfigError` for one that cannot be right.

    ``folder`` is where the file is that the text was in: what it includes is looked for there.
    """
    root = _pairs(parse(text, folder), "the file")
    lines: list[str | LeftOut] = ["# From a configuration of the NATS-MQ bridge.", f"# {_KAFKA}"]
    for key, node in root.items():
        match key:
            case "nats":
                lines += ["", *_nats(_pairs(node, key))]
            case "monitoring":
                lines += ["", *_monitoring(_pairs(node, key))]
            case "connect":
                continue
            case _:
                lines += _left_out(key, node)
    names: set[str] = set()
    converted = [
        line
        for number, node in enumerate(_items(root.get("connect")), 1)
        for line in _connector(node, number, names)
    ]
    keys = {str(line).partition("=")[0].rpartition(".")[2] for line in converted if isinstance(line, str)}
    if "channel" in keys:
        lines += ["", f"# {_CHANNELS}", _line("nats.jetstream.create", "true")]
    if "keyrepository" in keys:
        lines += ["", f"# {_CIPHER}", _line("mq.tls.cipher-spec", _CIPHER_SPEC)]
    lines += converted
    left_out = tuple(line for line in lines if isinstance(line, LeftOut))
    return Converted("\n".join(map(str, lines)) + "\n", left_out)


def _left_out(key: str, node: Node, note: str | None = None) -> _Lines:
    """The key, and all that is in it. ``note`` is what `_NOTES` has it under, if that is not the key."""
    if isinstance(node.value, dict):
        for name, inner in node.value.items():
            yield from _left_out(f"{key}.{name}", inner)
    else:
        yield LeftOut(key, _shown(node), _NOTES.get(note or key, _NOT_KNOWN))


def _nats(section: Mapping[str, Node]) -> _Lines:
    for key, node in section.items():
        match key:
            case "servers":
                yield _line("nats.servers", ",".join(_text(each) for each in _items(node)))
            case _ if key in _NATS_KEYS:
                yield _line(f"nats.{_NATS_KEYS[key]}", _text(node))
            case "reconnectwait":
                yield _line("nats.reconnect.max-wait", f"{max(_number(node), 1)}ms")
            case "tls":
                for name, file in _pairs(node, key).items():
                    if name in _TLS_KEYS:
                        yield _line(f"nats.tls.{_TLS_KEYS[name]}", _text(file))
                    else:
                        yield from _left_out(f"nats.tls.{name}", file)
            case _:
                yield from _left_out(f"nats.{key}", node)


def _monitoring(section: Mapping[str, Node]) -> _Lines:
    for key, node in section.items():
        match key:
            case "httphost":
                yield _line("monitor.host", _text(node) or "0.0.0.0")
            case "httpport" if (port := _number(node)) != 0:
                yield _line("monitor.port", str(max(port, 0)))  # -1 was any port that is free
            case _:
                yield from _left_out(f"monitoring.{key}", node)


def _connector(node: Node, number: int, names: set[str]) -> _Lines:
    given: dict[str, Node] = {}
    for key, each in _pairs(node, f"connect[{number}]").items():
        if key == "mq":
            given |= {f"mq.{name}": inner for name, inner in _pairs(each, "mq").items()}
        else:
            given[key] = each
    id = _id(given.pop("id", None), given.get("type"), number, names)
    known = {
        key: text for key, each in given.items() if key in _CONNECTOR_KEYS and (text := _text(each)) != ""
    }
    at_a_time = known.get("startattime", "0") != "0"
    known.pop("startatsequence" if at_a_time else "startattime", None)
    yield ""
    try:
        ConnectorSettings.of(known)
    except SettingsError as error:
        raise _refused(error, given, node) from None
    for key, text in known.items():
        yield _line(f"connectors.{id}.{key}", text)
    for key, each in given.items():
        if key not in known and _shown(each):
            yield from _left_out(f"connectors.{id}.{key}", each, key)


def _id(given: Node | None, type: Node | None, number: int, names: set[str]) -> str:
    """A name that can be a part of a key, and that no connector has yet."""
    wanted = _text(given) if given else ""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", wanted or f"{_text(type) if type else 'connector'}-{number}")
    while name in names:
        name += f"-{number}"
    names.add(name)
    return name


def _refused(error: SettingsError, given: Mapping[str, Node], whole: Node) -> Exception:
    refusal = error.refusals[0]
    key = ".".join(refusal.path)
    if refusal.reason is None:
        return whole.error(f"a connector without {key}")
    return given.get(key, whole).error(f"{key}: {refusal.message}" if key else refusal.message)


def _pairs(node: Node, what: str) -> Mapping[str, Node]:
    if isinstance(node.value, dict):
        return node.value
    raise node.error(f"{what}: expected a map, {{ … }}")


def _items(node: Node | None) -> tuple[Node, ...]:
    if node is None:
        return ()
    return node.value if isinstance(node.value, tuple) else (node,)


def _text(node: Node) -> str:
    match node.value:
        case Variable(name):
            return f"${{env:{name}}}"
        case bool() as flag:
            return str(flag).lower()
        case int() as number:
            return str(number)
        case str() as text:
            return text
        case _:
            raise node.error("expected one value")


def _number(node: Node) -> int:
    if isinstance(node.value, int) and not isinstance(node.value, bool):
        return node.value
    raise node.error("expected a number")


def _shown(node: Node) -> str:
    value: Any = node.value
    return "…" if isinstance(value, dict | tuple) else re.sub(r"\s+", " ", _text(node))


def _line(key: str, value: str) -> str:
    return javaproperties.join_key_value(key, value, separator="=")
