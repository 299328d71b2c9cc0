"""What becomes of one message, and why: for people.

In: a plan and a record of the journal or of a source topic, as in `isthmus.routing.decide`, which has the
say. Out: an `Explanation`, plain data that becomes JSON: the routes that were tried, each with every term of
its predicate and the value that the message has for it, and what would be published. Nothing is published,
and no Spark or Kafka is needed.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from isthmus.converters.conversion_headers import conversion_headers
from isthmus.errors import DecodeError, PredicateError
from isthmus.journal import layout
from isthmus.journal.layout import AddressTopic, Entry, KafkaHeaders, Op, Record
from isthmus.message import Body, BodyKind, Header, Message
from isthmus.routing.decide import Decision, decide, read
from isthmus.routing.plan import Outcome, RoutingPlan
from isthmus.routing.predicate import (
    All,
    Any,
    Compare,
    Exists,
    Match,
    Not,
    OneOf,
    Predicate,
    matches,
    parse,
    value_of,
)
from isthmus.routing.route import DESTINATIONS, Route
from isthmus.routing.written import field_text, written


@dataclass(frozen=True, slots=True)
class Term:
    """A part of a predicate: a comparison, or several that ``&&``, ``||`` or ``!`` joins."""

    text: str
    holds: bool
    field: str | None = None
    """What is compared; None for terms that join others."""
    found: str | None = None
    """What the message has there; None if nothing."""
    terms: tuple[Term, ...] = ()


@dataclass(frozen=True, slots=True)
class TriedRoute:
    """A route whose turn came, and whether it takes the message."""

    name: str
    predicate: str
    takes: bool
    term: Term
    why_not: str | None = None
    """Another reason than its predicate."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a route, or the error policy, makes of the message: the record, and what went wrong."""

    outcome: Outcome
    route: str | None = None
    topic: str | None = None
    partition: int | None = None
    key: bytes | None = None
    key_from: str | None = None
    headers: KafkaHeaders = ()
    value: bytes | None = None
    code: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """What becomes of a message."""

    position: str | None
    """``<topic>:<partition>:<offset>``; None for a message that is in no topic."""
    id: str | None
    """None, as are protocol and address, for a record that cannot be read."""
    protocol: str | None
    address: str | None
    headers: Mapping[str, Header]
    routes: tuple[TriedRoute, ...]
    """In the order in which they are tried, up to the one that takes the message."""
    results: tuple[Result, ...]
    """One, or two if the message also goes to the JMS destination that it was sent to."""
    assumed: tuple[str, ...] = ()
    """What was taken for granted since Kafka was not asked."""

    @property
    def route(self) -> str | None:
        """The route that takes the message; None if none does."""
        return next((each.name for each in self.routes if each.takes), None)


def explain(
    plan: RoutingPlan,
    record: Record,
    *,
    now_ms: int,
    position: tuple[str, int, int] | None = None,
    assumed: tuple[str, ...] = (),
) -> Explanation:
    """What the router does with a record at that position, or with one that is yet to be journaled."""
    topic, partition, offset = position or (plan.journal_topic, 0, 0)
    decisions = decide(plan, topic, partition, offset, record, now_ms=now_ms)
    try:
        entry, _ = read(plan, topic, record)
    except DecodeError:
        entry = None
    message = None if entry is None else entry.message
    tried: tuple[TriedRoute, ...] = ()
    untried = (Outcome.LOOPED, Outcome.EXPIRED, Outcome.IGNORED, Outcome.NON_DURABLE)
    is_routed = plan.propagate_non_durable or (message is not None and message.durable)
    if message is not None and is_routed and decisions[0].outcome not in untried:
        tried = _tried(plan, message, from_journal=topic == plan.journal_topic)
    return Explanation(
        position=None if position is None else layout.stable_id(*position),
        id=None if message is None else message.id,
        protocol=None if message is None else message.protocol,
        address=None if message is None else message.address,
        headers={} if message is None else message.headers,
        routes=tried,
        results=tuple(_result(each, entry, is_placed=position is not None) for each in decisions),
        assumed=assumed,
    )


def sample(
    address: str,
    headers: Mapping[str, Header],
    content: bytes | None,
    *,
    json: bool,
    topic: AddressTopic | None = None,
    session: str = "sample",
) -> Record:
    """The journal record of a message as ``isthmus send`` makes it; ``json`` if a route makes documents."""
    id = headers.get("MessageId", Header(f"ID:{uuid.uuid4()}"))
    message = Message(
        id=id.text,
        address=address,
        protocol="isthmus",
        value=content or b"",
        body=Body(_kind(content)),
        headers={"MessageId": id, **headers},
        session=session,
    )
    return journaled(message, json=json, topic=topic)


def journaled(message: Message, *, json: bool, topic: AddressTopic | None = None) -> Record:
    """The journal record of a message as an edge writes it. Raises `SoftFailure` for what an edge refuses."""
    conversion = conversion_headers(message, json=json)
    return layout.encode(Entry(Op.ADD, message, conversion=conversion, topic=topic))


def _kind(content: bytes | None) -> BodyKind:
    if content is None:
        return BodyKind.EMPTY
    try:
        content.decode()
    except UnicodeDecodeError:
        return BodyKind.BYTES
    return BodyKind.TEXT


def _tried(plan: RoutingPlan, message: Message, *, from_journal: bool) -> tuple[TriedRoute, ...]:
    tried = []
    for route in plan.routes:
        if route.name.startswith(DESTINATIONS):  # its predicate takes nothing
            continue
        aside = route.is_direct and not from_journal
        takes = matches(route.predicate, message) and not aside
        why_not = "it takes what is sent to the bridge, not records of source topics" if aside else None
        tried.append(TriedRoute(route.name, route.written, takes, _route_term(route, message), why_not))
        if takes:
            break
    return tuple(tried)


def _route_term(route: Route, message: Message) -> Term:
    """The terms of the route's predicate, as people may see them: a value out of a secret is masked in what
    the route has in writing."""
    try:
        visible = parse(route.written) if route.written else route.predicate
    except PredicateError:
        visible = None
    return _term(route.predicate, visible, route.written, message)


def _term(node: Predicate, visible: Predicate | None, text: str, message: Message) -> Term:
    holds = matches(node, message)
    text = text if visible is None else written(visible)
    match node, visible:
        case (All(terms), All(seen)) | (Any(terms), Any(seen)) if len(terms) == len(seen):
            joined = zip(terms, seen, strict=True)
            return Term(text, holds, terms=tuple(_term(term, each, text, message) for term, each in joined))
        case Not(term), Not(each):
            return Term(text, holds, terms=(_term(term, each, text, message),))
        case ((Compare() | Match() | OneOf() | Exists()), (Compare() | Match() | OneOf() | Exists())):
            return Term(text, holds, field_text(visible.field), value_of(node.field, message))
    return Term(text, holds)


def _result(decision: Decision, entry: Entry | None, *, is_placed: bool) -> Result:
    route, record, error = decision.route, decision.record or Record(None, None, ()), decision.error
    headers = record.headers
    if not is_placed:
        headers = [(name, b"?" if name == layout.STABLE_ID else value) for name, value in headers]
    return Result(
        outcome=decision.outcome,
        route=None if route is None else route.name,
        topic=decision.topic,
        partition=decision.partition,
        key=record.key,
        key_from=_key_from(decision, entry),
        headers=tuple(headers),
        value=record.value,
        code=None if error is None else error.code,
        reason=None if error is None else str(error),
    )


def _key_from(decision: Decision, entry: Entry | None) -> str | None:
    route = decision.route
    if decision.outcome is not Outcome.PUBLISHED or route is None or entry is None or not decision.record:
        return None
    if route.key is not None:
        return f"msg.header.{route.key}"
    if route.has_own_converter:
        return "the converter"
    if not route.has_jms_headers and layout.KEY in dict(entry.conversion):
        return "what the sender asks for"
    if decision.record.key is None:
        return None
    return "the record's own key" if entry.message.protocol == "kafka" else "the message id"
