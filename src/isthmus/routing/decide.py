"""The reference router: what becomes of one record, in plain Python.

This is the specification of `isthmus.pipeline.router`, which does the same for millions of records as a Spark
plan. It is used in tests, by ``isthmus send --explain``, and by readers who want to know the rules.
"""

from __future__ import annotations

from dataclasses import dataclass

from isthmus.converters import jms
from isthmus.errors import DecodeError, OversizeFailure, SoftFailure
from isthmus.journal import layout
from isthmus.journal.layout import Op, Record
from isthmus.message import Message
from isthmus.routing.key import select_key
from isthmus.routing.plan import Outcome, RoutingPlan
from isthmus.routing.predicate import matches
from isthmus.routing.route import OnError, Route
from isthmus.routing.size import record_size


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of a record: the outcome, what was published where, and what went wrong."""

    outcome: Outcome
    route: Route | None = None
    topic: str | None = None
    record: Record | None = None
    error: SoftFailure | None = None


def decide(plan: RoutingPlan, topic: str, partition: int, offset: int, record: Record) -> Decision:
    """What becomes of the record at that place."""
    stable_id = layout.stable_id(topic, partition, offset)
    try:
        message, own_headers = _read(plan, topic, record)
    except DecodeError as error:
        return _fail(plan, None, record, stable_id, error)
    if message is None:
        return Decision(Outcome.IGNORED)
    if (layout.ORIGIN, plan.bridge_id.encode()) in record.headers:
        return Decision(Outcome.LOOPED)
    if not plan.propagate_non_durable and not message.durable:
        return Decision(Outcome.NON_DURABLE)
    route = next((route for route in plan.routes if matches(route.predicate, message)), None)
    if route is None:
        return Decision(Outcome.UNMATCHED)
    try:
        published = _publish(plan, route, record, message, own_headers, stable_id)
    except SoftFailure as error:
        return _fail(plan, route, record, stable_id, error)
    return Decision(Outcome.PUBLISHED, route, route.topic, published)


def _read(plan: RoutingPlan, topic: str, record: Record) -> tuple[Message | None, layout.KafkaHeaders]:
    if topic != plan.journal_topic:
        own = [
            header for header in record.headers if not header[0].lower().startswith(layout.RESERVED_PREFIX)
        ]
        return layout.adopt(topic, record), own
    if record.value is None and not record.headers:
        return None, ()
    if layout.op_of(record) is not Op.ADD:
        return None, ()
    return layout.decode(record).message, record.headers[len(layout.INDEX) :]


def _publish(
    plan: RoutingPlan,
    route: Route,
    record: Record,
    message: Message,
    own_headers: layout.KafkaHeaders,
    stable_id: str,
) -> Record:
    key = record.key if route.key is None else select_key(message, route.key)
    value = jms.kafka_value(message.body, message.value)
    published = Record(key, value, [*own_headers, *_marks(plan, stable_id)])
    _check_size(plan, route.topic, published)
    return published


def _check_size(plan: RoutingPlan, topic: str, record: Record) -> None:
    limit = plan.max_message_bytes.get(topic)
    if limit is not None and (size := record_size(record)) > limit:
        raise OversizeFailure(f"the record has up to {size} bytes, and {topic} takes {limit}")


def _marks(plan: RoutingPlan, stable_id: str) -> layout.KafkaHeaders:
    return [(layout.ORIGIN, plan.bridge_id.encode()), (layout.STABLE_ID, stable_id.encode())]


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
            letter = Record(record.key, record.value, [*record.headers, *_marks(plan, stable_id), *report])
            try:
                _check_size(plan, plan.dead_letter_topic, letter)
            except OversizeFailure as oversize:
                return Decision(Outcome.STOPPED, route, error=oversize)
            return Decision(Outcome.DEAD_LETTERED, route, plan.dead_letter_topic, letter, error)
        case _:
            return Decision(Outcome.STOPPED, route, error=error)
