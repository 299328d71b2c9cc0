"""From a configuration of the NATS-MQ bridge to ours: the same connectors, under the same names.

In: the text of the old file. Out: the text of a properties file. What has no equal here is a comment that
says so, or why it is not needed; nothing is left out in silence. What cannot be right is a `ConfigError` with
line and column.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import javaproperties
from pydantic import ValidationError

from isthmus.config.model.connectors import ConnectorSettings
from isthmus.connectors.nats_conf import Node, Variable, parse

_BACKOFF = "attempts to connect back off by themselves"
_NO_STAN = "NATS Streaming is retired, and JetStream needs no such thing"
_CHANNELS = "Channels came into being when they were first used; so do streams."
_KAFKA = "Messages go through Kafka: the bridge starts one unless kafka.bootstrap.servers names another."
_ROOT_NOTES = {"reconnectinterval": _BACKOFF}
_CREDENTIALS = {"username": "user", "usercredentials": "creds"}
_NATS_NOTES = {
    "maxreconnects": "the bridge never gives up",
    "connecttimeout": "an attempt to connect takes 5 seconds at most",
}
_CONNECTOR_NOTES = {
    "usepolling": "messages are got as they come",
    "incomingbuffersize": "messages of any size are taken",
    "incomingmessagewait": "messages are got as they come",
    "mq.sslpeername": "no equal: check the certificate's name in the key repository",
}
_CONNECTOR_KEYS = {
    str(field.validation_alias) for field in ConnectorSettings.model_fields.values() if field.validation_alias
}


def convert(text: str) -> str:
    """Our configuration for an old one. Raises `ConfigError` for one that cannot be right."""
    root = _pairs(parse(text), "the file")
    lines = ["# From a configuration of the NATS-MQ bridge.", f"# {_KAFKA}"]
    connectors = _items(root.get("connect"))
    for key, node in root.items():
        match key:
            case "nats":
                lines += ["", *_nats(_pairs(node, key))]
            case "stan":
                lines += [f"# stan.{name}: {_NO_STAN}" for name in _pairs(node, key)]
            case "monitoring":
                lines += ["", *_monitoring(_pairs(node, key))]
            case "connect":
                continue
            case _:
                lines.append(f"# {key}={_shown(node)}: {_ROOT_NOTES.get(key, 'no equal')}")
    names: set[str] = set()
    converted = [
        line for number, node in enumerate(connectors, 1) for line in _connector(node, number, names)
    ]
    if any(re.search(r"\.channel=", line) for line in converted):
        lines += ["", f"# {_CHANNELS}", _line("nats.jetstream.create", "true")]
    return "\n".join(lines + converted) + "\n"


def _nats(section: Mapping[str, Node]) -> Iterator[str]:
    for key, node in section.items():
        match key:
            case "servers":
                yield _line("nats.servers", ",".join(_text(each) for each in _items(node)))
            case "username" | "password" | "usercredentials":
                yield _line(f"nats.{_CREDENTIALS.get(key, key)}", _text(node))
            case "reconnectwait":
                yield _line("nats.reconnect.max-wait", f"{max(_number(node), 1)}ms")
            case "tls":
                for name, file in _pairs(node, key).items():
                    if name in ("root", "cert", "key"):
                        yield _line(f"nats.tls.{name.replace('root', 'ca')}", _text(file))
                    else:
                        yield f"# nats.tls.{name}={_shown(file)}: no equal"
            case _:
                yield f"# nats.{key}={_shown(node)}: {_NATS_NOTES.get(key, 'no equal')}"


def _monitoring(section: Mapping[str, Node]) -> Iterator[str]:
    for key, node in section.items():
        match key:
            case "httphost":
                yield _line("monitor.host", _text(node) or "0.0.0.0")
            case "httpport":
                yield _line("monitor.port", str(max(_number(node), 0)))  # -1 was any port that is free
            case _:
                yield f"# monitoring.{key}: no equal: the monitor speaks HTTP, put a proxy before it for TLS"


def _connector(node: Node, number: int, names: set[str]) -> Iterator[str]:
    given: dict[str, Node] = {}
    for key, each in _pairs(node, f"connect[{number}]").items():
        if key == "mq":
            given |= {f"mq.{name}": inner for name, inner in _pairs(each, "mq").items()}
        else:
            given[key] = each
    id = _id(given.pop("id", None), given.get("type"), number, names)
    yield ""
    known = {
        key: text for key, each in given.items() if key in _CONNECTOR_KEYS and (text := _text(each)) != ""
    }
    try:
        ConnectorSettings.model_validate(known)
    except ValidationError as error:
        raise _refused(error, given, node) from None
    for key, text in known.items():
        yield _line(f"connectors.{id}.{key}", text)
    for key, each in given.items():
        if key not in _CONNECTOR_KEYS:
            yield f"# connectors.{id}.{key}={_shown(each)}: {_CONNECTOR_NOTES.get(key, 'no equal')}"


def _id(given: Node | None, type: Node | None, number: int, names: set[str]) -> str:
    """A name that can be a part of a key, and that no connector has yet."""
    wanted = _text(given) if given else ""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", wanted or f"{_text(type) if type else 'connector'}-{number}")
    while name in names:
        name += f"-{number}"
    names.add(name)
    return name


def _refused(error: ValidationError, given: Mapping[str, Node], whole: Node) -> Exception:
    detail = error.errors(include_url=False, include_input=False)[0]
    key = str(detail["loc"][0]) if detail["loc"] else ""
    if detail["type"] == "missing":
        return whole.error(f"a connector without {key}")
    message = detail["msg"].removeprefix("Value error, ")
    return given.get(key, whole).error(f"{key}: {message}" if key else message)


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
