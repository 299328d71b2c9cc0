"""The reference router: what becomes of one record, in plain Python.

This is the specification of `isthmus.pipeline.router`, which does the same for millions of records as a Spark
plan. The tests hold the two against each other; readers find the rules here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from isthmus.converters import NoBody, converter
from isthmus.converters.jms import CONVERTIBLE, ENCODED
from isthmus.converters.journaled import as_amqp, kafka_value
from isthmus.converters.registry import DESTINATION
from isthmus.errors import DecodeError, DestinationFailure, OversizeFailure, SoftFailure
from isthmus.journal import layout
from isthmus.journal.layout import Entry, Op, Record
from isthmus.message import TRACE_CONTEXT, Message
from isthmus.routing.key import select_key
from isthmus.routing.plan import Outcome, RoutingPlan
from isthmus.routing.predicate import matches
from isthmus.routing.route import OnError, Route, topic_of_address
from isthmus.routing.size import largest, record_size


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of a record: the outcome, what was published where, and what went wrong."""

    outcome: Outcome
    route: Route | None = None
    topic: str | None = None
    record: Record | None = None
    partition: int | None = None
    error: SoftFailure | None = None


def decide(
    plan: RoutingPlan, topic: str, partition: int, offset: int, record: Record, *, now_ms: int
) -> list[Decision]:
    """What becomes of the record at that place, at that time: a decision for each route that takes it, and
    one if none does."""
    stable_id = layout.stable_id(topic, partition, offset)
    try:
        entry, own_headers = read(plan, topic, record)
    except DecodeError as error:
        return [_fail(plan, None, record, stable_id, error)]
    if entry is None:
        return [Decision(Outcome.IGNORED)]
    message = entry.message
    if (layout.ORIGIN, plan.bridge_id.encode()) in record.headers:
        return [Decision(Outcome.LOOPED)]
    if topic == plan.journal_topic and _has_expired(message, now_ms):
        return [Decision(Outcome.EXPIRED)]
    propagated = plan.propagate_non_durable or message.durable
    candidates = [each for each in plan.routes if topic == plan.journal_topic or not each.is_direct]
    first = next((each for each in candidates if propagated and matches(each.predicate, message)), None)
    decisions = []
    for route in _with_destination(plan, first, entry.topic):
        try:
            destination = _destination(route, entry)
            published, chosen = _publish(plan, route, destination, record, entry, own_headers, stable_id)
        except SoftFailure as error:
            decisions.append(_fail(plan, route, record, stable_id, error))
        else:
            decisions.append(Decision(Outcome.PUBLISHED, route, destination, published, chosen))
    return decisions or [Decision(Outcome.UNMATCHED if propagated else Outcome.NON_DURABLE)]


def _with_destination(
    plan: RoutingPlan, first: Route | None, topic: layout.AddressTopic | None
) -> list[Route]:
    """The routes that take a message: its own, and the one to the JMS destination that it was sent to."""
    routes = [] if first is None else [first]
    if not plan.keep_destinations or topic is None or not topic.is_destination:
        return routes
    if first is not None and first.topic == topic.name:
        return routes
    own = (each for each in plan.routes if each.for_destination and each.topic == topic.name)
    kept = next(own, plan.routes[-1])
    return [kept] if first is None or first.is_direct else [first, kept]


def _destination(route: Route, entry: Entry) -> str:
    if not route.is_direct:
        return route.topic
    return topic_of_address(entry.message.address) if entry.topic is None else entry.topic.name


def _has_expired(message: Message, now_ms: int) -> bool:
    header = message.headers.get("Expiration")
    is_time = header is not None and re.fullmatch(layout.EXPIRATION, header.text)
    return header is not None and bool(is_time) and 0 < int(header.text) <= now_ms


def read(plan: RoutingPlan, topic: str, record: Record) -> tuple[Entry | None, layout.KafkaHeaders]:
    """The message of a record in that topic, None if it is not one for the router; and the headers that its
    sender set. Raises `DecodeError` for a record of the journal that is not laid out as one."""
    if topic != plan.journal_topic:
        own = [
            header for header in record.headers if not header[0].lower().startswith(layout.RESERVED_PREFIX)
        ]
        return Entry(Op.ADD, layout.adopt(topic, record)), own
    if record.value is None and not record.headers:
        return None, ()
    if layout.op_of(record) is not Op.ADD:
        return None, ()
    return layout.decode(record), layout.own_headers(record.headers)


def _publish(
    plan: RoutingPlan,
    route: Route,
    topic: str,
    record: Record,
    entry: Entry,
    own_headers: layout.KafkaHeaders,
    stable_id: str,
) -> tuple[Record, int | None]:
    """The record to publish, and the partition that its sender asks for."""
    found = entry.topic if route.is_direct else None
    if route.is_direct and (topic in plan.missing_topics or (found is None and topic not in plan.partitions)):
        raise DestinationFailure(f"there is no topic {topic}")
    partitions = plan.partitions.get(topic) if found is None else found.partitions
    limit = plan.max_message_bytes.get(topic) if found is None else found.max_message_bytes
    key = _key(route, record, entry)
    partition: int | None = None
    headers: layout.KafkaHeaders = ()
    if route.has_own_converter:
        made = converter(route.convert).to_kafka_record(as_amqp(entry.message))
        partition, value, headers = made.partition, made.value, made.headers
        if route.key is None:
            key = None if made.key is None else made.key.encode()
    else:
        # A record of another topic that has no value is a tombstone, and stays one.
        no_body = NoBody.NULL if entry.message.protocol == "kafka" else route.no_body
        value = kafka_value(route.convert, entry, no_body)
        if route.has_jms_headers:
            headers = own_headers if _is_readable(route, entry) else [*own_headers, ENCODED]
        else:
            partition = _partition_asked_for(entry)
    if partition is not None and not 0 <= partition < (partition + 1 if partitions is None else partitions):
        raise DestinationFailure(f"{topic} has no partition {partition}")
    is_told = not route.has_jms_headers and entry.message.protocol != "kafka"
    sender = _sender(record) if is_told else ()
    trace = () if route.has_jms_headers else _trace(record)
    published = Record(key, value, [*trace, *headers, *_marks(plan, stable_id, route), *sender])
    bound = largest(plan, route)
    if bound is None or bound + len(key or b"") > (limit or 0):
        _check_size(topic, limit, published)
    return published, partition


def _is_readable(route: Route, entry: Entry) -> bool:
    """Whether the value is the body, and not the encoded message, as it may be in a JMS destination."""
    message = entry.message
    return route.convert != DESTINATION or message.body.kind in CONVERTIBLE or message.protocol != "amqp"


def _key(route: Route, record: Record, entry: Entry) -> bytes | None:
    """The header that the route names, or what the sender asks for; or else the message id, if not direct."""
    if route.key is not None:
        return select_key(entry.message, route.key, route.key_pattern)
    if route.has_jms_headers:
        return record.key
    asked_for = dict(entry.conversion).get(layout.KEY)
    return asked_for if asked_for is not None or route.is_direct else record.key


def _partition_asked_for(entry: Entry) -> int | None:
    asked_for = dict(entry.conversion).get(layout.PARTITION)
    if asked_for is None:
        return None
    return int(asked_for) if re.fullmatch(layout.PARTITION_NUMBER.encode(), asked_for) else -1


def _check_size(topic: str, limit: int | None, record: Record) -> None:
    if limit is not None and (size := record_size(record)) > limit:
        raise OversizeFailure(
            f"the record has up to {size} bytes, and {topic} takes {limit}", size=size, limit=limit
        )


def _sender(record: Record) -> layout.KafkaHeaders:
    """The client id of the sender, where the message says it, for receivers that do not want their own."""
    name = layout.HEADER_PREFIX + layout.CLIENT
    return [(layout.CLIENT, value) for own, value in record.headers if own == name][:1]


def _trace(record: Record) -> layout.KafkaHeaders:
    """The headers of the trace that the message belongs to: of several with one name the last counts."""
    found = dict(record.headers)
    if found.get(TRACE_CONTEXT[0]) is None:
        return ()
    return [(name, value) for name in TRACE_CONTEXT if (value := found.get(name)) is not None]


def _marks(plan: RoutingPlan, stable_id: str, route: Route | None) -> layout.KafkaHeaders:
    marks = [(layout.ORIGIN, plan.bridge_id.encode()), (layout.STABLE_ID, stable_id.encode())]
    if route is not None and route.destination is not None:
        marks.append((layout.DESTINATION, route.destination.encode()))
    return marks


def _fail(
    plan: RoutingPlan, route: Route | None, record: Record, stable_id: str, error: SoftFailure
) -> Decision:
    match plan.policy(route):
        case OnError.SKIP:
            return Decision(Outcome.SKIPPED, route, error=error)
        case OnError.DEAD_LETTER if plan.dead_letter_topic is not None:
            report = [
                (layout.ERROR_CODE, error.code.encode()),
                (layout.ERROR_MESSAGE, str(error).encode()),
                (layout.ERROR_ROUTE, (route.name if route else "").encode()),
            ]
            letter = Record(
                record.key, record.value, [*record.headers, *_marks(plan, stable_id, route), *report]
            )
            try:
                _check_size(
                    plan.dead_letter_topic, plan.max_message_bytes.get(plan.dead_letter_topic), letter
                )
            except OversizeFailure as oversize:
                return Decision(Outcome.STOPPED, route, error=oversize)
            return Decision(Outcome.DEAD_LETTERED, route, plan.dead_letter_topic, letter, error=error)
        case _:
            return Decision(Outcome.STOPPED, route, error=error)
