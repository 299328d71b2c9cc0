"""How large a record is to Kafka: the figure that a topic's ``max.message.bytes`` is held against.

Kafka measures the batch that a record travels in. These are the upper bounds that its own producer
reckons with, so that what passes here passes there: a batch of one record, uncompressed, with every
length at its longest.
"""

from __future__ import annotations

from isthmus.converters.registry import DESTINATION
from isthmus.journal.layout import Record
from isthmus.routing.plan import RoutingPlan
from isthmus.routing.route import Route

RECORD_OVERHEAD = 61 + 21 + 5
"""The batch's header, the record's, and the number of headers."""
HEADER_OVERHEAD = 5 + 5
"""The lengths of a header's name and value."""


LARGEST_BYTES = 32 * 2**20
"""The largest record for a topic that an address names, if the topic takes that much."""
MARKS_BYTES = 1024
"""More than the headers take that the router adds, without the destination."""
_NEVER_GROW = ("jms", DESTINATION, "default", "raw")


def largest(plan: RoutingPlan, route: Route) -> int | None:
    """What no record of this route exceeds, not counting a key that is not the message id; None if unknown.

    These converters only leave out, so that a record is no larger than the one it was made from and what
    the router adds. Where a topic takes that much, nobody has to measure.
    """
    if plan.max_source_bytes is None or route.convert not in _NEVER_GROW:
        return None
    return plan.max_source_bytes + MARKS_BYTES + len((route.destination or "").encode())


def record_size(record: Record) -> int:
    """An upper bound of the record's size in bytes."""
    headers = sum(HEADER_OVERHEAD + len(name.encode()) + len(value or b"") for name, value in record.headers)
    return RECORD_OVERHEAD + len(record.key or b"") + len(record.value or b"") + headers
