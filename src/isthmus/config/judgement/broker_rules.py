"""What must hold between routes and the AMQP brokers that they name."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping

from isthmus.config.judgement.keys import BROKER_FAMILY, ROUTE_FAMILY, groups
from isthmus.config.model.brokers import BROKER_NAME, Node
from isthmus.config.model.settings import Settings
from isthmus.config.syntax.problem import Problem, Severity
from isthmus.config.syntax.properties import Entry
from isthmus.converters.registry import canonical_name
from isthmus.errors import ConfigError
from isthmus.routing.predicate import Predicate, parse

Entries = Mapping[str, Entry]

DEFAULT_CONVERTER = "jms"


def judge_brokers(
    settings: Settings, entries: Entries, predicates: Mapping[str, Predicate]
) -> Iterator[Problem]:
    """Every rule on brokers that the settings break."""
    brokers = groups(entries, BROKER_FAMILY)
    used: set[str] = set()
    forms: dict[str, str] = {}
    for route, parts in groups(entries, ROUTE_FAMILY).items():
        entry = parts.get("dest.address")
        written = (entry.value or "").strip() if entry else ""
        broker, _, address = written.partition(":")
        if entry is None or not broker or not address:
            continue
        used.add(broker)
        if broker not in brokers:
            near = difflib.get_close_matches(broker, brokers, n=1)
            hint = f"did you mean {near[0]}?" if near else f"set amqp.connect.{broker}.url"
            yield entry.problem(Severity.ERROR, f"there is no broker {broker!r:.60}", hint)
        elif _goes_round(settings, broker, Node.of(address), predicates.get(route)):
            message = "an address that is taken from: its messages would be sent to it again"
            yield entry.problem(Severity.ERROR, message)
        convert = (
            (parts["conv.message"].value or "").strip() if "conv.message" in parts else DEFAULT_CONVERTER
        )
        convert = canonical_name(convert)
        if forms.setdefault(written, convert) != convert:
            message = f"another route goes there by the converter {forms[written]}"
            yield entry.problem(Severity.ERROR, message, "give both the same conv.message")
    for broker, parts in brokers.items():
        first = next(iter(parts.values()))
        if not BROKER_NAME.fullmatch(broker):
            message = "expected up to 40 letters, digits, '_' or '-' as a broker's name"
            yield first.problem(Severity.ERROR, message)
        elif broker not in used and "intake.addresses" not in parts:
            message = f"nothing is taken from {broker}, and no route goes there"
            yield first.problem(Severity.WARNING, message)
        yield from _files(settings, broker, parts)


def _files(settings: Settings, broker: str, parts: Entries) -> Iterator[Problem]:
    known = settings.amqp_brokers.get(broker)
    try:
        if known is not None:
            known.tls_context()
    except ConfigError as error:
        key, _, reason = str(error).partition(" ")
        yield parts[key].problem(Severity.ERROR, reason)


def _goes_round(settings: Settings, broker: str, node: Node, predicate: Predicate | None) -> bool:
    known = settings.amqp_brokers.get(broker)
    if known is None or node not in known.nodes:
        return False
    return predicate == parse(f'msg.address=="{node.address}"')
