"""Journal records, routes and plans with everything filled in that a test does not care about."""

from __future__ import annotations

from typing import Any

from isthmus.journal import layout
from isthmus.journal.layout import Entry, Op, Record
from isthmus.message import Body, BodyKind, Header, Message
from isthmus.routing.decide import Decision, decide
from isthmus.routing.plan import RoutingPlan
from isthmus.routing.predicate import parse
from isthmus.routing.route import Route

JOURNAL = "journal"
PLACE = f"{JOURNAL}:2:7"


def message(address: str = "orders", *, text: str = "hello", **headers: str | Header) -> Message:
    """A text message; headers may be given as text."""
    return Message(
        id="ID:1",
        address=address,
        protocol="amqp",
        value=text.encode(),
        body=Body(BodyKind.TEXT),
        headers={
            name: Header(header) if isinstance(header, str) else header for name, header in headers.items()
        },
        session="s1",
    )


def journaled(of: Message, op: Op = Op.ADD) -> Record:
    """The journal record of a message."""
    return layout.encode(Entry(op, of, "tx", 1))


def route(
    predicate: str = "msg.address==orders", topic: str = "t", *, name: str = "r", **options: Any
) -> Route:
    """A route with this predicate."""
    return Route(name, parse(predicate), topic, **options)


def plan(*routes: Route, **options: Any) -> RoutingPlan:
    """A plan of the bridge ``b``."""
    return RoutingPlan(bridge_id="b", journal_topic=JOURNAL, routes=routes, **options)


NOW_MS = 1_800_000_000_000


def decided(by: RoutingPlan, record: Record | Message, topic: str = JOURNAL) -> Decision:
    """What the plan makes of a record at partition 2, offset 7, at `NOW_MS`."""
    record = record if isinstance(record, Record) else journaled(record)
    [decision] = decide(by, topic, 2, 7, record, now_ms=NOW_MS)
    return decision
